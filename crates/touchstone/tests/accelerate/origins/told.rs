//! The information about the client and this server that origins get, and what clients are sent before an
//! answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::{proxy, repeating, say, to};
use crate::support::{Origin, Server, Tree, curl, read_head};

fn head_of(server: &Server, fields: &str) -> String {
    let answer = server
        .connect()
        .ask(format!("GET /app/ HTTP/1.1\r\nHost: www.example:81\r\n{fields}Connection: close\r\n\r\n"));
    String::from_utf8(answer.body).unwrap()
}

const SPOOFED: &str = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\
                       X-Forwarded-Host: evil.example\r\n\
                       Forwarded: for=192.0.2.9;proto=https\r\nX-Real-IP: 192.0.2.7\r\nVia: 1.0 fred\r\n";

#[test]
fn only_a_trusted_proxy_is_believed() {
    let origin = repeating();
    let tree = Tree::standard();
    let forward = "[site.route.proxy.forward]\nx_forwarded = \"append\"\nforwarded = \"append\"\n";
    let server = proxy(&tree, &to(&[&origin], &[]), forward);
    let head = head_of(&server, SPOOFED);
    for line in [
        "X-Forwarded-For: 127.0.0.1\r\n",
        "X-Real-IP: 127.0.0.1\r\n",
        "X-Forwarded-Proto: http\r\n",
        "X-Forwarded-Host: www.example:81\r\n",
        "Forwarded: for=127.0.0.1;host=\"www.example:81\";proto=http\r\n",
        "Via: 1.0 fred, 1.1 touchstone\r\n",
    ] {
        assert!(head.contains(line), "{line}{head}");
    }
    assert!(!head.contains("192.0.2.") && !head.contains("evil"), "{head}");
    let trusting =
        proxy(&tree, &to(&[&origin], &[]), &format!("{forward}[proxies]\ntrusted = [\"127.0.0.1\"]\n"));
    let head = head_of(&trusting, SPOOFED);
    for line in [
        "X-Forwarded-For: 192.0.2.1, 127.0.0.1\r\n",
        "X-Real-IP: 192.0.2.1\r\n",
        "X-Forwarded-Proto: https\r\n",
        "X-Forwarded-Host: evil.example\r\n",
        "Forwarded: for=192.0.2.9;proto=https, for=127.0.0.1;host=\"www.example:81\";proto=http\r\n",
    ] {
        assert!(head.contains(line), "{line}{head}");
    }
}

#[test]
fn fields_can_be_set_left_out_and_replaced() {
    let origin = repeating();
    let tree = Tree::standard();
    let forward = "[site.route.proxy.forward]\nx_forwarded = \"off\"\nvia = \"edge\"\nremove = [\"Cookie\"]\n\
                   set = { X-Key = \"secret\", User-Agent = \"edge\" }\n";
    let server = proxy(&tree, &to(&[&origin], &[]), forward);
    let head =
        head_of(&server, "Cookie: a=b\r\nX-Key: guess\r\nUser-Agent: me\r\nX-Forwarded-For: 192.0.2.1\r\n");
    assert!(head.contains("X-Key: secret\r\n") && head.contains("User-Agent: edge\r\n"), "{head}");
    assert!(head.contains("Via: 1.1 edge\r\n"), "{head}");
    for name in ["Cookie", "guess", "User-Agent: me", "X-Forwarded", "X-Real-IP"] {
        assert!(!head.contains(name), "{name}: {head}");
    }
}

#[test]
fn a_field_that_is_set_replaces_that_of_the_server() {
    let origin = repeating();
    let tree = Tree::standard();
    let forward = "[site.route.proxy.forward]\nforwarded = \"set\"\n\
                   set = { x-forwarded-proto = \"https\", X-Real-IP = \"$header{x-client}\", \
                   Via = \"1.1 a\" }\n";
    let server = proxy(&tree, &to(&[&origin], &[]), forward);
    let head = head_of(&server, "X-Client: 192.0.2.1\r\nX-Forwarded-Proto: evil\r\n");
    for (name, value) in [
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "192.0.2.1"),
        ("via", "1.1 a"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        let values: Vec<&str> = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(values, [value], "{name}: {head}");
    }
    // A value that is empty for a request leaves the field out.
    assert!(!head_of(&server, "").to_ascii_lowercase().contains("x-real-ip"));
}

#[test]
fn a_server_that_is_its_own_origin_notices() {
    let tree = Tree::standard();
    let port = crate::support::free_port();
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:{port}\"]\nroot = \"{}\"\n[[site.route]]\npath = \"/app/\"\n\
         proxy = {{ to = \"http://127.0.0.1:{port}\" }}\n",
        tree.root().display()
    );
    let server = Server::configured(tree.around(), &text);
    assert_eq!(server.get("/app/").status, 508);
}

