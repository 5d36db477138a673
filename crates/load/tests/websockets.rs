//! Tests of WebSockets, with a server that has known delays and its own log: each message, a stall, an end
//! within a message, invalid frames, fragments, pings, close codes.

mod support;

use base64::Engine as _;
use sha1::Digest as _;
use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{After, Request, Server, answer, write};
use touchstone_load::{ErrorCounts, Outcome, Plan, Progress, WebSocketPlan, run};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

fn ran(plan: &Plan) -> Outcome {
    run(plan, &Progress::default()).expect("the plan can run")
}

/// A client that sends this number of messages, each after the answer to the previous one.
fn sends(count: u64) -> WebSocketPlan {
    WebSocketPlan { sends: Some(count), is_binary: false, send_every: None, receives: None, ping_every: None }
}

fn plan(server: &Server, websocket: WebSocketPlan) -> Plan {
    let mut plan = server.plan("/chat");
    plan.requests[0].websocket = Some(websocket);
    plan.requests[0].body = Some(b"hello".as_slice().into());
    plan.length = Duration::from_secs(60);
    plan.clients = 8;
    plan
}

/// Checks the fields of the handshake, and answers it.
fn open(request: &Request, stream: &mut TcpStream) {
    let field = |name: &str| {
        let mut fields = request.fields.iter().filter_map(|field| field.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value.to_string())
    };
    assert_eq!(request.line, "GET /chat HTTP/1.1");
    assert_eq!(field("Upgrade").as_deref(), Some("websocket"));
    assert_eq!(field("Connection").as_deref(), Some("Upgrade"));
    assert_eq!(field("Sec-WebSocket-Version").as_deref(), Some("13"));
    assert_eq!(field("Content-Length"), None, "the body is a message");
    let key = field("Sec-WebSocket-Key").expect("a key");
    let standard = base64::engine::general_purpose::STANDARD;
    assert_eq!(standard.decode(&key).expect("base64").len(), 16);
    let digest = sha1::Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    let accept = standard.encode(digest);
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    write(stream, head.as_bytes());
}

/// The opcode and the payload of the client's next frame; `None` at the end of the connection.
fn read(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    assert_eq!((head[0] & 0xf0, head[1] & 0x80), (0x80, 0x80), "a frame of a client is complete and masked");
    let length = match head[1] & 0x7f {
        126 => {
            let mut long = [0; 2];
            stream.read_exact(&mut long).ok()?;
            usize::from(u16::from_be_bytes(long))
        }
        short => usize::from(short),
    };
    let (mut key, mut payload) = ([0; 4], vec![0; length]);
    stream.read_exact(&mut key).ok()?;
    stream.read_exact(&mut payload).ok()?;
    payload.iter_mut().zip(key.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((head[0] & 0x0f, payload))
}

/// A complete frame of a server.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | kind, payload.len() as u8];
    bytes.extend_from_slice(payload);
    bytes
}

fn close(code: u16) -> Vec<u8> {
    frame(CLOSE, &code.to_be_bytes())
}

/// Answers every message, and the close frame.
fn echo(stream: &mut TcpStream) -> After {
    while let Some((kind, payload)) = read(stream) {
        match kind {
            CLOSE => {
                write(stream, &frame(CLOSE, &payload));
                return After::Close;
            }
            PING => write(stream, &frame(PONG, &payload)),
            PONG => {}
            kind => write(stream, &frame(kind, &payload)),
        }
    }
    After::Close
}

#[test]
fn every_message_is_counted_and_measured_under_an_open_load() {
    const DELAY: Duration = Duration::from_millis(20);
    const STALL: Duration = Duration::from_millis(120);
    // The server's log of its own delay for each message.
    let log: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let server_log = log.clone();
    let server = Server::start(move |request, stream| {
        open(request, stream);
        for number in 0.. {
            let Some((TEXT, payload)) = read(stream) else { break };
            let received_at = Instant::now();
            std::thread::sleep(if number == 2 { STALL } else { DELAY });
            server_log.lock().expect("no test panicked").push(received_at.elapsed());
            write(stream, &frame(TEXT, &payload));
        }
        write(stream, &close(1000));
        After::Close
    });
    let mut plan = plan(&server, sends(5));
    plan.clients = 40;
    plan.rate = Some(50.0);
    plan.request_limit = Some(60);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (60, 0), "{:?}", outcome.error_reasons);
    assert_eq!((server.connections(), outcome.total_connections), (60, 60));
    let (messages, websockets) = (outcome.messages.expect("messages"), outcome.websockets.expect("some"));
    assert_eq!((messages.total, websockets.total_sent, websockets.total_opened), (300, 300, 60));
    assert_eq!((messages.first_ns.len(), messages.gap_ns.len()), (60, 240));
    assert_eq!((websockets.answer_ns.len(), websockets.open_ns.len()), (300, 60));
    assert_eq!(websockets.closes.into_iter().collect::<Vec<_>>(), [(1000, 60)]);
    // Measured times are not shorter than the server's: each percentile is at least that of the server's log.
    let mut log = log.lock().expect("no test panicked").clone();
    log.sort_unstable();
    for percent in [50, 75, 90, 99] {
        let of_server = log[(log.len() * percent / 100).min(log.len() - 1)].as_nanos() as f64;
        let of_client = websockets.answer_ns.value_at_quantile((percent as f64 + 0.5) / 100.0) as f64;
        assert!(of_client >= of_server * 0.98, "p{percent}: {of_client} after {of_server}");
    }
}

