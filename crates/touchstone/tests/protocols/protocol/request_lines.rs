//! The request line (RFC 9112 sections 2.2 and 3).

use crate::protocol::case::{Case, case, check};
use crate::support::ALPHABET;

#[test]
fn request_lines() {
    check(table());
}

fn line(name: &'static str, line: impl AsRef<[u8]>) -> Case {
    case(name, [line.as_ref(), b"\r\nHost: example.com\r\n\r\n"].concat())
}

/// A request line of exactly this many bytes without its CRLF.
fn line_of(bytes: usize) -> String {
    let (start, end) = ("GET /alphabet.txt?", " HTTP/1.1");
    format!("{start}{}{end}", "q".repeat(bytes - start.len() - end.len()))
}

fn table() -> Vec<Case> {
    vec![
        line("a plain request", "GET /alphabet.txt HTTP/1.1").answers(200).body(ALPHABET).kept().split(),
        case("an empty line before the request", "\r\nGET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n")
            .answers(200)
            .body(ALPHABET)
            .kept()
            .split(),
        case(
            "several empty lines before the request",
            "\r\n\r\n\r\nGET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        )
        .answers(200)
        .body(ALPHABET)
        .kept()
        .split(),
        case("a bare LF before the request", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .answers(400)
            .closed()
            .split(),
        case("a bare CR before the request", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .answers(400)
            .closed()
            .split(),
        line("a space before the method", " GET / HTTP/1.1").answers(400).closed().split(),
        line("a tab before the method", "\tGET / HTTP/1.1").answers(400).closed(),
        line("two spaces after the method", "GET  / HTTP/1.1").answers(400).closed().split(),
        line("two spaces before the version", "GET /  HTTP/1.1").answers(400).closed().split(),
        line("a space after the version", "GET / HTTP/1.1 ").answers(400).closed().split(),
        line("a tab after the method", "GET\t/ HTTP/1.1").answers(400).closed(),
        line("a tab before the version", "GET /\tHTTP/1.1").answers(400).closed(),
        line("a form feed after the method", "GET\x0c/ HTTP/1.1").answers(400).closed(),
        line("a vertical tab after the method", "GET\x0b/ HTTP/1.1").answers(400).closed(),
        line("a space in the target", "GET /a b.txt HTTP/1.1").answers(400).closed(),
        line("a fourth word", "GET / HTTP/1.1 HTTP/1.1").answers(400).closed(),
        line("no target", "GET HTTP/1.1").answers(400).closed(),
        line("an empty target", "GET  HTTP/1.1").answers(400).closed(),
        line("no method", "/ HTTP/1.1").answers(400).closed(),
        line("only a method", "GET").answers(400).closed(),
        line("HTTP/0.9 with a header section", "GET /alphabet.txt").answers(400).closed().split(),
        case("HTTP/0.9", "GET /alphabet.txt\r\n").answers(400).closed(),
        case("a bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n")
            .answers(400)
            .closed()
            .split(),
        case("bare LFs throughout", "GET / HTTP/1.1\nHost: a\n\n").answers(400).closed().split(),
        case("a bare CR after the request line", "GET / HTTP/1.1\rHost: a\r\n\r\n")
            .answers(400)
            .closed()
            .split(),
        line("a bare CR in the target", "GET /a\rb HTTP/1.1").answers(400).closed(),
        line("two CRs at the end of the line", "GET / HTTP/1.1\r").answers(400).closed(),
        line("a NUL in the target", b"GET /a\0b HTTP/1.1").answers(400).closed(),
        line("a control byte in the target", b"GET /a\x01b HTTP/1.1").answers(400).closed(),
        line("DEL in the target", b"GET /a\x7fb HTTP/1.1").answers(400).closed(),
        line("a NUL in the method", b"G\0T / HTTP/1.1").answers(400).closed(),
        line("a NUL in the version", b"GET / HTTP/1.\0").answers(400).closed(),
        line("an at sign in the method", "G@T / HTTP/1.1").answers(400).closed(),
        line("a colon in the method", "GET: / HTTP/1.1").answers(400).closed(),
        line("a high byte in the method", b"G\xc3\x89T / HTTP/1.1").answers(400).closed(),
        line("HTTP/1.2 is treated as HTTP/1.1", "GET /alphabet.txt HTTP/1.2")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        line("HTTP/1.9 is treated as HTTP/1.1", "GET /alphabet.txt HTTP/1.9")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        line("HTTP/2.0", "GET / HTTP/2.0").answers(505).closed().split(),
        line("HTTP/3.0", "GET / HTTP/3.0").answers(505).closed(),
        line("HTTP/0.9 by number", "GET / HTTP/0.9").answers(505).closed(),
        line("HTTP/9.9", "GET / HTTP/9.9").answers(505).closed(),
        line("a version in small letters", "GET / http/1.1").answers(400).closed(),
        line("a version of another name", "GET / HTTQ/1.1").answers(400).closed(),
        line("a version without a minor number", "GET / HTTP/1").answers(400).closed(),
        line("a version without a minor digit", "GET / HTTP/1.").answers(400).closed(),
        line("a version without a major digit", "GET / HTTP/.1").answers(400).closed(),
        line("a version with a comma", "GET / HTTP/1,1").answers(400).closed(),
        line("a version with two minor digits", "GET / HTTP/1.10").answers(400).closed(),
        line("a version with two major digits", "GET / HTTP/11.1").answers(400).closed(),
        line("a version with a leading zero", "GET / HTTP/01.1").answers(400).closed(),
        line("a version with a letter after it", "GET / HTTP/1.1x").answers(400).closed(),
        line("a version with a sign", "GET / HTTP/+1.1").answers(400).closed(),
        line("a version without its name", "GET / 1.1").answers(400).closed(),
        line("a request line of the longest length", line_of(8190)).answers(200).body(ALPHABET).kept(),
        line("a request line just too long", line_of(8193)).answers(414).closed(),
        line("a request line of 60,000 bytes", line_of(60_000)).answers(414).closed(),
        case("a request line that never ends", format!("GET /{}", "a".repeat(9000))).answers(414).closed(),
        case("a TLS handshake", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03 and so on\r\n\r\n")
            .answers(400)
            .closed(),
        line("not HTTP at all", "EHLO mail.example.com").answers(400).closed(),
    ]
}
