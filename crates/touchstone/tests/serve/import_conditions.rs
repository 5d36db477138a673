//! Conditions of other servers, and streams of nginx: run by the original server and, translated, by this
//! one; the same requests get the same answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::import_nginx::{alike, application, imported, tree};
use super::import_servers::{Rival, like_apache, like_caddy, local, open_to_all};
use super::streams::client_hello;
use crate::support::{Client, Origin, Response, Server, Tree, read_head, skipped, wait_until};

fn ask_by(address: SocketAddr, method: &str, target: &str, fields: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: www.example.org\r\n{fields}Connection: close\r\n\
         Content-Length: 0\r\n\r\n"
    ));
    client.answer()
}

const BOT: &str = "User-Agent: BadBot/1.0\r\n";

#[test]
fn conditions_that_set_variables_of_nginx() {
    let tree = tree();
    let server = format!(
        "server_name www.example.org; root {};\n\
         set $skip 0; set $test \"\";\n\
         if ($http_user_agent ~* badbot) {{ return 444; }}\n\
         if ($http_cookie ~ \"session=([0-9]+)\") {{ set $skip 1; }}\n\
         if ($query_string != \"\") {{ set $skip 1; }}\n\
         if ($arg_a) {{ set $test A; }}\n if ($arg_b = 2) {{ set $test \"${{test}}B\"; }}\n\
         if ($test = AB) {{ return 402; }}\n\
         if ($http_x_moved) {{ rewrite ^/old/(.*)$ /docs/$1 permanent; }}\n\
         location = /skipped {{ if ($skip) {{ return 204; }} return 205; }}\n\
         location /spa/ {{ if (!-e $request_filename) {{ rewrite ^ /index.html last; }} }}\n\
         location /docs/ {{ if ($request_method = TRACE) {{ return 405; }} }}",
        tree.root().display(),
    );
    let server = server.replace("return 444", "return 403");
    let text = alike(
        &tree,
        "",
        &server,
        &[
            ("/", ""),
            ("/", BOT),
            ("/skipped", ""),
            ("/skipped", "Cookie: session=12\r\n"),
            ("/skipped", "Cookie: session=x\r\n"),
            ("/skipped?x", ""),
            ("/about.html?a=1", ""),
            ("/about.html?b=2", ""),
            ("/about.html?a=1&b=2", ""),
            ("/old/index.html", ""),
            ("/old/index.html", "X-Moved: 1\r\n"),
            ("/spa/any/where", ""),
            ("/docs/", ""),
        ],
    );
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn files_before_an_application_as_in_old_guides_of_rails() {
    let tree = tree();
    let application = application();
    let server = format!(
        "server_name www.example.org; root {};\n\
         location / {{ proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto $scheme;\n\
             if (!-f $request_filename) {{ proxy_pass http://{}; break; }} }}",
        tree.root().display(),
        application.address
    );
    let text = alike(&tree, "", &server, &[("/app.css", ""), ("/users/1?a=b", ""), ("/docs/none", "")]);
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

/// An authority that knows two users by their cookie: alice may pass, and eve must not.
fn authority() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let is_asked = head.starts_with("GET /check?by=nginx ")
                && head.lines().any(|line| line.to_ascii_lowercase().starts_with("x-original-uri: /"));
            let cookie = head.lines().find_map(|line| line.strip_prefix("Cookie: user="));
            let (status, field) = match cookie {
                _ if !is_asked => ("400 Bad Request", ""),
                Some("alice") => ("204 No Content", "Remote-User: alice\r\nRemote-Mail: a@example.org\r\n"),
                Some(_) => ("403 Forbidden", "Content-Length: 0\r\n"),
                None => ("401 Unauthorized", "WWW-Authenticate: Basic realm=\"a\"\r\nContent-Length: 0\r\n"),
            };
            if stream.write_all(format!("HTTP/1.1 {status}\r\n{field}\r\n").as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn an_authority_decides_as_for_nginx() {
    let (tree, application, authority) = (tree(), application(), authority());
    let server = format!(
        "server_name www.example.org; root {};\n\
         location = /auth {{ internal; proxy_pass http://{}/check?by=nginx; proxy_pass_request_body off;\n\
             proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI $request_uri; }}\n\
         location /app/ {{ auth_request /auth; proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-Proto $scheme;\n\
             auth_request_set $who $upstream_http_remote_user; proxy_set_header X-App $who;\n\
             # Here a refusal is never stored.\n\
             add_header Cache-Control no-store always; proxy_pass http://{}; }}\n\
         location /docs/ {{ auth_request /auth; add_header Cache-Control no-store always; }}",
        tree.root().display(),
        authority.address,
        application.address,
    );
    let (alice, eve) = ("Cookie: user=alice\r\n", "Cookie: user=eve\r\n");
    let text = alike(
        &tree,
        "",
        &server,
        &[
            ("/app/a?b=c", alice),
            ("/app/a?b=c", eve),
            ("/app/a?b=c", ""),
            ("/app/a", "Cookie: user=eve\r\nX-App: alice\r\nRemote-User: alice\r\n"),
            ("/docs/index.html", alice),
            ("/docs/index.html", ""),
            ("/auth", alice),
            ("/about.html", ""),
        ],
    );
    assert!(!text.contains("NOT TRANSLATED"), "{text}");
}

#[test]
fn a_closed_connection_of_nginx_is_a_refusal() {
    let tree = tree();
    let file = tree.beside("site.conf");
    fs::write(&file, "server { listen 80 default_server; return 444; }\n").unwrap();
    let (text, said) = imported(file);
    assert!(text.contains("respond = { status = 403 }") && !said.contains("not translated:"), "{text}{said}");
}

#[test]
fn expressions_methods_and_variables_of_apache() {
    let tree = tree();
    open_to_all(tree.around());
    for name in ["old.html", "item", "only"] {
        tree.write(name, name);
    }
    let root = tree.root().display().to_string();
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n\
         SetEnvIfNoCase User-Agent badbot bad\nSetEnvIf Request_URI \"^/img/\" image\n\
         <Directory {root}>\nDirectoryIndex index.html\n\
         <RequireAll>\nRequire all granted\nRequire not env bad\n</RequireAll>\n</Directory>\n\
         <LocationMatch \"^/(docs|img)/\">\nHeader set X-Frame-Options DENY\n</LocationMatch>\n\
         <LocationMatch \"/secret[0-9]+\">\nRequire all denied\n</LocationMatch>\n\
         <Location /away>\nRedirect permanent https://other.example.org/to\n</Location>\n\
         <If \"%{{HTTP:X-Test}} == 'yes' && %{{REQUEST_URI}} =~ m#^/about#\">\n\
         Header set Cache-Control no-store\n</If>\n\
         <ElseIf \"%{{QUERY_STRING}} == 'closed'\">\nRequire all denied\n</ElseIf>\n\
         <Else>\nHeader set X-Powered-By other\n</Else>\n\
         RewriteEngine On\nRewriteCond %{{QUERY_STRING}} ^id=([0-9]+)$\n\
         RewriteRule ^/item$ /about.html? [R=302,L]\n\
         RewriteCond %{{HTTP_USER_AGENT}} !^Mozilla\nRewriteCond %{{HTTP:X-Only}} !^$\n\
         RewriteRule ^/only$ - [F]\n",
    );
    let (text, said) = like_apache(
        &tree,
        &host,
        &[
            ("/", ""),
            ("/", BOT),
            ("/docs/", ""),
            ("/docs/", BOT),
            ("/secret12", ""),
            ("/a/secret1/b", ""),
            ("/away", ""),
            ("/about.html", ""),
            ("/about.html", "X-Test: yes\r\n"),
            ("/old.html", "X-Test: yes\r\n"),
            ("/about.html?closed", ""),
            ("/item?id=5", ""),
            ("/item?id=x", ""),
            ("/only", "X-Only: 1\r\n"),
            ("/only", "X-Only: 1\r\nUser-Agent: Mozilla/5.0\r\n"),
        ],
    );
    assert!(text.is_empty() || !said.contains(": not translated: "), "{said}");
}

#[test]
fn times_by_media_type_of_apache() {
    let tree = tree();
    open_to_all(tree.around());
    let root = tree.root().display().to_string();
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n\
         <Directory {root}>\nRequire all granted\nDirectoryIndex index.html\n</Directory>\n\
         ExpiresActive On\nExpiresDefault \"access plus 1 hour\"\n\
         ExpiresByType text/css \"access plus 1 month\"\nExpiresByType image/png A600\n\
         ExpiresByType text/html \"access plus 1 minute\"\n",
    );
    let (text, said) = like_apache(
        &tree,
        &host,
        &[
            ("/", ""),
            ("/about.html", ""),
            ("/app.css", ""),
            ("/img/logo.png", ""),
            ("/private/report.txt", ""),
        ],
    );
    assert!(text.is_empty() || !said.contains(": not translated: "), "{said}");
}

#[test]
fn uploads_of_apache_that_need_a_password() {
    let tree = tree();
    open_to_all(tree.around());
    let files = tree.beside("media");
    open_to_all(&files);
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\nAlias /files {files}\n\
         DavLockDB {locks}\n\
         <Directory {root}>\nRequire all granted\n</Directory>\n\
         <Directory {files}>\nDav On\nAuthType Basic\nAuthName Members\nAuthUserFile {users}\n\
         <LimitExcept GET HEAD OPTIONS PROPFIND>\nRequire valid-user\n</LimitExcept>\n\
         <Limit GET HEAD OPTIONS PROPFIND>\nRequire all granted\n</Limit>\n</Directory>\n",
        root = tree.root().display(),
        files = files.display(),
        locks = tree.beside("locks").display(),
        users = tree.beside("users.htpasswd").display()
    );
    let file = tree.beside("dav.conf");
    let text = format!("Listen 127.0.0.1:1\n<VirtualHost 127.0.0.1:1>\n{host}</VirtualHost>\n");
    fs::write(&file, text).unwrap();
    let output = crate::support::run(["import", "apache", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains(": not translated: "), "{said}");
    let here = text.replace("127.0.0.1:1", "127.0.0.1:0").replace(
        "[site.route.webdav]\n",
        &format!("[site.route.webdav]\nstate = {:?}\n", tree.beside("state").display().to_string()),
    );
    let server = Server::configured(tree.around(), &here);
    let status = |method: &str, target: &str| ask_by(server.address(), method, target, "").status;
    assert_eq!(status("GET", "/files/2026/photo.jpg"), 200, "{here}");
    assert_eq!(ask_by(server.address(), "PROPFIND", "/files/2026/photo.jpg", "Depth: 0\r\n").status, 207);
    assert_eq!(status("PUT", "/files/new.txt"), 401);
    assert_eq!(status("DELETE", "/files/2026/photo.jpg"), 401);
    assert!(files.join("2026/photo.jpg").exists());
}

#[test]
fn negations_queries_and_error_pages_of_caddy() {
    let tree = tree();
    let application = application();
    tree.write("errors/410.html", "gone");
    let site = format!(
        "\troot * {root}\n\
         \t@outside not path /docs/* /about.html /item* /page*\n\
         \theader @outside X-Frame-Options DENY\n\
         \t@both {{\n\t\tquery a=1\n\t\tnot header X-Test yes\n\t}}\n\tredir @both /about.html 302\n\
         \t@agent header_regexp User-Agent ^Bad\n\trespond @agent 403\n\
         \t@neither not {{\n\t\tmethod GET HEAD POST\n\t}}\n\trespond @neither 405\n\
         \t@item expression {{path}} == \"/item\" && {{query.b}} != \"\"\n\trespond @item \"item\"\n\
         \trespond /gone 410\n\
         \tforward_auth /page* {app} {{\n\t\turi /allowed\n\t\tcopy_headers X-App\n\t}}\n\
         \trespond /page* \"seen\"\n\
         \tskip_log /img/*\n\tfile_server\n\
         \thandle_errors {{\n\t\trewrite * /errors/{{err.status_code}}.html\n\t\tfile_server\n\t}}",
        root = tree.root().display(),
        app = application.address
    );
    let (text, said) = like_caddy(
        &tree,
        &site,
        &[
            ("/", ""),
            ("/docs/", ""),
            ("/about.html", ""),
            ("/?a=1", ""),
            ("/?a=1", "X-Test: yes\r\n"),
            ("/", BOT),
            ("/item?b=c", ""),
            ("/item", ""),
            ("/gone", ""),
            ("/page", ""),
            ("/img/logo.png", ""),
            ("/none", ""),
        ],
    );
    if text.is_empty() {
        return;
    }
    assert!(!said.contains(": not translated: "), "{said}");
    let here = text.replace(&address_in(&text), "127.0.0.1:0");
    let server = Server::configured(tree.around(), &here);
    let missing = ask_by(server.address(), "GET", "/none", "");
    assert_eq!((missing.status, missing.body.as_slice()), (404, &b"not here"[..]), "{here}");
    assert_eq!(ask_by(server.address(), "DELETE", "/", "").status, 405);
}

/// The address that the first site listens on.
fn address_in(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with("listen = ")).unwrap();
    line.split('"').nth(1).unwrap().to_string()
}

