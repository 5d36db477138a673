//! `touchstone import nginx` and `import apache` with the configurations of well-known applications, in the
//! forms that their guides publish, shortened: what the original server refuses is refused here, too, and
//! what it answers is answered the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;

use super::import_nginx::{alike, application};
use super::import_servers::{PASSWORD, like_apache, open_to_all, php};
use crate::support::Tree;

/// A tree with these files; a script answers with its name and its query.
pub(super) fn tree(files: &str) -> Tree {
    let tree = Tree::empty();
    open_to_all(tree.around());
    for name in files.split_whitespace() {
        let body = match name.ends_with(".php") {
            true => "<?php header('Content-Type: text/plain'); echo $_SERVER['SCRIPT_NAME'], ' ', \
                     $_SERVER['QUERY_STRING'];"
                .to_string(),
            false => format!("file {name}"),
        };
        tree.write(name, &body);
    }
    fs::write(
        tree.beside("users.htpasswd"),
        "ann:$2y$05$C1fHPrLJ7SJZ0YwZ8OuBeeKq0bmZTo5yTqU2BLhGQzq7ChYb9Rk5S\n",
    )
    .unwrap();
    tree
}

/// Requests for these targets, without fields.
pub(super) fn plain(targets: &str) -> Vec<(&str, &str)> {
    targets.split_whitespace().map(|target| (target, "")).collect()
}

const SCRIPTS: &str = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
     fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param QUERY_STRING $query_string;\n\
     fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;";

/// Grav and WordPress: scripts among uploads, with a path behind the name, and as the index of a directory.
#[test]
fn scripts_that_nginx_does_not_run() {
    let tree = tree(
        "index.php user/x.php user/index.php user/a.md user/a.png cache/a.txt wp-config.php \
         wp-content/uploads/evil.php wp-content/uploads/index.php wp-content/uploads/a.png \
         wp-includes/x.php wp-includes/js/tinymce/t.php composer.json sub/index.php",
    );
    let Some(php) = php(&tree) else { return };
    let server = format!(
        "server_name www.example.org; root {}; index index.php index.html;\n\
         if ($request_method !~ ^(GET|HEAD|POST)$) {{ return 405; }}\n\
         location / {{ try_files $uri $uri/ /index.php?$query_string; }}\n\
         location ~* /(cache|logs)/.*$ {{ return 403; }}\n\
         location ~* /user/.*\\.(txt|md|yaml|php|sh)$ {{ return 403; }}\n\
         location ~* wp-config.php {{ deny all; access_log off; }}\n\
         location ~* /(?:uploads|files)/.*\\.php$ {{ deny all; }}\n\
         location ~* /wp-includes/(?!js/tinymce/).*\\.php$ {{ deny all; }}\n\
         location ~ /(composer\\.json|LICENSE\\.txt) {{ return 403; }}\n\
         location ~ \\.php$ {{ {SCRIPTS} fastcgi_pass {}; }}",
        tree.root().display(),
        php.address()
    );
    alike(
        &tree,
        "access_log off;",
        &server,
        &plain(
            "/ /post/1?a=b /user/x.php /user/x.php/y /user/ /user/a.md /USER/A.MD /user/a.png \
         /cache/a.txt /wp-config.php /wp-config.php/x /wp-content/uploads/evil.php \
         /wp-content/uploads/evil.php/x /wp-content/uploads/ /wp-content/uploads/a.png \
         /wp-includes/x.php /wp-includes/js/tinymce/t.php /composer.json /sub/ \
         /sub/index.php/x /%63ache/a.txt //cache/a.txt /x/../cache/a.txt",
        ),
    );
}

