//! Tests of a WebSocket without a network: the sent frames and the recorded events, step by step.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

struct Rig {
    socket: WebSocket,
    random: Random,
    websocket_output: WebSocketOutput,
}

/// The plan of a client that only receives.
const RECEIVE_ONLY: WebSocketPlan =
    WebSocketPlan { sends: Some(0), is_binary: false, send_every: None, receives: None, ping_every: None };

fn in_handshake(plan: WebSocketPlan) -> Rig {
    let setup = WebSocketSetup { plan, message: b"hello".as_slice().into(), protocols: Vec::new() };
    let mut rig = Rig {
        socket: WebSocket::default(),
        random: Random::of_client(7, 0),
        websocket_output: WebSocketOutput::default(),
    };
    let mut request = b"GET / HTTP/1.1\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".to_vec();
    rig.socket.start_handshake(&Arc::new(setup), None, &mut request, &mut rig.random);
    rig
}

fn opened(plan: WebSocketPlan, now_ns: u64) -> Rig {
    let mut rig = in_handshake(plan);
    let answer = rig.switching();
    assert_eq!(rig.take(&answer, now_ns), Ok(ReceiveOutcome::Continue));
    rig
}

impl Rig {
    fn switching(&self) -> Vec<u8> {
        self.socket.opening_answer().into_bytes()
    }

    fn take(&mut self, bytes: &[u8], now_ns: u64) -> Result<ReceiveOutcome, Fault> {
        self.socket.take(bytes, now_ns, &mut self.websocket_output, &mut self.random)
    }

    fn on_timer(&mut self, now_ns: u64) -> u64 {
        self.socket.on_timer(now_ns, 0, &mut self.websocket_output, &mut self.random)
    }

    /// The opcodes of the sent frames, and their payloads.
    fn sent(&mut self) -> Vec<(u8, Vec<u8>)> {
        let (mut rest, mut frames) = (&self.websocket_output.out[..], Vec::new());
        while let [first, second, a, b, c, d, after @ ..] = rest {
            assert_eq!((first & 0x80, second & 0x80), (0x80, 0x80), "complete and masked");
            let (payload, after) = after.split_at(usize::from(second & 0x7f));
            let keys = [a, b, c, d].into_iter().cycle();
            frames.push((first & 0x0f, payload.iter().zip(keys).map(|(byte, key)| byte ^ key).collect()));
            rest = after;
        }
        assert!(rest.is_empty(), "{rest:?}");
        self.websocket_output.out.clear();
        frames
    }

    fn events(&mut self) -> Vec<WebSocketEvent> {
        std::mem::take(&mut self.websocket_output.events)
    }
}

const MESSAGE: &[u8] = &[0x81, 2, b'o', b'k'];
const CLOSE: &[u8] = &[0x88, 2, 0x03, 0xe8];

#[test]
fn messages_follow_answers_and_the_close_follows_the_last_answer() {
    let mut rig = opened(WebSocketPlan { sends: Some(2), ..RECEIVE_ONLY }, 10 * MS);
    assert_eq!(rig.sent(), [(1, b"hello".to_vec())]);
    assert_eq!(rig.events(), [WebSocketEvent::Opened, WebSocketEvent::Sent]);
    assert_eq!(rig.take(MESSAGE, 15 * MS), Ok(ReceiveOutcome::Continue));
    assert_eq!(rig.sent(), [(1, b"hello".to_vec())]);
    let answered = |ms: u64| WebSocketEvent::Answered { answer_ns: ms * MS };
    assert_eq!(rig.events(), [WebSocketEvent::Message { gap_ns: None }, answered(5), WebSocketEvent::Sent]);
    assert_eq!(rig.take(MESSAGE, 22 * MS), Ok(ReceiveOutcome::Continue));
    assert_eq!(rig.sent(), [(8, vec![0x03, 0xe8])]);
    assert_eq!(rig.events(), [WebSocketEvent::Message { gap_ns: Some(7 * MS) }, answered(7)]);
    let ended = WebSocketEnd { code: 1000, reason: String::new(), is_complete: true };
    assert_eq!(rig.take(CLOSE, 23 * MS), Ok(ReceiveOutcome::Ended(ended)));
    assert!(rig.sent().is_empty(), "a close is not answered twice");
}

#[test]
fn answer_times_begin_at_the_due_times_of_messages() {
    let every = Some(Duration::from_millis(10));
    let mut rig = opened(WebSocketPlan { sends: Some(3), send_every: every, ..RECEIVE_ONLY }, 100 * MS);
    assert_eq!(rig.sent().len(), 1);
    assert_eq!(rig.socket.next_ns(), 110 * MS);
    // The engine is late: both messages are sent, and their answer times begin at their due times.
    assert_eq!(rig.on_timer(125 * MS), u64::MAX);
    assert_eq!(rig.sent().len(), 2);
    rig.events();
    rig.take(&[MESSAGE, MESSAGE, MESSAGE].concat(), 130 * MS).expect("good frames");
    let answers: Vec<WebSocketEvent> =
        rig.events().into_iter().filter(|event| matches!(event, WebSocketEvent::Answered { .. })).collect();
    assert_eq!(answers, [30, 20, 10].map(|ms| WebSocketEvent::Answered { answer_ns: ms * MS }));
    assert_eq!(rig.sent(), [(8, vec![0x03, 0xe8])]);
}

