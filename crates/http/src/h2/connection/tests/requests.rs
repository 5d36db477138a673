//! Requests: how they become events, and how they are refused (RFC 9113 section 8).

use super::*;
use crate::h2::Priority;
use crate::h2::hpack::KnownName;
use crate::request::{Expectation, KnownField, Method};

/// Looks at the only request among the events.
fn look<R>(harness: &Harness, look: impl FnOnce(crate::h2::Request<'_>) -> R) -> R {
    let mut requests = harness.events.iter().filter_map(|event| match event {
        Event::Request(request) => Some(request),
        _ => None,
    });
    let request = requests.next().unwrap();
    assert!(requests.next().is_none());
    look(request)
}

#[test]
fn everything_about_a_request() {
    let mut harness = Harness::new();
    let fields = with(
        &[(":method", "POST"), (":path", "/a?b"), (":scheme", "https"), (":authority", "h:1")],
        &[
            ("range", "bytes=0-1"),
            ("x-a", "1"),
            ("x-a", "2"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("priority", "u=0, i"),
        ],
    );
    harness.receive(Input::new().headers(1, &fields, false));
    look(&harness, |request| {
        assert_eq!((request.stream().id(), request.end_of_stream()), (1, false));
        assert_eq!((request.method(), request.method_text()), (Method::Post, &b"POST"[..]));
        assert_eq!((request.scheme(), request.authority()), (&b"https"[..], &b"h:1"[..]));
        assert_eq!((request.path(), request.protocol()), (&b"/a?b"[..], None));
        assert_eq!(request.content_length(), Some(5));
        assert_eq!(request.expectation(), Expectation::Continue);
        assert!(request.has_conditions_or_range() && !request.is_header_section_too_large());
        assert_eq!(request.priority(), Some(Priority { urgency: 0, incremental: true }));
        assert_eq!(request.fields().len(), 6);
        let own: Vec<&[u8]> =
            request.fields().filter(|field| field.name == b"x-a").map(|field| field.value).collect();
        assert_eq!(own, [b"1", b"2"]);
        assert_eq!(request.values(KnownName::Range).collect::<Vec<_>>(), [b"bytes=0-1"]);
        assert_eq!(request.values_of(KnownField::ContentLength).collect::<Vec<_>>(), [b"5"]);
        assert_eq!(request.values_of(KnownField::Other).count(), 0);
        assert_eq!(request.values(KnownName::Cookie).count(), 0);
    });
}

#[test]
fn requests_share_the_tables_of_the_connection() {
    let mut harness = Harness::new();
    let mut encoder = Encoder::new(4096);
    let mut input = Input::new();
    for stream in [1, 3] {
        let mut block = Vec::new();
        let fields: Vec<(&[u8], &[u8])> = GET
            .iter()
            .chain(&[("user-agent", "x")])
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        encoder.encode_fields(fields, &mut block);
        input = input.frame(FrameType::HEADERS, 5, stream, &block);
    }
    let fields = vec![("user-agent".to_string(), "x".to_string())];
    let expected = [1, 3].map(|stream| Seen::Request { stream, fields: fields.clone(), end: true });
    assert_eq!(harness.receive(input), expected);
}

/// A refused request leaves nothing in the events.
#[test]
fn refused_requests_take_no_room() {
    let mut harness = Harness::new();
    let malformed = with(GET, &[("x-long", "0123456789"), ("connection", "close")]);
    let mut sizes = Vec::new();
    let mut next_stream = 1;
    for number in [1, 50] {
        let mut input = Input::new();
        for _ in 0..number {
            input = input.headers(next_stream, &malformed, true);
            next_stream += 2;
        }
        assert_eq!(harness.receive(input).len(), number);
        sizes.push((harness.events.list.len(), harness.events.list.text_end()));
    }
    assert_eq!(sizes[0], sizes[1]);
    assert_eq!(sizes[0].0, 0);
}

/// A refused request still changes the table that the next one refers to.
#[test]
fn refused_requests_are_decoded() {
    let mut harness = Harness::with_limits(Limits { concurrent_streams: 1, ..Limits::default() });
    let mut with_insertion = block(GET);
    with_insertion.extend_from_slice(b"\x40\x03new\x05field");
    let mut referring = block(GET);
    referring.push(0xbe);
    let input = Input::new().get(1).frame(FrameType::HEADERS, 5, 3, &with_insertion);
    let refused = Seen::Refused { stream: 3, code: ErrorCode::REFUSED_STREAM };
    assert_eq!(harness.receive(input), [request(1, true), refused]);
    assert_eq!(harness.sent(), [Sent::Reset(3, ErrorCode::REFUSED_STREAM)]);
    harness.respond(1, Body::Empty);
    let expected = Seen::Request { stream: 5, fields: vec![("new".into(), "field".into())], end: true };
    assert_eq!(harness.receive(Input::new().frame(FrameType::HEADERS, 5, 5, &referring)), [expected]);
}

#[test]
fn blocks_come_in_any_number_of_frames() {
    let bytes = block(&with(GET, &[("a", "b")]));
    let expected = Seen::Request { stream: 1, fields: vec![("a".into(), "b".into())], end: true };
    for cut in 0..=bytes.len() {
        for second_cut in cut..=bytes.len() {
            let input = Input::new()
                .frame(FrameType::HEADERS, frame::flags::END_STREAM, 1, &bytes[..cut])
                .frame(FrameType::CONTINUATION, 0, 1, &bytes[cut..second_cut])
                .frame(FrameType::CONTINUATION, frame::flags::END_HEADERS, 1, &bytes[second_cut..]);
            assert_eq!(Harness::new().receive(input), std::slice::from_ref(&expected));
        }
    }
    let mut harness = Harness::new();
    harness.receive(Input::new().frame(FrameType::HEADERS, 1, 1, &bytes[..5]));
    assert!(harness.connection.is_within_header_block());
    harness.receive(Input::new().frame(FrameType::CONTINUATION, 4, 1, &bytes[5..]));
    assert!(!harness.connection.is_within_header_block());
}

#[test]
fn padding_and_priority_fields_are_no_part_of_the_block() {
    let payload = [&[2, 0, 0, 0, 0, 16][..], &block(GET), &[0, 0]].concat();
    let input = Input::new().frame(FrameType::HEADERS, 0x2d, 1, &payload);
    assert_eq!(Harness::new().receive(input), [request(1, true)]);
}

#[test]
fn no_more_streams_than_allowed() {
    let mut harness = Harness::with_limits(Limits { concurrent_streams: 2, ..Limits::default() });
    let refused = |stream| Seen::Refused { stream, code: ErrorCode::REFUSED_STREAM };
    let seen = harness.receive(Input::new().get(1).get(3).get(5).get(7));
    assert_eq!(seen, [request(1, true), request(3, true), refused(5), refused(7)]);
    harness.respond(1, Body::Empty);
    assert_eq!(harness.receive(Input::new().get(9).get(11)), [request(9, true), refused(11)]);
    assert_eq!(harness.connection.open_streams(), 2);
}

#[test]
fn a_header_section_that_is_too_large_can_be_answered() {
    let limits = Limits { header_list_bytes: 400, header_fields: 8, ..Limits::default() };
    let (long, longer) = ("x".repeat(300), "x".repeat(200_000));
    for fields in [with(GET, &[("a", &long)]), with(GET, &[("a", &longer)]), with(GET, &[("a", "b"); 5])] {
        let mut harness = Harness::with_limits(limits.clone());
        harness.receive(Input::new().headers(1, &fields, true));
        look(&harness, |request| {
            assert!(request.is_header_section_too_large());
            assert_eq!(request.path(), b"/");
        });
        assert_eq!(harness.respond(1, Body::Bytes(b"too large")), Responded::Complete);
    }
    // Trailers that are too large cannot be answered.
    let mut harness = Harness::with_limits(limits.clone());
    harness.receive(Input::new().post(1).headers(1, &[("a", &"x".repeat(400))], true));
    assert_eq!(harness.sent(), [Sent::Reset(1, ErrorCode::ENHANCE_YOUR_CALM)]);
    // A block that is so large that it is not even decoded.
    let huge = "x".repeat(400_000);
    let limits = Limits { continuation_frames: 1000, ..limits };
    let code = Harness::with_limits(limits).fails(Input::new().headers(1, &with(GET, &[("a", &huge)]), true));
    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
}

#[test]
fn connect_makes_a_tunnel() {
    let connect = [(":method", "CONNECT"), (":authority", "h:443")];
    let mut harness = Harness::new();
    harness.receive(Input::new().headers(1, &connect, false));
    look(&harness, |request| {
        assert_eq!((request.method(), request.authority()), (Method::Connect, &b"h:443"[..]));
        assert_eq!((request.path(), request.scheme()), (&b""[..], &b""[..]));
    });
    assert_eq!(harness.respond(1, Body::Stream), Responded::Queued);
    let key = harness.key(1);
    harness.connection.finish(key, None, &mut harness.out);
    // This side has finished, the client has not.
    assert_eq!(harness.sent(), [headers(1, false), data(1, 0, true)]);
    let more = Seen::Data { stream: 1, data: b"more".to_vec(), end: false };
    assert_eq!(harness.receive(Input::new().data(1, b"more", false)), [more]);
    let end = Seen::Data { stream: 1, data: vec![], end: true };
    assert_eq!(harness.receive(Input::new().data(1, b"", true)), [end]);
    assert_eq!(harness.connection.open_streams(), 0);

    // A content length has no meaning for a tunnel.
    let seen = harness.receive(Input::new().headers(7, &with(&connect, &[("content-length", "1")]), true));
    assert!(matches!(seen[..], [Seen::Request { stream: 7, .. }]));
    harness.respond(7, Body::Empty);
    harness.sent();

    // A refusal is not a tunnel.
    harness.receive(Input::new().headers(9, &connect, false).headers(11, &connect, false));
    assert_eq!(harness.respond(9, Body::Bytes(b"no")), Responded::Complete);
    assert_eq!(harness.respond(11, Body::Empty), Responded::Complete);
    assert_eq!(harness.connection.open_streams(), 0);
}

#[test]
fn extended_connect_must_be_allowed() {
    let websocket = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "h"),
    ];
    let mut harness = Harness::with_limits(Limits { extended_connect: true, ..Limits::default() });
    harness.receive(Input::new().headers(1, &websocket, false));
    look(&harness, |request| {
        assert_eq!((request.protocol(), request.path()), (Some(&b"websocket"[..]), &b"/chat"[..]));
    });
    let refused = Seen::Refused { stream: 1, code: ErrorCode::PROTOCOL_ERROR };
    assert_eq!(Harness::new().receive(Input::new().headers(1, &websocket, false)), [refused]);
}

