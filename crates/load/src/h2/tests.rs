//! Tests of the HTTP/2 client with single frames, and with the server connection of the http crate.

use super::*;
use crate::plan::{Plan, PlannedRequest};
use crate::request::PreparedRequest;
use crate::request::prepare;
use crate::target::HttpVersion;
use crate::target::Target;
use proptest::prelude::*;
use touchstone_http::h2::frame::{append_goaway, append_ping, flags};
use touchstone_http::h2::hpack::encode_response_block;
use touchstone_http::h2::{Body, Event, Events, Limits, Responded, ServerConnection};

fn request(change: impl FnOnce(&mut PlannedRequest)) -> PreparedRequest {
    let mut plan = Plan::of_one(Target::plain(([127, 0, 0, 1], 80).into(), "localhost"), "/page");
    plan.version = HttpVersion::Http2;
    change(&mut plan.requests[0]);
    prepare(&plan).expect("it can be written").0.remove(0)
}

/// A connection with active requests on its first slots, and the bytes that it sent.
fn with_requests(slots: usize, under_way: usize) -> (Http2, Vec<u8>) {
    let mut out = Vec::new();
    let mut connection = Http2::new(slots, &mut out);
    (0..under_way).for_each(|slot| connection.start(slot, &request(|_| ()).blocks, false, &mut out));
    (connection, out)
}

/// The result of bytes from the server, received in pieces of this length.
fn received(
    connection: &mut Http2,
    bytes: &[u8],
    piece: usize,
) -> Result<(Vec<StreamEvent>, Vec<u8>), ConnectionBroken> {
    let (mut events, mut out) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        connection.receive(piece, &mut out, &mut events, &mut |_, _: &[u8]| ())?;
    }
    Ok((events, out))
}

fn headers(stream: u32, status: u16, fields: &[(&str, &str)], end_stream: bool, out: &mut Vec<u8>) {
    let mut block = Vec::new();
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    encode_response_block(status, fields, &mut block);
    append_headers(stream, &block, end_stream, 16_384, out);
}

fn data(stream: u32, data: &[u8], end_stream: bool, out: &mut Vec<u8>) {
    append_data_header(stream, data.len(), end_stream, out);
    out.extend_from_slice(data);
}