/// Roundcube, Magento and phpBB: an expression in the location with the longest prefix is tried before those
/// of the server, and a lookahead becomes a condition.
#[test]
fn expressions_in_locations() {
    let tree = tree(
        "index.php app.php uploads/evil.php uploads/a.png admin/x.php admin/index.php \
         setup/index.php setup/config.txt setup/pub/a.css mail/index.php mail/SQL/a.sql \
         mail/a.css media/a.png media/customer/a.png store/x.txt install/x.php \
         files/deep/x.php files/deep/a.txt files/a.txt",
    );
    let Some(php) = php(&tree) else { return };
    let (root, users) = (tree.root(), tree.beside("users.htpasswd"));
    let pass = format!("{SCRIPTS} fastcgi_pass {};", php.address());
    let server = format!(
        "server_name www.example.org; root {root}; index index.php;\n\
         location / {{ try_files $uri $uri/ @app; location ~ /(config|store)/ {{ deny all; internal; }} }}\n\
         location @app {{ rewrite ^ /app.php last; }}\n\
         location /uploads/ {{ location ~ \\.(php|phtml|sh)$ {{ deny all; return 403; }} }}\n\
         location /admin {{ auth_basic x; auth_basic_user_file {users};\n\
             location ~ \\.php$ {{ {pass} }} }}\n\
         location /setup {{ location ~ ^/setup/index.php {{ {pass} }}\n\
             location ~ ^/setup/(?!pub/). {{ deny all; }}\n\
             location ~ ^/setup/pub/ {{ add_header X-Frame-Options SAMEORIGIN; }} }}\n\
         location ^~ /mail {{ location ~ \\.php$ {{ try_files $uri =404; {pass} }}\n\
             location ~ ^/mail/(bin|SQL)/ {{ deny all; }}\n\
             location ~* ^/mail/.*\\.css$ {{ expires 360d; }} }}\n\
         location /media/ {{ try_files $uri $uri/ /app.php?$args;\n\
             location ~* \\.(png|css)$ {{ expires +1y;\n\
                 try_files $uri $uri/ /app.php?$args; }} }}\n\
         location /media/customer/ {{ deny all; }}\n\
         location ~ ^/files/ {{ location ~ /deep/ {{ location ~ \\.php$ {{ deny all; }} }} }}\n\
         location ~ \\.php$ {{ {pass} }}",
        root = root.display(),
        users = users.display(),
    );
    let mut requests = plain(
        "/ /faq?x=1 /uploads/evil.php /uploads/evil.php/x /uploads/a.png /admin/x.php /admin/ \
         /adminx.php /setup/index.php /setup/config.txt /setup/pub/a.css /setup/%70ub/a.css \
         /setup/pub/../config.txt /mail/ /mail/SQL/a.sql /mail/a.css /media/a.png \
         /media/none.png /media/customer/a.png /store/x.txt /install/x.php /files/deep/x.php \
         /files/deep/a.txt /files/a.txt",
    );
    requests.push(("/admin/x.php", PASSWORD));
    alike(&tree, "", &server, &requests);
}

/// Grafana, an application of one page, CORS, and pictures that other sites may not show.
#[test]
fn origins_pages_and_referers() {
    let tree = tree("index.html assets/a.js img/a.jpg page.html");
    let application = application();
    let server = format!(
        "server_name www.example.org; root {};\n\
         location / {{ try_files $uri $uri/ /index.html; add_header Cache-Control no-cache; }}\n\
         location /grafana/ {{ rewrite ^/grafana/(.*) /$1 break; proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-Proto $scheme; proxy_pass http://app; }}\n\
         location /health {{ access_log off; default_type text/plain; return 200 \"ok\\n\"; }}\n\
         location /cors {{ if ($http_x_app = preflight) {{ add_header X-Frame-Options DENY;\n\
             return 204; }} return 403; }}\n\
         location ~ \"^/static/[0-9a-f]{{8}}\\/(.*)$\" {{\n\
             rewrite \"^/static/[0-9a-f]{{8}}\\/(.*)\" /$1 last; }}\n\
         location ~ (.+)\\.(?:\\d+)\\.(js|css)$ {{ try_files $uri $1.$2 =404; }}\n\
         rewrite ^(.+)/+$ $1 permanent;\n\
         location /img/ {{ valid_referers none blocked server_names *.example.com;\n\
             if ($invalid_referer) {{ return 403; }} }}",
        tree.root().display()
    );
    let http = format!("access_log off; upstream app {{ server {}; }}", application.address);
    let other = "Referer: http://other.test/www.example.org\r\n";
    alike(
        &tree,
        &http,
        &server,
        &[
            ("/", ""),
            ("/some/page", ""),
            ("/page.html/", ""),
            ("/a/b/?x=1", ""),
            ("/grafana/d/1?x=1", ""),
            ("/grafana", ""),
            ("/health", ""),
            ("/cors", ""),
            ("/cors", "X-App: preflight\r\n"),
            ("/static/12ab34cd/page.html", ""),
            ("/assets/a.1234.js", ""),
            ("/img/a.jpg", ""),
            ("/img/a.jpg", other),
            ("/img/a.jpg", "Referer: https://www.example.org/x\r\n"),
            ("/img/a.jpg", "Referer: http://shop.example.com\r\n"),
        ],
    );
}

/// The host of a tree with a `.htaccess`, as distributions set it up.
pub(super) fn host(tree: &Tree, php: &str) -> String {
    format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nAllowOverride All\n\
         Require all granted\nDirectoryIndex index.php index.html\n</Directory>\n\
         <FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://{php}\"\n</FilesMatch>\n",
        root = tree.root().display()
    )
}

