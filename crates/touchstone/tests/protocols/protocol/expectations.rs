//! `Expect: 100-continue` (RFC 9110 section 10.1.1).

use crate::protocol::case::{Case, case, check, request};
use crate::support::ALPHABET;

#[test]
fn expectations() {
    check(table());
}

const EXPECT: &str = "Expect: 100-continue\r\n";

fn table() -> Vec<Case> {
    let get = |name, fields: String| case(name, request("GET", "/alphabet.txt", &fields));
    vec![
        get("the body is asked for", format!("{EXPECT}Content-Length: 5\r\n"))
            .answers(100)
            .then_sends("hello")
            .answers(200)
            .body(ALPHABET)
            .kept()
            .split(),
        get("a body in chunks is asked for", format!("{EXPECT}Transfer-Encoding: chunked\r\n"))
            .answers(100)
            .then_sends("5\r\nhello\r\n0\r\n\r\n")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        get("in capitals", "Expect: 100-CONTINUE\r\nContent-Length: 5\r\n".to_owned())
            .answers(100)
            .then_sends("hello")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        get("twice on one connection", format!("{EXPECT}Content-Length: 5\r\n"))
            .answers(100)
            .then_sends("hello")
            .answers(200)
            .then_sends(request("GET", "/alphabet.txt", &format!("{EXPECT}Content-Length: 2\r\n")))
            .answers(100)
            .then_sends("hi")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        get("asked for, and then a bad chunk", format!("{EXPECT}Transfer-Encoding: chunked\r\n"))
            .answers(100)
            .then_sends("x\r\n")
            .answers(400)
            .closed(),
        get("asked for, and then close", format!("{EXPECT}Content-Length: 5\r\nConnection: close\r\n"))
            .answers(100)
            .then_sends("hello")
            .answers(200)
            .body(ALPHABET)
            .closed(),
        get("without a body nothing is asked for", EXPECT.to_owned()).answers(200).body(ALPHABET).kept(),
        get("with an empty body nothing is asked for", format!("{EXPECT}Content-Length: 0\r\n"))
            .answers(200)
            .body(ALPHABET)
            .kept(),
        case(
            "HTTP/1.0 cannot expect",
            "GET /alphabet.txt HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        )
        .answers(200)
        .body(ALPHABET)
        .closed(),
        case(
            "a missing file is refused at once",
            request("GET", "/missing", &format!("{EXPECT}Content-Length: 5\r\n")),
        )
        .answers(404)
        .closed(),
        case(
            "a method is refused at once",
            request("POST", "/alphabet.txt", &format!("{EXPECT}Content-Length: 5\r\n")),
        )
        .answers(405)
        .closed()
        .split(),
        case(
            "an unknown method is refused at once",
            request("FOO", "/", &format!("{EXPECT}Content-Length: 5\r\n")),
        )
        .answers(501)
        .closed(),
        case(
            "a body too large is refused at once",
            request("GET", "/", &format!("{EXPECT}Content-Length: 2000000\r\n")),
        )
        .answers(413)
        .closed(),
        case("a refused body that comes all the same is not a request", {
            let body = request("GET", "/second.txt", "");
            request("GET", "/missing", &format!("{EXPECT}Content-Length: {}\r\n\r\n{body}", body.len()))
        })
        .answers(404)
        .closed(),
        get("another expectation", "Expect: 200-ok\r\nContent-Length: 5\r\n".to_owned())
            .answers(417)
            .closed(),
        get("another expectation without a body", "Expect: cookies\r\n".to_owned()).answers(417),
        get(
            "another expectation in a list",
            "Expect: 100-continue, cookies\r\nContent-Length: 5\r\n".to_owned(),
        )
        .answers(417)
        .closed(),
        get(
            "an expectation with a parameter",
            "Expect: 100-continue;a=b\r\nContent-Length: 5\r\n".to_owned(),
        )
        .answers(417)
        .closed(),
    ]
}

#[test]
fn a_body_that_does_not_wait_is_read() {
    // The server may leave the interim answer out when the body is already there (RFC 9110 section 10.1.1).
    let peer = crate::protocol::case::Peer::start();
    let mut client = peer.connect();
    client.send(request("GET", "/alphabet.txt", &format!("{EXPECT}Content-Length: 5\r\n\r\nhello")));
    let mut answer = client.answer();
    if answer.is_interim() {
        assert_eq!(answer.status, 100);
        answer = client.answer();
    }
    assert_eq!((answer.status, answer.body.as_slice()), (200, ALPHABET.as_bytes()));
    assert_eq!(client.ask(request("GET", "/second.txt", "")).status, 200);
}
