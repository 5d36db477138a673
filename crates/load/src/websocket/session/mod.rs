//! One WebSocket of a client, from its handshake to its end: the schedule of sent messages, and the received
//! messages.

use super::frames::{FrameReader, Opcode, Received, append_frame};
use super::handshake::{check, set_key};
use super::{WrongFrame, WrongHandshake};
use crate::choice::Random;
use crate::websocket_plan::WebSocketPlan;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use touchstone_http::response::{Parsed, ResponseHead, parse_response_head};

/// The most unsent bytes; due messages wait while there are more.
const MOST_UNSENT_BYTES: usize = 4 * 1024 * 1024;
/// The time after which a waiting message is tried again.
const UNSENT_PAUSE_NS: u64 = 1_000_000;
/// The most messages whose answer times are measured at the same time; further answers are only counted.
const MOST_UNANSWERED: usize = 65_536;
/// The most pings without a pong.
const MOST_PINGS: usize = 1024;
/// The code of a normal closure (RFC 6455, section 7.4.1).
const NORMAL_CLOSURE: u16 = 1000;
/// The server is going away, which counts as a normal closure.
const GOING_AWAY: u16 = 1001;
/// The code for a close frame without a code; it is never sent.
pub(crate) const NO_CODE: u16 = 1005;

/// The common part of all WebSockets of one request of the plan.
#[derive(Debug)]
pub(crate) struct WebSocketSetup {
    pub(crate) plan: WebSocketPlan,
    /// The message that is sent, if it does not vary.
    pub(crate) message: Arc<[u8]>,
    /// The offered values of Sec-WebSocket-Protocol.
    pub(crate) protocols: Vec<String>,
}

/// The state of a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// There is no WebSocket.
    #[default]
    None,
    /// The handshake was sent.
    Handshake,
    Open,
    /// The client has sent its close frame.
    Closing,
}

/// An event to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebSocketEvent {
    /// The handshake is done.
    Opened,
    Sent,
    /// A message was received; the time since the previous message, if there was one.
    Message {
        gap_ns: Option<u64>,
    },
    /// The answer to a message was received; the time since the message was due.
    Answered {
        answer_ns: u64,
    },
    /// The server has sent a ping.
    Ping,
    Pong {
        pong_ns: u64,
    },
}

/// The output of a WebSocket: bytes for the server, and events.
#[derive(Debug, Default)]
pub(crate) struct WebSocketOutput {
    pub(crate) out: Vec<u8>,
    pub(crate) events: Vec<WebSocketEvent>,
}

/// The state of a WebSocket after received bytes were processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReceiveOutcome {
    Continue,
    /// The server has sent another answer than 101; these bytes are its beginning.
    Refused(Vec<u8>),
    Ended(WebSocketEnd),
}

/// The end of a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebSocketEnd {
    /// The server's close code; [`NO_CODE`] without one.
    pub(crate) code: u16,
    pub(crate) reason: String,
    /// All expected messages were received, and the code is a normal one.
    pub(crate) is_complete: bool,
}

/// An error of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NotHttp,
    Handshake(WrongHandshake),
    Frame(WrongFrame),
}

/// One WebSocket.
#[derive(Debug, Default)]
pub(crate) struct WebSocket {
    phase: Phase,
    setup: Option<Arc<WebSocketSetup>>,
    message: Arc<[u8]>,
    accept: String,
    head: ResponseHead,
    head_bytes: Vec<u8>,
    frames: FrameReader,
    events: Vec<Received>,
    bytes: u64,
    sent: u64,
    received: u64,
    /// The due times of the messages without an answer.
    unanswered: VecDeque<u64>,
    is_untimed: bool,
    pings: VecDeque<(u64, u64)>,
    pings_sent: u64,
    next_send_ns: u64,
    next_ping_ns: u64,
    last_message_ns: Option<u64>,
    /// The time since which the server has to act.
    progress_ns: u64,
}

