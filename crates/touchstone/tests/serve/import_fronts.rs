//! Front controllers with parameters, and prefixes that a proxy replaces: run by the original server and,
//! translated, by this one; scripts and origins get the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;

use super::import_nginx::{alike, application, ask, imported};
use super::import_servers::{like_apache, like_caddy, open_to_all, php};
use crate::support::{Nginx, Server, Tree};

/// A script that prints its name, the requested URI, and its parameters as PHP reads them.
pub(super) fn script(name: &str) -> String {
    format!(
        "<?php header('Content-Type: text/plain'); parse_str($_SERVER['QUERY_STRING'], $all); \
         echo '/{name} ', $_SERVER['REQUEST_URI'], ' ', \
         json_encode($_GET === $all ? $all : 'differs'), ' ', count($all);"
    )
}

fn tree() -> Tree {
    let tree = Tree::empty();
    open_to_all(tree.around());
    for name in ["index.php", "sub/index.php", "route.php"] {
        tree.write(name, script(name));
    }
    tree.write("style.css", "css");
    tree.write("dir/a.txt", "a");
    tree
}

fn plain(targets: &str) -> Vec<(&str, &str)> {
    targets.split_whitespace().map(|target| (target, "")).collect()
}

const SCRIPTS: &str = "location ~ \\.php$ {\n\
     fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
     fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param QUERY_STRING $query_string;\n\
     fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;";

#[test]
fn nginx_gives_a_script_the_path_as_a_parameter() {
    for (lines, more) in [
        ("location / { try_files $uri $uri/ /index.php?url=$uri&$args; }", "/sub/"),
        ("location / { try_files $uri /index.php?q=$uri&$query_string; }", ""),
        ("location / { try_files $uri $uri/ /index.php?path=$uri&host=$host&m=$request_method; }", ""),
        (
            "location ~ ^/blog/([0-9]+)/(.*)$ { try_files $uri /index.php?id=$1&name=$2; }\n\
          location / { try_files $uri /index.php?all; }",
            "/blog/7/a/b",
        ),
        (
            "location / { try_files $uri $uri/ @front; }\n\
          location @front { rewrite ^/(.*)$ /index.php?url=$1 last; }",
            "/a%26b=1 /a+b /%23x",
        ),
        (
            "location / { try_files $uri @front; }\n\
          location @front { rewrite ^(.*)$ /index.php?url=$1? last; }",
            "/a%25b",
        ),
        ("location / { if (!-e $request_filename) { rewrite ^/(.*)$ /index.php?url=$1 last; } }", "/a;b"),
        ("if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }", ""),
    ] {
        let tree = tree();
        let Some(php) = php(&tree) else { return };
        let server = format!(
            "server_name www.example.org; root {}; index index.php;\n{lines}\n{SCRIPTS} fastcgi_pass {}; }}",
            tree.root().display(),
            php.address()
        );
        // The condition of a server does not apply to scripts here.
        let missing = if lines.starts_with("if") { "" } else { "/x.php" };
        let requests = format!(
            "/ /post/1 /post/1?x=1&y=2 /a%20b/c?z=%20 /caf%C3%A9 /style.css /index.php?x=1 {missing} \
             /a=b,c:d@e '~ {more}"
        );
        let text = alike(&tree, "access_log off;", &server, &plain(&requests));
        assert!(!text.contains("NOT TRANSLATED"), "{text}");
    }
}

/// nginx writes the decoded path into the query, so that a client adds parameters by an escape in the path.
/// This server encodes it.
#[test]
fn a_path_adds_no_parameter() {
    let tree = tree();
    let Some(php) = php(&tree) else { return };
    let server = format!(
        "server_name www.example.org; root {};\n\
         location / {{ try_files $uri /index.php?url=$uri&$args; }}\n{SCRIPTS} fastcgi_pass {}; }}",
        tree.root().display(),
        php.address()
    );
    let Some(nginx) = Nginx::start(&tree, "", &server) else { return };
    let (text, _) = imported(tree.around().join("nginx.conf"));
    let log = tree.around().join("nginx.log");
    let here =
        text.replace(&nginx.address.to_string(), "127.0.0.1:0").replace(log.to_str().unwrap(), "stderr");
    let ours = Server::configured(tree.around(), &here);
    let mut others = 0;
    for (target, url) in [
        ("/a%26admin=1", "/a&admin=1"),
        ("/a&admin=1", "/a&admin=1"),
        ("/a+b", "/a+b"),
        ("/a%2520b", "/a%20b"),
        ("/a%23b", "/a#b"),
        ("/a%26url=/x", "/a&url=/x"),
    ] {
        let (mine, theirs) = (ask(ours.address(), target, ""), ask(nginx.address, target, ""));
        let mine = String::from_utf8_lossy(&mine.body).into_owned();
        let expected = format!("/index.php {target} {{\"url\":\"{}\"}} 1", url.replace('/', "\\/"));
        assert_eq!(mine, expected, "{target}");
        others += usize::from(mine != String::from_utf8_lossy(&theirs.body));
    }
    // Only the escape of a number sign means the same to both.
    assert_eq!(others, 5, "nginx encodes the path now");
}

