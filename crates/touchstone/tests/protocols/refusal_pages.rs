//! Requests that are refused before the rules of their site are known get its error page all the same: by the
//! host that they name, or else by the name in the TLS handshake, or the page of the address's first site.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::http3::client::Client as Http3Client;
use crate::support::{Server, Tree, curl, wait_until};

/// The limits of the server: a body of 1,000 bytes, a header section of 4 KiB, a request line of 1 KiB.
const LIMITS: &str = "[server]\ncores = 1\n[limits]\nbody_bytes = 1000\nheader_bytes = 4096\n\
                      request_line_bytes = 1024\nheader_timeout = \"1s\"\n";

/// A server with two sites, each with a page of its own for every refusal; `more` are keys of both.
fn two_sites(tree: &Tree, more: &str) -> String {
    let mut text = LIMITS.to_string();
    for name in ["one", "two"] {
        tree.write(&format!("{name}.html"), format!("page of {name}"));
        let pages = [400, 408, 413, 414, 417, 421, 431].map(|status| format!("{status} = '/{name}.html'"));
        let (root, pages) = (tree.root(), pages.join(", "));
        let hosts = format!("hosts = ['{name}.test']\nlisten = ['127.0.0.1:0']\nroot = {root:?}\n");
        writeln!(text, "[[site]]\n{hosts}error_pages = {{ {pages} }}\n{more}").expect("a string grows");
    }
    text
}

/// A route that reads bodies.
const WRITABLE: &str = "[[site.route]]\npath = '/dav/'\nwebdav = { write = true, open = true }\n";

fn body(bytes: usize) -> String {
    "b".repeat(bytes)
}

#[test]
fn http_1() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &two_sites(&tree, ""));
    let long = body(5000);
    let host = "Host: two.test\r\n";
    for (what, request, status, site) in [
        ("a length", format!("POST / HTTP/1.1\r\n{host}Content-Length: 1001\r\n\r\n"), 413, "two"),
        ("an expectation", format!("GET / HTTP/1.1\r\n{host}Expect: x\r\n\r\n"), 417, "two"),
        (
            "an absolute target",
            "POST http://two.test/ HTTP/1.1\r\nHost: one.test\r\nContent-Length: 1001\r\n\r\n".into(),
            413,
            "two",
        ),
        (
            "chunks",
            format!("POST /alphabet.txt HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n7d0\r\n{long}"),
            413,
            "two",
        ),
        ("a target", format!("GET * HTTP/1.1\r\n{host}\r\n"), 400, "two"),
        ("a long field", format!("GET / HTTP/1.1\r\n{host}X: {long}\r\n\r\n"), 431, "two"),
        ("a long field before Host", format!("GET / HTTP/1.1\r\nX: {long}\r\n{host}\r\n"), 431, "one"),
        ("a bad field", format!("GET / HTTP/1.1\r\n{host}X : a\r\n\r\n"), 400, "two"),
        ("no host", "GET / HTTP/1.1\r\n\r\n".into(), 400, "one"),
        // The host is on a later line.
        ("a long line", format!("GET /{long} HTTP/1.1\r\n{host}\r\n"), 414, "one"),
        ("a line that never ends", format!("GET /{long}"), 414, "one"),
        ("a head that never ends", format!("GET / HTTP/1.1\r\n{host}X: "), 408, "two"),
    ] {
        let answer = server.connect().ask(request);
        assert_eq!(answer.status, status, "{what}");
        assert_eq!(String::from_utf8_lossy(&answer.body), format!("page of {site}"), "{what}");
        assert_eq!(answer.field("content-type"), Some("text/html"), "{what}");
    }
}

