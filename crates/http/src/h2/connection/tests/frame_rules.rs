//! The rules for each frame and its position, by table (RFC 9113 sections 3.4, 4 to 6 and 8).

use super::*;

#[test]
fn a_connection_begins_with_settings_of_both_sides() {
    let mut harness = Harness::fresh(Limits {
        frame_bytes: 20_000,
        decoder_table_bytes: 100,
        extended_connect: true,
        ..Limits::default()
    });
    let [Sent::Settings(settings), Sent::WindowUpdate(0, increment)] = &harness.sent()[..] else { panic!() };
    assert_eq!(
        settings[..],
        [(3, 128), (4, 256 * 1024), (6, 64 * 1024), (9, 1), (5, 20_000), (1, 100), (8, 1)]
    );
    assert_eq!(*increment, 1024 * 1024 - 65_535);
    assert!(!harness.connection.settings_are_acknowledged());
    assert_eq!(harness.receive(Input::new().hello()), []);
    assert_eq!(harness.sent(), [Sent::SettingsAcknowledgement]);
    assert!(harness.connection.settings_are_acknowledged());
}

#[test]
fn the_preface_is_recognised_byte_by_byte() {
    for length in 0..PREFACE.len() {
        assert_eq!(super::super::detect_preface(&PREFACE[..length]), super::super::Preface::Partial);
        let mut wrong = PREFACE.to_vec();
        wrong[length] ^= 1;
        assert_eq!(super::super::detect_preface(&wrong), super::super::Preface::Other);
        assert_eq!(super::super::detect_preface(&wrong[..=length]), super::super::Preface::Other);
    }
    assert_eq!(super::super::detect_preface(PREFACE), super::super::Preface::Http2);
    assert_eq!(super::super::detect_preface(b"GET / HTTP/1.1\r\n"), super::super::Preface::Other);
}

#[test]
fn what_a_connection_must_begin_with() {
    for (input, code) in [
        (Input::new().raw(b"GET / HTTP/1.1\r\n\r\n"), ErrorCode::PROTOCOL_ERROR),
        (Input::new().raw(PREFACE).ping(b"12345678", false), ErrorCode::PROTOCOL_ERROR),
        (Input::new().raw(PREFACE).get(1), ErrorCode::PROTOCOL_ERROR),
        (Input::new().raw(PREFACE).frame(FrameType(0xbb), 0, 0, b""), ErrorCode::PROTOCOL_ERROR),
        (Input::new().raw(PREFACE).frame(FrameType::SETTINGS, 1, 0, b""), ErrorCode::PROTOCOL_ERROR),
        (Input::new().raw(PREFACE).frame(FrameType::SETTINGS, 0, 0, b"x"), ErrorCode::FRAME_SIZE_ERROR),
    ] {
        assert_eq!(Harness::fresh(Limits::default()).fails(input), code);
    }
}

/// A connection with streams in four states: 1 closed by both sides, 3 reset by the client, 5 half-closed by
/// the client, 7 open, 9 reset by the server, 11 reset by the server for an error; 13 and above are idle.
fn with_streams() -> Harness {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).post(3).get(5).post(7).post(9));
    harness.respond(1, Body::Empty);
    harness.receive(Input::new().reset(3, ErrorCode::CANCEL));
    let nine = harness.key(9);
    harness.connection.reset(nine, ErrorCode::CANCEL);
    harness.receive(Input::new().headers(11, &GET[1..], true));
    harness.sent();
    harness
}