fn host(tree: &Tree, php: &str, rules: &str) -> String {
    format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nAllowOverride All\n\
         Require all granted\nDirectoryIndex index.php\n</Directory>\n\
         <FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://{php}\"\n</FilesMatch>\n{rules}",
        root = tree.root().display()
    )
}

#[test]
fn apache_gives_a_script_the_path_as_a_parameter() {
    let missing = "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n";
    for (rule, is_htaccess, more) in [
        ("RewriteRule ^(.*)$ index.php?url=$1 [QSA,L]", true, "/x/y?url=z"),
        ("RewriteRule ^(.*)$ /index.php?url=$1 [L]", true, ""),
        ("RewriteRule ^(.*)$ index.php?url=$1 [B,QSA,L]", true, "/a%26b=1"),
        ("RewriteRule . index.php?u=%{REQUEST_URI}&%{QUERY_STRING} [L]", true, ""),
        ("RewriteRule ^blog/([0-9]+)/(.*)$ index.php?id=$1&n=$2 [QSA,L]", true, "/blog/7/a/b?x=1"),
        ("RewriteRule ^(.*)$ index.php/$1 [L]", true, ""),
        ("RewriteRule ^/(.*)$ /index.php?url=$1 [QSA,L]", false, ""),
        ("RewriteRule ^(.*)$ /index.php?url=$1 [QSA,L]", false, ""),
    ] {
        let tree = tree();
        let Some(php) = php(&tree) else { return };
        let missing = match is_htaccess {
            true => missing.to_string(),
            // The file is not known yet.
            false => missing.replace("%{REQUEST_FILENAME}", "%{DOCUMENT_ROOT}%{REQUEST_URI}"),
        };
        let rules = format!("RewriteEngine On\n{missing}{rule}\n");
        let own = if is_htaccess { "" } else { rules.as_str() };
        if is_htaccess {
            tree.write(".htaccess", &rules);
        }
        let requests =
            format!("/post/1 /post/1?x=1&y=2 /caf%C3%A9 /style.css /index.php?x=1 /a=b,c:d@e {more}");
        let requests = match rule.contains("blog") || rule.contains("index.php/") {
            // Other paths have no answer of the script, or it gets PATH_INFO.
            true => format!("/style.css {more}"),
            false => requests,
        };
        let (text, said) =
            like_apache(&tree, &host(&tree, &php.address().to_string(), own), &plain(&requests));
        assert!(text.is_empty() || !said.contains(": not translated: "), "{rule}: {said}");
    }
}

#[test]
fn caddy_gives_a_script_the_path_as_a_parameter() {
    for files in [
        "try_files {path} {path}/index.php /index.php?url={path}&{query}",
        "try_files {path} /index.php?url={path}",
        "try_files {path} /index.php?{query}",
    ] {
        let tree = tree();
        let Some(php) = php(&tree) else { return };
        let site = format!(
            "\troot * {}\n\t{files}\n\tphp_fastcgi {}\n\tfile_server",
            tree.root().display(),
            php.address()
        );
        let requests = "/post/1 /post/1?x=1&y=2 /a%20b /caf%C3%A9 /style.css /index.php?x=1 /a%26b=1 /a+b";
        let (text, said) = like_caddy(&tree, &site, &plain(requests));
        assert!(text.is_empty() || !said.contains(": not translated: "), "{files}: {said}");
    }
}

/// The beginning of the path is replaced byte by byte, whatever slashes are on either side.
#[test]
fn nginx_replaces_the_beginning_of_a_path() {
    let tree = tree();
    let application = application();
    for location in ["/a", "/a/", "= /a", "/"] {
        for path in ["", "/", "/c", "/c/", "/c/d", "/a", "/a/", "/c/$x"] {
            let path = path.replace("$x", "");
            let server = format!(
                "server_name www.example.org; root {}; proxy_set_header Host $host;\n\
                 proxy_set_header X-Forwarded-Proto $scheme;\n\
                 location {location} {{ proxy_pass http://{}{path}; }}",
                tree.root().display(),
                application.address
            );
            // Without a path in the address nginx passes on what the client wrote.
            let written = if path.is_empty() { "" } else { "/a//x /a/./x /a/%78" };
            // Two slashes at the beginning are one here.
            let below = match (location, path.as_str()) {
                ("/a", "/") => "",
                _ => "/a/ /a/x /a/x%20y /a/%C3%A9?q=%20 /a/x;y",
            };
            let requests = format!("/a /ax /ax/y?z=1 /b {below} {written}");
            let requests = if below.is_empty() { requests.replace(written, "") } else { requests };
            let text = alike(&tree, "access_log off;", &server, &plain(&requests));
            assert!(!text.contains("NOT TRANSLATED"), "{text}");
        }
    }
}

