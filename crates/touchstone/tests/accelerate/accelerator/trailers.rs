//! Trailers (RFC 9110 section 6.5): stored with the response whose request took them, and given again to who
//! takes them.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::accelerator::origin::Origin;
use crate::accelerator::{FRESH, get, text};
use crate::support::{Server, Tree};

fn with_trailers() -> Origin {
    Origin::start(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
        // In two pieces, so that the body is on its way when the head is there.
        stream.write_all(head.as_bytes()).unwrap();
        let rest = b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nConnection: close\r\nContent-Length: 9\r\n\r\n";
        stream.write_all(rest).unwrap();
    })
}

/// The whole answer as it arrives.
fn whole(server: &Server, fields: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close, TE\r\n{fields}\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn who_takes_them_gets_them_with_a_hit_as_well() {
    let origin = with_trailers();
    let tree = Tree::empty();
    let place = tree.beside("disk");
    let disk = ["--disk", place.to_str().unwrap(), "--disk-size", "64MiB"];
    let start = || Server::accelerating(origin.address, &[&["--cores", "1"][..], &disk].concat());
    let mut server = start();
    let chunked = "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n";
    for _ in 0..3 {
        let said = whole(&server, "TE: trailers\r\n");
        assert!(said.ends_with(chunked) && said.contains("Transfer-Encoding: chunked\r\n"), "{said}");
    }
    for _ in 0..3 {
        let said = get(&server, "/a", "");
        assert_eq!((text(&said), said.field("content-length")), ("hello".to_string(), Some("5")));
    }
    assert_eq!(origin.count("/a"), 1);
    server.stop();
    let server = start();
    server.wait_for_error_line("the directory is looked through", |line| line.contains("found on disk"));
    assert!(whole(&server, "TE: trailers\r\n").ends_with(chunked));
    assert_eq!(origin.count("/a"), 1, "it was not on disk");
}
