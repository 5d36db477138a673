//! What another server refuses, this one refuses with the imported configuration: names, scripts, directories
//! and paths in other forms, each compared with the original.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;

use super::import_nginx::{alike, application, ask};
use super::import_servers::{beside_caddy, like_apache, like_caddy, open_to_all, php};
use crate::support::Tree;

/// A tree of files with these names.
fn files(names: &str) -> Tree {
    let tree = Tree::empty();
    for name in names.split_whitespace() {
        tree.write(name, name);
    }
    open_to_all(tree.around());
    tree
}

fn plain(targets: &str) -> Vec<(&str, &str)> {
    targets.split_whitespace().map(|target| (target, "")).collect()
}

fn host(tree: &Tree, allow: &str, lines: &str) -> String {
    format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nAllowOverride {allow}\n\
         Require all granted\nDirectoryIndex index.html\n</Directory>\n{lines}",
        root = tree.root().display()
    )
}

#[test]
fn apache_refuses_names_beside_hidden_ones() {
    let tree = files("composer.json x.bak wp-config.txt page.html sub/composer.json .env ok.txt");
    let lines = "<FilesMatch \"^(\\.env|composer\\.json)$\">\nRequire all denied\n</FilesMatch>\n\
                 <FilesMatch \"^\\.|\\.bak$\">\nRequire all denied\n</FilesMatch>\n\
                 <FilesMatch \"^(\\.ht.*|wp-config\\.txt)$\">\nRequire all denied\n</FilesMatch>\n\
                 <FilesMatch \".html$\">\nRequire all denied\n</FilesMatch>";
    let requests = "/composer.json /x.bak /wp-config.txt /page.html /sub/composer.json /.env /ok.txt //x.bak";
    let (text, _) = like_apache(&tree, &host(&tree, "All", lines), &plain(requests));
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn apache_obeys_what_a_htaccess_may_contain() {
    for allow in ["AuthConfig", "FileInfo", "Limit", "None", "Indexes FileInfo", "FileInfo Nonfatal=Override"]
    {
        let tree = files("closed/x.txt closed/in/x.txt mixed/x.txt old/x.txt ok/x.txt");
        for (directory, text) in [
            ("closed", "Require all granted\n"),
            ("closed/in", "Require all granted\n"),
            ("mixed", "DirectoryIndex x.txt\nRequire all granted\n"),
            ("old", "Order deny,allow\nAllow from all\n"),
        ] {
            tree.write(&format!("{directory}/.htaccess"), text);
        }
        let shut = |name: &str| {
            format!("<Directory {}/{name}>\nRequire all denied\n</Directory>\n", tree.root().display())
        };
        let lines = format!("{}{}", shut("closed"), shut("mixed"));
        let requests = "/closed/x.txt /closed/in/x.txt /mixed/x.txt /old/x.txt /ok/x.txt /closed//x.txt";
        like_apache(&tree, &host(&tree, allow, &lines), &plain(requests));
    }
}

#[test]
fn apache_reads_the_files_above_a_root_and_of_other_names() {
    let tree = files("site/index.html site/a/x.txt site/b/x.txt");
    tree.write("site/a/.acl", "Require all denied\n");
    tree.write("site/b/.htaccess", "Require all denied\n");
    tree.write(".acl", "<Files index.html>\nRequire all denied\n</Files>\n");
    let root = tree.root().display().to_string();
    let lines = format!(
        "ServerName www.example.org\nAccessFileName .acl .htaccess\nDocumentRoot {root}/site\n\
         <Directory {root}>\nAllowOverride All\nRequire all granted\n</Directory>\n"
    );
    like_apache(&tree, &lines, &plain("/ /index.html /a/x.txt /b/x.txt"));
}

/// The source of a script is not sent, whatever ending its handler has.
#[test]
fn no_ending_of_a_script_is_sent() {
    let names = ["index.php", "a.phtml", "b.inc", "c.php5", "sub/d.inc"];
    let tree = Tree::empty();
    for name in names {
        tree.write(name, "<?php header('Content-Type: text/plain'); echo 'ran ', $_SERVER['SCRIPT_NAME'];");
    }
    open_to_all(tree.around());
    let Some(php) = php(&tree) else { return };
    let handler = format!(
        "<FilesMatch \"\\.(php|phtml|inc)$\">\nSetHandler \"proxy:fcgi://{}\"\n</FilesMatch>",
        php.address()
    );
    // The php-fpm runs `.php` only, and answers 403 for others: what counts is that nothing is sent.
    let (text, _) =
        like_apache(&tree, &host(&tree, "None", &handler), &plain("/index.php /a.phtml /sub/d.inc"));
    assert!(text.is_empty() || text.contains("scripts = [\".php\", \".phtml\", \".inc\"]"), "{text}");
    let server = format!(
        "server_name www.example.org; root {};\n\
         location ~ \\.(php|phtml|inc)$ {{\n\
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
         fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method;\n\
         fastcgi_pass {}; }}",
        tree.root().display(),
        php.address()
    );
    alike(&tree, "access_log off;", &server, &plain("/index.php /a.phtml /b.inc"));
}

