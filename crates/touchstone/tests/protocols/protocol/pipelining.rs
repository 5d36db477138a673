//! Several requests in one go: answered in order, none lost, none after an uncertain end (RFC 9112 section
//! 9.3.2).

use crate::protocol::case::{Case, case, check, get, request};
use crate::support::{ALPHABET, SECOND};

#[test]
fn pipelining() {
    check(table());
}

fn table() -> Vec<Case> {
    let (alphabet, second) = (get("/alphabet.txt", ""), get("/second.txt", ""));
    let head = request("HEAD", "/alphabet.txt", "");
    let with_body = get("/alphabet.txt", "Content-Length: 5\r\n\r\nhello");
    let in_chunks = get("/alphabet.txt", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let mut fifty = case("fifty requests", format!("{alphabet}{second}").repeat(25));
    for _ in 0..25 {
        fifty = fifty.answers(200).body(ALPHABET).answers(200).body(SECOND);
    }
    vec![
        case("two requests", format!("{alphabet}{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .body(SECOND)
            .kept()
            .split(),
        case(
            "three requests, the last with close",
            format!("{alphabet}{second}{}", get("/empty.txt", "Connection: close\r\n")),
        )
        .answers(200)
        .body(ALPHABET)
        .answers(200)
        .body(SECOND)
        .answers(200)
        .body("")
        .closed()
        .split(),
        fifty.kept(),
        case("HEAD between GETs", format!("{alphabet}{head}{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .for_head()
            .answers(200)
            .body(SECOND)
            .kept()
            .split(),
        case(
            "HEAD of a missing file between GETs",
            format!("{alphabet}{}{second}", request("HEAD", "/missing", "")),
        )
        .answers(200)
        .answers(404)
        .for_head()
        .answers(200)
        .body(SECOND)
        .kept(),
        case("bodies between requests", format!("{with_body}{second}{in_chunks}{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .body(SECOND)
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .body(SECOND)
            .kept()
            .split(),
        case("answers of every kind", {
            [
                get("/missing", ""),
                get("/dir", ""),
                get("/alphabet.txt", "If-None-Match: {etag}\r\n"),
                get("/alphabet.txt", "Range: bytes=0-1\r\n"),
                get("/alphabet.txt", "Range: bytes=99-\r\n"),
                request("OPTIONS", "*", ""),
                request("DELETE", "/", ""),
                get("/numbers.txt", ""),
            ]
            .concat()
        })
        .answers(404)
        .answers(301)
        .answers(304)
        .answers(206)
        .body("ab")
        .answers(416)
        .answers(204)
        .answers(405)
        .answers(200)
        .field("Content-Length", "10000")
        .kept(),
        case("an empty line between requests", format!("{alphabet}\r\n{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .body(SECOND)
            .kept()
            .split(),
        case("an empty line after a body", format!("{with_body}\r\n{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .body(SECOND)
            .kept(),
        case("a bad request after a good one", format!("{alphabet}GARBAGE\r\n\r\n{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(400)
            .closed()
            .split(),
        case("a body longer than its length", format!("{with_body}!!\r\n\r\n{second}"))
            .answers(200)
            .body(ALPHABET)
            .answers(400)
            .closed(),
        case(
            "close before others",
            format!("{}{second}{second}", get("/alphabet.txt", "Connection: close\r\n")),
        )
        .answers(200)
        .body(ALPHABET)
        .closed_to_more()
        .split(),
        case("a smuggler's two lengths after a good one", {
            let both =
                get("/alphabet.txt", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
            format!("{alphabet}{both}{second}")
        })
        .answers(200)
        .body(ALPHABET)
        .answers(400)
        .closed()
        .split(),
        case(
            "HTTP/1.0 between others ends it",
            format!("{alphabet}GET /second.txt HTTP/1.0\r\n\r\n{alphabet}"),
        )
        .answers(200)
        .body(ALPHABET)
        .answers(200)
        .body(SECOND)
        .closed(),
        case("a request and half of another", format!("{alphabet}{}", &second[..20]))
            .answers(200)
            .body(ALPHABET)
            .then_sends(&second[20..])
            .answers(200)
            .body(SECOND)
            .kept(),
    ]
}
