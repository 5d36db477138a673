//! Tests of HTTP/2 with a scripted server: limits, lost connections, requests that are refused or not
//! answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use touchstone_http::h2::error::ErrorCode;
use touchstone_http::h2::frame::{
    self, Frame, FrameHeader, append_data_header, append_goaway, append_headers, append_reset_stream,
    append_settings, append_settings_acknowledgement,
};
use touchstone_http::h2::hpack::{encode_fields_block, encode_response_block};
use touchstone_http::h2::settings::SettingId;
use touchstone_load::{
    ErrorCounts, HttpVersion, MessageForm, MessagePlan, Outcome, Plan, Progress, Target, run,
};

/// A script handles a request: it appends frames, and returns whether the connection continues.
type Script = dyn Fn(&mut Request<'_>) -> bool + Send + Sync;

/// A request, or the reset of a request.
struct Request<'a> {
    stream: u32,
    is_reset: bool,
    /// The number of the connection, from 0.
    connection: u64,
    out: &'a mut Vec<u8>,
}

impl Request<'_> {
    fn answer(&mut self, stream: u32, body: &[u8]) {
        let mut block = Vec::new();
        encode_response_block(200, [(&b"content-type"[..], &b"text/plain"[..])], &mut block);
        append_headers(stream, &block, false, 16_384, self.out);
        append_data_header(stream, body.len(), true, self.out);
        self.out.extend_from_slice(body);
    }
}

struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

impl Server {
    fn start(settings: &'static [(SettingId, u32)], script: Box<Script>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = Server { address, requests: Arc::default(), connections: Arc::default() };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let script: Arc<Script> = script.into();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = connections.fetch_add(1, Ordering::SeqCst);
                let (requests, script) = (requests.clone(), script.clone());
                // A write error is ignored, because the client may have closed the connection.
                std::thread::spawn(move || serve(stream, settings, &requests, number, script.as_ref()));
            }
        });
        server
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Runs this number of requests with clients that share one connection.
    fn ran(&self, clients: usize, requests: u64, change: impl FnOnce(&mut Plan)) -> Outcome {
        let mut plan = Plan::of_one(Target::plain(self.address, "localhost"), "/");
        plan.version = HttpVersion::Http2;
        (plan.clients, plan.streams) = (clients, clients);
        plan.request_limit = Some(requests);
        plan.length = Duration::from_secs(60);
        change(&mut plan);
        run(&plan, &Progress::default()).expect("the plan can run")
    }
}