#[test]
fn messages_at_fixed_times_are_sent_while_the_server_stalls() {
    let server = Server::start(|request, stream| {
        open(request, stream);
        // The server reads nothing during the stall, while messages are due.
        std::thread::sleep(Duration::from_secs(1));
        echo(stream)
    });
    let every = Some(Duration::from_millis(20));
    let mut plan = plan(&server, WebSocketPlan { send_every: every, ..sends(20) });
    plan.request_limit = Some(8);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (8, 0), "{:?}", outcome.error_reasons);
    let websockets = outcome.websockets.expect("WebSockets");
    assert_eq!((websockets.total_sent, websockets.answer_ns.len()), (160, 160));
    // The first message waits for the whole stall, and the tenth for the rest of it. A client that waits for
    // answers would measure one long time and nineteen short ones. Most of the stall is left out of the
    // count, because the handshake may take long on a busy machine.
    let long = websockets.answer_ns.iter_recorded();
    let long: u64 = long.filter(|v| v.value_iterated_to() > 100_000_000).map(|v| v.count_at_value()).sum();
    assert!(long >= 8 * 3, "{long} of 160 show the stall");
}

#[test]
fn fragments_with_control_frames_between_them_are_accepted() {
    let server = Server::start(|request, stream| {
        open(request, stream);
        let Some((BINARY, payload)) = read(stream) else { panic!("a binary message") };
        assert_eq!(payload, b"hello");
        // A text in three fragments, divided within a character, with a ping and a pong between them. Every
        // byte is sent separately.
        let text = "fr\u{e4}gment".as_bytes();
        let fragments = [
            &[0x01, 3][..],
            &text[..3],
            &frame(PING, b"there?"),
            &[0x00, 0],
            &frame(PONG, b""),
            &[0x80, (text.len() - 3) as u8],
            &text[3..],
        ]
        .concat();
        for byte in fragments {
            write(stream, &[byte]);
        }
        assert_eq!(read(stream), Some((PONG, b"there?".to_vec())));
        echo(stream)
    });
    let mut plan = plan(&server, WebSocketPlan { is_binary: true, ..sends(1) });
    plan.request_limit = Some(10);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (10, 0), "{:?}", outcome.error_reasons);
    let websockets = outcome.websockets.expect("WebSockets");
    assert_eq!((outcome.messages.expect("messages").total, websockets.pings), (10, 10));
}

#[test]
fn pong_times_are_measured_and_the_end_of_the_run_closes_an_endless_websocket() {
    let server = Server::start(|request, stream| {
        open(request, stream);
        echo(stream)
    });
    let every = Some(Duration::from_millis(50));
    let mut plan =
        plan(&server, WebSocketPlan { sends: None, send_every: every, ping_every: every, ..sends(0) });
    plan.length = Duration::from_secs(3);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (8, 0), "{:?}", outcome.error_reasons);
    let websockets = outcome.websockets.expect("WebSockets");
    assert!(!websockets.pong_ns.is_empty() && websockets.pong_ns.len() <= 8 * 60);
    // All sent messages were answered before the close.
    assert_eq!(outcome.messages.expect("messages").total, websockets.total_sent);
    assert_eq!(websockets.closes.into_iter().collect::<Vec<_>>(), [(1000, 8)]);
}

/// The kind, the reason and the example of the only errors.
fn only_reason(outcome: &Outcome, count: u64) -> (String, String, Option<String>) {
    assert_eq!((outcome.total_requests, outcome.total_errors), (0, count), "{:?}", outcome.error_reasons);
    let [reason] = &outcome.error_reasons[..] else { panic!("{:?}", outcome.error_reasons) };
    assert_eq!((reason.count, &reason.first_request[..]), (count, "GET /chat"));
    (reason.kind.clone(), reason.reason.clone(), reason.first_answer.clone())
}