#[test]
fn connection_errors() {
    const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
    const FLOW: ErrorCode = ErrorCode::FLOW_CONTROL_ERROR;
    let new = Input::new;
    let continued = |stream| new().frame(FrameType::HEADERS, 0, stream, &block(GET));
    for (line, input, code) in [
        // Streams with invalid identifiers.
        (line!(), new().get(0), PROTOCOL),
        (line!(), new().get(2), PROTOCOL),
        (line!(), new().get(14), PROTOCOL),
        (line!(), new().data(0, b"x", false), PROTOCOL),
        (line!(), new().reset(0, ErrorCode::CANCEL), PROTOCOL),
        // Closed streams.
        (line!(), new().get(1), ErrorCode::STREAM_CLOSED),
        (line!(), new().get(3), ErrorCode::STREAM_CLOSED),
        (line!(), new().get(21).get(17), PROTOCOL),
        // Idle streams.
        (line!(), new().data(13, b"x", true), PROTOCOL),
        (line!(), new().data(2, b"x", true), PROTOCOL),
        (line!(), new().reset(13, ErrorCode::CANCEL), PROTOCOL),
        (line!(), new().reset(2, ErrorCode::CANCEL), PROTOCOL),
        (line!(), new().window(13, 1), PROTOCOL),
        (line!(), new().window(2, 1), PROTOCOL),
        (line!(), new().frame(FrameType::CONTINUATION, 4, 13, b""), PROTOCOL),
        // Header blocks.
        (line!(), new().frame(FrameType::CONTINUATION, 4, 5, b""), PROTOCOL),
        (line!(), continued(13).data(7, b"x", false), PROTOCOL),
        (line!(), continued(13).ping(b"12345678", false), PROTOCOL),
        (line!(), continued(13).frame(FrameType(0xbb), 0, 13, b""), PROTOCOL),
        (line!(), continued(13).frame(FrameType::CONTINUATION, 4, 15, b""), PROTOCOL),
        (line!(), continued(13).get(15), PROTOCOL),
        (line!(), new().frame(FrameType::HEADERS, 5, 13, &[0x80]), ErrorCode::COMPRESSION_ERROR),
        (line!(), new().frame(FrameType::HEADERS, 5, 13, &[0x82, 0x3f]), ErrorCode::COMPRESSION_ERROR),
        (line!(), new().frame(FrameType::HEADERS, 5, 1, &[0x80]), ErrorCode::COMPRESSION_ERROR),
        (line!(), new().frame(FrameType::HEADERS, 5, 7, &[0xff]), ErrorCode::COMPRESSION_ERROR),
        (line!(), new().frame(FrameType::HEADERS, 0x25, 13, b"\0\0\0\x0d\x01\x82"), PROTOCOL),
        (line!(), new().frame(FrameType::HEADERS, 0x25, 13, b"\0\0\0"), SIZE),
        // Sizes.
        (line!(), new().raw(b"\x00\x40\x01\x00\x00\x00\x00\x00\x07"), SIZE),
        (line!(), new().raw(b"\x00\x40\x01\xbb\x00\x00\x00\x00\x00"), SIZE),
        (line!(), new().frame(FrameType::RST_STREAM, 0, 7, b"abc"), SIZE),
        (line!(), new().frame(FrameType::PING, 0, 0, b"abc"), SIZE),
        (line!(), new().frame(FrameType::PRIORITY, 0, 13, b"abcd"), SIZE),
        (line!(), new().frame(FrameType::WINDOW_UPDATE, 0, 7, b"abc"), SIZE),
        // Padding.
        (line!(), new().frame(FrameType::DATA, 8, 7, b"\x05abcd"), PROTOCOL),
        (line!(), new().frame(FrameType::DATA, 8, 7, b""), SIZE),
        // Settings.
        (line!(), new().settings(&[(SettingId::ENABLE_PUSH, 2)]), PROTOCOL),
        (line!(), new().settings(&[(SettingId::INITIAL_WINDOW_SIZE, 1 << 31)]), FLOW),
        (line!(), new().settings(&[(SettingId::MAX_FRAME_SIZE, 16_383)]), PROTOCOL),
        (line!(), new().settings(&[(SettingId::NO_RFC7540_PRIORITIES, 1)]), PROTOCOL),
        (line!(), new().frame(FrameType::SETTINGS, 1, 0, b""), PROTOCOL),
        // Windows.
        (line!(), new().window(0, 0), PROTOCOL),
        (line!(), new().window(0, 0x7fff_ffff), FLOW),
        // Priorities.
        (line!(), new().frame(FrameType::PRIORITY, 0, 7, b"\0\0\0\x07\x01"), PROTOCOL),
        (line!(), new().frame(FrameType::PRIORITY, 0, 0, b"\0\0\0\x07\x01"), PROTOCOL),
        (line!(), new().priority_update(0, "u=1"), PROTOCOL),
        (line!(), new().priority_update(2, "u=1"), PROTOCOL),
        // Frames that only servers send.
        (line!(), new().frame(FrameType::PUSH_PROMISE, 4, 7, b"\0\0\0\x02\x82"), PROTOCOL),
    ] {
        assert_eq!(with_streams().fails(input), code, "line {line}");
    }
}

#[test]
fn stream_errors() {
    let new = Input::new;
    let reset = |stream, code| Seen::Reset { stream, code, by_client: false };
    let refused = |stream, code| Seen::Refused { stream, code };
    const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;
    for (line, input, stream, code, event) in [
        (line!(), new().data(5, b"x", false), 5, CLOSED, Some(reset(5, CLOSED))),
        (line!(), new().headers(5, &[("a", "b")], true), 5, CLOSED, Some(reset(5, CLOSED))),
        (line!(), new().data(1, b"x", false), 1, CLOSED, None),
        (line!(), new().data(3, b"x", true), 3, CLOSED, None),
        (line!(), new().reset(9, ErrorCode::CANCEL).data(9, b"x", true), 9, CLOSED, None),
        (line!(), new().headers(7, &[("a", "b")], false), 7, PROTOCOL, Some(reset(7, PROTOCOL))),
        (line!(), new().headers(7, &[(":path", "/")], true), 7, PROTOCOL, Some(reset(7, PROTOCOL))),
        (line!(), new().headers(7, &[("A", "b")], true), 7, PROTOCOL, Some(reset(7, PROTOCOL))),
        (line!(), new().window(7, 0), 7, PROTOCOL, Some(reset(7, PROTOCOL))),
        (line!(), new().window(5, 0), 5, PROTOCOL, Some(reset(5, PROTOCOL))),
        (
            line!(),
            new().window(7, 0x7fff_ffff),
            7,
            ErrorCode::FLOW_CONTROL_ERROR,
            Some(reset(7, ErrorCode::FLOW_CONTROL_ERROR)),
        ),
        (
            line!(),
            new().frame(FrameType::PRIORITY, 0, 7, b"abcd"),
            7,
            ErrorCode::FRAME_SIZE_ERROR,
            Some(reset(7, ErrorCode::FRAME_SIZE_ERROR)),
        ),
        (line!(), new().headers(13, &GET[..3], true), 13, PROTOCOL, Some(refused(13, PROTOCOL))),
        (line!(), new().headers(13, &[], true), 13, PROTOCOL, Some(refused(13, PROTOCOL))),
        (
            line!(),
            new().headers(13, &with(GET, &[("content-length", "1")]), true),
            13,
            PROTOCOL,
            Some(refused(13, PROTOCOL)),
        ),
    ] {
        let mut harness = with_streams();
        let open = harness.connection.open_streams();
        let was_open = matches!(event, Some(Seen::Reset { .. }));
        assert_eq!(harness.receive(input), event.into_iter().collect::<Vec<_>>(), "line {line}");
        assert_eq!(harness.sent(), [Sent::Reset(stream, code)], "line {line}");
        assert_eq!(harness.connection.open_streams(), open - usize::from(was_open), "line {line}");
        // The connection continues.
        assert_eq!(harness.receive(Input::new().get(101)), [request(101, true)], "line {line}");
    }
}