#[test]
fn a_client_without_answers_closes_after_its_last_message() {
    let mut rig = opened(WebSocketPlan { sends: Some(3), receives: Some(0), ..RECEIVE_ONLY }, MS);
    let kinds: Vec<u8> = rig.sent().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [1, 1, 1, 8]);
    assert!(rig.socket.has_timed_out(90_000 * MS, 30_000 * MS), "the client waits for the close");
}

#[test]
fn pings_are_answered_and_pong_times_measured() {
    let every = Some(Duration::from_millis(20));
    let mut rig = opened(WebSocketPlan { ping_every: every, ..RECEIVE_ONLY }, 0);
    rig.take(&[0x89, 1, b'x'], MS).expect("a good frame");
    assert_eq!(rig.sent(), [(10, b"x".to_vec())]);
    assert_eq!(rig.on_timer(20 * MS), 40 * MS);
    assert_eq!(rig.on_timer(40 * MS), 60 * MS);
    let pings = rig.sent();
    assert_eq!(pings.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [9, 9]);
    rig.events();
    // One pong, with the payload of the last ping, answers both pings.
    let pong = [&[0x8a, 8], &pings[1].1[..]].concat();
    rig.take(&pong, 43 * MS).expect("a good frame");
    rig.take(&pong, 44 * MS).expect("unsolicited pongs mean nothing");
    assert_eq!(rig.events(), [WebSocketEvent::Pong { pong_ns: 3 * MS }]);
    assert!(!rig.socket.has_timed_out(1_000_000 * MS, MS), "a receiving client has no time limit");
}

#[test]
fn an_early_end_is_reported_with_its_code() {
    let mut rig = opened(WebSocketPlan { sends: Some(2), ..RECEIVE_ONLY }, 0);
    rig.sent();
    let going = [&[0x88, 5, 0x03, 0xf3], b"bad".as_slice()].concat();
    let ended = WebSocketEnd { code: 1011, reason: "bad".to_string(), is_complete: false };
    assert_eq!(rig.take(&going, MS), Ok(ReceiveOutcome::Ended(ended)));
    assert_eq!(rig.sent(), [(8, vec![0x03, 0xf3])]);
    let mut listener = opened(RECEIVE_ONLY, 0);
    let ended = WebSocketEnd { code: NO_CODE, reason: String::new(), is_complete: true };
    assert_eq!(listener.take(&[0x88, 0], MS), Ok(ReceiveOutcome::Ended(ended)));
    assert_eq!(listener.sent(), [(8, Vec::new())]);
}

#[test]
fn an_invalid_frame_is_an_error_and_earlier_messages_count() {
    let mut rig = opened(RECEIVE_ONLY, 0);
    rig.events();
    let bytes = [MESSAGE, &[0x81, 1, 0xff]].concat();
    assert_eq!(rig.take(&bytes, MS), Err(Fault::Frame(WrongFrame::NotUtf8)));
    assert_eq!(rig.events(), [WebSocketEvent::Message { gap_ns: None }]);
    assert_eq!(rig.sent(), [(8, vec![0x03, 0xef])]);
}

#[test]
fn an_answer_other_than_101_is_returned_completely() {
    let mut rig = in_handshake(RECEIVE_ONLY);
    assert_eq!(rig.take(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 ", 0), Ok(ReceiveOutcome::Continue));
    let refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
    assert_eq!(rig.take(&refused[13..], 0), Ok(ReceiveOutcome::Refused(refused.to_vec())));
    assert!(!rig.socket.is_active());
    assert_eq!(in_handshake(RECEIVE_ONLY).take(b"hello\r\n", 0), Err(Fault::NotHttp));
    let wrong = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let fault = Fault::Handshake(WrongHandshake::Accept);
    assert_eq!(in_handshake(RECEIVE_ONLY).take(wrong, 0), Err(fault));
}

proptest! {
    /// The result does not depend on the pieces, including those of the handshake's answer.
    #[test]
    fn the_result_does_not_depend_on_the_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        count in 0usize..5,
        piece in 1usize..30,
    ) {
        let read = |piece: usize| {
            let mut rig = in_handshake(WebSocketPlan { sends: Some(3), ..RECEIVE_ONLY });
            let all = [rig.switching(), MESSAGE.repeat(count), bytes.clone()].concat();
            let mut outcome = Ok(ReceiveOutcome::Continue);
            for part in all.chunks(piece) {
                outcome = rig.take(part, 0);
                if outcome != Ok(ReceiveOutcome::Continue) {
                    break;
                }
            }
            (outcome, rig.events(), rig.sent())
        };
        prop_assert_eq!(read(usize::MAX), read(piece));
    }
}
