//! Field lines, `Host`, and the limits on both (RFC 9112 section 5, RFC 9110 sections 5 and 7.2).

use crate::protocol::case::{Case, case, check, get};
use crate::support::ALPHABET;

#[test]
fn field_lines() {
    check(lines());
}

#[test]
fn host() {
    check(hosts());
}

#[test]
fn limits() {
    check(limits_table());
}

/// A request with these bytes as the field lines after `Host`, their CRLF included.
fn fields(name: &'static str, lines: impl AsRef<[u8]>) -> Case {
    let start = b"GET /alphabet.txt HTTP/1.1\r\nHost: example.com\r\n";
    case(name, [start, lines.as_ref(), b"\r\n"].concat())
}

fn lines() -> Vec<Case> {
    vec![
        fields("no space after the colon", "X:y\r\n").answers(200).body(ALPHABET).kept().split(),
        fields("white space around the value", "X: \t y \t \r\n").answers(200).body(ALPHABET).kept().split(),
        fields("an empty value", "X:\r\n").answers(200).body(ALPHABET).kept().split(),
        fields("only white space for a value", "X: \t \r\n").answers(200).body(ALPHABET).kept(),
        fields("a colon in the value", "X: a:b:c\r\n").answers(200).body(ALPHABET).kept(),
        fields("a value that begins with a colon", "X::\r\n").answers(200).body(ALPHABET).kept(),
        fields("a tab inside the value", "X: a\tb\r\n").answers(200).body(ALPHABET).kept(),
        fields("high bytes in the value", b"X: \x80\xc3\xbc\xff\r\n").answers(200).body(ALPHABET).kept(),
        fields("every byte that a name may have", "!#$%&'*+-.^_`|~09AZaz: y\r\n")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        fields("a field name twice", "X: a\r\nX: b\r\n").answers(200).body(ALPHABET).kept(),
        case("names in any case", "GET /alphabet.txt HTTP/1.1\r\nhOsT: a\r\ncOnNeCtIoN: cLoSe\r\n\r\n")
            .answers(200)
            .body(ALPHABET)
            .closed(),
        fields("no colon", "garbage\r\n").answers(400).closed().split(),
        fields("an empty name", ": y\r\n").answers(400).closed().split(),
        fields("only a colon", ":\r\n").answers(400).closed(),
        fields("a space before the colon", "X : y\r\n").answers(400).closed().split(),
        fields("a tab before the colon", "X\t: y\r\n").answers(400).closed(),
        fields("a space in the name", "X Y: z\r\n").answers(400).closed(),
        fields("an at sign in the name", "X@Y: z\r\n").answers(400).closed(),
        fields("brackets in the name", "(X): z\r\n").answers(400).closed(),
        fields("a quotation mark in the name", "\"X\": z\r\n").answers(400).closed(),
        fields("a slash in the name", "X/Y: z\r\n").answers(400).closed(),
        fields("a NUL in the name", b"X\0Y: z\r\n").answers(400).closed(),
        fields("a high byte in the name", b"X\xe9: z\r\n").answers(400).closed(),
        fields("DEL in the name", b"X\x7f: z\r\n").answers(400).closed(),
        fields("a folded line", "X: a\r\n b\r\n").answers(400).closed().split(),
        fields("a line folded with a tab", "X: a\r\n\tb\r\n").answers(400).closed(),
        fields("a folded line that is empty", "X: a\r\n \r\n").answers(400).closed(),
        fields("a folded Host", " more\r\n").answers(400).closed(),
        case("a space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n")
            .answers(400)
            .closed()
            .split(),
        case("a tab before the first field", "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n").answers(400).closed(),
        case("a space alone before the first field", "GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n")
            .answers(400)
            .closed(),
        fields("a NUL in the value", b"X: a\0b\r\n").answers(400).closed().split(),
        fields("a control byte in the value", b"X: a\x01b\r\n").answers(400).closed(),
        fields("an escape in the value", b"X: \x1b[31m\r\n").answers(400).closed(),
        fields("a vertical tab in the value", b"X: a\x0bb\r\n").answers(400).closed(),
        fields("DEL in the value", b"X: a\x7fb\r\n").answers(400).closed(),
        fields("a bare CR in the value", "X: a\rb\r\n").answers(400).closed().split(),
        fields("a bare CR at the end of the value", "X: a\r\r\n").answers(400).closed(),
        fields("a bare LF after a field", "X: a\nY: b\r\n").answers(400).closed().split(),
        fields("a bare LF that would hide a field", "X: a\nConnection: close\r\n").answers(400).closed(),
        case("a bare LF for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n").answers(400).closed().split(),
        case("a bare CR for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\rX").answers(400).closed(),
    ]
}

