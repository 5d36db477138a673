//! Origins that are slow, dead, or send faulty answers, behind the cache: the client gets 502 or 504, or a
//! stored answer that is marked as stale. Nothing of a faulty answer is stored or ends up in another answer.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::accelerator::origin::{Origin, answer};
use crate::accelerator::text;
use crate::support::{AnswerTo, Response, Server, Tree};

/// What an origin sends instead of an answer; then it closes, whatever the request was.
type Rudeness = fn(&mut TcpStream);

const RUDE: [(&str, Rudeness); 13] = [
    ("nothing", |_| {}),
    ("garbage", |stream| say(stream, b"<html>hello</html>\r\n\r\n")),
    ("two-lengths", |stream| say(stream, &head("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"))),
    ("the-same-length-twice", |stream| {
        say(stream, &head("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"));
    }),
    ("length-and-chunks", |stream| {
        say(stream, &head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"));
    }),
    ("too-short", |stream| say(stream, &head("Content-Length: 100\r\n", "hello"))),
    ("much-too-short", |stream| say(stream, &head("Content-Length: 1000000\r\n", &"hello".repeat(20_000)))),
    ("half-a-head", |stream| say(stream, b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Le")),
    ("chunks-without-end", |stream| say(stream, &head("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"))),
    ("broken-chunks", |stream| {
        say(stream, &head("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n-1\r\n0\r\n\r\n"));
    }),
    ("endless-fields", |stream| {
        say(stream, b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X-Endless: and so on\r\n").is_ok() {}
    }),
    ("a-hundred-megabytes-of-fields", |stream| {
        say(stream, b"HTTP/1.1 200 OK\r\nX-Long: ");
        let piece = [b'a'; 65_536];
        (0..1600).take_while(|_| stream.write_all(&piece).is_ok()).for_each(drop);
    }),
    ("endless-interim-responses", |stream| {
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").is_ok() {}
    }),
];

fn head(fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"rude\"\r\n{fields}\r\n{body}")
        .into_bytes()
}

/// Writes the bytes. The server may have left.
fn say(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

/// An origin that sends its fault on the first request for `/NAME/new`, and on the second for `/NAME/stored`.
fn rude() -> Origin {
    Origin::start(|asked, stream| {
        let name = asked.target.split('/').nth(1).unwrap();
        let is_rude = asked.count == if asked.target.ends_with("/stored") { 2 } else { 1 };
        let rudeness = RUDE.iter().find(|(other, _)| *other == name);
        match rudeness.filter(|_| is_rude) {
            Some((_, rudeness)) => {
                rudeness(stream);
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            None if is_rude && name == "silent" => _ = stream.read(&mut [0]),
            None => {
                // On a reused connection, an end without an answer would not be a fault.
                let fields = "Cache-Control: max-age=0\r\nETag: \"v\"\r\nConnection: close\r\n";
                answer(stream, 200, fields, &format!("{} {}", asked.target, asked.count));
            }
        }
    })
}

/// The answer; `None`: it broke off, so that it is not an answer.
fn ask(server: &Server, target: &str) -> Option<Response> {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    loop {
        let answer = client.try_answer(AnswerTo::Other).ok()?;
        if !answer.is_interim() {
            return Some(answer);
        }
    }
}

/// Asks for both targets of a name, while the origin is at fault and afterwards.
fn check(server: &Server, name: &str, failed: u16) {
    let (new, stored) = (format!("/{name}/new"), format!("/{name}/stored"));
    if let Some(said) = ask(server, &new) {
        assert_eq!(said.status, failed, "{name}: {}", text(&said));
    }
    let said = ask(server, &new).unwrap();
    assert_eq!((said.status, text(&said)), (200, format!("{new} 2")), "{name}: when it is well again");
    let said = ask(server, &stored).unwrap();
    assert_eq!((said.status, text(&said)), (200, format!("{stored} 1")), "{name}: at first");
    // A body that breaks off after its first part was passed on cannot be taken back.
    if let Some(said) = ask(server, &stored) {
        assert_eq!((said.status, text(&said)), (200, format!("{stored} 1")), "{name}: what is stored");
        let status = said.field("cache-status").unwrap();
        assert!(status.contains("fwd=stale") && status.contains("ttl="), "{name}: {status}");
        assert!(status.contains(&format!("fwd-status={failed}")), "{name}: {status}");
    }
    let said = ask(server, &stored).unwrap();
    assert_eq!((said.status, text(&said)), (200, format!("{stored} 3")), "{name}: when it is well again");
}

#[test]
fn what_a_rude_origin_says_is_not_stored_and_what_is_stored_stands_in() {
    let origin = rude();
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    for (name, _) in RUDE {
        check(&server, name, 502);
    }
}

#[test]
fn an_origin_that_says_nothing_is_504_or_what_is_stored() {
    let origin = rude();
    let tree = Tree::standard();
    let keys = format!("to = \"http://{}\"\nresponse_timeout = \"3s\"\n", origin.address);
    let route = format!("[[site.route]]\ncache = {{}}\n\n[site.route.proxy]\n{keys}");
    let server = Server::configured(tree.around(), &format!("{}{route}", tree.configuration("")));
    check(&server, "silent", 504);
}

/// The server does not know which bytes are missing, so it trusts none of the stated ranges.
#[test]
fn a_part_of_another_length_than_it_says_is_not_stored() {
    let origin = Origin::start(|_, stream| {
        answer(
            stream,
            206,
            "Cache-Control: max-age=600\r\nETag: \"v\"\r\nContent-Range: bytes 4-9/10\r\n",
            "01234",
        );
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    for range in ["-5", "4-8", "6-8"] {
        let said = crate::accelerator::get(&server, "/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!((said.status, text(&said)), (206, "01234".to_string()));
    }
    assert_eq!(origin.count("/a"), 3);
}
