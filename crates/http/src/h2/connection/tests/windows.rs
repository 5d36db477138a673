//! Flow control in both directions (RFC 9113 sections 5.2 and 6.9).

use super::*;

fn small_windows() -> Limits {
    Limits { stream_window_bytes: 100, connection_window_bytes: 65_535, ..Limits::default() }
}

/// `length` bytes of data in frames of at most 16,384.
fn much_data(mut input: Input, stream: u32, length: usize) -> Input {
    let bytes = vec![b'x'; length];
    for chunk in bytes.chunks(16_384) {
        input = input.data(stream, chunk, false);
    }
    input
}

#[test]
fn a_stream_gets_no_more_than_its_window() {
    let mut harness = Harness::with_limits(small_windows());
    harness.receive(Input::new().post(1).data(1, &[b'x'; 100], false));
    let reset = Seen::Reset { stream: 1, code: ErrorCode::FLOW_CONTROL_ERROR, by_client: false };
    assert_eq!(harness.receive(Input::new().data(1, b"x", false)), [reset]);
    assert_eq!(harness.sent(), [Sent::Reset(1, ErrorCode::FLOW_CONTROL_ERROR)]);
    // Padding counts for flow control.
    let padded = [&[99][..], &[0; 100]].concat();
    harness.receive(Input::new().post(3).frame(FrameType::DATA, 8, 3, &padded[..100]));
    assert_eq!(harness.sent(), [Sent::WindowUpdate(3, 100)]);
    // A stream that ends needs no window.
    harness.receive(Input::new().post(5).frame(FrameType::DATA, 9, 5, &padded[..100]));
    assert_eq!(harness.sent(), []);
    let padded = [&[100][..], &[0; 100]].concat();
    harness.receive(Input::new().frame(FrameType::DATA, 8, 3, &padded));
    assert_eq!(harness.sent(), [Sent::Reset(3, ErrorCode::FLOW_CONTROL_ERROR)]);
}