/// Scripts that a `.htaccess` refuses: with a path behind the name, as an index, and in any case.
#[test]
fn scripts_that_apache_does_not_run() {
    let tree = tree(
        "index.php uploads/evil.php uploads/index.php uploads/a.png uploads/x.phtml \
         files/evil.php files/a.txt config.php sub/config.php vendor/a.txt sub/vendor/a.txt \
         composer.json sub/.env backup.sql admin/index.php admin/a.txt xmlrpc.php #x#",
    );
    let Some(php) = php(&tree) else { return };
    tree.write(
        "uploads/.htaccess",
        "<FilesMatch \"\\.(?i:php|phtml)$\">\nRequire all denied\n</FilesMatch>\n",
    );
    tree.write("files/.htaccess", "<Files *.php>\ndeny from all\n</Files>\n");
    tree.write(
        "admin/.htaccess",
        format!(
            "<FilesMatch \"\\.php$\">\nAuthType Basic\nAuthName x\nAuthUserFile {}\nRequire valid-user\n\
             </FilesMatch>\n",
            tree.beside("users.htpasswd").display()
        ),
    );
    tree.write(
        ".htaccess",
        "<Files \"config.php\">\nOrder Allow,Deny\nDeny from All\n</Files>\n\
         <FilesMatch \"(^#.*#|^\\.|composer\\.(json|lock)$|\\.(bak|sql)$|^xmlrpc\\.php$)\">\n\
         Require all denied\n</FilesMatch>\n\
         RewriteEngine On\nRewriteBase /\nRewriteRule (^|/)vendor/ - [F,L]\n\
         RewriteCond %{REQUEST_METHOD} ^TRAC[EK]\nRewriteRule .* - [L,R=405]\n\
         RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n",
    );
    let (text, said) = like_apache(
        &tree,
        &host(&tree, &php.address().to_string()),
        &plain(
            "/ /post/1?a=b /uploads/evil.php /uploads/evil.php/x /uploads/ /uploads/a.png \
         /uploads/x.phtml /files/evil.php/a /files/a.txt /config.php /config.php/ \
         /config.php/x /sub/config.php //config.php /%63onfig.php /vendor/a.txt \
         /sub/vendor/a.txt /composer.json /backup.sql /admin/a.txt /admin/index.php/x \
         /xmlrpc.php /xmlrpc.php/x /%23x%23",
        ),
    );
    assert!(text.is_empty() || !said.contains(": not translated: "), "{said}");
}

/// October, Joomla, Grav and TYPO3: rules that ask for files, and variables of rules.
#[test]
fn rules_that_ask_for_files() {
    let october = "RewriteEngine On\nRewriteRule themes/.*/(pages|partials)/.*.htm index.php [L,NC]\n\
         RewriteCond %{REQUEST_FILENAME} -f\nRewriteCond %{REQUEST_URI} !\\.css\n\
         RewriteCond %{REQUEST_URI} !\\.png\nRewriteRule ^ index.php [L,NC]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n";
    let joomla = "RewriteEngine On\nRewriteCond %{QUERY_STRING} base64_encode[^(]*\\([^)]*\\) [OR]\n\
         RewriteCond %{QUERY_STRING} ({{|}}|{%25|%25}) [OR]\n\
         RewriteCond %{QUERY_STRING} GLOBALS(=|\\[|\\%[0-9A-Z]{0,2})\nRewriteRule .* index.php [F]\n\
         RewriteCond %{REQUEST_URI} ^/api/\nRewriteCond %{REQUEST_URI} !^/api/index\\.php\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteRule .* api/index.php [L]\nRewriteCond %{REQUEST_URI} !^/index\\.php\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteRule .* index.php [L]\n";
    let typo3 = "RewriteEngine On\nRewriteCond $0#%{REQUEST_URI} ([^#]*)#(.*)\\1$\n\
         RewriteRule ^.*$ - [E=CWD:%2]\nRewriteRule ^(?:config|modules) - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteRule ^.*$ %{ENV:CWD}index.php [QSA,L]\n";
    let requests = plain(
        "/ /article/1?x=1 /api/v1/content?x=1 /api/app.css /config/app.php /README.md \
         /themes/demo/pages/home.htm /themes/demo/a.css /modules/x.php /img/a.png /index.php \
         /?a=base64_encode(x) /?GLOBALS%5B=1 /none.css",
    );
    for rules in [october, joomla, typo3] {
        let tree = tree(
            "index.php api/index.php api/app.css config/app.php README.md img/a.png \
         themes/demo/pages/home.htm themes/demo/a.css modules/x.php",
        );
        let Some(php) = php(&tree) else { return };
        tree.write(".htaccess", rules);
        let (text, said) = like_apache(&tree, &host(&tree, &php.address().to_string()), &requests);
        assert!(text.is_empty() || !said.contains(": not translated: "), "{said}");
    }
}
