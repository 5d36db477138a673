//! Requests of HTTP/2 and HTTP/3 as HTTP/1 would have written them: what handlers read and the log records.

use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use touchstone_handler::request::ReceivedHead;
use touchstone_http::h2::StreamRequest;
use touchstone_http::request::RequestHead;

/// The request's head. `has_ended`: it has no body. An extended CONNECT (RFC 8441) is what it stands for: a
/// request to switch protocols.
pub fn request_text(request: &StreamRequest<'_>, has_ended: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    let method = if request.protocol().is_some() { b"GET" } else { request.method_text() };
    // CONNECT has no path: its target is the authority (RFC 9112 section 3.2.3).
    let target = if request.path().is_empty() { request.authority() } else { request.path() };
    for piece in [method, b" ", target, b" HTTP/1.1\r\nhost: ", request.authority(), b"\r\n"] {
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
    if let Some(protocol) = request.protocol() {
        for piece in [b"connection: upgrade\r\nupgrade: ", protocol, b"\r\n"] {
            text.extend_from_slice(piece);
        }
        if protocol.eq_ignore_ascii_case(b"websocket") {
            // RFC 6455 section 4.1 wants one, and RFC 8441 section 5.1 has none.
            let key: [u64; 2] = std::array::from_fn(|index| RandomState::new().hash_one(index));
            let key = STANDARD.encode(key.map(u64::to_ne_bytes).concat());
            text.extend_from_slice(format!("sec-websocket-key: {key}\r\n").as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        return text;
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
