//! Tests of the percentiles of each kind of message. A simulated server with known delays and a stall writes
//! a log, and the measured percentiles must be within 2 % of those of the log. The tests use simulated time,
//! so that the load of the machine does not affect them.

use crate::choice::Random;
use crate::messages::{MessageForm, MessagePlan, MessageReader, ReceivedMessage};
use crate::plan::{Plan, PlannedRequest};
use crate::record::{Record, Times};
use crate::target::Target;
use crate::websocket::{WebSocket, WebSocketEvent, WebSocketOutput, WebSocketSetup};
use crate::websocket_plan::WebSocketPlan;
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;
const START: u64 = 1000 * MS;
/// The server sends nothing during this time; messages that are due in it are sent at its end.
const STALL: std::ops::Range<u64> = START + 4000 * MS..START + 4500 * MS;
const REQUESTS: u64 = 2000;
const MESSAGES: u64 = 8;
/// The interval between requests.
const INTERVAL: u64 = 5 * MS;

/// The server's log of one request: the times at which it was due, at which it was received, and at which
/// each message was sent.
struct Logged {
    due_ns: u64,
    received_ns: u64,
    sent_ns: Vec<u64>,
}

fn after_the_stall(at_ns: u64) -> u64 {
    if STALL.contains(&at_ns) { STALL.end } else { at_ns }
}

/// Requests at a fixed rate. Some start late, because no client was free.
fn log() -> Vec<Logged> {
    let request = |number: u64| {
        let due_ns = START + number * INTERVAL;
        let received_ns = due_ns + if number.is_multiple_of(50) { 3 * MS } else { MS / 20 };
        let mut at_ns = received_ns + 20 * MS + number * 7919 % 1000 * (MS / 50);
        let sent = |place: u64| {
            if place > 0 {
                at_ns += 5 * MS + (number * 31 + place * 17) % 97 * (MS / 5);
            }
            at_ns = after_the_stall(at_ns);
            at_ns
        };
        Logged { due_ns, received_ns, sent_ns: (0..MESSAGES).map(sent).collect() }
    };
    (0..REQUESTS).map(request).collect()
}

fn record(change: impl Fn(&mut PlannedRequest)) -> Record {
    let mut plan = Plan::of_one(Target::plain(([127, 0, 0, 1], 80).into(), "localhost"), "/");
    change(&mut plan.requests[0]);
    plan.rate = Some(200.0);
    Record::new(&plan, Times::new(START, Duration::ZERO, Duration::from_secs(60), Duration::ZERO), 1)
}

/// Compares the percentiles of a histogram with those of the exact values.
fn assert_percentiles(what: &str, measured: &Histogram<u64>, mut exact: Vec<u64>) {
    exact.sort_unstable();
    assert_eq!(measured.len(), exact.len() as u64, "{what}");
    for quantile in [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0] {
        let place = (quantile * exact.len() as f64).ceil() as usize - 1;
        let (measured, exact_value) = (measured.value_at_quantile(quantile) as f64, exact[place] as f64);
        assert!(
            (measured / exact_value - 1.0).abs() < 0.02,
            "{what}: at {quantile} {measured} instead of {exact_value}"
        );
    }
    let mean = exact.iter().sum::<u64>() as f64 / exact.len() as f64;
    assert!(
        (measured.mean() / mean - 1.0).abs() < 0.02,
        "{what}: the mean is {} instead of {mean}",
        measured.mean()
    );
}

fn assert_messages(what: &str, record: &Record) {
    let log = log();
    let messages = record.messages.as_ref().expect("messages");
    assert_eq!((messages.count, messages.total), (REQUESTS * MESSAGES, REQUESTS * MESSAGES), "{what}");
    assert_percentiles(what, &messages.first_ns, log.iter().map(|one| one.sent_ns[0] - one.due_ns).collect());
    let gaps = log.iter().flat_map(|one| one.sent_ns.windows(2).map(|pair| pair[1] - pair[0]));
    assert_percentiles(what, &messages.gap_ns, gaps.collect());
}

#[test]
fn events_lines_and_grpc_messages_have_accurate_percentiles_under_an_open_load() {
    let forms: [(MessageForm, &[u8]); 3] = [
        (MessageForm::Events, b"id: 7\ndata: token\n\n"),
        (MessageForm::Lines, b"{\"token\":1}\n"),
        (MessageForm::Grpc, &[0, 0, 0, 0, 3, 1, 2, 3]),
    ];
    for (form, message) in forms {
        let plan = MessagePlan { form, limit: None };
        let mut record = record(|request| request.messages = Some(plan));
        for logged in log() {
            let mut reader = MessageReader::new(plan);
            for at_ns in logged.sent_ns {
                // A message counts when its last byte is received.
                let (beginning, end) = message.split_at(message.len() - 1);
                reader.take_at(beginning, at_ns - MS);
                reader.take_at(end, at_ns);
            }
            reader.take_received().for_each(|event| record.message(logged.due_ns, event));
        }
        assert_messages(&format!("{form:?}"), &record);
    }
}

