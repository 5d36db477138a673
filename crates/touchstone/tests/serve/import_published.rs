//! Configurations that wikis, shops and content managers recommend, shortened: run by the original server
//! and, translated, by this one. Their scripts get the path as a parameter, and most of what they refuse is
//! refused by an expression.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use super::import_applications::{host, plain, tree};
use super::import_fronts::script;
use super::import_nginx::{alike, application};
use super::import_servers::{like_apache, like_caddy, php};

const SCRIPTS: &str = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
     fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param QUERY_STRING $query_string;\n\
     fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;";

/// DokuWiki: other scripts for media and exports than for pages, in a named location.
#[test]
fn a_wiki_with_several_scripts_in_nginx() {
    let tree = tree(
        "doku.php lib/exe/fetch.php lib/exe/detail.php lib/tpl/style.css lib/images/a.png data/pages/a.txt \
         conf/local.php bin/x.php inc/init.php vendor/a.txt install.php feed.php",
    );
    let Some(php) = php(&tree) else { return };
    let server = format!(
        "server_name www.example.org; root {root}; index doku.php;\n\
         location ~ /(conf/|bin/|inc/|vendor/|install\\.php) {{ deny all; }}\n\
         location ~ ^/data/ {{ internal; }}\n\
         location ~ ^/lib.*\\.(js|css|gif|png|ico|jpg|jpeg)$ {{ expires 365d; }}\n\
         location / {{ try_files $uri $uri/ @dokuwiki; }}\n\
         location @dokuwiki {{\n\
             rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last;\n\
             rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last;\n\
             rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;\n\
             rewrite ^/(.*) /doku.php?id=$1 last; }}\n\
         location ~ \\.php$ {{ try_files $uri $uri/ /doku.php; {SCRIPTS} fastcgi_pass {php}; }}",
        root = tree.root().display(),
        php = php.address()
    );
    let text = alike(
        &tree,
        "access_log off;",
        &server,
        &plain(
            "/ /start /ns:page?do=edit /ns/page /_media/wiki/logo.png /_media/a.png?w=100 /_detail/a.png \
             /_export/pdf/ns/page?x=1 /doku.php?id=a /feed.php /lib/tpl/style.css /lib/exe/fetch.php?media=x \
             /conf/local.php /conf/ /bin/x.php /inc/init.php /vendor/a.txt /install.php /data/pages/a.txt \
             /%64ata/pages/a.txt //conf/local.php /x/../data/pages/a.txt /data/none",
        ),
    );
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

/// The same wiki with a `.htaccess`, in the document root and in a directory.
#[test]
fn a_wiki_with_several_scripts_in_apache() {
    let rules = |base: &str| {
        format!(
            "<Files ~ \"^[\\._]ht\">\nOrder allow,deny\nDeny from all\nSatisfy All\n</Files>\n\
             RewriteEngine on\nRewriteBase {base}\n\
             RewriteRule ^_media/(.*) lib/exe/fetch.php?media=$1 [QSA,L]\n\
             RewriteRule ^_detail/(.*) lib/exe/detail.php?media=$1 [QSA,L]\n\
             RewriteRule ^_export/([^/]+)/(.*) doku.php?do=export_$1&id=$2 [QSA,L]\n\
             RewriteRule ^$ doku.php [L]\nRewriteCond %{{REQUEST_FILENAME}} !-f\n\
             RewriteCond %{{REQUEST_FILENAME}} !-d\nRewriteRule (.*) doku.php?id=$1 [QSA,L]\n\
             RewriteRule ^index.php$ doku.php\n"
        )
    };
    for directory in ["", "wiki/"] {
        let files = "doku.php lib/exe/fetch.php lib/exe/detail.php lib/tpl/style.css";
        let files: Vec<String> = files
            .split(' ')
            .map(|file| format!("{directory}{file}"))
            .chain(["index.php".to_string()])
            .collect();
        let tree = tree(&files.join(" "));
        let Some(php) = php(&tree) else { return };
        tree.write(&format!("{directory}.htaccess"), rules(&format!("/{directory}")));
        tree.write(&format!("{directory}_ht.txt"), "hidden");
        let targets: String = [
            "start",
            "ns:page?do=edit",
            "ns/page",
            "_media/logo.png",
            "_media/a.png?w=1",
            "_detail/a.png",
            "_export/pdf/ns/page?x=1",
            "doku.php?id=a",
            "lib/tpl/style.css",
            ".htaccess",
            "_ht.txt",
        ]
        .map(|path| format!("/{directory}{path} "))
        .concat();
        like_apache(&tree, &host(&tree, &php.address().to_string()), &plain(&targets));
    }
}

/// MODX: all paths that are not files are a parameter, and hidden directories are refused.
#[test]
fn a_content_manager_with_a_parameter_in_apache() {
    let tree = tree("index.php assets/a.css core/config.php manager/index.php connectors/index.php");
    let Some(php) = php(&tree) else { return };
    tree.write("core/.htaccess", "Order deny,allow\nDeny from all\n");
    tree.write(".git/config", "secret");
    tree.write(
        ".htaccess",
        "RewriteEngine On\nRewriteBase /\nRewriteRule \"^\\.well-known/\" - [L]\n\
         RewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteRule ^(.*)$ index.php?q=$1 [L,QSA]\n",
    );
    like_apache(
        &tree,
        &host(&tree, &php.address().to_string()),
        &plain(
            "/ /page.html /page/sub.html?x=1&y=2 /assets/a.css /assets/none.css /core/config.php \
             /core/config.php/x /core/none /manager/ /manager/?a=1 /connectors/index.php?x=1 /index.php?q=a",
        ),
    );
}

/// OpenCart: a parameter, and endings of files that are refused or have no script.
#[test]
fn a_shop_with_a_parameter_in_apache() {
    let tree = tree(
        "index.php image/a.jpg system/storage/log.txt system/config.ini catalog/view/a.twig a.log a.tpl \
         admin/index.php x.css",
    );
    let Some(php) = php(&tree) else { return };
    tree.write("index.php", script("index.php"));
    tree.write(
        ".htaccess",
        "<IfModule mod_autoindex.c>\nIndexIgnore *\n</IfModule>\nOptions +FollowSymlinks\nOptions -Indexes\n\
         <FilesMatch \"(?i)((\\.tpl|\\.twig|\\.ini|\\.log|(?<!robots)\\.txt))\">\n\
         Require all denied\n</FilesMatch>\n\
         RewriteEngine On\nRewriteBase /\n\
         RewriteRule ^system/storage/(.*) index.php?route=error/not_found [L]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteCond %{REQUEST_URI} !.*\\.(ico|gif|jpg|jpeg|png|webp|js|css|svg)\n\
         RewriteRule ^([^?]*) index.php?_route_=$1 [L,QSA]\n",
    );
    like_apache(
        &tree,
        &host(&tree, &php.address().to_string()),
        &plain(
            "/ /phones/apple?page=2 /phones/apple /image/a.jpg /image/none.jpg /none.css /x.css \
             /system/storage/x/y /system/config.ini /catalog/view/a.twig /a.log \
             /A.LOG /a.tpl /a.tpl/x /admin/ /index.php?route=x /caf%C3%A9",
        ),
    );
}

/// ProcessWire: many conditions that set one variable, and a script that gets the path.
#[test]
fn a_content_manager_with_many_refusals_in_nginx() {
    let tree = tree(
        "index.php site/config.php site/templates/home.php site/assets/cache/a.txt site/assets/files/1/a.jpg \
         site/assets/files/1/x.php site/assets/logs/e.txt site/install/x.sql site/classes/A.php \
         site/modules/A/A.module wire/core/A.php wire/modules/a.info.json wire/config.php README.md \
         site/assets/files/-9/a.jpg site-x/install/a.png htaccess.txt composer.json a.sql~ robots.txt",
    );
    tree.write("index.php", script("index.php"));
    let Some(php) = php(&tree) else { return };
    let denied = [
        "(^|/)(\\.htaccess|htaccess\\..*|nginx\\.txt)$",
        "(^|/)(site|site-[^/]+)/assets/(cache|logs|backups|sessions|config|install|tmp)($|/.*$)",
        "(^|/)(site|site-[^/]+)/install($|/.*$)",
        "(^|/)(site|site-[^/]+)/assets.*/-.+/.*",
        "(^|/)(wire|site|site-[^/]+)/(config|index\\.config|config-dev)\\.php($|/)",
        "(^|/)(site|site-[^/]+)/templates($|/|/.*\\.(php|html?|tpl|inc))($|/)",
        "(^|/)(site|site-[^/]+)/classes($|/.*)",
        "(^|/)(site|site-[^/]+)/assets($|/|/.*\\.ph(p|ps|tml|p[0-9]))($|/)",
        "(^|/)wire/(core|modules)/.*\\.(php|inc|tpl|module|info\\.json)($|/)",
        "(^|/)(COPYRIGHT|README|LICENSE)\\.(txt|md|textile)$",
    ]
    .map(|expression| format!("if ($uri ~* \"{expression}\") {{ set $denied 1; }}\n"))
    .concat();
    let server = format!(
        "server_name www.example.org; root {root}; index index.php index.html; charset utf-8;\n\
         add_header X-Frame-Options SAMEORIGIN always;\n\
         if ($uri ~* \"\\.(inc|info|module|sh|sql)$|composer\\.(json|lock)$\") {{ return 403; }}\n\
         if ($uri ~* \"(\\.(bak|conf|sql|sw[op])|~)$\") {{ return 403; }}\n\
         set $denied 0;\n{denied}\
         if ($uri ~ \"(^|/)site-[^/]+/install/[^/]+\\.(jpg|png)$\") {{ set $denied 0; }}\n\
         if ($denied = 1) {{ return 403; }}\n\
         location = /favicon.ico {{ log_not_found off; }}\n\
         location / {{ try_files $uri $uri/ /index.php?it=$uri&$args; }}\n\
         location ~ \\.php(/|$) {{ try_files $fastcgi_script_name /index.php?it=$uri&$args;\n\
             {SCRIPTS} fastcgi_pass {php}; }}",
        root = tree.root().display(),
        php = php.address()
    );
    alike(
        &tree,
        "access_log off;",
        &server,
        &plain(
            "/ /about/ /about/team/?x=1 /site/config.php /SITE/CONFIG.PHP /site/config.php/ \
             /site/templates/home.php /site/templates/home.php/x /site/assets/cache/a.txt \
             /site/assets/files/1/a.jpg /site/assets/files/1/x.php /site/assets/files/1/x.php/a \
             /site/assets/logs/e.txt /site/install/x.sql /site/classes/A.php /site/modules/A/A.module \
             /wire/core/A.php /wire/modules/a.info.json /README.md /readme.MD /site/assets/files/-9/a.jpg \
             /site-x/install/a.png /htaccess.txt /composer.json /a.sql~ /robots.txt /favicon.ico \
             /%73ite/config.php //site//config.php /x/../site/config.php /site/assets /site/assets/",
        ),
    );
}

/// The same content manager in its form for Caddy: conditions in a `route`.
#[test]
fn a_content_manager_with_refusals_in_caddy() {
    let tree = tree(
        "index.php site/config.php site/assets/cache/a.txt site/assets/files/1/a.jpg site/classes/A.php \
         README.md a.sql robots.txt",
    );
    tree.write("index.php", script("index.php"));
    let Some(php) = php(&tree) else { return };
    let site = format!(
        "\troot * {root}\n\troute {{\n\t\theader X-Frame-Options SAMEORIGIN\n\
         \t\t@files path_regexp `(?i)\\.(inc|info|module|sh|sql)$|composer\\.(json|lock)$`\n\
         \t\trespond @files 403\n\
         \t\t@config path_regexp `(?i)(^|/)(wire|site)/(config|config-dev)\\.php($|/)`\n\
         \t\trespond @config 403\n\
         \t\t@assets path_regexp `(?i)(^|/)site/assets/(cache|logs|tmp)($|/.*$)`\n\t\trespond @assets 403\n\
         \t\t@classes path_regexp `(?i)(^|/)site/classes($|/.*)`\n\t\trespond @classes 403\n\
         \t\t@readme path_regexp `(?i)(^|/)(README|LICENSE)\\.(txt|md)$`\n\t\trespond @readme 403\n\
         \t\ttry_files {{path}} {{path}}/index.php /index.php?it={{path}}&{{query}}\n\
         \t\tphp_fastcgi {php}\n\t\tfile_server\n\t}}",
        root = tree.root().display(),
        php = php.address()
    );
    like_caddy(
        &tree,
        &site,
        &plain(
            "/ /about/ /about/team?x=1 /site/config.php /SITE/config.php /site/config.php/x \
             /site/assets/cache/a.txt \
             /site/assets/files/1/a.jpg /site/classes/A.php /README.md /a.sql /robots.txt /%73ite/config.php \
             /index.php?x=1",
        ),
    );
}

/// Jellyfin and Gitea: an address in a variable, WebSockets, and an application below a path.
#[test]
fn applications_below_paths_in_nginx() {
    let tree = tree("index.html");
    let application = application();
    let (address, port) = (application.address.ip(), application.address.port());
    let fields = "proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
         proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-App $scheme;";
    let server = format!(
        "server_name www.example.org; root {root}; client_max_body_size 20M; set $media {address};\n\
         add_header X-Content-Type-Options nosniff;\n\
         location /socket {{ proxy_pass http://$media:{port}; proxy_http_version 1.1;\n\
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; {fields} }}\n\
         location = /web/ {{ proxy_pass http://$media:{port}/web/index.html; {fields} }}\n\
         location /git/ {{ proxy_pass http://{address}:{port}/; {fields} }}\n\
         location /auth {{ proxy_pass http://{address}:{port}/realms; {fields} }}\n\
         location ~ ^/library/(?<section>[0-9]+)/(.*)$ {{\n\
             proxy_pass http://{address}:{port}/s/$section/$2$is_args$args; {fields} }}\n\
         location / {{ proxy_pass http://$media:{port}; {fields} proxy_buffering off; }}",
        root = tree.root().display()
    );
    let text = alike(
        &tree,
        "access_log off;",
        &server,
        &plain(
            "/ /web/ /web/index.html /socket /socket/x?api_key=1 /git/ \
             /git/user/repo.git/info/refs?service=x \
             /git/a%20b /auth /auth/x /authentication /library/7/items?x=1 /library/7/ /library/x /Items/1",
        ),
    );
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}
