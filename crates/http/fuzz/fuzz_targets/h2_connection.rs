//! Any bytes as the input of a client: no panic, output that consists of whole frames, and the same events
//! however the bytes are split.
//!
//! The first byte of the input determines how the rest is split, the second what the server does with
//! requests, and whether the client begins properly.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::h2::frame::{self, Frame, FrameHeader, HEADER_BYTES, PREFACE};
use touchstone_http::h2::{Body, Event, Events, Limits, Responded, ServerConnection, StreamKey};

static BODY: [u8; 70_000] = [b'x'; 70_000];

struct Server {
    connection: ServerConnection,
    events: Events,
    behaviour: u8,
    /// By stream index: the stream, and how many bytes of its body were not requested yet.
    sending: Vec<Option<(StreamKey, u64)>>,
    out: Vec<u8>,
    seen: Vec<String>,
    failed: bool,
}

impl Server {
    fn new(behaviour: u8) -> Server {
        let limits = Limits { concurrent_streams: 5, extended_connect: true, ..Limits::default() };
        Server {
            connection: ServerConnection::new(limits),
            events: Events::new(),
            behaviour,
            sending: Vec::new(),
            out: Vec::new(),
            seen: Vec::new(),
            failed: false,
        }
    }

    /// Processes the events, but answers only with `respond`, since the answers change which frames may
    /// follow.
    fn receive(&mut self, input: &mut Vec<u8>, respond: bool) {
        if self.failed {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        let received = self.connection.receive(input, &mut events);
        for event in events.iter() {
            self.on_event(event, input, respond);
        }
        self.events = events;
        match received {
            Ok(consumed) => drop(input.drain(..consumed)),
            Err(error) => {
                self.seen.push(error.to_string());
                self.failed = true;
            }
        }
    }

    fn on_event(&mut self, event: Event<'_>, input: &[u8], respond: bool) {
        self.seen.push(match &event {
            Event::Data { stream, range, end_of_stream } => {
                let bytes = input[range.clone()].escape_ascii().to_string();
                format!("{stream:?} {bytes} {end_of_stream}")
            }
            other => format!("{other:?}"),
        });
        match event {
            Event::Request(request) if respond => self.answer(request.stream()),
            Event::Data { stream, range, .. } => self.connection.release(stream, range.len()),
            Event::Reset { stream, .. } => {
                if let Some(sending) = self.sending.get_mut(stream.index()) {
                    *sending = None;
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, stream: StreamKey) {
        let length = [0, 1, 100, 70_000][usize::from(self.behaviour >> 2 & 3)];
        let body = match self.behaviour & 3 {
            0 => Body::Empty,
            1 => Body::Bytes(&BODY[..length]),
            2 => Body::Length(length as u64),
            _ => Body::Stream,
        };
        let fields = [(&b"server"[..], &b"fuzz"[..])];
        let mut block = Vec::new();
        let responded =
            self.connection.respond_with_fields(stream, 200, fields, body, &mut block, &mut self.out);
        if responded == Responded::Queued {
            if self.sending.len() <= stream.index() {
                self.sending.resize(stream.index() + 1, None);
            }
            self.sending[stream.index()] = Some((stream, length as u64));
            if body == Body::Stream {
                assert!(self.connection.offer(stream, length));
                if self.connection.finish(stream, Some(&[0x88]), &mut self.out) == Responded::Complete {
                    self.sending[stream.index()] = None;
                }
            }
        }
    }

    fn pump(&mut self) {
        while let Some(frame) = self.connection.next_data(10_000, &mut self.out) {
            assert!(frame.length > 0 && frame.length <= 10_000);
            let sending = self.sending[frame.stream.index()].as_mut().expect("only bodies that were queued");
            assert_eq!(sending.0, frame.stream);
            sending.1 -= frame.length as u64;
            assert_eq!(frame.is_last, sending.1 == 0);
            if frame.is_last {
                self.sending[frame.stream.index()] = None;
            }
            self.out.resize(self.out.len() + frame.length, b'x');
        }
        self.connection.take_output(&mut self.out);
    }

    /// All output is whole frames that a client can read.
    fn check_output(&mut self) {
        let mut rest = &self.out[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(header);
            let (payload, after) = after.split_at(header.length);
            assert!(header.length <= 16_384);
            assert!(!matches!(Frame::parse(header, payload), Err(_) | Ok(Frame::Unknown(_))));
            rest = after;
        }
        assert!(rest.is_empty());
        self.out.clear();
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [split, behaviour, rest @ ..] = bytes else { return };
    let mut whole = Vec::new();
    if behaviour & 0x80 == 0 {
        whole.extend_from_slice(PREFACE);
        frame::append_settings(&[], &mut whole);
        frame::append_settings_acknowledgement(&mut whole);
    }
    whole.extend_from_slice(rest);

    // Without answers in between, so that both see the same.
    let (mut one, mut other) = (Server::new(*behaviour), Server::new(*behaviour));
    one.receive(&mut whole.clone(), false);
    let mut input = Vec::new();
    for piece in whole.chunks(usize::from(*split).max(1)) {
        input.extend_from_slice(piece);
        other.receive(&mut input, false);
    }
    assert_eq!(one.seen, other.seen);
    one.pump();
    other.pump();
    assert_eq!(one.out, other.out);
    one.check_output();

    // With answers.
    let mut server = Server::new(*behaviour);
    let mut input = Vec::new();
    for (number, piece) in whole.chunks(usize::from(*split).max(1)).enumerate() {
        input.extend_from_slice(piece);
        server.receive(&mut input, true);
        if number % 3 != 0 {
            server.pump();
            server.check_output();
        }
        if *behaviour & 0x40 != 0 && number == 5 {
            server.connection.shut_down();
        }
    }
    server.pump();
    server.check_output();
});
