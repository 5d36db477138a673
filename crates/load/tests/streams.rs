//! Tests of answers that are streams of messages, from a server with known delays: each message, a stall, an
//! end within the stream, an endless answer.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use support::{After, Server, write};
use touchstone_load::{MessageForm, MessagePlan, Outcome, Plan, Progress, run};

/// The delay before the first message, and between messages.
const FIRST: Duration = Duration::from_millis(60);
const GAP: Duration = Duration::from_millis(20);
/// The delay before the sixth message.
const STALL: Duration = Duration::from_millis(150);
const MESSAGES: u64 = 8;

fn ran(plan: &Plan) -> Outcome {
    run(plan, &Progress::default()).expect("the plan can run")
}

/// Sends the beginning of a chunked answer with this number of events.
fn send_events(stream: &mut TcpStream, count: u64) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for number in 0..count {
        std::thread::sleep(match number {
            0 => FIRST,
            5 => STALL,
            _ => GAP,
        });
        let event = format!(": comment\ndata: {number}\ndata: more\n\n");
        // An event in two pieces counts when the second piece is received.
        let (one, other) = event.split_at(event.len() - 1);
        for piece in [one, other] {
            stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
        }
    }
    Ok(())
}

fn plan(server: &Server, limit: Option<u64>) -> Plan {
    let mut plan = server.plan("/events");
    plan.requests[0].messages = Some(MessagePlan { form: MessageForm::Events, limit });
    plan.length = Duration::from_secs(60);
    plan.clients = 20;
    plan
}

#[test]
fn every_message_is_counted_and_measured_under_an_open_load() {
    let server = Server::start(|_, stream| {
        let _ = send_events(stream, MESSAGES);
        write(stream, b"0\r\n\r\n");
        After::Keep
    });
    let mut plan = plan(&server, None);
    plan.rate = Some(40.0);
    plan.request_limit = Some(60);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (60, 0), "{:?}", outcome.error_reasons);
    let messages = outcome.messages.expect("there are messages");
    assert_eq!((messages.total, messages.count), (60 * MESSAGES, 60 * MESSAGES));
    assert_eq!(messages.first_ns.len(), 60);
    assert_eq!(messages.gap_ns.len(), 60 * (MESSAGES - 1));
    // Measured times are not shorter than the server's delays, and may be longer on a busy machine.
    let at_least = |value: f64, minimum: Duration| value >= minimum.as_nanos() as f64 * 0.98;
    assert!(at_least(messages.first_ns.min() as f64, FIRST), "{}", messages.first_ns.min());
    // A gap is shorter than the server's by the lateness of the previous message. A pause of the machine
    // shortens a few gaps of one run. An engine that records messages too early does so in every run.
    let is_right = |gap_ns: &hdrhistogram::Histogram<u64>| {
        at_least(gap_ns.value_at_quantile(0.5) as f64, GAP)
            && at_least(gap_ns.value_at_quantile(0.95) as f64, STALL)
            && at_least(gap_ns.mean(), (GAP * 6 + STALL) / 7)
    };
    let mut tries = 0;
    let mut gap_ns = messages.gap_ns;
    while !is_right(&gap_ns) {
        assert!(tries < 8, "p50 {} p95 {}", gap_ns.value_at_quantile(0.5), gap_ns.value_at_quantile(0.95));
        tries += 1;
        gap_ns = ran(&plan).messages.expect("there are messages").gap_ns;
    }
}

#[test]
fn an_aborted_stream_is_an_error_and_its_messages_count() {
    let server = Server::start(|_, stream| {
        let _ = send_events(stream, 3);
        After::Close
    });
    let mut plan = plan(&server, None);
    plan.request_limit = Some(10);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors_by_kind.short_body), (0, 10));
    assert_eq!(outcome.messages.expect("there are messages").total, 30);
}

#[test]
fn a_client_ends_an_endless_answer_after_the_planned_messages() {
    let server = Server::start(|_, stream| {
        let _ = send_events(stream, u64::MAX);
        After::Close
    });
    let mut plan = plan(&server, Some(4));
    plan.request_limit = Some(40);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (40, 0), "{:?}", outcome.error_reasons);
    assert_eq!(outcome.messages.expect("there are messages").total, 160);
    assert_eq!(server.connections(), 40);
}

#[test]
fn invalid_plans_are_refused() {
    let server = Server::start(|_, _| After::Close);
    assert!(plan(&server, Some(0)).check().expect_err("no message").0.contains("at least 1"));
    let mut grpc = plan(&server, None);
    grpc.requests[0].messages = Some(MessagePlan { form: MessageForm::Grpc, limit: None });
    assert!(grpc.check().expect_err("not HTTP/1").0.contains("HTTP/2 or 3"));
}