#[test]
fn what_is_ignored() {
    let new = Input::new;
    let unknown = FrameType(0xbb);
    for (line, input) in [
        // Unknown frames, settings, flags, and the reserved bit.
        (line!(), new().frame(unknown, 0xff, 7, b"whatever")),
        (line!(), new().frame(unknown, 0xff, 0, b"")),
        (line!(), new().raw(b"\x00\x00\x00\xbb\x00\x80\x00\x00\x07")),
        (line!(), new().frame(FrameType::PRIORITY, 0xff, 7, b"\0\0\0\0\x01")),
        (line!(), new().frame(FrameType::PRIORITY, 0, 13, b"\0\0\0\x07\x01")),
        (line!(), new().frame(FrameType::PRIORITY, 0, 1, b"\0\0\0\x07\x01")),
        (line!(), new().frame(FrameType::PRIORITY, 0, 2, b"\0\0\0\x07\x01")),
        // Frames that cross the end of a stream.
        (line!(), new().window(1, 1)),
        (line!(), new().window(1, 0)),
        (line!(), new().window(3, 1)),
        (line!(), new().window(9, 1)),
        (line!(), new().reset(1, ErrorCode::CANCEL)),
        (line!(), new().reset(3, ErrorCode::CANCEL)),
        (line!(), new().reset(9, ErrorCode::CANCEL)),
        // Frames that were sent before the client noticed a reset.
        (line!(), new().data(9, b"x", false)),
        (line!(), new().data(9, b"x", true)),
        (line!(), new().headers(9, &[("a", "b")], true)),
        (line!(), new().data(11, b"x", true)),
        (line!(), new().headers(11, &[("a", "b")], true)),
        (line!(), new().priority_update(1, "u=1")),
        (line!(), new().priority_update(13, "not a priority")),
        // The beginning of a frame.
        (line!(), new().raw(b"\x00\x00\x01\x00\x00\x00\x00\x00\x07")),
    ] {
        let mut harness = with_streams();
        assert_eq!(harness.receive(input), [], "line {line}");
        assert_eq!(harness.sent(), [], "line {line}");
        assert_eq!(harness.connection.open_streams(), 2, "line {line}");
    }
    let mut harness = with_streams();
    assert_eq!(harness.receive(new().settings(&[(SettingId(0xabcd), 9)])), []);
    assert_eq!(harness.sent(), [Sent::SettingsAcknowledgement]);
}

#[test]
fn pings_are_answered_and_answers_reported() {
    let mut harness = Harness::new();
    assert_eq!(harness.receive(Input::new().ping(b"question", false)), []);
    assert_eq!(harness.sent(), [Sent::Ping(*b"question", true)]);
    harness.connection.ping(*b"whothere");
    assert_eq!(harness.sent(), [Sent::Ping(*b"whothere", false)]);
    assert_eq!(harness.receive(Input::new().ping(b"whothere", true)), [Seen::Pong(*b"whothere")]);
    assert_eq!(harness.sent(), []);
}

#[test]
fn the_largest_frame_is_exactly_what_was_agreed_on() {
    let limits = || Limits { frame_bytes: 20_000, ..Limits::default() };
    let mut harness = Harness::with_limits(limits());
    let whole = [0; 20_000];
    let expected = Seen::Data { stream: 1, data: whole.to_vec(), end: false };
    assert_eq!(harness.receive(Input::new().post(1).data(1, &whole, false)), [request(1, false), expected]);
    let harness = Harness::with_limits(limits());
    // The header is sufficient to detect that it is too large.
    assert_eq!(
        harness.fails(Input::new().raw(b"\x00\x4e\x21\x00\x00\x00\x00\x00\x01")),
        ErrorCode::FRAME_SIZE_ERROR
    );
}
