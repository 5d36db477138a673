//! Request bodies: read to their end and dropped, or refused (RFC 9112 sections 6 and 7.1).

use std::time::Duration;

use crate::protocol::case::{Case, Peer, case, check, request};
use crate::support::ALPHABET;

#[test]
fn of_known_length() {
    check(known_length());
}

/// The server cannot know that the request has ended, so it continues to read after its answer. Without that
/// the body's bytes would reset the connection, and a slow client could lose the answer.
#[test]
fn a_body_after_the_answer_resets_nothing() {
    let peer = Peer::start();
    let mut client = peer.connect();
    client.send("POST /alphabet.txt HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().status, 411);
    client.end();
    for _ in 0..20 {
        client.try_send(b"hello").expect("the server still listens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn chunked() {
    check(chunked_table());
}

#[test]
fn too_large() {
    check(too_large_table());
}

/// `limits.body_bytes`, unless configured.
const MOST: usize = 1 << 20;

fn with_length(name: &'static str, length: usize, body: impl AsRef<[u8]>) -> Case {
    let head = request("GET", "/alphabet.txt", &format!("Content-Length: {length}\r\n"));
    case(name, [head.as_bytes(), body.as_ref()].concat())
}

fn in_chunks(name: &'static str, body: impl AsRef<[u8]>) -> Case {
    let head = request("GET", "/alphabet.txt", "Transfer-Encoding: chunked\r\n");
    case(name, [head.as_bytes(), body.as_ref()].concat())
}

fn known_length() -> Vec<Case> {
    vec![
        with_length("a body of GET is read and dropped", 5, "hello")
            .answers(200)
            .body(ALPHABET)
            .kept()
            .split(),
        with_length("a body of no bytes", 0, "").answers(200).body(ALPHABET).kept(),
        with_length(
            "a body that looks like a request",
            request("GET", "/second.txt", "").len(),
            request("GET", "/second.txt", ""),
        )
        .answers(200)
        .body(ALPHABET)
        .kept(),
        with_length("a body of control bytes", 8, b"\0\r\n\r\n\xff\x7f\x01")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        with_length("a body of 100,000 bytes", 100_000, "b".repeat(100_000))
            .answers(200)
            .body(ALPHABET)
            .kept(),
        with_length("a body that comes after its head", 5, "")
            .then_sends("hel")
            .then_sends("lo")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        case(
            "a leading zero in the length",
            request("GET", "/alphabet.txt", "Content-Length: 005\r\n\r\nhello"),
        )
        .answers(200)
        .or(400),
        case("a body of HEAD", request("HEAD", "/alphabet.txt", "Content-Length: 5\r\n\r\nhello"))
            .answers(200)
            .field("Content-Length", "26")
            .kept()
            .split(),
        case("a body of OPTIONS", request("OPTIONS", "/", "Content-Length: 5\r\n\r\nhello"))
            .answers(204)
            .kept(),
        case("a body of a request for nothing", request("GET", "/missing", "Content-Length: 5\r\n\r\nhello"))
            .answers(404)
            .split(),
        case("a body of POST", request("POST", "/alphabet.txt", "Content-Length: 5\r\n\r\nhello"))
            .answers(405)
            .split(),
        case(
            "a body of PUT in chunks",
            request("PUT", "/x", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        )
        .answers(405)
        .split(),
        case("a body with an unknown method", request("FOO", "/x", "Content-Length: 5\r\n\r\nhello"))
            .answers(501),
        case("HTTP/1.0 POST with a body", "POST /alphabet.txt HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
            .answers(405)
            .closed(),
        case("HTTP/1.0 POST without a length", "POST /alphabet.txt HTTP/1.0\r\n\r\nhello")
            .answers(411)
            .closed()
            .split(),
        case("HTTP/1.0 PUT without a length", "PUT /alphabet.txt HTTP/1.0\r\n\r\n").answers(411).closed(),
        case("HTTP/1.0 PATCH without a length", "PATCH /alphabet.txt HTTP/1.0\r\n\r\n").answers(411).closed(),
        case(
            "HTTP/1.0 POST without a length, keep-alive",
            "POST /alphabet.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        )
        .answers(411)
        .closed(),
        case("HTTP/1.0 GET with a body, keep-alive", {
            "GET /alphabet.txt HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"
        })
        .answers(200)
        .body(ALPHABET)
        .field("Connection", "keep-alive")
        .kept(),
        case("HTTP/1.1 POST without either length has no body", request("POST", "/alphabet.txt", ""))
            .answers(405)
            .kept(),
    ]
}

fn chunked_table() -> Vec<Case> {
    let good = |name, body: &str| in_chunks(name, body).answers(200).body(ALPHABET).kept();
    let bad = |name, body: &[u8]| in_chunks(name, body).answers(400).closed();
    let large = format!("186A0\r\n{}\r\n0\r\n\r\n", "b".repeat(100_000));
    vec![
        good("one chunk", "5\r\nhello\r\n0\r\n\r\n").split(),
        good("no chunk but the last", "0\r\n\r\n").split(),
        good("several chunks", "1\r\nh\r\n2\r\nel\r\n2\r\nlo\r\n0\r\n\r\n").split(),
        good("hexadecimal in capitals", "A\r\n0123456789\r\n0\r\n\r\n"),
        good("hexadecimal in small letters", "a\r\n0123456789\r\n0\r\n\r\n"),
        good("leading zeros", "0005\r\nhello\r\n000\r\n\r\n"),
        good("a chunk extension", "5;name=value\r\nhello\r\n0;last\r\n\r\n").split(),
        good("a quoted chunk extension", "5;name=\"a;b\"\r\nhello\r\n0\r\n\r\n"),
        good("a trailer", "5\r\nhello\r\n0\r\nX-Trailer: value\r\n\r\n").split(),
        good("two trailers", "5\r\nhello\r\n0\r\nX: y\r\nZ:\r\n\r\n"),
        good(
            "a trailer that names a length changes nothing",
            "5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n",
        ),
        good("CRLF inside a chunk", "6\r\na\r\n0\r\n\r\n0\r\n\r\n"),
        good("a chunk of 100,000 bytes", &large),
        bad("a chunk size that is not a number", b"G\r\nhello\r\n0\r\n\r\n").split(),
        bad("an empty chunk size", b"\r\nhello\r\n0\r\n\r\n"),
        bad("a chunk size with a sign", b"+5\r\nhello\r\n0\r\n\r\n"),
        bad("a negative chunk size", b"-5\r\nhello\r\n0\r\n\r\n"),
        bad("a chunk size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
        bad("a space before the chunk size", b" 5\r\nhello\r\n0\r\n\r\n"),
        bad("a space after the chunk size", b"5 \r\nhello\r\n0\r\n\r\n"),
        bad("an underscore in the chunk size", b"1_0\r\nhello\r\n0\r\n\r\n"),
        bad("a chunk size of more than 64 bits", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
        bad("a chunk size of very many digits", [b"F".repeat(1000), b"\r\n".to_vec()].concat().as_slice()),
        bad("a bare LF after the chunk size", b"5\nhello\r\n0\r\n\r\n").split(),
        bad("a bare CR after the chunk size", b"5\rhello\r\n0\r\n\r\n"),
        bad("two CRs after the chunk size", b"5\r\r\nhello\r\n0\r\n\r\n"),
        bad("no CRLF after the chunk", b"5\r\nhello0\r\n\r\n").split(),
        bad("a bare LF after the chunk", b"5\r\nhello\n0\r\n\r\n"),
        bad("a chunk longer than its size", b"5\r\nhello!\r\n0\r\n\r\n"),
        bad("a chunk shorter than its size", b"6\r\nhello\r\n0\r\n\r\n"),
        bad("a bare LF in a chunk extension", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
        bad("a NUL in a chunk extension", b"5;a\0\r\nhello\r\n0\r\n\r\n"),
        bad("a bare CR in a chunk extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
        bad("something other than a semicolon after the size", b"5 a\r\nhello\r\n0\r\n\r\n"),
        bad("a bare LF after the last chunk", b"5\r\nhello\r\n0\n\r\n"),
        bad("a bare LF for the end", b"5\r\nhello\r\n0\r\n\n"),
        bad("a trailer without a colon", b"5\r\nhello\r\n0\r\ngarbage\r\n\r\n").split(),
        bad("a trailer with a space before the colon", b"0\r\nX : y\r\n\r\n"),
        bad("a trailer that is folded", b"0\r\nX: y\r\n z\r\n\r\n"),
        bad("a trailer with a bare LF", b"0\r\nX: y\n\r\n"),
        bad("a trailer with a NUL", b"0\r\nX: a\0b\r\n\r\n"),
        in_chunks(
            "trailers without end",
            format!("0\r\n{}", format!("X: {}\r\n", "y".repeat(990)).repeat(70)),
        )
        .answers(431)
        .or(400)
        .closed(),
        in_chunks("a chunk extension without end", format!("5;{}", "e".repeat(70_000)))
            .answers(400)
            .or(413)
            .or(431)
            .closed(),
    ]
}

fn too_large_table() -> Vec<Case> {
    let chunks = |count: usize| format!("10000\r\n{}\r\n", "c".repeat(0x10000)).repeat(count);
    let post = |name, fields: &str| case(name, request("POST", "/alphabet.txt", fields));
    vec![
        with_length("a body of the largest size", MOST, "b".repeat(MOST)).answers(200).body(ALPHABET).kept(),
        with_length("a body of one byte more, which never comes", MOST + 1, "").answers(413).closed(),
        with_length("a body of one byte more", MOST + 1, "b".repeat(MOST + 1)).answers(413).closed(),
        with_length("a body of five megabytes", 5 * MOST, "b".repeat(5 * MOST)).answers(413).closed(),
        with_length("a body of almost 2^63 bytes", i64::MAX as usize, "begins").answers(413).closed(),
        with_length("a body of almost 2^64 bytes", usize::MAX, "begins").answers(413).or(400).closed(),
        post("a body of POST that is too large", "Content-Length: 2000000\r\n").answers(413).closed().split(),
        case(
            "a body of a missing file that is too large",
            request("PUT", "/missing", "Content-Length: 2000000\r\n"),
        )
        .answers(413)
        .or(405)
        .closed(),
        in_chunks("chunks of the largest size together", format!("{}0\r\n\r\n", chunks(16)))
            .answers(200)
            .body(ALPHABET)
            .kept(),
        in_chunks("chunks that grow too large", format!("{}1\r\nc\r\n0\r\n\r\n", chunks(16)))
            .answers(413)
            .closed(),
        in_chunks("chunks that grow far too large", format!("{}0\r\n\r\n", chunks(64))).answers(413).closed(),
        in_chunks("one chunk that is too large", format!("100001\r\n{}\r\n0\r\n\r\n", "c".repeat(MOST + 1)))
            .answers(413)
            .closed(),
        // It may be refused for its size, or for its effect.
        in_chunks("a chunk of almost 2^64 bytes", format!("ffffffffffffffff\r\n{}", "c".repeat(MOST + 1)))
            .answers(413)
            .or(400)
            .closed(),
        in_chunks("a chunk size that would wrap the sum", {
            format!("5\r\nhello\r\nfffffffffffffffe\r\n{}", "c".repeat(MOST + 1))
        })
        .answers(413)
        .or(400)
        .closed(),
    ]
}
