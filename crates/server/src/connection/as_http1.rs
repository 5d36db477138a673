//! Requests of HTTP/2 and HTTP/3 as HTTP/1 would have written them: what handlers read and the log records.

use bytes::Bytes;
use touchstone_http::h2::RequestView;
use touchstone_http::request::RequestHead;
use touchstone_interfaces::request::ReceivedHead;

/// The request's head. `has_ended`: it has no body.
pub fn request_text(request: &RequestView<'_>, has_ended: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    for piece in
        [request.method_text(), b" ", request.path(), b" HTTP/1.1\r\nhost: ", request.authority(), b"\r\n"]
    {
        text.extend_from_slice(piece);
    }
    for field in request.fields() {
        // The connection has dealt with these.
        if matches!(field.name, b"content-length" | b"expect") {
            continue;
        }
        for piece in [field.name, b": ", field.value, b"\r\n"] {
            text.extend_from_slice(piece);
        }
    }
    match request.content_length() {
        _ if has_ended => {}
        Some(length) => text.extend_from_slice(format!("content-length: {length}\r\n").as_bytes()),
        None => text.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// For requests of which nothing is known.
pub fn nothing_received() -> ReceivedHead {
    ReceivedHead { head: RequestHead::new(), buffer: Bytes::new() }
}
