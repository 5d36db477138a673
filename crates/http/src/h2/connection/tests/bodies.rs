//! Request bodies: data, trailers and lengths (RFC 9113 section 8.1).

use super::*;

fn seen_data(stream: u32, bytes: &[u8], end: bool) -> Seen {
    Seen::Data { stream, data: bytes.to_vec(), end }
}

#[test]
fn data_is_where_the_event_says() {
    let mut harness = Harness::new();
    let input = Input::new()
        .post(1)
        .data(1, b"one", false)
        .post(3)
        .frame(FrameType::DATA, 8, 3, b"\x02two\0\0")
        .data(1, b"", true)
        .data(3, b"three", true);
    assert_eq!(
        harness.receive(input),
        [
            request(1, false),
            seen_data(1, b"one", false),
            request(3, false),
            seen_data(3, b"two", false),
            seen_data(1, b"", true),
            seen_data(3, b"three", true),
        ]
    );
    assert_eq!(harness.connection.open_streams(), 2);
}

#[test]
fn trailers_end_a_body() {
    let mut harness = Harness::new();
    let trailers = Seen::Trailers { stream: 1, fields: vec![("checksum".into(), "7".into())] };
    assert_eq!(
        harness.receive(Input::new().post(1).data(1, b"x", false).headers(1, &[("checksum", "7")], true)),
        [request(1, false), seen_data(1, b"x", false), trailers]
    );
    assert_eq!(harness.respond(1, Body::Empty), Responded::Complete);
    assert_eq!(harness.sent(), [headers(1, true)]);
    assert_eq!(harness.connection.open_streams(), 0);
}

#[test]
fn bodies_are_held_to_their_length() {
    let announce =
        |length: &'static str| Input::new().headers(1, &with(POST, &[("content-length", length)]), false);
    for (line, input, is_good) in [
        (line!(), announce("3").data(1, b"abc", true), true),
        (line!(), announce("3").data(1, b"ab", false).data(1, b"c", false).data(1, b"", true), true),
        (line!(), announce("3").data(1, b"abc", false).headers(1, &[("a", "b")], true), true),
        (line!(), announce("0").data(1, b"", true), true),
        (line!(), announce("3").frame(FrameType::DATA, 9, 1, b"\x01abc\0"), true),
        (line!(), announce("3").data(1, b"ab", true), false),
        (line!(), announce("3").data(1, b"abcd", false), false),
        (line!(), announce("3").data(1, b"abc", false).data(1, b"d", true), false),
        (line!(), announce("3").data(1, b"ab", false).headers(1, &[("a", "b")], true), false),
        (line!(), announce("0").data(1, b"a", true), false),
    ] {
        let mut harness = Harness::new();
        let seen = harness.receive(input);
        let reset = Seen::Reset { stream: 1, code: ErrorCode::PROTOCOL_ERROR, by_client: false };
        assert_eq!(seen.last() != Some(&reset), is_good, "line {line}: {seen:?}");
        assert_eq!(harness.connection.open_streams(), usize::from(is_good), "line {line}");
    }
    let mut harness = Harness::new();
    let zero = Input::new().headers(1, &with(GET, &[("content-length", "0")]), true);
    assert_eq!(harness.receive(zero).len(), 1);
}

#[test]
fn a_response_before_the_end_of_the_request_stops_the_client() {
    let mut harness = Harness::new();
    harness.receive(Input::new().post(1).data(1, b"x", false));
    assert_eq!(harness.respond(1, Body::Bytes(b"no")), Responded::Complete);
    let body = Sent::Data { stream: 1, data: b"no".to_vec(), end: true };
    assert_eq!(harness.sent(), [headers(1, false), body, Sent::Reset(1, ErrorCode::NO_ERROR)]);
    assert_eq!(harness.connection.open_streams(), 0);
    // Frames that the client sent before it noticed the reset are ignored, including trailers.
    assert_eq!(harness.receive(Input::new().data(1, b"y", false).headers(1, &[("a", "b")], true)), []);
    assert_eq!(harness.sent(), []);
}

