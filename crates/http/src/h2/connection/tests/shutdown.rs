//! The end of a connection (RFC 9113 sections 5.4.1 and 6.8).

use super::*;

#[test]
fn a_graceful_shutdown_takes_two_steps() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1));
    harness.connection.shut_down();
    harness.connection.shut_down();
    assert_eq!(
        harness.sent(),
        [Sent::GoAway(0x7fff_ffff, ErrorCode::NO_ERROR), Sent::Ping(*b"farewell", false)]
    );
    // Requests that were active are served.
    assert_eq!(harness.receive(Input::new().get(3)), [request(3, true)]);
    assert_eq!(harness.receive(Input::new().ping(b"farewell", true)), []);
    assert_eq!(harness.sent(), [Sent::GoAway(3, ErrorCode::NO_ERROR)]);
    // From now on new requests are ignored with all their frames, but their fields are decoded.
    let mut inserts = block(POST);
    inserts.extend_from_slice(b"\x40\x03new\x05field");
    let ignored = Input::new()
        .frame(FrameType::HEADERS, 4, 5, &inserts)
        .data(5, &[b'x'; 10_000], false)
        .window(5, 1)
        .headers(5, &[("a", "b")], true)
        .reset(5, ErrorCode::CANCEL)
        .get(7);
    assert_eq!(harness.receive(ignored), []);
    assert_eq!(harness.sent(), []);
    assert!(!harness.connection.is_finished());
    harness.respond(1, Body::Bytes(b"x"));
    harness.respond(3, Body::Length(20));
    assert!(!harness.connection.is_finished());
    assert_eq!(harness.pump().len(), 4);
    assert!(harness.connection.is_finished());
}

#[test]
fn a_client_that_does_not_answer_is_not_waited_for() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1));
    harness.respond(1, Body::Empty);
    harness.connection.shut_down();
    harness.connection.refuse_new_streams();
    harness.connection.refuse_new_streams();
    let sent = harness.sent();
    assert_eq!(sent.last(), Some(&Sent::GoAway(1, ErrorCode::NO_ERROR)));
    assert_eq!(sent.len(), 4);
    assert!(harness.connection.is_finished());
    assert_eq!(harness.receive(Input::new().ping(b"farewell", true)), [Seen::Pong(*b"farewell")]);
    assert_eq!(harness.sent(), []);
}

#[test]
fn a_client_that_leaves_gets_its_responses() {
    let mut harness = Harness::new();
    let goaway = Input::new().frame(FrameType::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0bye");
    assert_eq!(
        harness.receive(Input::new().get(1).raw(&goaway.bytes)),
        [request(1, true), Seen::GoAway(ErrorCode::NO_ERROR)]
    );
    assert!(harness.connection.client_is_leaving());
    assert_eq!(harness.respond(1, Body::Empty), Responded::Complete);
    assert_eq!(harness.receive(Input::new().ping(b"still me", false)), []);
    assert_eq!(harness.sent(), [headers(1, true), Sent::Ping(*b"still me", true)]);
    // The client must close the connection.
    assert!(!harness.connection.is_finished());
}

#[test]
fn the_caller_can_end_it() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(5));
    harness.connection.close(ErrorCode::SETTINGS_TIMEOUT, "settings were not acknowledged");
    harness.connection.close(ErrorCode::CANCEL, "a second time");
    assert_eq!(harness.sent(), [Sent::GoAway(5, ErrorCode::SETTINGS_TIMEOUT)]);
    assert!(harness.connection.is_finished());
    assert_eq!(harness.try_receive(Input::new().get(7)).unwrap_err().code, ErrorCode::SETTINGS_TIMEOUT);
}

/// The client learns which of its requests were processed, also when the connection fails.
#[test]
fn a_failure_names_the_last_stream() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).get(3));
    harness.connection.refuse_new_streams();
    harness.receive(Input::new().get(5));
    assert!(harness.try_receive(Input::new().get(0)).is_err());
    let sent = harness.sent();
    assert_eq!(sent.last(), Some(&Sent::GoAway(3, ErrorCode::PROTOCOL_ERROR)));
}