impl WebSocket {
    /// Starts the handshake: writes a key into the request, which is about to be sent.
    pub(crate) fn start_handshake(
        &mut self,
        setup: &Arc<WebSocketSetup>,
        message: Option<&[u8]>,
        request: &mut [u8],
        random: &mut Random,
    ) {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&random.next().to_be_bytes());
        key[8..].copy_from_slice(&random.next().to_be_bytes());
        let head = std::mem::take(&mut self.head);
        *self = WebSocket {
            phase: Phase::Handshake,
            setup: Some(setup.clone()),
            message: message.map_or_else(|| setup.message.clone(), Arc::from),
            accept: set_key(request, key),
            head,
            ..WebSocket::default()
        };
    }

    /// The answer of a server that opens the WebSocket.
    pub(crate) fn opening_answer(&self) -> String {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            self.accept
        )
    }

    /// Whether received bytes belong to the WebSocket.
    pub(crate) fn is_active(&self) -> bool {
        self.phase != Phase::None
    }

    /// Whether the handshake is done.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closing)
    }

    /// Resets the state after the connection was closed.
    pub(crate) fn reset(&mut self) {
        self.phase = Phase::None;
    }

    /// The number of received bytes, and of those in messages.
    pub(crate) fn received_bytes(&self) -> (u64, u64) {
        (self.bytes, self.frames.payload_bytes)
    }

    /// A text with the beginning of the last frame.
    pub(crate) fn frame_beginning(&self) -> String {
        let shown: Vec<String> = self.frames.beginning().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("a frame that begins with {}", shown.join(" "))
    }

    fn plan(&self) -> Option<WebSocketPlan> {
        self.setup.as_ref().map(|setup| setup.plan)
    }

    fn expected_messages(&self) -> Option<u64> {
        self.plan().and_then(|plan| plan.expected_messages())
    }

    /// Processes received bytes. Messages before an error are counted.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        websocket_output: &mut WebSocketOutput,
        random: &mut Random,
    ) -> Result<ReceiveOutcome, Fault> {
        if self.phase != Phase::Handshake {
            return self.take_frames(bytes, now_ns, websocket_output, random);
        }
        self.head_bytes.extend_from_slice(bytes);
        loop {
            let length = match parse_response_head(&self.head_bytes, &mut self.head) {
                Ok(Parsed::Complete(length)) => length,
                Ok(Parsed::Partial) => return Ok(ReceiveOutcome::Continue),
                Err(_) => return Err(Fault::NotHttp),
            };
            match self.head.status {
                101 => {
                    let protocols = self.setup.as_ref().map_or(&[][..], |setup| &setup.protocols[..]);
                    check(&self.head, &self.accept, protocols).map_err(Fault::Handshake)?;
                    let mut head_bytes = std::mem::take(&mut self.head_bytes);
                    let frames = head_bytes.split_off(length);
                    self.bytes += length as u64;
                    self.open(now_ns, websocket_output, random);
                    return self.take_frames(&frames, now_ns, websocket_output, random);
                }
                // An interim answer: another answer follows.
                100..=199 => {
                    self.bytes += length as u64;
                    self.head_bytes.drain(..length);
                }
                _ => {
                    self.phase = Phase::None;
                    return Ok(ReceiveOutcome::Refused(std::mem::take(&mut self.head_bytes)));
                }
            }
        }
    }

    fn open(&mut self, now_ns: u64, websocket_output: &mut WebSocketOutput, random: &mut Random) {
        let Some(plan) = self.plan() else { return };
        self.phase = Phase::Open;
        self.progress_ns = now_ns;
        websocket_output.events.push(WebSocketEvent::Opened);
        self.next_ping_ns = plan.ping_every.map_or(u64::MAX, |every| now_ns + every.as_nanos() as u64);
        self.next_send_ns = u64::MAX;
        if plan.sends == Some(0) {
            return;
        }
        if plan.send_every.is_some() || !plan.waits_for_answers() {
            self.next_send_ns = now_ns;
        } else {
            self.send(now_ns, websocket_output, random);
        }
        self.on_timer(now_ns, 0, websocket_output, random);
    }

    fn may_send(&self) -> bool {
        let sends = self.plan().map_or(Some(0), |plan| plan.sends);
        self.phase == Phase::Open && sends.is_none_or(|sends| self.sent < sends)
    }

    /// Sends the client's message, which was due at this time.
    fn send(&mut self, due_ns: u64, websocket_output: &mut WebSocketOutput, random: &mut Random) {
        let is_binary = self.plan().is_some_and(|plan| plan.is_binary);
        let opcode = if is_binary { Opcode::Binary } else { Opcode::Text };
        append_frame(&mut websocket_output.out, opcode, &self.message, key(random));
        websocket_output.events.push(WebSocketEvent::Sent);
        self.sent += 1;
        if self.plan().is_some_and(|plan| !plan.waits_for_answers()) {
            return;
        }
        if self.unanswered.is_empty() {
            self.progress_ns = self.progress_ns.max(due_ns);
        }
        self.is_untimed |= self.unanswered.len() >= MOST_UNANSWERED;
        if !self.is_untimed {
            self.unanswered.push_back(due_ns);
        }
    }

    fn take_frames(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        websocket_output: &mut WebSocketOutput,
        random: &mut Random,
    ) -> Result<ReceiveOutcome, Fault> {
        self.bytes += bytes.len() as u64;
        let mut events = std::mem::take(&mut self.events);
        let taken = self.frames.take(bytes, &mut events);
        let mut ended = None;
        for event in events.drain(..) {
            match event {
                Received::Message => self.take_message(now_ns, websocket_output, random),
                Received::Ping(payload) => {
                    websocket_output.events.push(WebSocketEvent::Ping);
                    if self.phase == Phase::Open {
                        append_frame(&mut websocket_output.out, Opcode::Pong, &payload, key(random));
                    }
                }
                Received::Pong(payload) => self.take_pong(&payload, now_ns, websocket_output),
                Received::Close(code, reason) => {
                    ended = Some(self.take_close(code, reason, websocket_output, random));
                }
            }
        }
        self.events = events;
        match (taken, ended) {
            (Err(wrong), _) => {
                if self.phase == Phase::Open {
                    let code = wrong.close_code().to_be_bytes();
                    append_frame(&mut websocket_output.out, Opcode::Close, &code, key(random));
                }
                Err(Fault::Frame(wrong))
            }
            (Ok(()), Some(ended)) => Ok(ReceiveOutcome::Ended(ended)),
            (Ok(()), None) => Ok(ReceiveOutcome::Continue),
        }
    }

    fn take_message(&mut self, now_ns: u64, websocket_output: &mut WebSocketOutput, random: &mut Random) {
        self.received += 1;
        self.progress_ns = now_ns;
        let gap_ns = self.last_message_ns.map(|last_ns| now_ns.saturating_sub(last_ns));
        self.last_message_ns = Some(now_ns);
        websocket_output.events.push(WebSocketEvent::Message { gap_ns });
        if let Some(due_ns) = self.unanswered.pop_front() {
            websocket_output
                .events
                .push(WebSocketEvent::Answered { answer_ns: now_ns.saturating_sub(due_ns) });
        }
        if self.expected_messages().is_some_and(|expected| expected > 0 && self.received >= expected) {
            self.close(now_ns, websocket_output, random);
        } else if self.plan().is_some_and(|plan| plan.sends_after_answers()) && self.may_send() {
            self.send(now_ns, websocket_output, random);
        }
    }

    fn take_pong(&mut self, payload: &[u8], now_ns: u64, websocket_output: &mut WebSocketOutput) {
        // A server may answer only the last of several pings (section 5.5.3).
        let Ok(number) = <[u8; 8]>::try_from(payload).map(u64::from_be_bytes) else { return };
        let Some(place) = self.pings.iter().position(|(ping, _)| *ping == number) else { return };
        if let Some((_, at_ns)) = self.pings.drain(..=place).next_back() {
            websocket_output.events.push(WebSocketEvent::Pong { pong_ns: now_ns.saturating_sub(at_ns) });
        }
    }

    fn take_close(
        &mut self,
        code: Option<u16>,
        reason: String,
        websocket_output: &mut WebSocketOutput,
        random: &mut Random,
    ) -> WebSocketEnd {
        if self.phase == Phase::Open {
            let echo = code.map(u16::to_be_bytes);
            let echo = echo.as_ref().map_or(&[][..], |code| &code[..]);
            append_frame(&mut websocket_output.out, Opcode::Close, echo, key(random));
        }
        let has_all = self.expected_messages().is_none_or(|expected| self.received >= expected);
        let code = code.unwrap_or(NO_CODE);
        let is_complete = has_all && matches!(code, NORMAL_CLOSURE | GOING_AWAY | NO_CODE);
        WebSocketEnd { code, reason, is_complete }
    }

    /// Sends the close frame of an open WebSocket.
    pub(crate) fn close(&mut self, now_ns: u64, websocket_output: &mut WebSocketOutput, random: &mut Random) {
        if self.phase == Phase::Open {
            append_frame(
                &mut websocket_output.out,
                Opcode::Close,
                &NORMAL_CLOSURE.to_be_bytes(),
                key(random),
            );
            (self.phase, self.progress_ns) = (Phase::Closing, now_ns);
        }
    }

    /// Whether it is open and the client closes it only at the end of the run.
    pub(crate) fn is_endless(&self) -> bool {
        self.phase == Phase::Open && self.plan().is_some_and(|plan| plan.is_endless())
    }

    /// The time of the next due message or ping; `u64::MAX` if there is none.
    pub(crate) fn next_ns(&self) -> u64 {
        if self.phase == Phase::Open { self.next_send_ns.min(self.next_ping_ns) } else { u64::MAX }
    }

    /// Sends due messages and pings; returns the time of the next call. `unsent_bytes` is the number of bytes
    /// that wait for the socket.
    pub(crate) fn on_timer(
        &mut self,
        now_ns: u64,
        unsent_bytes: usize,
        websocket_output: &mut WebSocketOutput,
        random: &mut Random,
    ) -> u64 {
        let Some(plan) = self.plan() else { return u64::MAX };
        let each_ns = |every: Option<Duration>| every.map_or(0, |every| every.as_nanos() as u64);
        while self.phase == Phase::Open && self.next_send_ns <= now_ns {
            if unsent_bytes + websocket_output.out.len() > MOST_UNSENT_BYTES {
                return now_ns + UNSENT_PAUSE_NS;
            }
            self.send(self.next_send_ns, websocket_output, random);
            if self.may_send() {
                self.next_send_ns += each_ns(plan.send_every);
                continue;
            }
            self.next_send_ns = u64::MAX;
            if !plan.waits_for_answers() {
                self.close(now_ns, websocket_output, random);
            }
        }
        if self.phase == Phase::Open && self.next_ping_ns <= now_ns {
            append_frame(
                &mut websocket_output.out,
                Opcode::Ping,
                &self.pings_sent.to_be_bytes(),
                key(random),
            );
            if self.pings.len() == MOST_PINGS {
                self.pings.pop_front();
            }
            self.pings.push_back((self.pings_sent, now_ns));
            self.pings_sent += 1;
            self.next_ping_ns = now_ns + each_ns(plan.ping_every);
        }
        self.next_ns()
    }

    /// Whether the server has exceeded the time limit for the expected message or close frame.
    pub(crate) fn has_timed_out(&self, now_ns: u64, timeout_ns: u64) -> bool {
        let is_awaited = self.phase == Phase::Closing
            || !self.unanswered.is_empty()
            || self.expected_messages().is_some_and(|expected| self.received < expected);
        is_awaited && now_ns.saturating_sub(self.progress_ns) > timeout_ns
    }
}

/// A random masking key for a frame (section 5.3).
fn key(random: &mut Random) -> [u8; 4] {
    let [a, b, c, d, ..] = random.next().to_be_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests;
