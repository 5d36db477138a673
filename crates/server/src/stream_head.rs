//! Heads of HTTP/2 and HTTP/3 requests in the form that handlers and logs read, and answers in the form of
//! these versions.

use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use touchstone_handler::answer::Answer;
use touchstone_handler::request::ReceivedHead;
use touchstone_http::grammar::split_fields;
use touchstone_http::h2::StreamRequest;
use touchstone_http::request::{HeadBuilder, Limits, RequestHead};

/// Begins the head of a request. `has_ended`: it has no body. An extended CONNECT (RFC 8441, RFC 9220)
/// becomes a request to switch protocols.
pub fn head_of(request: &StreamRequest<'_>, has_ended: bool, limits: Limits) -> HeadBuilder {
    let method = if request.protocol().is_some() { b"GET" } else { request.method_text() };
    // CONNECT has no path: its target is the authority (RFC 9112 section 3.2.3).
    let target = if request.path().is_empty() { request.authority() } else { request.path() };
    let mut head = HeadBuilder::new(method, target, limits);
    head.field(b"host", request.authority());
    for field in request.fields() {
        // The connection has already processed these fields.
        if !matches!(field.name, b"content-length" | b"expect") {
            head.field(field.name, field.value);
        }
    }
    if let Some(protocol) = request.protocol() {
        head.field(b"connection", b"upgrade");
        head.field(b"upgrade", protocol);
        if protocol.eq_ignore_ascii_case(b"websocket") {
            // RFC 6455 section 4.1 requires a key, but RFC 8441 section 5.1 has none.
            let key: [u64; 2] = std::array::from_fn(|index| RandomState::new().hash_one(index));
            head.field(b"sec-websocket-key", STANDARD.encode(key.map(u64::to_ne_bytes).concat()).as_bytes());
        }
    } else if !has_ended {
        match request.content_length() {
            Some(length) => head.field(b"content-length", length.to_string().as_bytes()),
            None => head.field(b"transfer-encoding", b"chunked"),
        }
    }
    head
}

/// An empty head, for requests whose head was not received.
pub fn empty_received_head() -> ReceivedHead {
    ReceivedHead { head: RequestHead::new(), buffer: Bytes::new() }
}

/// The fields of an answer: the server's own, those of the answer, and the length of its body.
pub fn answer_fields<'a>(
    answer: &'a Answer,
    now: &'a [u8; 29],
    length: Option<&'a str>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let own: [(&[u8], &[u8]); 2] =
        [(b"server", b"touchstone"), (b"date", answer.date.as_ref().unwrap_or(now))];
    let length = length.map(|length| (&b"content-length"[..], length.as_bytes()));
    own.into_iter().chain(split_fields(&answer.fields)).chain(length)
}

/// Converts an answer to the form of HTTP/2 and HTTP/3: there is no switch of protocols (RFC 9113 section
/// 8.6, RFC 9114 section 4.5), but there are tunnels, which begin with 200 (RFC 8441 section 5, RFC 9220
/// section 3).
pub fn without_switch(answer: &mut Answer, is_tunnel: bool) {
    const NAMES: [&[u8]; 3] = [b"connection", b"upgrade", b"sec-websocket-accept"];
    match (answer.switches_protocols(), is_tunnel) {
        (true, true) => {
            let is_of_switch = |line: &[u8]| {
                let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
                NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
            };
            let lines = answer.fields.split_inclusive(|&byte| byte == b'\n');
            answer.fields = lines.filter(|line| !is_of_switch(line)).flatten().copied().collect();
            answer.status = 200;
        }
        (true, false) => *answer = Answer::error(502),
        // The answer must not be regarded as an open tunnel.
        (false, true) if (200..300).contains(&answer.status) => *answer = Answer::error(501),
        (false, _) => {}
    }
}