#[test]
fn nginx_refuses_a_script_by_its_name() {
    let tree = Tree::empty();
    for name in ["index.php", "xmlrpc.php", "admin/index.php"] {
        tree.write(name, "<?php header('Content-Type: text/plain'); echo 'ran ', $_SERVER['SCRIPT_NAME'];");
    }
    open_to_all(tree.around());
    let Some(php) = php(&tree) else { return };
    let server = format!(
        "server_name www.example.org; root {}; index index.php;\n\
         location = /xmlrpc.php {{ deny all; }}\nlocation = /admin/index.php {{ deny all; }}\n\
         location / {{ try_files $uri $uri/ =404; }}\n\
         location ~ \\.php$ {{ try_files $uri =404; fastcgi_param SCRIPT_NAME $fastcgi_script_name;\n\
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
         fastcgi_param REQUEST_METHOD $request_method; fastcgi_pass {}; }}",
        tree.root().display(),
        php.address()
    );
    let requests =
        "/index.php /xmlrpc.php /xmlrpc.php/x.php /xmlrpc.php/x /admin/ /admin/index.php / //xmlrpc.php";
    alike(&tree, "access_log off;", &server, &plain(requests));
}

#[test]
fn the_index_of_a_directory_is_the_refused_file() {
    let tree = files("index.html a/index.html b/x.txt");
    let server = format!(
        "server_name www.example.org; root {}; location = /index.html {{ deny all; }}\n\
         location = /a/index.html {{ return 404; }}",
        tree.root().display()
    );
    alike(&tree, "", &server, &plain("/ /index.html /a/ /a/index.html /b/x.txt"));
    let lines = "<Files index.html>\nRequire all denied\n</Files>";
    like_apache(&tree, &host(&tree, "None", lines), &plain("/ /index.html /a/ /b/x.txt"));
}

#[test]
fn nginx_gives_groups_with_the_names_of_variables() {
    let app = application();
    let server = format!(
        "server_name www.example.org;\n\
         location ~ ^/u/(?<path>[a-z]+)/(?P<query>.*)$ {{\n\
         proxy_set_header X-Forwarded-Proto $scheme; proxy_pass http://{}/$path-$query; }}\n\
         location ~ ^/(?<lang>en|de)/(?<rest>.*)$ {{ return 302 /new/$rest?l=$lang; }}\n\
         location /pay {{ if ($https = \"\") {{ return 301 https://$host$request_uri; }} }}\n\
         rewrite ^/away(/.*)$ https://other.example.org$1 redirect;",
        app.address
    );
    let tree = files("pay/x.txt");
    let server = format!("root {}; {server}", tree.root().display());
    let text = alike(&tree, "", &server, &plain("/u/ann/x /en/a /de/b/c /pay/x.txt /away/x"));
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn caddy_guards_an_origin_in_any_case() {
    let tree = files("x");
    let app = application();
    let site = format!(
        "\t@bad path *.sql /private/* /exact.txt\n\trespond @bad 403\n\tredir /old/* /new{{uri}}\n\
         \thandle_path /strip/* {{\n\t\trespond /secret* 403\n\t\treverse_proxy {app}\n\t}}\n\
         \treverse_proxy {app}",
        app = app.address
    );
    let requests = "/x.sql /X.SQL /x.sql. /x.sqlite /private/a /PRIVATE/a /Private/ /exact.txt \
                    /EXACT.TXT /exact.txt2 /OLD/x /strip/secret /STRIP/SECRET /strip/a /a";
    like_caddy(&tree, &site, &plain(requests));
}

#[test]
fn caddy_keeps_the_users_of_each_path_apart() {
    let tree = files("a/x.txt b/x.txt");
    let hash = "$2y$05$C1fHPrLJ7SJZ0YwZ8OuBeeKq0bmZTo5yTqU2BLhGQzq7ChYb9Rk5S";
    let site = format!(
        ":PORT {{\n\tbind 127.0.0.1\n\troot * {}\n\tbasicauth /a/* {{\n\t\tann {hash}\n\t}}\n\
         \tbasicauth /b/* {{\n\t\tbob {hash}\n\t}}\n\tfile_server\n}}\n",
        tree.root().display()
    );
    for (file, user) in [("users.htpasswd", "ann"), ("users-2.htpasswd", "bob")] {
        fs::write(tree.beside(file), format!("{user}:{hash}\n")).unwrap();
    }
    let (text, _, servers) = beside_caddy(&tree, &site);
    assert!(text.is_empty() || text.contains("\"users-2.htpasswd\""), "{text}");
    let Some((_, ours)) = servers else { return };
    // Without a password, and with one that is wrong: both files are asked.
    for target in ["/a/x.txt", "/b/x.txt"] {
        assert_eq!(ask(ours.address(), target, "").status, 401, "{target}\n{text}");
    }
}
