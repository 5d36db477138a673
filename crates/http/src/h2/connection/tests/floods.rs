//! Attacks that cost the server more than the client. Each one reaches its limit; an ordinary client does
//! not.

use super::*;

const CALM: ErrorCode = ErrorCode::ENHANCE_YOUR_CALM;

/// How many times `again` can be called before the connection fails, up to `most`.
fn endures(limits: Limits, most: u32, mut again: impl FnMut(&mut Harness, u32) -> Input) -> u32 {
    let mut harness = Harness::with_limits(limits);
    for round in 0..most {
        let input = again(&mut harness, round);
        if let Err(error) = harness.try_receive(input) {
            assert_eq!(error.code, CALM);
            return round;
        }
        harness.sent();
    }
    most
}

fn limits() -> Limits {
    Limits { resets: 20, control_frames: 30, empty_frames: 10, ..Limits::default() }
}

#[test]
fn rapid_reset() {
    let reset =
        |_: &mut Harness, round: u32| Input::new().get(2 * round + 1).reset(2 * round + 1, ErrorCode::CANCEL);
    assert_eq!(endures(limits(), 1000, reset), 20);
}

#[test]
fn resets_that_the_client_provokes() {
    for provoke in [
        |input: Input, stream| input.window(stream, 0),
        |input: Input, stream| input.window(stream, 0x7fff_ffff),
        |input: Input, stream| input.data(stream, b"x", false),
        |input: Input, stream| input.frame(FrameType::PRIORITY, 0, stream, b"x"),
        |input: Input, stream| input.headers(stream, &[("a", "b")], true),
    ] {
        let again = |_: &mut Harness, round: u32| provoke(Input::new().get(2 * round + 1), 2 * round + 1);
        assert_eq!(endures(limits(), 1000, again), 20);
    }
    let malformed = |_: &mut Harness, round: u32| Input::new().headers(2 * round + 1, &GET[1..], true);
    assert_eq!(endures(limits(), 1000, malformed), 20);
    let too_many = Limits { concurrent_streams: 1, ..limits() };
    assert_eq!(endures(too_many, 1000, |_, round| Input::new().get(2 * round + 1)), 21);
}

#[test]
fn a_client_that_gets_its_responses_may_reset_as_many() {
    let mut stream = 1;
    let fair = |harness: &mut Harness, _: u32| {
        if stream > 1 {
            harness.respond(stream - 2, Body::Bytes(b"x"));
        }
        let input = Input::new().get(stream).reset(stream, ErrorCode::CANCEL).get(stream + 2);
        stream += 4;
        input
    };
    assert_eq!(endures(limits(), 1000, fair), 1000);
}

#[test]
fn a_new_period_begins_with_nothing_counted() {
    let reset = |harness: &mut Harness, round: u32| {
        if round.is_multiple_of(15) {
            harness.connection.replenish();
        }
        Input::new().get(2 * round + 1).reset(2 * round + 1, ErrorCode::CANCEL).ping(b"12345678", false)
    };
    assert_eq!(endures(limits(), 1000, reset), 1000);
}

#[test]
fn frames_that_must_be_answered_or_noted() {
    for (kind, frame) in [
        Input::new().settings(&[]),
        Input::new().ping(b"12345678", false),
        Input::new().frame(FrameType::PRIORITY, 0, 1, b"\0\0\0\0\0"),
        Input::new().priority_update(1, "u=1"),
        Input::new().frame(FrameType(0xbb), 0, 0, b""),
    ]
    .into_iter()
    .enumerate()
    {
        // One of the thirty was the client's first SETTINGS.
        assert_eq!(endures(limits(), 1000, |_, _| frame.clone()), 29, "{kind}");
    }
}

