//! The server, which calls the engine in any allowed order.

use std::collections::BTreeMap;

use touchstone_http::h2::frame::HEADER_BYTES;
use touchstone_http::h2::hpack::encode_fields_block;
use touchstone_http::h2::{Body, Event, Events, Limits, Responded, ServerConnection, StreamKey};

use crate::random;
use crate::wire::{Wire, byte_of, is_pattern, pattern};

/// The server of one connection.
pub struct Server {
    connection: ServerConnection,
    limits: Limits,
    events: Events,
    input: Vec<u8>,
    out: Vec<u8>,
    /// Requests without answers, and answers that are being sent, by stream.
    streams: BTreeMap<u32, Stream>,
    /// Streams whose answers are complete and whose requests may still end.
    answered_early: Vec<StreamKey>,
    failure: Option<String>,
    /// Bits of the bytes of the client are changed in transit: their contents are not checked.
    is_changed: bool,
}

struct Stream {
    key: StreamKey,
    requested: RequestedAnswer,
    state: State,
    /// The received bytes of the request body, and whether the body is complete.
    received: usize,
    is_whole: bool,
    /// Bytes of the request for which the window was not yet opened again.
    held: usize,
    /// Bytes of the answer that were written.
    sent: usize,
    /// Bytes of the answer that were offered, if its length is not stated.
    offered: usize,
}

#[derive(Debug, Clone, Copy)]
struct RequestedAnswer {
    number: u64,
    kind: BodyKind,
    length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Whole,
    Length,
    Stream,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Sending,
    /// The whole body was offered, and finished.
    Finished,
}

impl Server {
    pub fn new(limits: Limits, is_changed: bool) -> Server {
        Server {
            connection: ServerConnection::new(limits.clone()),
            limits,
            events: Events::new(),
            input: Vec::new(),
            out: Vec::new(),
            streams: BTreeMap::new(),
            answered_early: Vec::new(),
            failure: None,
            is_changed,
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub fn failure(&self) -> &str {
        self.failure.as_deref().unwrap_or_default()
    }

    pub fn receive(&mut self, from: &mut Wire) {
        // The server does not read from a client that does not read its answers.
        if self.has_failed() || self.out.len() > self.limits.output_bytes {
            return;
        }
        from.take(&mut self.input);
        let mut events = std::mem::take(&mut self.events);
        let received = self.connection.receive(&self.input, &mut events);
        for event in events.iter() {
            self.handle(event);
        }
        self.events = events;
        match received {
            Ok(consumed) => drop(self.input.drain(..consumed)),
            Err(error) => {
                self.connection.take_output(&mut self.out);
                self.failure = Some(error.to_string());
                return;
            }
        }
        let most = self.limits.frame_bytes as usize + HEADER_BYTES;
        assert!(self.input.len() < most, "{} bytes are left over", self.input.len());
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Request(request) => {
                let Some(requested) = parse(request.path()) else { return };
                let key = request.stream();
                random::note(|| format!("server: request {requested:?} on {}", key.id()));
                let stream = Stream {
                    key,
                    requested,
                    state: State::Waiting,
                    received: 0,
                    is_whole: request.end_of_stream(),
                    held: 0,
                    sent: 0,
                    offered: 0,
                };
                assert!(self.streams.insert(key.id(), stream).is_none(), "a stream has two requests");
            }
            Event::Data { stream, range, end_of_stream } => {
                let length = range.len();
                let Some(open) = self.streams.get_mut(&stream.id()) else {
                    self.connection.release(stream, length);
                    return;
                };
                let bytes = &self.input[range];
                assert!(!open.is_whole, "data after the end");
                let is_right = is_pattern(open.requested.number, open.received, bytes);
                assert!(is_right || self.is_changed, "stream {}: bytes of another body", stream.id());
                open.received += length;
                open.held += length;
                open.is_whole = end_of_stream;
                if random::percent(70) {
                    let held = std::mem::take(&mut open.held);
                    self.connection.release(stream, held);
                }
            }
            Event::Trailers { stream, fields } => {
                let count = fields.count();
                if let Some(open) = self.streams.get_mut(&stream.id()) {
                    assert!(!open.is_whole && (count == 1 || self.is_changed), "trailers that were not sent");
                    open.is_whole = true;
                }
            }
            Event::Reset { stream, reason, .. } => {
                random::note(|| format!("server: stream {} is reset, {reason:?}", stream.id()));
                self.streams.remove(&stream.id());
            }
            Event::Refused { stream_id, reason, .. } => {
                random::note(|| format!("server: stream {stream_id} is refused: {reason}"));
            }
            Event::GoAway { .. } | Event::Pong { .. } => {}
        }
    }

    /// Runs a random step of the server.
    pub fn act(&mut self) {
        let keys: Vec<u32> = self.streams.keys().copied().collect();
        for id in keys {
            if random::percent(30) {
                continue;
            }
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let held = std::mem::take(&mut stream.held);
            let key = stream.key;
            if held > 0 {
                self.connection.release(key, held);
            }
            match self.streams[&id].state {
                // Some are answered before their request is complete.
                State::Waiting if self.streams[&id].is_whole || random::one_in(30) => self.answer(id),
                State::Sending => self.offer(id),
                State::Waiting | State::Finished => {}
            }
        }
        self.stop_requests();
    }

    /// Ends some of the requests that are answered, so that the client sends no more of them.
    fn stop_requests(&mut self) {
        self.answered_early.extend(self.connection.take_answered_early());
        let connection = &mut self.connection;
        self.answered_early.retain(|stream| {
            let stops = random::one_in(3);
            if stops {
                random::note(|| format!("server: stops the request of {}", stream.id()));
                connection.stop_request(*stream);
            }
            !stops && connection.is_open(*stream)
        });
    }

    fn answer(&mut self, id: u32) {
        let stream = &self.streams[&id];
        let (key, RequestedAnswer { number, kind, length }) = (stream.key, stream.requested);
        // The received part of the request, so that the client can compare it.
        let (text, got) = (number.to_string(), stream.received.to_string());
        let received = if stream.is_whole { got } else { "part".to_string() };
        let long = "x".repeat(random::pick(&[0, 0, 0, 300, 20_000]));
        let fields = [
            (&b"x-number"[..], text.as_bytes()),
            (b"x-received", received.as_bytes()),
            (b"server", b"simulated"),
            (b"x-long", long.as_bytes()),
        ];
        let bytes = pattern(number, if kind == BodyKind::Whole { length } else { 0 });
        let body = match kind {
            BodyKind::Whole => Body::Bytes(&bytes),
            BodyKind::Length => Body::Length(length as u64),
            BodyKind::Stream => Body::Stream,
            BodyKind::Nothing => Body::Empty,
        };
        if random::one_in(10) {
            let mut block = Vec::new();
            touchstone_http::h2::hpack::encode_response_block(103, [(&b"link"[..], &b"a"[..])], &mut block);
            self.connection.inform(key, &block, &mut self.out);
        }
        let mut block = Vec::new();
        let responded =
            self.connection.respond_with_fields(key, 200, fields, body, &mut block, &mut self.out);
        random::note(|| format!("server: answers {id} with {length} bytes as {kind:?}: {responded:?}"));
        match responded {
            Responded::Complete => drop(self.streams.remove(&id)),
            Responded::Queued => {
                let stream = self.streams.get_mut(&id).unwrap();
                stream.state = if kind == BodyKind::Stream { State::Sending } else { State::Finished };
            }
            Responded::Gone => panic!("the engine has no stream {id}, which was not reset"),
        }
    }

    fn offer(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).unwrap();
        let left = stream.requested.length - stream.offered;
        let capacity = self.connection.send_capacity(stream.key);
        let piece = left.min(if random::one_in(10) { left } else { capacity }).min(random::size(20_000) + 1);
        if piece > 0 {
            assert!(self.connection.offer(stream.key, piece), "nothing can be offered on an open stream");
            stream.offered += piece;
        }
        if stream.offered == stream.requested.length {
            let mut block = Vec::new();
            encode_fields_block([(&b"last"[..], &b"yes"[..])], &mut block);
            let trailers = stream.requested.number.is_multiple_of(3).then_some(&block[..]);
            let finished = self.connection.finish(stream.key, trailers, &mut self.out);
            stream.state = State::Finished;
            match finished {
                Responded::Complete => drop(self.streams.remove(&id)),
                Responded::Queued => {}
                Responded::Gone => panic!("an open stream cannot be finished"),
            }
        }
    }