fn serve(
    mut stream: TcpStream,
    settings: &[(SettingId, u32)],
    requests: &AtomicU64,
    connection: u64,
    script: &Script,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    assert_eq!(&preface, frame::PREFACE);
    let mut out = Vec::new();
    append_settings(settings, &mut out);
    loop {
        stream.write_all(&std::mem::take(&mut out))?;
        let mut header = [0; frame::HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let header = FrameHeader::parse(&header);
        let mut payload = vec![0; header.length];
        stream.read_exact(&mut payload)?;
        let (stream_number, is_reset) =
            match Frame::parse(header, &payload).expect("the client keeps the rules") {
                Frame::Headers { stream, .. } => (stream, false),
                Frame::ResetStream { stream, .. } => (stream, true),
                Frame::Settings(_) => {
                    append_settings_acknowledgement(&mut out);
                    continue;
                }
                _ => continue,
            };
        requests.fetch_add(u64::from(!is_reset), Ordering::SeqCst);
        let mut request = Request { stream: stream_number, is_reset, connection, out: &mut out };
        if !script(&mut request) {
            stream.write_all(&out)?;
            return Ok(());
        }
    }
}

fn only(errors: &ErrorCounts, kind: &str) -> bool {
    errors.by_kind().iter().all(|(name, count)| (*count > 0) == (*name == kind))
}

#[test]
fn the_stream_limit_of_the_server_is_respected() {
    // The server answers two requests at a time. A client that does not wait would open a third stream, and a
    // client that waits too long would never continue.
    let waiting = std::sync::Mutex::new(Vec::new());
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    let server = Server::start(
        &[(SettingId::MAX_CONCURRENT_STREAMS, 2)],
        Box::new(move |request| {
            let mut waiting = waiting.lock().expect("no panic");
            waiting.push(request.stream);
            // The first requests may be sent before the client receives the limit.
            if request.stream > 10 {
                seen.fetch_max(waiting.len() as u64, Ordering::SeqCst);
            }
            if waiting.len() >= 2 {
                waiting.drain(..).for_each(|stream| request.answer(stream, b"ok"));
            }
            true
        }),
    );
    let outcome = server.ran(5, 101, |plan| plan.timeout = Duration::from_secs(10));
    assert_eq!((outcome.total_requests + outcome.total_errors, server.connections()), (101, 1));
    // With an odd number of requests, the last one would not be answered.
    assert!(outcome.total_errors <= 1 && outcome.total_retries == 0, "{:?}", outcome.total_errors_by_kind);
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert!(
        outcome.warnings.iter().any(|text| text.contains("fewer than 5 requests at once")),
        "{:?}",
        outcome.warnings
    );
}

#[test]
fn requests_of_a_lost_connection_are_sent_again_on_a_new_one() {
    let server = Server::start(
        &[],
        Box::new(|request| {
            // The 21st request of each connection closes it, with all requests that are not answered.
            if request.stream > 40 {
                return false;
            }
            request.answer(request.stream, b"ok");
            true
        }),
    );
    let outcome = server.ran(4, 200, |_| ());
    assert_eq!(
        (outcome.total_requests, outcome.total_errors),
        (200, 0),
        "{:?}",
        outcome.total_errors_by_kind
    );
    assert!(outcome.total_retries >= 9, "{}", outcome.total_retries);
    assert_eq!(outcome.total_connections, server.connections());
    assert!(server.connections() >= 10);
}

#[test]
fn a_lost_connection_fails_requests_that_are_not_idempotent() {
    let server = Server::start(
        &[],
        Box::new(|request| {
            // The fifth request of a connection is read and not answered.
            if request.stream == 9 {
                return false;
            }
            request.answer(request.stream, b"ok");
            true
        }),
    );
    let outcome = server.ran(1, 20, |plan| plan.requests[0].method = "POST".to_string());
    assert_eq!((outcome.total_requests, outcome.total_errors_by_kind.reset), (16, 4));
    assert_eq!((outcome.total_retries, server.requests(), server.connections()), (0, 20, 4));
}

#[test]
fn requests_before_goaway_are_answered() {
    let server = Server::start(
        &[],
        Box::new(|request| {
            match request.stream {
                ..19 => request.answer(request.stream, b"ok"),
                // This request is answered after GOAWAY; later requests are not processed.
                19 => {
                    append_goaway(19, ErrorCode::NO_ERROR, b"", request.out);
                    request.answer(19, b"last");
                }
                _ => {}
            }
            true
        }),
    );
    let outcome = server.ran(3, 100, |_| ());
    assert_eq!(
        (outcome.total_requests, outcome.total_errors),
        (100, 0),
        "{:?}",
        outcome.total_errors_by_kind
    );
    // Ten requests on each connection.
    assert_eq!((outcome.total_connections, server.connections()), (10, 10));
    assert_eq!(server.requests(), 100 + outcome.total_retries);
}

#[test]
fn a_refused_request_is_sent_again_once() {
    let refused = AtomicU64::new(0);
    let server = Server::start(
        &[],
        Box::new(move |request| {
            if request.stream % 10 == 5 && refused.fetch_add(1, Ordering::SeqCst) < 3 {
                append_reset_stream(request.stream, ErrorCode::REFUSED_STREAM, request.out);
            } else {
                request.answer(request.stream, b"ok");
            }
            true
        }),
    );
    let outcome = server.ran(2, 50, |_| ());
    assert_eq!((outcome.total_requests, outcome.total_errors, outcome.total_retries), (50, 0, 3));
    let server = Server::start(
        &[],
        Box::new(|request| {
            append_reset_stream(request.stream, ErrorCode::REFUSED_STREAM, request.out);
            true
        }),
    );
    let outcome = server.ran(2, 6, |_| ());
    assert_eq!((outcome.total_errors, outcome.total_retries, server.requests()), (6, 6, 12));
    assert!(only(&outcome.total_errors_by_kind, "reset"), "{:?}", outcome.total_errors_by_kind);
}

#[test]
fn a_timeout_cancels_only_its_own_request() {
    let resets = Arc::new(AtomicU64::new(0));
    let seen = resets.clone();
    let server = Server::start(
        &[],
        Box::new(move |request| {
            if request.is_reset {
                seen.fetch_add(1, Ordering::SeqCst);
            } else if request.stream != 7 {
                request.answer(request.stream, b"ok");
            }
            true
        }),
    );
    let outcome = server.ran(3, 300, |plan| plan.timeout = Duration::from_secs(5));
    assert_eq!(
        (outcome.total_requests, outcome.total_errors_by_kind.timeout, server.connections()),
        (299, 1, 1)
    );
    while resets.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn bodies_are_checked_stream_by_stream() {
    // The SHA-256 of "abc" (FIPS 180-4, the first example).
    let sum = [
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0,
        0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
    ];
    let server = Server::start(
        &[],
        Box::new(|request| {
            let body = if request.stream.is_multiple_of(3) { b"abd" } else { b"abc" };
            request.answer(request.stream, body);
            request.connection == 0
        }),
    );
    let outcome = server.ran(4, 300, |plan| plan.requests[0].expected_body_sha256 = Some(sum));
    assert_eq!((outcome.total_requests, outcome.total_errors_by_kind.wrong_body), (200, 100));
    let outcome = server.ran(1, 1, |plan| plan.requests[0].expected_body_bytes = Some(4));
    assert_eq!(outcome.total_errors_by_kind.short_body, 1);
}

#[test]
fn a_server_that_speaks_http_1_is_malformed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 1000];
            let _ = stream.read(&mut bytes);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let server = Server { address, requests: Arc::default(), connections: Arc::default() };
    let outcome = server.ran(2, 4, |_| ());
    assert_eq!(outcome.total_requests, 0);
    assert!(only(&outcome.total_errors_by_kind, "malformed"), "{:?}", outcome.total_errors_by_kind);
}