fn hosts() -> Vec<Case> {
    let with = |name, lines: &str| case(name, format!("GET /alphabet.txt HTTP/1.1\r\n{lines}\r\n"));
    vec![
        with("no Host", "").answers(400).closed().split(),
        with("no Host among other fields", "Accept: */*\r\n").answers(400).closed(),
        with("two Hosts", "Host: a\r\nHost: b\r\n").answers(400).closed().split(),
        with("two equal Hosts", "Host: a\r\nHost: a\r\n").answers(400).closed(),
        with("a Host with a port", "Host: example.com:8080\r\n").answers(200).body(ALPHABET).kept(),
        with("a Host in capitals", "Host: EXAMPLE.COM\r\n").answers(200).body(ALPHABET).kept(),
        with("a Host with a final dot", "Host: example.com.\r\n").answers(200).body(ALPHABET).kept(),
        with("an IPv4 address", "Host: 127.0.0.1:80\r\n").answers(200).body(ALPHABET).kept(),
        with("an IPv6 address", "Host: [::1]:8080\r\n").answers(200).body(ALPHABET).kept(),
        with("a Host with a space", "Host: a b\r\n").answers(400).closed(),
        with("a Host with a slash", "Host: a/b\r\n").answers(400).closed(),
        with("a Host with a path", "Host: example.com/index.html\r\n").answers(400).closed(),
        with("a Host with a user", "Host: user@example.com\r\n").answers(400).closed(),
        with("a Host with a question mark", "Host: a?b\r\n").answers(400).closed(),
        with("a Host with a number sign", "Host: a#b\r\n").answers(400).closed(),
        with("a Host with a backslash", "Host: a\\b\r\n").answers(400).closed(),
        with("a Host with angle brackets", "Host: <a>\r\n").answers(400).closed(),
        with("a Host with an open bracket", "Host: [::1\r\n").answers(400).closed(),
        with("a Host with a port that is not a number", "Host: example.com:http\r\n").answers(400).closed(),
        with("a Host with two ports", "Host: example.com:80:80\r\n").answers(400).closed(),
        with("a Host with a scheme", "Host: http://example.com\r\n").answers(400).closed(),
        case("HTTP/1.0 without Host", "GET /alphabet.txt HTTP/1.0\r\n\r\n")
            .answers(200)
            .body(ALPHABET)
            .closed()
            .split(),
        case("HTTP/1.0 with two Hosts", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").answers(400).closed(),
        case("HTTP/1.0 with an invalid Host", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n").answers(400).closed(),
    ]
}

fn limits_table() -> Vec<Case> {
    let count = |fields: usize| (0..fields).map(|number| format!("X-{number}: y\r\n")).collect::<String>();
    let one_field_of = |bytes: usize| format!("X: {}\r\n", "v".repeat(bytes));
    let many_fields_of = |bytes: usize| {
        (0..bytes / 1000).map(|number| format!("X-{number:02}: {}\r\n", "v".repeat(992))).collect::<String>()
    };
    vec![
        // Host is one of them.
        fields("a hundred fields", count(99)).answers(200).body(ALPHABET).kept(),
        fields("a hundred and one fields", count(100)).answers(431).closed(),
        fields("a thousand fields", count(1000)).answers(431).closed(),
        fields("a header section of almost 32 KiB", one_field_of(32_000)).answers(200).body(ALPHABET).kept(),
        fields("a field of more than 32 KiB", one_field_of(33_000)).answers(431).closed(),
        fields("a header section of almost 32 KiB in many fields", many_fields_of(32_000))
            .answers(200)
            .body(ALPHABET)
            .kept(),
        fields("a header section of more than 32 KiB in many fields", many_fields_of(34_000))
            .answers(431)
            .closed(),
        fields("a field name of more than 32 KiB", format!("{}: y\r\n", "x".repeat(33_000)))
            .answers(431)
            .closed(),
        case(
            "a header section that never ends",
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(70_000)),
        )
        .answers(431)
        .closed(),
        fields("a megabyte of header section", one_field_of(1 << 20)).answers(431).closed(),
        case("a long request line and a long header section", {
            let line = format!("GET /alphabet.txt?{} HTTP/1.1\r\nHost: a\r\n", "q".repeat(8000));
            format!("{line}{}\r\n", one_field_of(32_000))
        })
        .answers(200)
        .body(ALPHABET)
        .kept(),
        case("another request after a long header section", get("/alphabet.txt", &one_field_of(20_000)))
            .answers(200)
            .then_sends(get("/alphabet.txt", &one_field_of(20_000)))
            .answers(200)
            .body(ALPHABET)
            .kept(),
    ]
}