/// A WebSocket in simulated time.
struct Socket {
    socket: WebSocket,
    websocket_output: WebSocketOutput,
    random: Random,
}

impl Socket {
    fn in_handshake(plan: WebSocketPlan) -> Socket {
        let setup = WebSocketSetup { plan, message: b"hi".as_slice().into(), protocols: Vec::new() };
        let mut random = Random::of_client(1, 0);
        let mut socket = WebSocket::default();
        socket.start_handshake(&Arc::new(setup), None, &mut [], &mut random);
        Socket { socket, websocket_output: WebSocketOutput::default(), random }
    }

    fn open(&mut self, at_ns: u64) {
        let answer = self.socket.opening_answer();
        self.take(answer.as_bytes(), at_ns);
    }

    fn take(&mut self, bytes: &[u8], at_ns: u64) {
        self.socket.take(bytes, at_ns, &mut self.websocket_output, &mut self.random).expect("good frames");
    }

    /// Records the events of a time, as the engine does.
    fn record_events(&mut self, record: &mut Record, due_ns: u64, at_ns: u64) {
        for event in self.websocket_output.events.drain(..) {
            match event {
                WebSocketEvent::Message { gap_ns } => {
                    record.message(due_ns, ReceivedMessage { at_ns, gap_ns })
                }
                other => record.websocket(due_ns, at_ns, other),
            }
        }
    }
}

const MESSAGE: &[u8] = &[0x81, 2, b'o', b'k'];
const RECEIVE_ONLY: WebSocketPlan = WebSocketPlan {
    sends: Some(0),
    is_binary: false,
    send_every: None,
    receives: Some(MESSAGES),
    ping_every: None,
};

#[test]
fn websockets_have_accurate_percentiles_under_an_open_load() {
    let mut record = record(|request| request.websocket = Some(RECEIVE_ONLY));
    for logged in log() {
        let mut socket = Socket::in_handshake(RECEIVE_ONLY);
        let opened_ns = logged.received_ns + MS;
        socket.open(opened_ns);
        socket.record_events(&mut record, logged.due_ns, opened_ns);
        for at_ns in logged.sent_ns {
            // The frame is received in two pieces.
            socket.take(&MESSAGE[..3], at_ns - MS);
            socket.take(&MESSAGE[3..], at_ns);
            socket.record_events(&mut record, logged.due_ns, at_ns);
        }
    }
    assert_messages("WebSocket", &record);
    let websockets = record.websockets.as_ref().expect("WebSockets");
    assert_eq!((websockets.opened, websockets.sent), (REQUESTS, 0));
    let opening = log().iter().map(|one| one.received_ns + MS - one.due_ns).collect();
    assert_percentiles("opening", &websockets.open_ns, opening);
}

#[test]
fn answers_to_messages_at_fixed_times_have_accurate_percentiles_during_a_stall() {
    let (every, count) = (10 * MS, 1000);
    let plan = WebSocketPlan {
        sends: Some(count),
        send_every: Some(Duration::from_nanos(every)),
        receives: None,
        ..RECEIVE_ONLY
    };
    let mut record = record(|request| request.websocket = Some(plan));
    let mut socket = Socket::in_handshake(plan);
    socket.open(START);
    socket.record_events(&mut record, START, START);
    // The server's log: it answers in order, with a different delay for each message.
    let (mut exact, mut last_ns, mut answers) = (Vec::new(), 0, Vec::new());
    for number in 0..count {
        let due_ns = START + number * every;
        let sent_ns = after_the_stall(due_ns + 2 * MS + number * 13 % 60 * (MS / 10)).max(last_ns);
        exact.push(sent_ns - due_ns);
        answers.push(sent_ns);
        last_ns = sent_ns;
    }
    // Messages are due independently of the answers.
    let mut answers = answers.into_iter().peekable();
    while let Some(&answer_ns) = answers.peek() {
        let due_ns = socket.socket.next_ns();
        let at_ns = due_ns.min(answer_ns);
        if due_ns <= answer_ns {
            // The engine is slightly late: the answer time is measured from the due time of the message.
            socket.socket.on_timer(at_ns + MS / 100, 0, &mut socket.websocket_output, &mut socket.random);
        } else {
            answers.next();
            socket.take(MESSAGE, answer_ns);
        }
        socket.record_events(&mut record, START, at_ns);
    }
    let websockets = record.websockets.as_ref().expect("WebSockets");
    assert_eq!((websockets.sent, websockets.total_sent), (count, count));
    // Fifty messages were due during the stall. A client that waits for answers would measure only one long
    // time.
    assert!(exact.iter().filter(|answer_ns| **answer_ns > 50 * MS).count() >= 40);
    assert_percentiles("answers", &websockets.answer_ns, exact);
}