/// Answers a gRPC call: messages, then trailers with a status. Without a status, the stream ends within a
/// message.
fn answer_call(request: &mut Request<'_>, messages: &[u8], status: Option<&[u8]>) {
    let mut block = Vec::new();
    encode_response_block(200, [(&b"content-type"[..], &b"application/grpc"[..])], &mut block);
    let stream = request.stream;
    append_headers(stream, &block, false, 16_384, request.out);
    append_data_header(stream, messages.len(), status.is_none(), request.out);
    request.out.extend_from_slice(messages);
    if let Some(status) = status {
        let mut trailers = Vec::new();
        encode_fields_block([(&b"grpc-status"[..], status)], &mut trailers);
        append_headers(stream, &trailers, true, 16_384, request.out);
    }
}

#[test]
fn grpc_calls_have_messages_and_a_status() {
    const GOOD: &[u8] = &[0, 0, 0, 0, 2, 7, 7, 0, 0, 0, 0, 0];
    // Two messages and status 0; status 14; an invalid frame; an end within a message.
    let kinds = AtomicU64::new(0);
    let server = Server::start(
        &[],
        Box::new(move |request| {
            if !request.is_reset {
                match kinds.fetch_add(1, Ordering::SeqCst) % 4 {
                    0 => answer_call(request, GOOD, Some(b"0")),
                    1 => answer_call(request, GOOD, Some(b"14")),
                    2 => answer_call(request, &[9, 0, 0, 0, 0], Some(b"0")),
                    _ => answer_call(request, &GOOD[..6], None),
                }
            }
            true
        }),
    );
    let outcome = server.ran(4, 80, |plan| {
        plan.requests[0].messages = Some(MessagePlan { form: MessageForm::Grpc, limit: None });
        plan.requests[0].method = "POST".to_string();
        plan.requests[0].body = Some([0, 0, 0, 0, 0].as_slice().into());
    });
    let errors = &outcome.total_errors_by_kind;
    assert_eq!((outcome.total_requests, errors.bad_status), (20, 20), "{:?}", outcome.error_reasons);
    assert_eq!((errors.malformed, errors.short_body), (20, 20), "{:?}", outcome.error_reasons);
    assert!(outcome.error_reasons.iter().any(|reason| reason.reason == "grpc-status 14"));
    assert_eq!(outcome.messages.expect("there are messages").total, 80);
}
