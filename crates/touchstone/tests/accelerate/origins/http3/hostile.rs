//! What an origin of HTTP/3 may not send, by name: each is refused, with a reason in the log.

use touchstone_http::h3::frame::FrameType;

use super::origin::{framed, head, section};

/// A name, what the log says, and the bytes: on the stream of the request, or on the control stream.
type Case = (&'static str, &'static str, fn() -> Vec<u8>, bool);

/// A field section as it is written, without the encoder's care.
fn literal(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    for (name, value) in fields {
        let short = u8::try_from(name.len()).unwrap();
        match short {
            0..7 => block.push(0x20 | short),
            _ => block.extend([0x27, short - 7]),
        }
        block.extend_from_slice(name.as_bytes());
        block.push(u8::try_from(value.len()).unwrap());
        block.extend_from_slice(value.as_bytes());
    }
    framed(FrameType::HEADERS, &block)
}

fn data() -> Vec<u8> {
    framed(FrameType::DATA, b"data")
}

pub(super) const CASES: &[Case] = &[
    ("nothing", "a stream that ends without a response", Vec::new, false),
    ("data-first", "DATA before a header section", data, false),
    ("cut", "a stream that ends within a frame", || head(200, &[])[..3].to_vec(), false),
    ("settings", "may not be on a request stream", || framed(FrameType::SETTINGS, b""), false),
    ("http2", "may not be on a request stream", || framed(FrameType(0x9), b""), false),
    ("push", "a push that was not allowed", || framed(FrameType::PUSH_PROMISE, b"\0"), false),
    ("dynamic", "the dynamic table", || framed(FrameType::HEADERS, b"\x02\0"), false),
    ("huffman", "Huffman", || framed(FrameType::HEADERS, b"\0\0\x23abc\x81\xff"), false),
    ("no-status", "does not begin with :status", || literal(&[("a", "b")]), false),
    ("late-status", "does not begin with :status", || literal(&[("a", "b"), (":status", "200")]), false),
    ("two-statuses", "a pseudo-header field", || literal(&[(":status", "200"), (":status", "200")]), false),
    ("path", "a pseudo-header field", || literal(&[(":status", "200"), (":path", "/")]), false),
    ("wrong-status", "does not begin with :status", || literal(&[(":status", "2x0")]), false),
    ("switching", "101", || literal(&[(":status", "101")]), false),
    ("upper-case", "bytes that it may not hold", || literal(&[(":status", "200"), ("A", "b")]), false),
    ("line-end", "bytes that it may not hold", || literal(&[(":status", "200"), ("a", "b\r\nc: d")]), false),
    (
        "connection",
        "belongs to a single HTTP/1 connection",
        || literal(&[(":status", "200"), ("connection", "close")]),
        false,
    ),
    (
        "length",
        "a Content-Length that is not a number",
        || literal(&[(":status", "200"), ("content-length", "-1")]),
        false,
    ),
    (
        "two-lengths",
        "several Content-Length",
        || literal(&[(":status", "200"), ("content-length", "0"), ("content-length", "0")]),
        false,
    ),
    (
        "too-long",
        "longer than its Content-Length",
        || [head(200, &[("content-length", "3")]), data()].concat(),
        false,
    ),
    (
        "too-short",
        "shorter than its Content-Length",
        || [head(200, &[("content-length", "9")]), data()].concat(),
        false,
    ),
    ("too-many", "larger than the limits", || head(200, &[("a", "b"); 300]), false),
    ("too-large", "larger than the limits", || head(200, &[("a", &"x".repeat(70_000))]), false),
    (
        "pseudo-trailers",
        "a pseudo-header field in trailers",
        || [head(200, &[("content-length", "0")]), section(&[(":status", "200")])].concat(),
        false,
    ),
    ("settings-twice", "SETTINGS a second time", || framed(FrameType::SETTINGS, b""), true),
    ("control-data", "may not be on a control stream", data, true),
    ("max-push-id", "may not be on a control stream", || framed(FrameType::MAX_PUSH_ID, b"\x01"), true),
    ("goaway-of-a-push", "GOAWAY with no request stream", || framed(FrameType::GOAWAY, b"\x03"), true),
    ("goaway-length", "is not one identifier", || framed(FrameType::GOAWAY, b"\0\0"), true),
];

/// The bytes of a case, and whether they go to the control stream.
pub(super) fn bytes(name: &str) -> (Vec<u8>, bool) {
    let (_, _, bytes, on_control) = CASES.iter().find(|(known, ..)| *known == name).unwrap();
    (bytes(), *on_control)
}
