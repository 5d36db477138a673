//! Which connections are kept, and how the answer states it (RFC 9112 section 9, RFC 9110 section 7.6.1).

use crate::protocol::case::{Case, case, check, get};
use crate::support::ALPHABET;

#[test]
fn kept_and_closed() {
    check(table());
}

fn table() -> Vec<Case> {
    let with = |name, value: &str| {
        case(name, get("/alphabet.txt", &format!("Connection: {value}\r\n"))).answers(200).body(ALPHABET)
    };
    let old = |name, lines: &str| {
        case(name, format!("GET /alphabet.txt HTTP/1.0\r\n{lines}\r\n")).answers(200).body(ALPHABET)
    };
    vec![
        case("kept without a word", get("/alphabet.txt", "")).answers(200).body(ALPHABET).kept(),
        with("close", "close").field("Connection", "close").closed().split(),
        with("close in capitals", "CLOSE").field("Connection", "close").closed(),
        with("keep-alive", "keep-alive").kept(),
        with("close after keep-alive", "keep-alive, close").field("Connection", "close").closed(),
        with("close before keep-alive", "close, keep-alive").field("Connection", "close").closed(),
        with("close in a list of others", "te, Close ,foo").field("Connection", "close").closed(),
        with("close after empty members", ",, close").field("Connection", "close").closed(),
        with("another option", "upgrade").kept(),
        with("an option that ends like close", "foreclose").kept(),
        with("an option that begins like close", "closed").kept(),
        with("empty", "").kept(),
        case("close in a second field", get("/alphabet.txt", "Connection: foo\r\nConnection: close\r\n"))
            .answers(200)
            .field("Connection", "close")
            .closed(),
        case(
            "keep-alive in a second field",
            get("/alphabet.txt", "Connection: close\r\nConnection: keep-alive\r\n"),
        )
        .answers(200)
        .field("Connection", "close")
        .closed(),
        case("close with a missing file", get("/missing", "Connection: close\r\n"))
            .answers(404)
            .field("Connection", "close")
            .closed(),
        case("close with a redirect", get("/dir", "Connection: close\r\n"))
            .answers(301)
            .field("Connection", "close")
            .closed(),
        case("close with a range", get("/alphabet.txt", "Connection: close\r\nRange: bytes=0-4\r\n"))
            .answers(206)
            .body("abcde")
            .field("Connection", "close")
            .closed(),
        case("close with 304", get("/alphabet.txt", "Connection: close\r\nIf-None-Match: *\r\n"))
            .answers(304)
            .field("Connection", "close")
            .closed(),
        case(
            "what follows close is not answered",
            format!("{}{}", get("/alphabet.txt", "Connection: close\r\n"), get("/second.txt", "")),
        )
        .answers(200)
        .body(ALPHABET)
        .closed(),
        case(
            "an upgrade is ignored",
            get(
                "/alphabet.txt",
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
            ),
        )
        .answers(200)
        .body(ALPHABET)
        .kept(),
        old("HTTP/1.0 closes", "").closed().split(),
        old("HTTP/1.0 with keep-alive", "Connection: keep-alive\r\n")
            .field("Connection", "keep-alive")
            .kept()
            .split(),
        old("HTTP/1.0 with Keep-Alive", "Connection: Keep-Alive\r\n")
            .field("Connection", "keep-alive")
            .kept(),
        old("HTTP/1.0 with close", "Connection: close\r\n").closed(),
        old("HTTP/1.0 with close and keep-alive", "Connection: close, keep-alive\r\n").closed(),
        old("HTTP/1.0 with another option", "Connection: foo\r\n").closed(),
        old("HTTP/1.0 with a Keep-Alive field alone", "Keep-Alive: timeout=5\r\n").closed(),
        case(
            "HTTP/1.0 with keep-alive, a missing file",
            "GET /missing HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        )
        .answers(404)
        .field("Connection", "keep-alive")
        .kept(),
        case(
            "HTTP/1.0 with keep-alive, 304",
            "GET /alphabet.txt HTTP/1.0\r\nConnection: keep-alive\r\nIf-None-Match: *\r\n\r\n",
        )
        .answers(304)
        .field("Connection", "keep-alive")
        .kept(),
        case(
            "HTTP/1.0 with keep-alive, twice",
            "GET /alphabet.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        )
        .answers(200)
        .then_sends("GET /alphabet.txt HTTP/1.0\r\n\r\n")
        .answers(200)
        .body(ALPHABET)
        .closed(),
        case("ten requests one after the other", get("/alphabet.txt", ""))
            .answers(200)
            .then_sends(get("/missing", ""))
            .answers(404)
            .then_sends(get("/dir", ""))
            .answers(301)
            .then_sends(get("/alphabet.txt", "Range: bytes=1-2\r\n"))
            .answers(206)
            .body("bc")
            .then_sends(get("/alphabet.txt", "Range: bytes=99-\r\n"))
            .answers(416)
            .then_sends(get("/alphabet.txt", "If-None-Match: {etag}\r\n"))
            .answers(304)
            .then_sends(get("/alphabet.txt", "If-Match: \"other\"\r\n"))
            .answers(412)
            .then_sends(get("/bare/", ""))
            .answers(403)
            .then_sends(get("/empty.txt", ""))
            .answers(200)
            .body("")
            .then_sends(get("/numbers.txt", ""))
            .answers(200)
            .field("Content-Length", "10000")
            .kept(),
    ]
}