fn answered(event: StreamEvent) -> (usize, u16, u64) {
    match event {
        StreamEvent::Answered { slot, answer } => (slot, answer.status, answer.body_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_are_counted_in_any_pieces() {
    let mut bytes = Vec::new();
    append_settings(&[], &mut bytes);
    headers(3, 103, &[("link", "</x>")], false, &mut bytes);
    headers(3, 200, &[("content-length", "7")], false, &mut bytes);
    headers(1, 204, &[], true, &mut bytes);
    data(3, b"abc", false, &mut bytes);
    data(3, b"", false, &mut bytes);
    // With padding: one byte for its length and two bytes of padding.
    frame::append_header(7, frame::FrameType::DATA, flags::PADDED, 3, &mut bytes);
    bytes.extend_from_slice(b"\x02defg\0\0");
    headers(3, 200, &[], true, &mut Vec::new());
    let mut trailers = Vec::new();
    touchstone_http::h2::hpack::encode_fields_block([(&b"x-sum"[..], &b"1"[..])], &mut trailers);
    append_headers(3, &trailers, true, 16_384, &mut bytes);
    for piece in [1, 2, 9, 10, 1000] {
        let (mut connection, _) = with_requests(2, 2);
        let (events, out) = received(&mut connection, &bytes, piece).expect("good frames");
        let events: Vec<_> = events.into_iter().map(answered).collect();
        assert_eq!(events, [(0, 204, 0), (1, 200, 7)], "in pieces of {piece}");
        assert_eq!(out, b"\0\0\0\x04\x01\0\0\0\0", "settings are acknowledged");
        assert_eq!(connection.open_streams(), 0);
    }
}

#[test]
fn invalid_answers_end_only_their_own_request() {
    type Write = fn(&mut Vec<u8>);
    let cases: [(Write, StreamEvent); 7] = [
        (|out| data(1, b"x", true, out), StreamEvent::Malformed { slot: 0 }),
        (|out| headers(1, 103, &[], true, out), StreamEvent::Malformed { slot: 0 }),
        (|out| headers(1, 200, &[("content-length", "x")], true, out), StreamEvent::Malformed { slot: 0 }),
        (|out| append_headers(1, b"\x0f\x03\x01a", true, 100, out), StreamEvent::Malformed { slot: 0 }),
        (|out| headers(1, 200, &[("content-length", "3")], true, out), StreamEvent::ShortBody { slot: 0 }),
        (|out| append_reset_stream(1, ErrorCode::CANCEL, out), StreamEvent::Reset { slot: 0 }),
        (|out| append_reset_stream(1, ErrorCode::REFUSED_STREAM, out), StreamEvent::Unprocessed { slot: 0 }),
    ];
    for (number, (write, expected)) in cases.into_iter().enumerate() {
        let (mut connection, _) = with_requests(2, 2);
        let mut bytes = Vec::new();
        write(&mut bytes);
        headers(3, 200, &[], true, &mut bytes);
        let (events, _) = received(&mut connection, &bytes, 1000).unwrap_or_else(|_| panic!("case {number}"));
        assert_eq!(events[0], expected, "case {number}");
        assert_eq!(answered(events[1]), (1, 200, 0), "case {number}");
    }
}

#[test]
fn connection_errors_end_the_connection() {
    type Write = fn(&mut Vec<u8>);
    let cases: [Write; 7] = [
        // Server push, unknown stream, too large frame, invalid compression, interrupted header block, window
        // overflow, HTTP/1.
        |out| frame::append_header(4, frame::FrameType::PUSH_PROMISE, 4, 1, out),
        |out| headers(5, 200, &[], true, out),
        |out| append_data_header(1, 16_385, false, out),
        |out| append_headers(1, b"\xff\xff\xff\xff\xff\xff\xff", true, 100, out),
        |out| {
            frame::append_header(0, frame::FrameType::HEADERS, 0, 1, out);
            data(1, b"", true, out);
        },
        |out| append_window_update(0, 0x7fff_ffff, out),
        |out| out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ];
    for (number, write) in cases.into_iter().enumerate() {
        let (mut connection, _) = with_requests(1, 1);
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.extend_from_slice(&[0; 4]);
        assert!(received(&mut connection, &bytes, 1000).is_err(), "case {number}");
    }
}

#[test]
fn requests_after_goaway_are_unprocessed() {
    let (mut connection, _) = with_requests(3, 2);
    let mut bytes = Vec::new();
    append_goaway(1, ErrorCode::NO_ERROR, b"", &mut bytes);
    append_ping(*b"12345678", false, &mut bytes);
    headers(1, 200, &[], true, &mut bytes);
    let (events, out) = received(&mut connection, &bytes, 5).expect("good frames");
    assert_eq!(events[0], StreamEvent::Unprocessed { slot: 1 });
    assert_eq!(answered(events[1]), (0, 200, 0));
    assert!(out.ends_with(b"12345678"));
    assert!(connection.is_ending() && !connection.can_start());
}

#[test]
fn the_body_of_a_cancelled_request_is_discarded() {
    let (mut connection, mut out) = with_requests(1, 1);
    let mut bytes = Vec::new();
    headers(1, 200, &[], false, &mut bytes);
    append_data_header(1, 10, true, &mut bytes);
    bytes.extend_from_slice(b"12345");
    received(&mut connection, &bytes, 1000).expect("good frames");
    connection.cancel(0, &mut out);
    connection.start(0, &request(|_| ()).blocks, false, &mut out);
    let mut bytes = b"67890".to_vec();
    headers(3, 200, &[], false, &mut bytes);
    data(3, b"ab", true, &mut bytes);
    let (events, _) = received(&mut connection, &bytes, 1000).expect("good frames");
    assert_eq!(events.into_iter().map(answered).collect::<Vec<_>>(), [(0, 200, 2)]);
}

#[test]
fn stream_limit_and_table_size_of_the_server_are_respected() {
    let (mut connection, _) = with_requests(3, 1);
    let mut bytes = Vec::new();
    let settings = [(SettingId::MAX_CONCURRENT_STREAMS, 2), (SettingId::HEADER_TABLE_SIZE, 0)];
    append_settings(&settings, &mut bytes);
    received(&mut connection, &bytes, 1000).expect("good frames");
    assert!(connection.can_start());
    let (request, mut out) = (request(|_| ()), Vec::new());
    connection.start(1, &request.blocks, request.is_head, &mut out);
    assert!(!connection.can_start());
    assert_eq!(out[frame::HEADER_BYTES], NO_TABLE);
    assert_eq!(out[frame::HEADER_BYTES + 1..], request.blocks.without_table);
}

/// The server connection of the http crate. It answers each request with the length of the request's body.
struct EchoServer {
    connection: ServerConnection,
    events: Events,
    input: Vec<u8>,
    out: Vec<u8>,
    /// The stream and the length of the received body.
    bodies: Vec<(touchstone_http::h2::StreamKey, usize)>,
}

impl EchoServer {
    fn new() -> EchoServer {
        EchoServer {
            connection: ServerConnection::new(Limits::default()),
            events: Events::new(),
            input: Vec::new(),
            out: Vec::new(),
            bodies: Vec::new(),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let consumed =
            self.connection.receive(&self.input, &mut self.events).expect("the client keeps the rules");
        let mut ended = Vec::new();
        for event in self.events.iter() {
            match event {
                Event::Request(request) => {
                    assert_eq!((request.path(), request.authority()), (&b"/page"[..], &b"localhost"[..]));
                    self.bodies.push((request.stream(), 0));
                    if request.end_of_stream() {
                        ended.push(request.stream());
                    }
                }
                Event::Data { stream, range, end_of_stream, .. } => {
                    self.connection.release(stream, range.len());
                    let body = self.bodies.iter_mut().find(|(key, _)| *key == stream);
                    body.expect("a request").1 += range.len();
                    if end_of_stream {
                        ended.push(stream);
                    }
                }
                _ => {}
            }
        }
        self.input.drain(..consumed);
        for stream in ended {
            let place = self.bodies.iter().position(|(key, _)| *key == stream).expect("a request");
            let length = self.bodies.swap_remove(place).1.to_string();
            let mut block = Vec::new();
            encode_response_block(200, [(&b"x-got"[..], length.as_bytes())], &mut block);
            let responded =
                self.connection.respond(stream, &block, Body::Bytes(length.as_bytes()), &mut self.out);
            assert!(matches!(responded, Responded::Complete), "{responded:?}");
        }
        self.connection.take_output(&mut self.out);
    }
}

#[test]
fn a_server_accepts_requests_with_and_without_bodies() {
    let mut out = Vec::new();
    let mut connection = Http2::new(4, &mut out);
    let mut server = EchoServer::new();
    let plain = request(|_| ());
    let large = request(|request| {
        request.method = "POST".to_string();
        request.body = Some(vec![b'x'; 300_000].into());
    });
    let mut lengths = Vec::new();
    for round in 0..40 {
        for slot in 0..4 {
            let request = if (round + slot) % 3 == 0 { &large } else { &plain };
            connection.start(slot, &request.blocks, request.is_head, &mut out);
        }
        let mut events = Vec::new();
        while connection.open_streams() > 0 {
            server.receive(&std::mem::take(&mut out));
            let bytes = std::mem::take(&mut server.out);
            assert!(!bytes.is_empty(), "both wait for each other");
            connection
                .receive(&bytes, &mut out, &mut events, &mut |_, part: &[u8]| lengths.push(part.to_vec()))
                .expect("good");
        }
        assert_eq!(events.len(), 4);
    }
    // "300000" and "0".
    let large = lengths.iter().filter(|part| part.len() == 6).count();
    assert_eq!(
        (lengths.len(), large),
        (160, (0..40).map(|r| (0..4).filter(|s| (r + s) % 3 == 0).count()).sum())
    );
}

proptest! {
    #[test]
    fn any_bytes_are_processed_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        piece in 1usize..60,
    ) {
        let (mut connection, _) = with_requests(2, 2);
        let _ = received(&mut connection, &bytes, piece);
    }

    #[test]
    fn any_frames_have_the_same_result_in_any_pieces(
        frames in prop::collection::vec(
            (0u8..12, any::<u8>(), 0u32..6, prop::collection::vec(any::<u8>(), 0..40)), 0..12
        ),
        piece in 1usize..40,
    ) {
        let mut bytes = Vec::new();
        for (frame_type, flags, stream, payload) in frames {
            frame::append_header(payload.len(), frame::FrameType(frame_type), flags, stream, &mut bytes);
            bytes.extend_from_slice(&payload);
        }
        let (mut whole, _) = with_requests(2, 2);
        let (mut cut, _) = with_requests(2, 2);
        prop_assert_eq!(received(&mut whole, &bytes, bytes.len().max(1)), received(&mut cut, &bytes, piece));
    }
}