/// An nginx with streams; `None`, with a visible word, where it has none.
fn nginx_with_streams(tree: &Tree, streams: &str, address: SocketAddr) -> Option<(Rival, String)> {
    let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
    if !module.exists() {
        skipped("streams of nginx (install libnginx-mod-stream)");
        return None;
    }
    let here = tree.around().display();
    let file = tree.beside("nginx.conf");
    let text = format!(
        "load_module {};\ndaemon off; worker_processes 1; pid {here}/nginx.pid; user root;\n\
         error_log {here}/nginx.log;\nevents {{ worker_connections 256; }}\nstream {{ {streams} }}\n",
        module.display()
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file).arg("-e").arg(tree.beside("nginx.log"));
    let nginx = Rival::start("nginx", command, address)?;
    let (text, said) = imported(file);
    assert!(!said.contains("not translated:"), "{said}");
    Some((nginx, text.replace(&format!("{here}/nginx.log"), "stderr")))
}

/// An origin of datagrams that sends each back behind its name.
fn datagrams(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&[name.as_bytes(), &buffer[..count]].concat(), from);
        }
    });
    address
}

/// An origin that answers the first bytes with its name and these bytes, and closes the connection.
fn origin_named(name: &'static str) -> Origin {
    Origin::start(move |stream| {
        let mut buffer = [0; 2_048];
        let count = stream.read(&mut buffer).unwrap_or_default();
        let _ = stream.write_all(&[name.as_bytes(), b":", &buffer[..count]].concat());
    })
}

