//! The length of a request: an ambiguous request is refused, and nothing after it is taken for a request (RFC
//! 9112 sections 6 and 11.2, request smuggling).

use crate::protocol::case::{Case, case, check};
use crate::support::ALPHABET;

#[test]
fn content_length() {
    check(content_lengths());
}

#[test]
fn transfer_encoding() {
    check(transfer_encodings());
}

/// A GET with these field lines and this after the head, all at once.
fn framed(name: &'static str, lines: impl AsRef<[u8]>, after: impl AsRef<[u8]>) -> Case {
    let start = b"GET /alphabet.txt HTTP/1.1\r\nHost: example.com\r\n";
    case(name, [start, lines.as_ref(), b"\r\n", after.as_ref()].concat())
}

/// The second request that an attacker smuggles in. If the server accepts it as one, its answer arrives
/// instead of the end of the connection.
const SMUGGLED: &str = "GET /second.txt HTTP/1.1\r\nHost: example.com\r\n\r\n";

fn content_lengths() -> Vec<Case> {
    let bad = |name, value: &str| {
        framed(name, format!("Content-Length: {value}\r\n"), SMUGGLED).answers(400).closed()
    };
    vec![
        bad("a plus sign", "+5"),
        bad("a minus sign", "-5").split(),
        bad("minus zero", "-0"),
        bad("a space inside", "5 5"),
        bad("a tab inside", "5\t5"),
        bad("a letter after the number", "5x"),
        bad("a letter before the number", "x5"),
        bad("hexadecimal", "0x5"),
        bad("a fraction", "5.0"),
        bad("an exponent", "5e0"),
        bad("an underscore", "1_0"),
        bad("quoted", "\"5\""),
        bad("empty", "").split(),
        bad("only white space", " \t"),
        bad("a list of equal members", "5, 5").split(),
        bad("a list of equal members without a space", "5,5"),
        bad("a list of unequal members", "5, 6"),
        bad("a list with an empty member", "5,"),
        bad("an empty member first", ",5"),
        bad("a parameter", "5;a=b"),
        bad("one more than 64 bits hold", "18446744073709551616"),
        bad("far more than 64 bits hold", "99999999999999999999999999999999"),
        bad("wraps to five in 64 bits", "18446744073709551621"),
        bad("wraps to five in 32 bits and is negative", "-4294967291"),
        bad("digits of another script", "\u{0665}"),
        framed("the same twice", "Content-Length: 5\r\nContent-Length: 5\r\n", format!("hello{SMUGGLED}"))
            .answers(400)
            .closed()
            .split(),
        framed(
            "two different ones",
            "Content-Length: 5\r\nContent-Length: 0\r\n",
            format!("hello{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed(
            "two different ones, zero first",
            "Content-Length: 0\r\nContent-Length: 5\r\n",
            format!("hello{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed(
            "a good and a bad one",
            "Content-Length: 5\r\nContent-Length: x\r\n",
            format!("hello{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed("a space before the colon", "Content-Length : 5\r\n", format!("hello{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("a NUL after the name", b"Content-Length\0: 5\r\n", format!("hello{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("a folded value", "Content-Length:\r\n 5\r\n", format!("hello{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("a vertical tab before the value", "Content-Length: \x0b5\r\n", format!("hello{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("white space around the value", "Content-Length: \t 5 \t\r\n", "hello")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        framed("a name with an underscore is another field", "Content_Length: 5\r\n", SMUGGLED)
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .kept(),
    ]
}

fn transfer_encodings() -> Vec<Case> {
    const CHUNKED: &str = "5\r\nhello\r\n0\r\n\r\n";
    let coding = |name, value: &str| {
        framed(name, format!("Transfer-Encoding: {value}\r\n"), format!("{CHUNKED}{SMUGGLED}"))
    };
    vec![
        framed(
            "Content-Length and then Transfer-Encoding",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            format!("{CHUNKED}{SMUGGLED}"),
        )
        .answers(400)
        .closed()
        .split(),
        framed(
            "Transfer-Encoding and then Content-Length",
            "Transfer-Encoding: chunked\r\nContent-Length: 15\r\n",
            format!("{CHUNKED}{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed(
            "Content-Length: 0 and Transfer-Encoding",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            format!("{CHUNKED}{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed(
            "Content-Length and an unknown coding",
            "Content-Length: 5\r\nTransfer-Encoding: cow\r\n",
            format!("hello{SMUGGLED}"),
        )
        .answers(400)
        .or(501)
        .closed(),
        case(
            "Transfer-Encoding with HTTP/1.0",
            format!("GET /alphabet.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKED}{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        case(
            "Transfer-Encoding with HTTP/1.0 and keep-alive",
            format!(
                "GET / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {CHUNKED}{SMUGGLED}"
            ),
        )
        .answers(400)
        .closed(),
        coding("gzip", "gzip").answers(501).closed(),
        coding("deflate, then chunked", "deflate, chunked").answers(501).closed(),
        coding("gzip, then chunked", "gzip, chunked").answers(501).closed().split(),
        coding("identity", "identity").answers(501).closed(),
        coding("identity, then chunked", "identity, chunked").answers(501).closed(),
        coding("unknown", "cow").answers(501).closed(),
        coding("chunked with a letter before it", "xchunked").answers(501).closed(),
        coding("chunked with a letter after it", "chunkedx").answers(501).closed(),
        coding("chunked, then gzip", "chunked, gzip").answers(400).closed(),
        coding("chunked, then identity", "chunked, identity").answers(400).closed(),
        coding("chunked twice", "chunked, chunked").answers(400).closed().split(),
        coding("chunked twice without a space", "chunked,chunked").answers(400).closed(),
        coding("empty", "").answers(400).or(501).closed(),
        coding("only a comma", ",").answers(400).or(501).closed(),
        coding("quoted", "\"chunked\"").answers(400).or(501).closed(),
        coding("chunked with a parameter", "chunked;q=1").answers(400).or(501).closed(),
        coding("two words", "chunked chunked").answers(400).or(501).closed(),
        coding("a vertical tab before the value", "\x0bchunked").answers(400).closed(),
        framed(
            "two fields of chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            format!("{CHUNKED}{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed(
            "a field of chunked and one of identity",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            format!("{CHUNKED}{SMUGGLED}"),
        )
        .answers(400)
        .closed(),
        framed("a space before the colon", "Transfer-Encoding : chunked\r\n", format!("{CHUNKED}{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("a folded value", "Transfer-Encoding:\r\n chunked\r\n", format!("{CHUNKED}{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("a bare LF before it", "X: y\nTransfer-Encoding: chunked\r\n", format!("{CHUNKED}{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("a bare CR before it", "X: y\rTransfer-Encoding: chunked\r\n", format!("{CHUNKED}{SMUGGLED}"))
            .answers(400)
            .closed(),
        framed("chunked in capitals", "Transfer-Encoding: CHUNKED\r\n", CHUNKED)
            .answers(200)
            .body(ALPHABET)
            .kept(),
        framed("white space around chunked", "Transfer-Encoding: \t chunked \t\r\n", CHUNKED)
            .answers(200)
            .body(ALPHABET)
            .kept(),
        framed("a name with an underscore is another field", "Transfer_Encoding: chunked\r\n", SMUGGLED)
            .answers(200)
            .body(ALPHABET)
            .answers(200)
            .kept(),
    ]
}