/// The beginning of one connection, and the head after it.
fn with_header(version: &str) -> Vec<u8> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let origin = Origin::start(move |stream| {
        let mut all = Vec::new();
        let mut byte = [0];
        while !all.ends_with(b"\r\n\r\n") || all.len() < 40 {
            if stream.read(&mut byte).unwrap_or(0) == 0 {
                return;
            }
            all.push(byte[0]);
        }
        *noted.lock().unwrap() = all;
        say(stream, "ok");
        let _ = stream.read(&mut byte);
    });
    let tree = Tree::standard();
    let server = proxy(&tree, &format!("{}proxy_protocol = \"{version}\"\n", to(&[&origin], &[])), "");
    assert_eq!(server.get("/app/").body, b"ok");
    // The next client has another connection.
    assert_eq!(server.get("/app/").body, b"ok");
    assert_eq!(origin.connections(), 2);
    seen.lock().unwrap().clone()
}

#[test]
fn connections_can_begin_with_a_proxy_header() {
    let text = String::from_utf8(with_header("v1")).unwrap();
    assert!(text.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 ") && text.contains("\r\nGET /app/ "), "{text}");
    let bytes = with_header("v2");
    assert!(bytes.starts_with(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01"));
    assert!(bytes[28..].starts_with(b"GET /app/ "));
}

#[test]
fn our_own_server_understands_our_proxy_headers() {
    let behind = Tree::standard();
    let port = crate::support::free_port();
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:{port}\"]\nroot = \"{}\"\n[proxies]\ntrusted = [\"127.0.0.1\"]\n\
         proxy_protocol = [\"127.0.0.1:{port}\"]\n",
        behind.root().display()
    );
    let _origin = Server::configured(behind.around(), &text);
    let tree = Tree::standard();
    for version in ["v1", "v2"] {
        let keys = format!(
            "to = \"http://127.0.0.1:{port}\"\nstrip_prefix = \"/app\"\nproxy_protocol = \"{version}\"\n"
        );
        let server = proxy(&tree, &keys, "");
        assert_eq!(server.get("/app/alphabet.txt").body, crate::support::ALPHABET.as_bytes(), "{version}");
    }
}

/// HTTP/1.0 has no interim responses.
fn assert_none_in_http_1_0(server: &Server) {
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.0\r\nHost: a\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "{}", crate::support::shown(&bytes));
}

/// All heads and the body that a client of HTTP/2 gets; `None` where there is no such client.
fn over_http_2(server: &Server) -> Option<String> {
    let url = format!("http://{}/app/", server.address());
    let output = curl(["--http2-prior-knowledge", "--include", &url])?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn interim_responses_pass() {
    let origin = Origin::start(|stream| {
        while read_head(stream).is_some() {
            stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(200));
            say(stream, "done");
        }
    });
    let tree = Tree::standard();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    let interim = client.answer();
    assert_eq!((interim.status, interim.field("link")), (103, Some("</a.css>")));
    assert_eq!(client.answer().body, b"done");
    assert_none_in_http_1_0(&server);
    let Some(text) = over_http_2(&server) else { return };
    assert!(
        text.starts_with("HTTP/2 103") && text.contains("link: </a.css>") && text.ends_with("done"),
        "{text}"
    );
}

#[test]
fn interim_responses_pass_that_come_with_the_final_one() {
    // In one write, and so most probably in one read.
    let origin = Origin::answering(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
          HTTP/1.1 103 Early Hints\r\nLink: </b.js>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone",
    );
    let tree = Tree::standard();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let interim = [client.answer(), client.answer(), client.answer()];
        let seen = interim.each_ref().map(|answer| (answer.status, answer.field("link")));
        assert_eq!(seen, [(103, Some("</a.css>")), (102, None), (103, Some("</b.js>"))]);
        assert_eq!(client.answer().body, b"done");
    }
    assert_none_in_http_1_0(&server);
    let Some(text) = over_http_2(&server) else { return };
    let heads: Vec<&str> = text.split("HTTP/2 ").skip(1).map(|head| &head[..3]).collect();
    assert_eq!(heads, ["103", "102", "103", "200"], "{text}");
    assert!(text.find("</a.css>") < text.find("</b.js>") && text.ends_with("done"), "{text}");
}

#[test]
fn trailers_of_an_http_1_origin_reach_who_takes_them() {
    let origin = Origin::answering(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\n\
          X-Sum: 1\r\nContent-Length: 9\r\n\r\n",
    );
    let tree = Tree::standard();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let answer = |fields: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: close, TE\r\n{fields}\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = answer("TE: trailers\r\n");
    assert!(text.ends_with("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), "{text}");
    let text = answer("");
    assert!(text.ends_with("5\r\nhello\r\n0\r\n\r\n"), "{text}");
}

#[test]
fn trailers_of_a_request_reach_the_origin() {
    // It keeps its connections: a POST on a connection that is closed at that moment is not sent again,
    // correctly.
    let origin = Origin::start(|stream| {
        while read_head(stream).is_some() {
            let body = read_head(stream).unwrap();
            say(stream, &body);
        }
    });
    let tree = Tree::standard();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    client.send(
        "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhel",
    );
    client.send(
        "lo\r\n0\r\nX-Sum: 1\r\nAuthorization: none\r\nContent-Length: 9\r\n\
         X-Forwarded-For: 192.0.2.1\r\n\r\n",
    );
    let body = client.answer().body;
    assert!(body.ends_with(b"\r\n0\r\nX-Sum: 1\r\n\r\n"), "{}", body.escape_ascii());
    // What follows is not taken for a part of it.
    client.send("POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
    assert_eq!(client.answer().body, b"1\r\na\r\n0\r\n\r\n");
}