/// Sends bytes, and returns the bytes received until the end. nginx closes a connection whose client ends
/// sending.
fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    received
}

#[test]
fn streams_of_nginx_go_where_they_went() {
    let tree = Tree::empty();
    let (names, plain, udp) = (local(), local(), local());
    let origins: Vec<Origin> = ["one", "two", "rest"].map(origin_named).into();
    let spoken = datagrams("udp:");
    let streams = format!(
        "map $ssl_preread_server_name $to {{ hostnames; a.example.org {one}; .b.example.org two;\n\
             default {rest}; }}\n\
         upstream two {{ server {two}; }}\n\
         server {{ listen {names}; ssl_preread on; proxy_pass $to; proxy_timeout 20s; }}\n\
         server {{ listen {plain}; proxy_pass two; proxy_connect_timeout 2s; allow 127.0.0.1; deny all; }}\n\
         server {{ listen {udp} udp; proxy_pass {spoken}; proxy_responses 1; }}",
        one = origins[0].address,
        two = origins[1].address,
        rest = origins[2].address,
    );
    let Some((nginx, text)) = nginx_with_streams(&tree, &streams, names) else { return };
    let connect = |address: SocketAddr| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let outcomes = || {
        let mut found = Vec::new();
        for name in ["a.example.org", "A.example.org", "b.example.org", "x.b.example.org", "c.example.org"] {
            let hello = client_hello(Some(name.as_bytes()), &[]);
            found.push(exchange(connect(names), &hello));
        }
        found.push(exchange(connect(names), &client_hello(None, &[])));
        found.push(exchange(connect(plain), b"words"));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.send_to(b"datagram", udp).unwrap();
        let mut buffer = [0; 2_048];
        let (count, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(from, udp);
        found.push(buffer[..count].to_vec());
        found
    };
    let theirs = outcomes();
    drop(nginx);
    wait_until("nginx has ended", Duration::from_secs(60), || TcpStream::connect(names).is_err());
    let site = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n{text}",
        tree.root().display().to_string()
    );
    let _ours = Server::configured(tree.around(), &site);
    for address in [names, plain] {
        wait_until("the stream listens", Duration::from_secs(60), || TcpStream::connect(address).is_ok());
    }
    let mine = outcomes();
    assert_eq!(mine, theirs, "{text}");
    assert!(theirs[0].starts_with(b"one:") && theirs[2].starts_with(b"two:"), "{theirs:?}");
    assert!(theirs[4].starts_with(b"rest:") && theirs[7] == b"udp:datagram", "{theirs:?}");
}
