//! Origins behind the server, from the outside: several of them, over TLS, HTTP/2 and HTTP/3, healthy, slow,
//! dead and faulty.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod compression;
mod flapping;
mod group;
mod grpc;
mod http2;
mod http3;
mod kept;
mod limits;
mod rude;
mod shared;
mod tls;
mod told;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;

use crate::support::{Origin, Server, Tree, bytes_of, read_head};

/// The body of `/app/long` of the origins of HTTP/2 and HTTP/3. It is made once: an origin that makes it for
/// each of many requests answers no packet meanwhile.
static LONG_BODY: LazyLock<Vec<u8>> = LazyLock::new(|| bytes_of(3 << 20));

/// A server whose route `/app/` has a `proxy` with these keys; `more` are further sections.
fn proxy(tree: &Tree, keys: &str, more: &str) -> Server {
    let text = format!(
        "{}[[site.route]]\npath = \"/app/\"\n\n[site.route.proxy]\n{keys}\n{more}",
        tree.configuration("")
    );
    Server::configured(tree.around(), &text)
}

/// A list of origins for `to`.
fn to(origins: &[&Origin], words: &[&str]) -> String {
    let one = |(index, origin): (usize, &&Origin)| {
        format!("\"http://{} {}\"", origin.address, words.get(index).unwrap_or(&""))
    };
    format!("to = [{}]\n", origins.iter().enumerate().map(one).collect::<Vec<_>>().join(", "))
}

/// An origin that answers everything with this body.
fn saying(body: &'static str) -> Origin {
    Origin::start(move |stream| {
        while read_head(stream).is_some() {
            say(stream, body);
        }
    })
}

fn say(stream: &mut TcpStream, body: &str) {
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // The client may have left.
    let _ = stream.write_all(answer.as_bytes());
}

/// An origin that returns the request, head and body.
fn repeating() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            say(stream, &format!("{head}{}", String::from_utf8_lossy(&body)));
        }
    })
}

/// The answer's body as text.
fn text(server: &Server, target: &str) -> String {
    let answer = server.get(target);
    assert_eq!(answer.status, 200, "{target}");
    String::from_utf8(answer.body).unwrap()
}