#[test]
fn an_invalid_frame_is_an_error_and_closes_with_a_code() {
    let codes: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let seen = codes.clone();
    let server = Server::start(move |request, stream| {
        open(request, stream);
        read(stream);
        write(stream, &[&frame(TEXT, b"good"), &[0xf3, 0x01, b'x'][..]].concat());
        if let Some((CLOSE, code)) = read(stream) {
            seen.lock().expect("no test panicked").push(code);
        }
        After::Close
    });
    let mut plan = plan(&server, sends(3));
    plan.request_limit = Some(6);
    let outcome = ran(&plan);
    assert_eq!(outcome.messages.as_ref().expect("messages").total, 6, "the message before it counts");
    let (kind, reason, example) = only_reason(&outcome, 6);
    assert_eq!(kind, "wrong_frame");
    assert!(reason.contains("reserved bit"), "{reason}");
    assert_eq!(example.as_deref(), Some("a frame that begins with f3 01"));
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts { wrong_frame: 6, ..ErrorCounts::default() });
    let codes = codes.lock().expect("no test panicked");
    assert!(codes.iter().all(|code| *code == 1002_u16.to_be_bytes()), "{codes:?}");
}

#[test]
fn an_aborted_connection_and_an_early_close_are_different_errors() {
    let cut = Server::start(|request, stream| {
        open(request, stream);
        read(stream);
        write(stream, &[0x81, 10, b'h', b'a', b'l', b'f']);
        After::Close
    });
    let mut of_cut = plan(&cut, sends(1));
    of_cut.request_limit = Some(5);
    let outcome = ran(&of_cut);
    let (kind, reason, _) = only_reason(&outcome, 5);
    assert_eq!((&kind[..], &reason[..]), ("closed", "the connection ended without a close frame"));
    assert_eq!(outcome.websockets.expect("WebSockets").closes.get(&1006), Some(&5));
    assert_eq!(outcome.messages.expect("messages").total, 0, "half a message is none");

    let overloaded = Server::start(|request, stream| {
        open(request, stream);
        read(stream);
        write(stream, &frame(CLOSE, b"\x03\xf5too much"));
        read(stream);
        After::Close
    });
    let mut of_overload = plan(&overloaded, sends(1));
    of_overload.request_limit = Some(5);
    let (kind, reason, example) = only_reason(&ran(&of_overload), 5);
    assert_eq!((&kind[..], &reason[..]), ("closed", "the server closed with code 1013"));
    assert_eq!(example.as_deref(), Some("too much"));
}

#[test]
fn an_answer_that_opens_no_websocket_is_a_bad_status_or_malformed() {
    let refusing = Server::start(|_, stream| {
        write(stream, &answer(503, b"full"));
        After::Keep
    });
    let mut of_refusing = plan(&refusing, sends(1));
    of_refusing.request_limit = Some(20);
    let outcome = ran(&of_refusing);
    let (kind, reason, _) = only_reason(&outcome, 20);
    assert_eq!((&kind[..], &reason[..]), ("bad_status", "status 503"));
    assert_eq!(refusing.connections(), 8, "a refusal keeps the connection");

    let wrong = Server::start(|_, stream| {
        let head = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Accept: AAAA\r\n\r\n";
        write(stream, head.as_bytes());
        After::Close
    });
    let mut of_wrong = plan(&wrong, sends(1));
    of_wrong.request_limit = Some(5);
    let (kind, reason, _) = only_reason(&ran(&of_wrong), 5);
    assert_eq!((&kind[..], &reason[..]), ("malformed", "101 without the right Sec-WebSocket-Accept"));
}

#[test]
fn a_missing_answer_is_a_timeout_and_a_silent_stream_is_not() {
    let server = Server::start(|request, stream| {
        open(request, stream);
        while read(stream).is_some_and(|(kind, _)| kind != CLOSE) {}
        write(stream, &close(1000));
        After::Close
    });
    let mut silent = plan(&server, sends(1));
    silent.timeout = Duration::from_millis(200);
    silent.request_limit = Some(4);
    let (kind, ..) = only_reason(&ran(&silent), 4);
    assert_eq!(kind, "timeout");
    let mut listener = plan(&server, sends(0));
    listener.timeout = Duration::from_millis(200);
    listener.length = Duration::from_secs(1);
    let outcome = ran(&listener);
    assert_eq!((outcome.total_requests, outcome.total_errors), (8, 0), "{:?}", outcome.error_reasons);
}

#[test]
fn invalid_plans_are_refused() {
    let server = Server::start(|_, _| After::Close);
    let refused = |change: &dyn Fn(&mut Plan), said: &str| {
        let mut plan = plan(&server, sends(1));
        change(&mut plan);
        let error = plan.check().expect_err(said).0;
        assert!(error.contains(said), "{error}");
    };
    refused(&|plan| plan.version = touchstone_load::HttpVersion::Http2, "over HTTP/1.1");
    refused(&|plan| plan.requests[0].method = "POST".to_string(), "with GET");
    refused(&|plan| plan.requests[0].body = Some([0xff].as_slice().into()), "not UTF-8");
    refused(
        &|plan| {
            let send_every = Some(Duration::ZERO);
            plan.requests[0].websocket = Some(WebSocketPlan { send_every, ..sends(1) });
        },
        "above 0",
    );
}