#[test]
fn windows_of_some_bytes() {
    let mut harness = Harness::with_limits(limits());
    harness.receive(Input::new().frame(FrameType::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).get(1).get(3));
    // A body of some bytes, and the rest of one, are no abuse.
    harness.respond(1, Body::Length(70));
    harness.receive(Input::new().window(1, 69).window(3, 69));
    harness.pump();
    harness.receive(Input::new().window(1, 1));
    assert_eq!(harness.pump(), [data(1, 1, true)]);
    harness.respond(3, Body::Length(100_000));
    harness.pump();
    let mut rounds = 0;
    let error = loop {
        match harness.try_receive(Input::new().window(3, 1)) {
            Ok(_) => rounds += usize::from(harness.pump() == [data(3, 1, false)]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, CALM);
    // Two of the thirty were SETTINGS, and one answer was completed.
    assert_eq!(rounds, 29);
}

#[test]
fn settings_with_many_values() {
    let values = |count| Input::new().frame(FrameType::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 9].repeat(count));
    let mut harness = Harness::new();
    harness.receive(values(32));
    assert_eq!(harness.fails(values(33)), CALM);
}

#[test]
fn answers_that_are_not_read() {
    let mut harness =
        Harness::with_limits(Limits { control_frames: u32::MAX, control_output_bytes: 1000, ..limits() });
    let mut rounds = 0;
    while harness.try_receive(Input::new().ping(b"12345678", false)).is_ok() {
        rounds += 1;
    }
    assert_eq!(rounds, 1000 / 17);
}

#[test]
fn frames_without_content() {
    let new = Input::new;
    let empty_data = |_: &mut Harness, round| match round {
        0 => new().post(1).data(1, b"", false),
        _ => new().data(1, b"", false),
    };
    assert_eq!(endures(limits(), 1000, empty_data), 10);
    let padding_only = |_: &mut Harness, round| match round {
        0 => new().post(1).frame(FrameType::DATA, 8, 1, b"\x01\0"),
        _ => new().frame(FrameType::DATA, 8, 1, b"\x01\0"),
    };
    assert_eq!(endures(limits(), 1000, padding_only), 10);
    let empty_continuation = |_: &mut Harness, round| match round {
        0 => new().frame(FrameType::HEADERS, 0, 1, b"\x82"),
        _ => new().frame(FrameType::CONTINUATION, 0, 1, b""),
    };
    let many = Limits { continuation_frames: u32::MAX, ..limits() };
    assert_eq!(endures(many, 1000, empty_continuation), 11);
}

#[test]
fn continuation_without_end() {
    let endless = |_: &mut Harness, round| match round {
        0 => Input::new().frame(FrameType::HEADERS, 0, 1, &[0x82]),
        _ => Input::new().frame(FrameType::CONTINUATION, 0, 1, &[0x82]),
    };
    assert_eq!(endures(Limits { continuation_frames: 5, ..limits() }, 1000, endless), 6);
    let large = |_: &mut Harness, round| match round {
        0 => Input::new().frame(FrameType::HEADERS, 0, 1, &[0x82; 1000]),
        _ => Input::new().frame(FrameType::CONTINUATION, 0, 1, &[0x82; 1000]),
    };
    let limits = Limits { continuation_frames: 1000, header_list_bytes: 5000, ..limits() };
    // 10,000 bytes, and 256 KiB.
    assert_eq!(endures(limits, 1000, large), 272);
}

/// A block of a few kilobytes that refers to one large entry again and again unpacks to megabytes, of which
/// no more is kept than the limit allows.
#[test]
fn a_header_block_that_unpacks_to_a_large_list() {
    let mut harness = Harness::with_limits(Limits { header_list_bytes: 10_000, ..Limits::default() });
    let mut bomb = block(GET);
    bomb.extend_from_slice(b"\x40\x01a");
    super::super::super::hpack::integer::encode(4000, 7, 0, &mut bomb);
    bomb.extend_from_slice(&[b'x'; 4000]);
    bomb.resize(16_000, 0xbe);
    let seen = harness.receive(Input::new().frame(FrameType::HEADERS, 5, 1, &bomb));
    let Seen::Request { fields, .. } = &seen[0] else { panic!("{seen:?}") };
    assert_eq!(fields.len(), 2);
    assert_eq!(harness.respond(1, Body::Empty), Responded::Complete);
}