#[test]
fn a_client_may_use_its_own_table_size_once_it_is_agreed_on() {
    let update_to = |size: usize| {
        let mut block = Vec::new();
        super::super::super::hpack::integer::encode(size, 5, 0x20, &mut block);
        block.extend_from_slice(&super::block(GET));
        block
    };
    let headers = |size: usize| Input::new().frame(FrameType::HEADERS, 5, 1, &update_to(size));
    // A larger table at once, a smaller one from the acknowledgement on.
    let larger = || Limits { decoder_table_bytes: 8192, ..Limits::default() };
    assert_eq!(Harness::with_limits(larger()).receive(headers(8192)), [request(1, true)]);
    assert_eq!(Harness::with_limits(larger()).fails(headers(8193)), ErrorCode::COMPRESSION_ERROR);
    let smaller = || Limits { decoder_table_bytes: 100, ..Limits::default() };
    assert_eq!(Harness::with_limits(smaller()).receive(headers(100)), [request(1, true)]);
    assert_eq!(Harness::with_limits(smaller()).fails(headers(101)), ErrorCode::COMPRESSION_ERROR);
    assert_eq!(Harness::with_limits(smaller()).fails(Input::new().get(1)), ErrorCode::COMPRESSION_ERROR);
    let before = |size| Input::new().raw(PREFACE).settings(&[]).raw(&headers(size).bytes);
    assert_eq!(Harness::fresh(larger()).receive(before(8192)), [request(1, true)]);
    assert_eq!(Harness::fresh(smaller()).receive(before(4096)), [request(1, true)]);
}
