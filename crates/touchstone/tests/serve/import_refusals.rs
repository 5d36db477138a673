//! What the original server refuses by lines that are hard to translate, such as conditions on methods and
//! networks: it is refused by what the import writes, too, in every spelling of the path.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use super::import_applications::{plain, tree};
use super::import_nginx::{alike, application};
use super::import_servers::{like_apache, like_caddy};

/// A path in spellings that servers read as the same one, and in some that they do not.
fn spellings(path: &str) -> String {
    let (begin, name) = path.rsplit_once('/').unwrap();
    let first = path.chars().find(char::is_ascii_alphabetic).unwrap();
    let escaped = path.replacen(first, &format!("%{:02x}", u32::from(first)), 1);
    format!(
        "{path} {escaped} /{path} /.{path} /zz/..{path} {begin}//{name} {begin}/./{name} {begin}/x/../{name} \
         {upper} {path}. {path}~ {path}x {path}?a=b ",
        upper = path.to_ascii_uppercase()
    )
}

#[test]
fn expressions_methods_and_networks_in_apache() {
    let tree = tree("index.html m/a.html e/a.html adm/a.html sec/a.html gone/a.html pics/a.png open/a.html");
    let root = tree.root().display().to_string();
    let host = format!(
        "DocumentRoot {root}\nRewriteEngine On\nRewriteCond %{{HTTP_USER_AGENT}} ^bad\\ bot [NC]\n\
         RewriteRule .* - [F,L]\nRewriteCond %{{THE_REQUEST}} ^GET\\ /gone [NC]\nRewriteRule .* - [G,L]\n\
         AliasMatch ^/icons/(.*)$ {root}/pics/$1\n\
         <Directory {root}>\nRequire all granted\n</Directory>\n\
         <Directory {root}/m>\nRequire method POST\n</Directory>\n\
         <Directory {root}/e>\nRequire expr \"%{{HTTP_COOKIE}} =~ /a=b/\"\n</Directory>\n\
         <Directory {root}/adm>\n<If \"! -R '10.0.0.0/8'\">\nRequire all denied\n</If>\n</Directory>\n\
         <Directory {root}/sec>\n<RequireAny>\nRequire ip 10.0.0.0/8\nRequire method POST\n</RequireAny>\n\
         </Directory>\n"
    );
    let targets: String =
        ["/m/a.html", "/e/a.html", "/adm/a.html", "/sec/a.html", "/icons/a.png"].map(spellings).concat();
    let mut requests = plain(&targets);
    // The request line of this server has the path in its normal form, so that it refuses more spellings.
    requests.extend([
        ("/gone/a.html", ""),
        ("/e/a.html", "Cookie: a=b\r\n"),
        ("/e/a.html", "Cookie: c=d\r\n"),
        ("/open/a.html", "User-Agent: Bad bot/1\r\n"),
        ("/open/a.html", "User-Agent: good\r\n"),
    ]);
    let (text, _) = like_apache(&tree, &host, &requests);
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn what_apache_refuses_and_has_no_counterpart() {
    let tree = tree("index.html u/a.html t/a.html open/a.html pics/a.png");
    let root = tree.root().display().to_string();
    let host = format!(
        "DocumentRoot {root}\n<Directory {root}>\nRequire all granted\n</Directory>\n\
         <Directory {root}/u>\nRequire host example.org\n</Directory>\n\
         <Directory {root}/t>\n<If \"%{{TIME_YEAR}} -gt 2000\">\nRequire all denied\n</If>\n</Directory>\n"
    );
    let targets: String = ["/u/a.html", "/t/a.html", "/open/a.html"].map(spellings).concat();
    let targets: Vec<_> =
        plain(&targets).into_iter().filter(|(target, _)| !target.ends_with(['x', '~', '.'])).collect();
    let (text, _) = like_apache(&tree, &host, &targets);
    assert!(text.is_empty() || text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn methods_variables_and_aliases_in_nginx() {
    let tree = tree("index.html m/a.png mx/a.png limited/a flags/a file/a.txt b.phtml");
    let origin = application();
    let server = format!(
        "server_name www.example.org; root {root}; proxy_set_header X-Forwarded-Proto $scheme;\n\
         if (-f $document_root/maintenance.html) {{ return 503; }}\n\
         location /media {{ alias {root}/m; }}\n\
         location /limited/ {{ limit_except POST {{ auth_basic x; auth_basic_user_file {users}; }}\n\
             proxy_pass http://{origin}; }}\n\
         location /flags/ {{ set $b 0; if ($http_cookie ~ a=b) {{ set $b A; }}\n\
             if ($args ~ x) {{ set $b \"${{b}}B\"; }} if ($b = A) {{ return 403; }}\n\
             proxy_pass http://{origin}; }}\n\
         location /file/ {{ if (-f $request_filename) {{ return 403; }} return 403; }}\n\
         location / {{ proxy_pass http://{origin}; }}",
        root = tree.root().display(),
        users = tree.beside("users.htpasswd").display(),
        origin = origin.address,
    );
    let mut targets = spellings("/limited/a").replace("/limited/ax ", "");
    targets.push_str(
        "/media/a.png /media../m/a.png /media../index.html /mediab/a.png /file/a.txt //file/a.txt ",
    );
    let targets: Vec<_> = plain(&targets)
        .into_iter()
        .filter(|(target, _)| !target.contains("LIMITED") && !target.ends_with("?a=b"))
        .collect();
    let mut requests = targets;
    requests.extend([
        ("/flags/a", "Cookie: a=b\r\n"),
        ("/flags/a?x=1", "Cookie: a=b\r\n"),
        ("/flags/a?x=1", ""),
        ("/flags/a", ""),
        ("/other", ""),
    ]);
    alike(&tree, "access_log off;", &server, &requests);
}

#[test]
fn functions_of_expressions_in_caddy() {
    let tree = tree("index.html admin/a.html api/a key/a.html nets/a.html");
    let site = format!(
        "root * {root}\n@admin expression path('/admin/*') && !remote_ip('10.0.0.0/8')\nrespond @admin 403\n\
         @bots `header_regexp('User-Agent', '(?i)(sqlmap|badbot)')`\nrespond @bots 403\n\
         @key `path('/key/*') && !header({{'X-Key': ['good', 'best*']}})`\nrespond @key 401\n\
         @q expression query({{'k': '1'}}) && method('GET')\nrespond @q 418\n\
         @nets {{\n\tpath /nets/*\n\tnot remote_ip 10.0.0.0/8\n}}\nrespond @nets 403\n\
         file_server",
        root = tree.root().display()
    );
    let targets: String = ["/admin/a.html", "/key/a.html", "/nets/a.html"].map(spellings).concat();
    // Without programs a path in another case is that of another file here.
    let mut requests: Vec<_> =
        plain(&targets).into_iter().filter(|(target, _)| !target.starts_with("/NETS")).collect();
    requests.extend([
        ("/key/a.html", "X-Key: good\r\n"),
        ("/key/a.html", "X-Key: best of all\r\n"),
        ("/key/a.html", "X-Key: bad\r\n"),
        ("/index.html?k=1", ""),
        ("/?k=2", ""),
        ("/", "User-Agent: SQLMap/1\r\n"),
    ]);
    like_caddy(&tree, &site, &requests);
}
