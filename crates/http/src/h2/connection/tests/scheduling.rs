//! The order in which bodies go out (RFC 9218).

use super::*;
use crate::h2::Priority;

/// Requests with these priorities on streams 1, 3, 5 and so on, all answered with bodies of 30,000 bytes.
fn order(priorities: &[Option<&str>], change: impl FnOnce(&mut Harness)) -> Vec<u32> {
    let mut harness = Harness::new();
    let mut input = Input::new().window(0, 1 << 30);
    for (number, priority) in priorities.iter().enumerate() {
        let field: Vec<(&str, &str)> = priority.iter().map(|value| ("priority", *value)).collect();
        input = input.headers(2 * number as u32 + 1, &with(GET, &field), true);
    }
    harness.receive(input);
    for number in 0..priorities.len() as u32 {
        harness.respond(2 * number + 1, Body::Length(30_000));
    }
    change(&mut harness);
    let order = |sent: Vec<Sent>| -> Vec<u32> {
        sent.into_iter()
            .filter_map(|sent| if let Sent::Data { stream, .. } = sent { Some(stream) } else { None })
            .collect()
    };
    let mut found = Vec::new();
    while harness.connection.has_data_to_send() {
        found.extend(order(harness.pump()));
    }
    found
}

#[test]
fn urgency_comes_first() {
    assert_eq!(order(&[Some("u=5"), Some("u=1"), Some("u=3")], |_| ()), [3, 3, 5, 5, 1, 1]);
    assert_eq!(order(&[Some("u=3"), Some("u=3")], |_| ()), [1, 1, 3, 3]);
    assert_eq!(order(&[Some("i"), Some("i")], |_| ()), [1, 3, 1, 3]);
}

#[test]
fn streams_without_priority_take_turns() {
    assert_eq!(order(&[None, None, None], |_| ()), [1, 3, 5, 1, 3, 5]);
}

#[test]
fn priorities_change() {
    let update = |harness: &mut Harness| {
        harness.receive(Input::new().priority_update(5, "u=0"));
    };
    assert_eq!(order(&[Some("u=1"), Some("u=1"), Some("u=1")], update), [5, 5, 1, 1, 3, 3]);
    let of_the_server = |harness: &mut Harness| {
        let key = harness.key(3);
        harness.connection.set_priority(key, Priority { urgency: 0, incremental: false });
    };
    assert_eq!(order(&[Some("u=1"), Some("u=1")], of_the_server), [3, 3, 1, 1]);
}

/// RFC 9218 section 7.1: an update may arrive before the request, and takes precedence over the request's
/// field.
#[test]
fn priorities_may_come_early() {
    let mut harness = Harness::with_limits(Limits { concurrent_streams: 3, ..Limits::default() });
    let early = Input::new().priority_update(5, "u=0").priority_update(3, "u=7").priority_update(5, "u=1");
    harness.receive(early.get(1).headers(5, &with(GET, &[("priority", "u=6")]), true));
    let five = harness.key(5).index() as u32;
    let one = harness.key(1).index() as u32;
    assert_eq!(harness.connection.streams.slot(five).priority, Priority { urgency: 1, incremental: false });
    assert_eq!(harness.connection.streams.slot(one).priority, Priority::default());
    // Updates for skipped streams were dropped, and at most one for each possible stream is stored.
    assert!(harness.connection.early_priorities.is_empty());
    let mut many = Input::new();
    for stream in 0..10 {
        many = many.priority_update(101 + 2 * stream, "u=1");
    }
    harness.receive(many);
    assert_eq!(harness.connection.early_priorities.len(), 3);
}

#[test]
fn a_small_response_does_not_overtake_what_is_more_urgent() {
    let mut harness = Harness::new();
    let urgent = with(GET, &[("priority", "u=2")]);
    let input = Input::new().headers(1, &urgent, true).get(3).headers(5, &urgent, true);
    harness.receive(input.headers(7, &with(GET, &[("priority", "u=0")]), true));
    harness.respond(1, Body::Length(20_000));
    assert_eq!(harness.respond(3, Body::Bytes(b"less urgent")), Responded::Queued);
    assert_eq!(harness.respond(5, Body::Bytes(b"behind")), Responded::Queued);
    assert_eq!(harness.respond(7, Body::Bytes(b"x")), Responded::Complete);
    assert_eq!(
        harness.pump(),
        [
            headers(1, false),
            headers(3, false),
            headers(5, false),
            headers(7, false),
            data(7, 1, true),
            data(1, 16_384, false),
            data(1, 3616, true),
            data(5, 6, true),
            data(3, 11, true),
        ]
    );
}

#[test]
fn frames_are_no_larger_than_the_caller_allows() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1));
    harness.respond(1, Body::Length(30));
    let key = harness.key(1);
    let mut next = |length| {
        let frame = harness.connection.next_data(length, &mut harness.out)?;
        assert_eq!(frame.stream, key);
        harness.out.resize(harness.out.len() + frame.length, b'x');
        Some((frame.length, frame.is_last))
    };
    assert_eq!(next(0), None);
    assert_eq!(next(10), Some((10, false)));
    assert_eq!(next(10), Some((10, false)));
    assert_eq!(next(10), Some((10, true)));
    assert_eq!(next(10), None);
    assert_eq!(
        harness.sent(),
        [headers(1, false), data(1, 10, false), data(1, 10, false), data(1, 10, true)]
    );
}
