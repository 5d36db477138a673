//! Measures how long the HTTP/2 engine takes for a request: batches of 100 requests for a small cached
//! response go through it, without socket or TLS.
//!
//! ```text
//! cargo run --release -p touchstone-http --example h2_batches [BODY_BYTES [BATCHES]]
//! ```
//!
//! Under `valgrind --tool=callgrind --toggle-collect='*serve*'`, 2,000 batches are enough to measure the
//! instructions for each request.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::time::Instant;

use touchstone_http::h2::hpack::{Encoder, encode_response_block};
use touchstone_http::h2::{Body, Event, Events, Limits, Responded, ServerConnection, frame};

const STREAMS: u32 = 100;

/// The request that h2load sends: all names and values except the path are in the dynamic table.
fn append_request(encoder: &mut Encoder, stream: u32, out: &mut Vec<u8>) {
    let fields: [(&[u8], &[u8]); 5] = [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"127.0.0.1:8443"),
        (b":path", b"/64.html"),
        (b"user-agent", b"h2load nghttp2/1.52.0"),
    ];
    let mut block = Vec::new();
    encoder.encode_fields(fields, &mut block);
    frame::append_headers(stream, &block, true, 16_384, out);
}

/// Processes received bytes as a server does; returns how many were consumed.
#[inline(never)]
fn serve(
    connection: &mut ServerConnection,
    input: &[u8],
    events: &mut Events,
    block: &[u8],
    body: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    let consumed = connection.receive(input, events).expect("the requests are good");
    for event in events.iter() {
        if let Event::Request(request) = event {
            assert_eq!(request.path(), b"/64.html");
            let responded = connection.respond(request.stream(), block, Body::Bytes(body), out);
            assert_eq!(responded, Responded::Complete);
        }
    }
    connection.take_output(out);
    consumed
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let body_bytes: usize = arguments.next().unwrap_or(64);
    let batches: u32 = arguments.next().unwrap_or(20_000) as u32;
    let body = vec![b'x'; body_bytes];
    let length = body_bytes.to_string();
    let mut block = Vec::new();
    encode_response_block(
        200,
        [
            (&b"server"[..], &b"touchstone"[..]),
            (b"date", b"Fri, 20 Nov 2026 12:00:00 GMT"),
            (b"content-type", b"text/html; charset=utf-8"),
            (b"etag", b"\"18f0c2a4b6d8e0f2-40\""),
            (b"last-modified", b"Fri, 20 Nov 2026 11:00:00 GMT"),
            (b"accept-ranges", b"bytes"),
            (b"content-length", length.as_bytes()),
        ],
        &mut block,
    );

    let mut connection = ServerConnection::new(Limits { output_bytes: usize::MAX, ..Limits::default() });
    let mut events = Events::new();
    let mut input = frame::PREFACE.to_vec();
    frame::append_settings(&[], &mut input);
    frame::append_settings_acknowledgement(&mut input);
    frame::append_window_update(0, (1 << 31) - 1 - 65_535, &mut input);
    let mut out = Vec::new();
    let mut client = Encoder::new(4096);
    let mut next_stream = 1;

    let mut elapsed_ns = 0;
    let mut bytes_out = 0;
    for batch in 0..batches {
        for _ in 0..STREAMS {
            append_request(&mut client, next_stream, &mut input);
            next_stream += 2;
        }
        let start = Instant::now();
        let consumed = serve(&mut connection, &input, &mut events, &block, &body, &mut out);
        if batch > 0 {
            elapsed_ns += start.elapsed().as_nanos();
        }
        assert_eq!(consumed, input.len());
        bytes_out = out.len();
        input.clear();
        out.clear();
        frame::append_window_update(0, STREAMS * body_bytes as u32, &mut input);
    }
    let requests = u128::from(batches - 1) * u128::from(STREAMS);
    println!(
        "{} ns per request ({requests} requests in batches of {STREAMS}, body of {body_bytes} bytes, \
         {} bytes out for each)",
        elapsed_ns as f64 / requests as f64,
        bytes_out / STREAMS as usize,
    );
}
