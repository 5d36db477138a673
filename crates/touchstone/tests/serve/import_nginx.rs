//! `touchstone import nginx`: configurations of nginx are run by nginx and, translated, by this server; the
//! same requests get the same answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::support::{Client, Nginx, Origin, Response, Server, Tree, read_head, run};

/// The fields with these names in a request's head, sorted, with one line each.
pub(super) fn fields_of(head: &str, names: &[&str]) -> String {
    let lines = head.lines().map(str::to_ascii_lowercase);
    let mut fields: Vec<String> =
        lines.filter(|line| names.iter().any(|name| line.starts_with(name))).collect();
    fields.sort();
    fields.join("\n")
}

/// An application that answers with the line of its request and some of its fields.
pub(super) fn application() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let line = head.lines().next().unwrap_or_default().replace(" HTTP/1.0", " HTTP/1.1");
            let wanted = ["host:", "x-forwarded-proto:", "x-app:", "x-secret:"];
            let body = format!("{line}\n{}", fields_of(&head, &wanted));
            let answer = format!(
                "HTTP/1.1 200 OK\r\nX-Powered-By: application\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

pub(super) fn ask(address: SocketAddr, target: &str, fields: &str) -> Response {
    let mut client = Client::connect(address);
    client
        .send(format!("GET {target} HTTP/1.1\r\nHost: www.example.org\r\n{fields}Connection: close\r\n\r\n"));
    client.answer()
}

/// What is compared of an answer.
pub(super) fn outcome(answer: &Response) -> Vec<String> {
    let is_body_compared = answer.status < 300;
    let body =
        if is_body_compared { String::from_utf8_lossy(&answer.body).into_owned() } else { String::new() };
    let mut compared = vec![answer.status.to_string(), body];
    for name in ["location", "cache-control", "x-frame-options", "www-authenticate", "x-powered-by"] {
        let value = answer.field(name).unwrap_or_default();
        let value = value.trim_end_matches(", charset=\"UTF-8\"");
        // nginx writes the address where the configuration has a path.
        let path = value.strip_prefix("http://").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        let is_own = value.contains("://www.example.org") || value.contains("://127.0.0.1");
        compared.push(format!("{name}: {}", if is_own { path.unwrap_or(value) } else { value }));
    }
    compared
}

pub(super) fn tree() -> Tree {
    let tree = Tree::empty();
    for (name, body) in [
        ("index.html", "home"),
        ("about.html", "about"),
        ("app.css", "css"),
        ("img/logo.png", "png"),
        ("docs/index.html", "docs"),
        ("private/report.txt", "report"),
        ("errors/404.html", "not here"),
        (".git/config", "secret"),
    ] {
        tree.write(name, body);
    }
    let media = tree.beside("media");
    fs::create_dir_all(media.join("2026")).unwrap();
    fs::write(media.join("2026/photo.jpg"), "photo").unwrap();
    fs::write(
        tree.beside("users.htpasswd"),
        "ann:$2y$05$C1fHPrLJ7SJZ0YwZ8OuBeeKq0bmZTo5yTqU2BLhGQzq7ChYb9Rk5S\n",
    )
    .unwrap();
    tree
}

/// Runs nginx with the contents of `server`, and this server with the imported configuration, and compares
/// them.
pub(super) fn alike(tree: &Tree, http: &str, server: &str, requests: &[(&str, &str)]) -> String {
    let Some(nginx) = Nginx::start_with(tree, http, "", server) else { return String::new() };
    let (text, _) = imported(tree.around().join("nginx.conf"));
    // The harness reads the server's standard error.
    let log = tree.around().join("nginx.log");
    let here =
        text.replace(&nginx.address.to_string(), "127.0.0.1:0").replace(log.to_str().unwrap(), "stderr");
    let ours = Server::configured(tree.around(), &here);
    for (target, fields) in requests {
        let (mine, theirs) = (ask(ours.address(), target, fields), ask(nginx.address, target, fields));
        assert_eq!(outcome(&mine), outcome(&theirs), "{target} {fields:?}\n{text}");
    }
    text
}

/// The configuration, and the messages about it.
pub(super) fn imported(file: PathBuf) -> (String, String) {
    let output = run(["import", "nginx", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_static_site_with_redirects() {
    let tree = tree();
    let root = tree.root();
    let media = tree.beside("media");
    let server = format!(
        "server_name www.example.org; root {}; index index.html;\n\
         error_page 404 /errors/404.html;\n\
         rewrite ^/old/(.*)$ /docs/$1 permanent;\n\
         location = /gone {{ return 410; }}\n\
         location = /moved {{ return 301 https://other.example.org$request_uri; }}\n\
         location /short {{ return 302 /docs/; }}\n\
         location /media/ {{ alias {}/; expires 30d; }}\n\
         location ~* \\.(css|png)$ {{ expires max; add_header Cache-Control \"public\"; }}\n\
         location ^~ /docs/ {{ add_header X-Frame-Options DENY; }}\n\
         location ~ /\\.git {{ deny all; }}\n\
         location / {{ try_files $uri $uri.html $uri/ =404; }}",
        root.display(),
        media.display()
    );
    alike(
        &tree,
        "",
        &server,
        &[
            ("/", ""),
            ("/about", ""),
            ("/about.html", ""),
            ("/missing", ""),
            ("/old/index.html", ""),
            ("/old/a?b=c", ""),
            ("/gone", ""),
            ("/moved?x=1", ""),
            ("/short", ""),
            ("/shorter?x=1", ""),
            ("/media/2026/photo.jpg", ""),
            ("/media/none", ""),
            ("/docs/", ""),
            ("/docs", ""),
            ("/.git/config", ""),
        ],
    );
}

#[test]
fn a_proxy_with_paths_fields_and_files_before_it() {
    let tree = tree();
    let application = application();
    let server = format!(
        "server_name www.example.org; root {};\n\
         client_max_body_size 10m;\n\
         proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
         proxy_set_header X-Forwarded-Proto $scheme;\n\
         location /api/ {{ proxy_pass http://app/; }}\n\
         location /v1/ {{ proxy_pass http://app/v2/; }}\n\
         location /as-it-is/ {{ proxy_pass http://app; proxy_hide_header X-Powered-By; }}\n\
         location /fields/ {{ proxy_set_header Host $host; proxy_set_header X-App \"one two\";\n\
             proxy_set_header X-Secret \"\"; proxy_set_header X-Forwarded-Proto $scheme;\n\
             proxy_pass http://app; }}\n\
         location /socket {{ proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;\n\
             proxy_set_header Connection upgrade; proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-Proto $scheme; proxy_read_timeout 1h; proxy_pass http://app; }}\n\
         location / {{ try_files $uri @app; }}\n\
         location @app {{ proxy_pass http://app; }}",
        tree.root().display(),
    );
    let http = format!("upstream app {{ server {}; keepalive 8; }}", application.address);
    let text = alike(
        &tree,
        &http,
        &server,
        &[
            ("/api/users?id=1", ""),
            ("/v1/users", ""),
            ("/as-it-is/x", ""),
            ("/fields/", "X-Secret: 1\r\n"),
            ("/socket/a", ""),
            ("/app.css", ""),
            ("/users/1", ""),
            ("/docs/none", ""),
        ],
    );
    assert!(text.is_empty() || text.contains("body_bytes = \"10MiB\""), "{text}");
}

#[test]
fn files_of_the_whole_server_and_locations_in_locations() {
    let tree = tree();
    let application = application();
    let server = format!(
        "server_name www.example.org; root {};\n\
         try_files $uri/index.html $uri.html $uri @app;\n\
         location ^~ /docs {{ location = /docs/old {{ return 301 /docs/; }}\n\
             location ~ \\.txt$ {{ return 404; }} }}\n\
         location @app {{ proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto $scheme;\n\
             proxy_pass http://{}; }}",
        tree.root().display(),
        application.address
    );
    let requests = ["/", "/about", "/app.css", "/users/1?a=b", "/docs/old", "/docs/a.txt", "/docs/"];
    alike(&tree, "", &server, &requests.map(|target| (target, "")));
}

#[test]
fn access_and_conditions() {
    let tree = tree();
    let server = format!(
        "server_name www.example.org example.org; root {};\n\
         if ($host = example.org) {{ return 301 http://www.example.org$request_uri; }}\n\
         location /private/ {{ auth_basic \"Members\"; auth_basic_user_file {}; }}\n\
         location /img/ {{ allow 192.0.2.0/24; deny all; }}\n\
         location /docs/ {{ deny 192.0.2.0/24; allow all; }}",
        tree.root().display(),
        tree.beside("users.htpasswd").display()
    );
    alike(
        &tree,
        "",
        &server,
        &[
            ("/private/report.txt", ""),
            ("/private/report.txt", "Authorization: Basic YW5uOndyb25n\r\n"),
            ("/img/logo.png", ""),
            ("/docs/", ""),
            ("/about.html", ""),
        ],
    );
}

#[test]
fn replaced_texts_signed_links_and_limits() {
    let tree = tree();
    tree.write("page.html", "<head></HEAD> http://localhost/ http://localhost/");
    fs::write(tree.beside("links.secret"), "secret\n").unwrap();
    let server = format!(
        "server_name www.example.org; root {};\n\
         limit_req zone=all burst=100 nodelay; limit_rate 10m;\n\
         location /page.html {{ sub_filter '</head>' '<script></script></head>';\n\
             sub_filter http://localhost/ /; sub_filter_once off; }}\n\
         location /once/ {{ alias {}/; sub_filter http://localhost/ /; }}\n\
         location /docs/ {{ secure_link $arg_md5,$arg_expires;\n\
             secure_link_md5 \"$secure_link_expires$uri$remote_addr secret\";\n\
             if ($secure_link = \"\") {{ return 403; }}\n\
             if ($secure_link = \"0\") {{ return 410; }} }}",
        tree.root().display(),
        tree.root().display(),
    );
    let http = "limit_req_zone $binary_remote_addr zone=all:1m rate=50r/s;";
    let requests = [
        "/page.html",
        "/once/page.html",
        "/docs/index.html?md5=H2TxqEqD8k2bGIVD-pEBBg&expires=2147483647",
        "/docs/index.html?md5=jMGfE1tX2LDt9H1_gK7o-Q&expires=1000",
        "/docs/index.html?md5=jMGfE1tX2LDt9H1_gK7o-Q&expires=1001",
        "/docs/index.html",
        "/docs/index.html?md5=&expires=2147483647",
    ];
    let text = alike(&tree, http, &server, &requests.map(|target| (target, "")));
    assert!(text.is_empty() || text.contains("burst = 101"), "{text}");
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn php_tls_and_unknown_lines() {
    let tree = tree();
    let file = tree.beside("site.conf");
    fs::write(
        &file,
        format!(
            "server {{\n\
             listen 80; listen [::]:80; server_name blog.example.org;\n\
             return 301 https://$host$request_uri;\n}}\n\
             server {{\n\
             listen 443 ssl http2;\n\
             server_name blog.example.org;\n\
             ssl_certificate /etc/ssl/blog.pem; ssl_certificate_key /etc/ssl/blog.key;\n\
             ssl_protocols TLSv1.2 TLSv1.3;\n\
             root {}; index index.php index.html;\n\
             location / {{ try_files $uri $uri/ /index.php?$args; }}\n\
             location = /favicon.ico {{ log_not_found off; access_log off; }}\n\
             location ~ \\.php$ {{ include fastcgi_params;\n\
             fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
             fastcgi_intercept_errors on;\n\
             fastcgi_pass unix:/run/php/php-fpm.sock; }}\n\
             limit_req zone=one;\n}}\n",
            tree.root().display()
        ),
    )
    .unwrap();
    let (text, said) = imported(file.clone());
    for line in [
        "listen = [\"0.0.0.0:80\", \"[::]:80\"]",
        "redirect = { to = \"https://$host$path\", status = 301 }",
        "listen = [\"0.0.0.0:443\"]",
        "certificate = \"/etc/ssl/blog.pem\"",
        "index = [\"index.html\"]",
        "front_controller = \"/index.php\"",
        "backends = [\"unix:/run/php/php-fpm.sock\"]",
    ] {
        assert!(text.lines().any(|written| written == line), "{line}\n{text}");
    }
    // Nothing is left out without a word.
    assert!(said.contains(&format!("{}:17: not translated: limit_req zone=one;", file.display())), "{said}");
    assert!(text.lines().any(|line| line == "intercept_errors = true"), "{text}");
    // No route serves scripts as files.
    assert!(!text.contains("index = [\"index.php\"]\n[[site.route]]"), "{text}");
    let written = tree.beside("touchstone.toml");
    let output = run(["import", "nginx", file.to_str().unwrap(), "--output", written.to_str().unwrap()]);
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("directives translated"),
        "{output:?}"
    );
    assert!(
        !run(["import", "nginx", file.to_str().unwrap(), "--output", written.to_str().unwrap()])
            .status
            .success()
    );
}

#[test]
fn what_cannot_be_read_is_told() {
    let tree = tree();
    for (text, message) in [
        ("server {\n listen 80;\n", ":3: the file ends in a block"),
        ("hello world", "a ';' is missing after"),
        ("", "no configuration of nginx was found"),
    ] {
        let file = tree.beside("broken.conf");
        fs::write(&file, text).unwrap();
        let output = run(["import", "nginx", file.to_str().unwrap()]);
        assert!(!output.status.success() && format!("{output:?}").contains(message), "{text:?}: {output:?}");
    }
    let output = run(["import", "nginx", "nowhere.conf", "--name", "x"]);
    assert!(format!("{output:?}").contains("--name is for suites"), "{output:?}");
}

#[test]
fn networks_and_shares_of_clients() {
    let tree = tree();
    let networks = tree.beside("geo.conf");
    fs::write(&networks, "10.20.0.0/16 included;\n2001:db8:1::/48 'of the lab';\n192.0.2.77/24 masked;\n")
        .unwrap();
    let http = format!(
        "geo $arg_ip $place {{ default ZZ; 127.0.0.0/8 here; 10.0.0.0/8 ten; 10.1.0.0/16 one;\n\
         10.1.1.1 host; 10.2.0.0/16 gone; delete 10.2.0.0/16; 2001:db8::/32 lab; include {}; }}\n\
         geo $arg_ip $range {{ ranges; default none; 10.0.0.0-10.0.0.9 low; 10.0.0.10-10.1.2.3 high; }}\n\
         geo $own {{ default other; 127.0.0.1/32 local; }}\n\
         split_clients \"${{arg_ip}}AAA\" $variant {{ 0.5% .one; 33.33% .two; 20% .three; * ''; }}\n\
         split_clients $arg_ip $some {{ 10% a; 0.01% b; }}\n",
        networks.display()
    );
    let server = format!(
        "server_name www.example.org; root {}; index index.html;\n\
         add_header X-Frame-Options \"$place $range $own\"; add_header X-Powered-By \"v$variant.$some\";",
        tree.root().display()
    );
    let mut clients: Vec<String> = [
        "",
        "no",
        "127.0.0.1",
        "10.1.1.1",
        "10.1.1.2",
        "10.2.3.4",
        "10.20.1.1",
        "192.0.2.1",
        "10.0.0.9",
        "10.0.0.10",
        "10.1.2.3",
        "10.1.2.4",
        "2001:db8::1",
        "2001:db8:1::1",
        "::1",
        "::ffff:10.1.1.1",
    ]
    .map(str::to_string)
    .to_vec();
    clients.extend((0..300u32).map(|number| {
        let [a, b, c, d] = (number.wrapping_mul(2_654_435_761)).to_be_bytes();
        format!("{a}.{b}.{c}.{d}")
    }));
    clients.extend((0..60).map(|length| "x".repeat(length)));
    let targets: Vec<String> = clients.iter().map(|client| format!("/?ip={client}")).collect();
    let requests: Vec<(&str, &str)> = targets.iter().map(|target| (target.as_str(), "")).collect();
    alike(&tree, &http, &server, &requests);
}
