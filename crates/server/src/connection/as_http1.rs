//! Requests of HTTP/2 and HTTP/3 as HTTP/1 would have written them: what handlers read and the log records.

use std::time::Instant;

use touchstone_http::h2::RequestView;
use touchstone_http::request::RequestHead;
use touchstone_interfaces::request::{Protocol, ReceivedHead};

use super::record;
use crate::core::Hot;
use crate::log::access::Record;

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
    ReceivedHead { head: RequestHead::new(), buffer: Vec::new() }
}

/// Records an answer.
#[allow(clippy::too_many_arguments)]
pub fn log(
    hot: &mut Hot,
    protocol: Protocol,
    client: &str,
    user: Option<&str>,
    received: &ReceivedHead,
    status: u16,
    body_bytes: u64,
    duration_us: u64,
) {
    let ReceivedHead { head, buffer } = received;
    let line = head.request_line.of(buffer);
    let line = match line.strip_suffix(b"HTTP/1.1") {
        Some(start) => [start, protocol.text().as_bytes()].concat(),
        None => line.to_vec(),
    };
    let record = record(client, head, buffer, status, body_bytes, duration_us);
    hot.log.record(&Record { request_line: &line, version: protocol.text(), user, ..record });
}

/// The time since then.
#[inline]
pub fn microseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}