/// A page that is too large for one write arrives complete, and a page that is missing is the built-in one.
#[test]
fn large_and_missing_pages() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &two_sites(&tree, ""));
    let page = body(3 << 20);
    tree.write("two.html", &page);
    let ask = |host: &str| {
        server.connect().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n", body(5000)))
    };
    wait_until("the new page", Duration::from_secs(60), || ask("two.test").body == page.as_bytes());
    std::fs::remove_file(tree.file("one.html")).expect("the page is there");
    wait_until("the built-in page", Duration::from_secs(60), || {
        let answer = ask("one.test");
        assert_eq!(answer.status, 431);
        answer.body.starts_with(b"<!DOCTYPE")
    });
}

#[test]
fn the_page_of_a_route() {
    let tree = Tree::standard();
    tree.write("route.html", "page of the route");
    let more = "[[site.route]]\npath = '/'\nerror_pages = { 413 = '/route.html' }\n";
    let server = Server::configured(tree.around(), &two_sites(&tree, more));
    // The route is known once the body arrives.
    let head = "POST /alphabet.txt HTTP/1.1\r\nHost: two.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = server.connect().ask(format!("{head}7d0\r\n{}", body(5000)));
    assert_eq!((answer.status, &answer.body[..]), (413, &b"page of the route"[..]));
}

#[test]
fn http_2() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &two_sites(&tree, WRITABLE));
    let (large, field) = (body(2000), format!("x-long: {}", body(5000)));
    let target = format!("/{}", body(1500));
    for (what, target, arguments, status, site) in [
        ("a length", "/", &["--data", &large][..], 413, "two"),
        ("no length", "/dav/x", &["-X", "PUT", "--data", &large, "-H", "content-length:"], 413, "two"),
        ("a long field", "/", &["-H", &field], 431, "two"),
        ("a long target", &target, &[], 414, "two"),
    ] {
        let url = format!("http://two.test:{}/{}", server.address().port(), target.trim_start_matches('/'));
        let resolve = format!("two.test:{}:127.0.0.1", server.address().port());
        let fixed = ["--http2-prior-knowledge", "--resolve", &resolve, "-w", "|%{http_code}", &url];
        let Some(output) = curl(fixed.iter().chain(arguments)) else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, format!("page of {site}|{status}"), "{what}");
    }
}

#[test]
fn http_3() {
    let tree = Tree::standard();
    let Some(mut client) = Http3Client::start() else { return };
    let server = Server::configured(
        tree.around(),
        &two_sites(&tree, &format!("development_certificate = true\nhttp3 = true\n{WRITABLE}")),
    );
    // A site without TLS has the same rules for all names; here the name of the handshake is the other one.
    client.connect_with("a", &server, json!({"server_name": "one.test"}));
    for (what, request, status) in [
        (
            "a length",
            json!({"method": "POST", "headers": [["content-length", "2000"]], "body_bytes": 2000}),
            413,
        ),
        ("no length", json!({"method": "PUT", "path": "/dav/x", "body_bytes": 2000}), 413),
        ("a long field", json!({"headers": [["x-long", body(5000)]]}), 431),
        ("a long target", json!({"path": format!("/{}", body(1500))}), 414),
        ("an expectation", json!({"headers": [["expect", "x"]]}), 417),
    ] {
        let mut request = request;
        request["authority"] = json!("two.test");
        if request["path"].is_null() {
            request["path"] = json!("/");
        }
        let answer = client.requests("a", json!([request])).remove(0);
        answer.assert(what, status, b"page of two");
    }
}

/// Where no host was read, the name in the handshake chooses the page.
#[test]
fn the_name_in_the_handshake() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &two_sites(&tree, "development_certificate = true"));
    let port = server.address().port();
    for name in ["one", "two"] {
        let url = format!("https://{name}.test:{port}/{}", body(1500));
        let resolve = format!("{name}.test:{port}:127.0.0.1");
        let fixed = ["--insecure", "--http1.1", "--resolve", &resolve, "-w", "|%{http_code}", &url];
        let Some(output) = curl(fixed) else { return };
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("page of {name}|414"));
    }
}