#[test]
fn nginx_makes_paths_of_variables() {
    let tree = tree();
    let application = application();
    for (lines, is_translated) in [
        ("location ~ ^/api/(.*)$ { proxy_pass http://APP/v2/$1$is_args$args; }", true),
        ("location ~ ^/api/(.*)$ { proxy_pass http://APP/v2/$1; }", true),
        ("location ~ ^/(?<lang>en|de)/(.*)$ { proxy_pass http://APP/$2?lang=$lang; }", true),
        ("location /api/ { proxy_pass http://APP$request_uri; }", true),
        ("location /api/ { proxy_pass http://APP$uri$is_args$args; }", true),
        ("set $up APP; location /api/ { proxy_pass http://$up; }", true),
        ("set $up APP; location /api/ { proxy_pass http://$up/fixed/; }", true),
        ("location /api/ { proxy_pass http://$arg_host:80; }", false),
    ] {
        let server = format!(
            "server_name www.example.org; root {}; proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-Proto $scheme;\n{}",
            tree.root().display(),
            lines.replace("APP", &application.address.to_string())
        );
        if is_translated {
            let requests = plain("/api/x /api/x?y=1 /api/x/y/ /en/a/b /de/ /api/a/b?z");
            let text = alike(&tree, "access_log off;", &server, &requests);
            assert!(!text.contains("NOT TRANSLATED"), "{text}");
        } else {
            let file = tree.beside("site.conf");
            fs::write(&file, format!("server {{ {server} }}")).unwrap();
            assert!(imported(file).1.contains("the address of an origin has no variables"), "{lines}");
        }
    }
}

/// What nginx passes on as it is: a dot segment that the replacement makes, two slashes at the beginning, and
/// an escaped slash, which it decodes.
#[test]
fn replaced_paths_stay_below_the_path_of_the_origin() {
    let tree = tree();
    let application = application();
    let server = format!(
        "server_name www.example.org; root {root};\n\
         location /api {{ proxy_pass http://{app}/v1/; }} location /b {{ proxy_pass http://{app}/; }}",
        root = tree.root().display(),
        app = application.address
    );
    let Some(nginx) = Nginx::start(&tree, "", &server) else { return };
    let (text, _) = imported(tree.around().join("nginx.conf"));
    let log = tree.around().join("nginx.log");
    let here =
        text.replace(&nginx.address.to_string(), "127.0.0.1:0").replace(log.to_str().unwrap(), "stderr");
    let ours = Server::configured(tree.around(), &here);
    for (target, theirs, mine) in [
        ("/api../secret", (200, "GET /v1/../secret HTTP/1.1"), (400, "")),
        ("/api..", (200, "GET /v1/.. HTTP/1.1"), (400, "")),
        ("/b/x", (200, "GET //x HTTP/1.1"), (200, "GET /x HTTP/1.1")),
        ("/api/x%2Fy", (200, "GET /v1//x/y HTTP/1.1"), (200, "GET /v1//x%2Fy HTTP/1.1")),
    ] {
        for (name, address, (status, line)) in
            [("nginx", nginx.address, theirs), ("this server", ours.address(), mine)]
        {
            let answer = ask(address, target, "");
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, status, "{name} {target}: {body}");
            assert!(status != 200 || body.lines().next() == Some(line), "{name} {target}: {body}");
        }
    }
}

/// The origin's own address in a redirect becomes a path of the location again.
#[test]
fn redirects_of_an_origin_below_a_replaced_path() {
    let tree = tree();
    let origin = crate::support::Origin::start(|stream| {
        use std::io::Write;
        while let Some(head) = crate::support::read_head(stream) {
            let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let to = if path.contains("away") { "/other" } else { "/c/next" };
            let answer =
                format!("HTTP/1.1 302 Found\r\nLocation: http://{host}{to}\r\nContent-Length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let server = format!(
        "server_name www.example.org; root {};\n\
         location /a {{ proxy_pass http://{origin}/c; }} location /d/ {{ proxy_pass http://{origin}/c/; }}",
        tree.root().display(),
        origin = origin.address
    );
    alike(&tree, "", &server, &plain("/a/x /ax /d/x /a/away"));
}