/// A connection that lets clients end requests that are answered, and a request of this length.
fn patient(length: &'static str) -> Harness {
    let mut harness =
        Harness::with_limits(Limits { awaits_requests: true, stream_window_bytes: 100, ..Limits::default() });
    harness.receive(Input::new().headers(1, &with(POST, &[("content-length", length)]), false));
    harness.receive(Input::new().data(1, b"x", false));
    harness.respond(1, Body::Empty);
    assert_eq!(harness.sent(), [headers(1, true)]);
    harness
}

#[test]
fn a_client_may_end_a_request_that_is_answered() {
    let mut harness = patient("3");
    let key = harness.key(1);
    assert_eq!(harness.connection.take_answered_early().collect::<Vec<_>>(), [key]);
    assert!(harness.connection.is_open(key));
    assert_eq!(harness.receive(Input::new().data(1, b"yz", true)), [seen_data(1, b"yz", true)]);
    assert!(!harness.connection.is_open(key));
    harness.connection.stop_request(key);
    assert_eq!(harness.sent(), []);
}

#[test]
fn a_client_that_does_not_end_its_answered_request_is_stopped() {
    let mut harness = patient("90");
    let key = harness.key(1);
    // The window of the stream is not opened again, so that the client cannot send for ever.
    harness.receive(Input::new().data(1, &[0; 60], false));
    harness.connection.release(key, 61);
    assert_eq!(harness.sent(), []);
    harness.connection.stop_request(key);
    assert_eq!(harness.sent(), [Sent::Reset(1, ErrorCode::NO_ERROR)]);
    assert_eq!(harness.connection.open_streams(), 0);
    harness.connection.stop_request(key);
    assert_eq!(harness.receive(Input::new().data(1, &[0; 29], true)), []);
    assert_eq!(harness.sent(), []);
}

#[test]
fn a_request_that_cannot_end_within_its_window_is_stopped_with_its_answer() {
    let limits = Limits { awaits_requests: true, stream_window_bytes: 100, ..Limits::default() };
    let mut harness = Harness::with_limits(limits);
    harness.receive(Input::new().headers(1, &with(POST, &[("content-length", "101")]), false));
    harness.respond(1, Body::Empty);
    assert_eq!(harness.sent(), [headers(1, true), Sent::Reset(1, ErrorCode::NO_ERROR)]);
    assert_eq!(harness.connection.take_answered_early().count(), 1);
}

#[test]
fn a_reset_ends_everything() {
    let mut harness = Harness::new();
    harness.receive(Input::new().post(1));
    let key = harness.key(1);
    harness.respond(1, Body::Length(10));
    let reset = Seen::Reset { stream: 1, code: ErrorCode::CANCEL, by_client: true };
    assert_eq!(harness.receive(Input::new().reset(1, ErrorCode::CANCEL)), [reset]);
    assert!(!harness.connection.is_open(key));
    assert_eq!(harness.pump(), [headers(1, false)]);
    let block = response_block(200);
    assert_eq!(harness.connection.respond(key, &block, Body::Empty, &mut harness.out), Responded::Gone);
    assert_eq!(harness.connection.finish(key, None, &mut harness.out), Responded::Gone);
    assert!(!harness.connection.offer(key, 1));
    assert!(!harness.connection.inform(key, &block, &mut harness.out));
    harness.connection.release(key, 1);
    harness.connection.reset(key, ErrorCode::CANCEL);
    assert_eq!(harness.sent(), []);
    assert_eq!((harness.connection.unsent(key), harness.connection.send_capacity(key)), (0, 0));
}

/// A request and its reset in one input: the stream is closed when the caller answers.
#[test]
fn events_are_in_order_though_the_state_is_ahead() {
    let mut harness = Harness::new();
    let seen = harness.receive(Input::new().get(1).reset(1, ErrorCode::CANCEL).get(3));
    let reset = Seen::Reset { stream: 1, code: ErrorCode::CANCEL, by_client: true };
    assert_eq!(seen, [request(1, true), reset, request(3, true)]);
    let keys: Vec<StreamKey> = harness
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Request(request) => Some(request.stream()),
            _ => None,
        })
        .collect();
    assert_eq!(keys[0].index(), keys[1].index());
    let block = response_block(200);
    let mut respond = |key| harness.connection.respond(key, &block, Body::Empty, &mut harness.out);
    assert_eq!(respond(keys[0]), Responded::Gone);
    assert_eq!(respond(keys[1]), Responded::Complete);
    assert_eq!(harness.sent(), [headers(3, true)]);
}