    /// Writes frames, as far as windows and the buffer allow, and sends all output.
    pub fn send(&mut self, to: &mut Wire) {
        let most = random::pick(&[1, 100, 5000, usize::MAX]);
        while let Some(frame) = self.connection.next_data(most, &mut self.out) {
            let stream = self.streams.get_mut(&frame.stream.id()).expect("DATA for an unknown stream");
            assert!(stream.key == frame.stream && frame.length > 0 && frame.length <= most);
            let (number, sent) = (stream.requested.number, stream.sent);
            self.out.extend((sent..sent + frame.length).map(|place| byte_of(number, place)));
            stream.sent += frame.length;
            assert!(stream.sent <= stream.requested.length, "a frame exceeds the body");
            if frame.is_last {
                assert_eq!(stream.sent, stream.requested.length, "END_STREAM before the end of the body");
                self.streams.remove(&frame.stream.id());
            }
            if random::one_in(4) {
                break;
            }
        }
        self.connection.take_output(&mut self.out);
        to.put(&self.out);
        self.out.clear();
    }

    pub fn second_passes(&mut self) {
        self.connection.replenish();
    }

    pub fn shut_down(&mut self) {
        self.connection.shut_down();
    }

    /// Whether all answers were sent, and all their requests have ended or were stopped.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.connection.open_streams() == 0
    }

    /// Checks that no stream is open after all requests are answered.
    pub fn check_end(&mut self) {
        assert!(self.streams.is_empty(), "{} streams are left", self.streams.len());
        assert_eq!(self.connection.open_streams(), 0, "the engine has streams that are complete");
        assert!(!self.connection.has_data_to_send() && !self.connection.is_blocked());
    }
}

/// The resource of a path: `/KIND/LENGTH/NUMBER`.
fn parse(path: &[u8]) -> Option<RequestedAnswer> {
    let path = std::str::from_utf8(path).ok()?;
    let mut parts = path.strip_prefix('/')?.split('/');
    let kind = match parts.next()? {
        "whole" => BodyKind::Whole,
        "length" => BodyKind::Length,
        "stream" => BodyKind::Stream,
        "nothing" => BodyKind::Nothing,
        _ => return None,
    };
    let length = parts.next()?.parse().ok().filter(|length| *length < 1_000_000)?;
    let number = parts.next()?.parse().ok()?;
    Some(RequestedAnswer { number, kind, length })
}