#[test]
fn a_connection_gets_no_more_than_its_window() {
    let limits =
        Limits { stream_window_bytes: 1 << 20, connection_window_bytes: 65_535, ..Limits::default() };
    let mut harness = Harness::with_limits(limits.clone());
    harness.receive(much_data(Input::new().post(1), 1, 65_535));
    assert_eq!(harness.fails(Input::new().data(1, b"x", false)), ErrorCode::FLOW_CONTROL_ERROR);
    // Also on streams that are closed.
    let mut harness = Harness::with_limits(limits);
    harness.receive(much_data(Input::new().post(1).post(3), 1, 65_535));
    let three = harness.key(3);
    harness.connection.reset(three, ErrorCode::CANCEL);
    assert_eq!(harness.fails(Input::new().data(3, b"x", false)), ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn windows_grow_as_bytes_are_released() {
    let mut harness = Harness::with_limits(small_windows());
    harness.receive(Input::new().post(1).data(1, &[b'x'; 100], false));
    let key = harness.key(1);
    harness.connection.release(key, 49);
    assert_eq!(harness.sent(), []);
    harness.connection.release(key, 1);
    assert_eq!(harness.sent(), [Sent::WindowUpdate(1, 50)]);
    assert_eq!(harness.receive(Input::new().data(1, &[b'x'; 50], true)).len(), 1);
    // No more than was received can be released, and a stream that ended needs no window.
    harness.connection.release(key, 1_000_000);
    assert_eq!(harness.sent(), []);
}

#[test]
fn the_window_of_the_connection_survives_its_streams() {
    let mut harness = Harness::with_limits(Limits {
        stream_window_bytes: 20_000,
        connection_window_bytes: 65_535,
        ..Limits::default()
    });
    let mut sum = 0;
    // Each stream takes nearly a third of the window and none is released by the caller; they end in every
    // way.
    for round in 0..12 {
        let stream = 2 * round + 1;
        harness.receive(much_data(Input::new().post(stream), stream, 20_000));
        let key = harness.key(stream);
        match round % 4 {
            0 => {
                harness.respond(stream, Body::Empty);
            }
            1 => {
                harness.receive(Input::new().reset(stream, ErrorCode::CANCEL));
            }
            2 => harness.connection.reset(key, ErrorCode::CANCEL),
            _ => {
                harness.receive(Input::new().data(stream, b"x", false));
            }
        }
        harness.connection.release(key, 20_000);
        for sent in harness.sent() {
            if let Sent::WindowUpdate(0, increment) = sent {
                sum += increment;
            }
        }
    }
    assert!(sum > 12 * 20_000 - 32_768);
}

/// Bytes that are not passed to the caller are released to the connection's window at once.
#[test]
fn dropped_bytes_are_released() {
    let half = |frame: &dyn Fn(Input) -> Input, times: usize| {
        let mut harness =
            Harness::with_limits(Limits { resets: u32::MAX, empty_frames: u32::MAX, ..small_windows() });
        harness.receive(Input::new().post(1).post(3).get(5));
        let three = harness.key(3);
        harness.connection.reset(three, ErrorCode::CANCEL);
        let mut input = Input::new();
        for _ in 0..times {
            input = frame(input);
        }
        harness.receive(input);
        harness.sent().contains(&Sent::WindowUpdate(0, 32_800))
    };
    // On a stream that was reset, and after the end of a stream.
    assert!(half(&|input| input.data(3, &[0; 100], false), 328));
    assert!(half(&|input| input.data(5, &[0; 100], false), 328));
    // Padding with its length: 99 bytes and one.
    let padding = [&[99][..], &[0; 99]].concat();
    assert!(half(&|input| input.frame(FrameType::DATA, 8, 1, &padding), 328));
}

/// Until the client has acknowledged the settings, it may use the default window (section 6.9.2).
#[test]
fn the_default_window_counts_until_settings_are_acknowledged() {
    let mut harness = Harness::fresh(small_windows());
    let seen = harness.receive(much_data(Input::new().raw(PREFACE).settings(&[]).post(1), 1, 60_000));
    assert!(!seen.iter().any(|event| matches!(event, Seen::Reset { .. })));
    let acknowledged = Input::new().frame(FrameType::SETTINGS, 1, 0, b"").post(3).data(3, &[0; 101], false);
    assert!(matches!(harness.receive(acknowledged)[..], [_, Seen::Reset { stream: 3, .. }]));
}

#[test]
fn responses_respect_both_windows() {
    let mut harness = Harness::new();
    // The default windows are 65,535 bytes.
    harness.receive(Input::new().get(1).get(3));
    assert_eq!(harness.respond(1, Body::Length(100_000)), Responded::Queued);
    let sent = harness.pump();
    assert_eq!(
        sent,
        [
            headers(1, false),
            data(1, 16_384, false),
            data(1, 16_384, false),
            data(1, 16_384, false),
            data(1, 16_383, false)
        ]
    );
    // The connection's window is closed, whatever that of the stream.
    harness.receive(Input::new().window(1, 1000));
    assert!(harness.connection.is_blocked() && !harness.connection.has_data_to_send());
    assert_eq!(harness.respond(3, Body::Bytes(b"abc")), Responded::Queued);
    assert_eq!(harness.pump(), [headers(3, false)]);
    harness.receive(Input::new().window(0, 10));
    assert!(harness.connection.has_data_to_send() && !harness.connection.is_blocked());
    let total: usize = harness
        .pump()
        .iter()
        .map(|sent| if let Sent::Data { data, .. } = sent { data.len() } else { panic!("{sent:?}") })
        .sum();
    assert_eq!(total, 10);
}

#[test]
fn the_initial_window_changes_open_streams() {
    let mut harness = Harness::fresh(Limits::default());
    let settings = |bytes| Input::new().settings(&[(SettingId::INITIAL_WINDOW_SIZE, bytes)]);
    harness.receive(Input::new().hello().raw(&settings(10).bytes).get(1));
    harness.respond(1, Body::Length(100));
    let data_sent = |harness: &mut Harness| -> Vec<Sent> {
        harness.pump().into_iter().filter(|sent| matches!(sent, Sent::Data { .. })).collect()
    };
    assert_eq!(data_sent(&mut harness), [data(1, 10, false)]);
    // 10 are sent already; 15 leave 5 more.
    harness.receive(settings(15));
    assert_eq!(data_sent(&mut harness), [data(1, 5, false)]);
    // A window of 0 is -15 for the stream; 14 more do not open it, 1 more would.
    harness.receive(settings(0).window(1, 15));
    assert_eq!(data_sent(&mut harness), []);
    harness.receive(Input::new().window(1, 1));
    assert_eq!(data_sent(&mut harness), [data(1, 1, false)]);
    harness.receive(settings(50));
    assert_eq!(data_sent(&mut harness), [data(1, 50, false)]);
    // Several changes in one frame: the last one applies.
    harness.receive(Input::new().settings(&[
        (SettingId::INITIAL_WINDOW_SIZE, 0x7fff_ffff - 16),
        (SettingId::INITIAL_WINDOW_SIZE, 60),
    ]));
    assert_eq!(data_sent(&mut harness), [data(1, 10, false)]);
    let code = harness.fails(Input::new().window(1, 1000).raw(&settings(0x7fff_ffff).bytes));
    assert_eq!(code, ErrorCode::FLOW_CONTROL_ERROR);
}

/// A window that shrinks while a stream waits for its turn.
#[test]
fn a_queued_stream_can_lose_its_window() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).get(3));
    harness.respond(1, Body::Length(100));
    harness.respond(3, Body::Length(5));
    harness.receive(Input::new().settings(&[(SettingId::INITIAL_WINDOW_SIZE, 0)]).window(3, 5));
    assert_eq!(
        harness.pump(),
        [headers(1, false), headers(3, false), Sent::SettingsAcknowledgement, data(3, 5, true)]
    );
    assert!(harness.connection.is_blocked());
    harness.receive(Input::new().window(1, 100));
    assert_eq!(harness.pump(), [data(1, 100, true)]);
}

#[test]
fn a_window_becomes_exactly_as_large_as_allowed() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).window(1, 0x7fff_ffff - 65_535).window(0, 0x7fff_ffff - 65_535));
    assert_eq!(harness.connection.open_streams(), 1);
    let overflow = harness.receive(Input::new().window(1, 1));
    assert!(matches!(overflow[..], [Seen::Reset { code: ErrorCode::FLOW_CONTROL_ERROR, .. }]));
    assert_eq!(harness.fails(Input::new().window(0, 1)), ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn capacity_is_what_could_still_be_offered() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1));
    harness.respond(1, Body::Stream);
    let key = harness.key(1);
    assert_eq!(harness.connection.send_capacity(key), 65_535);
    assert!(harness.connection.offer(key, 65_000));
    assert_eq!((harness.connection.send_capacity(key), harness.connection.unsent(key)), (535, 65_000));
    assert!(harness.connection.offer(key, 1000));
    assert_eq!(harness.connection.send_capacity(key), 0);
}
