//! The connection, driven by frames written by hand and read back frame by frame.

mod bodies;
mod floods;
mod frame_rules;
mod properties;
mod requests;
mod responses;
mod scheduling;
mod shutdown;
mod windows;

use super::super::error::{ConnectionError, ErrorCode};
use super::super::events::{Event, Events};
use super::super::frame::{self, Frame, FrameHeader, FrameType, HEADER_BYTES, PREFACE};
use super::super::hpack::decoder::ListLimits;
use super::super::hpack::{Decoder, Encoder, FieldList, encode_response_block};
use super::super::limits::Limits;
use super::super::settings::SettingId;
use super::super::streams::StreamKey;
use super::{Body, Responded, ServerConnection};

/// The server's output as a client decodes it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Settings(Vec<(u16, u32)>),
    SettingsAcknowledgement,
    Headers { stream: u32, fields: Vec<(String, String)>, end: bool },
    Data { stream: u32, data: Vec<u8>, end: bool },
    Reset(u32, ErrorCode),
    WindowUpdate(u32, u32),
    GoAway(u32, ErrorCode),
    Ping([u8; 8], bool),
}

/// The events that the server's caller gets, with everything owned so that it can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Request { stream: u32, fields: Vec<(String, String)>, end: bool },
    Data { stream: u32, data: Vec<u8>, end: bool },
    Trailers { stream: u32, fields: Vec<(String, String)> },
    Reset { stream: u32, code: ErrorCode, by_client: bool },
    Refused { stream: u32, code: ErrorCode },
    GoAway(ErrorCode),
    Pong([u8; 8]),
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Frames as a client would write them.
#[derive(Clone, Default)]
struct Input {
    bytes: Vec<u8>,
}

impl Input {
    fn new() -> Input {
        Input::default()
    }

    /// The preface, settings, and the acknowledgement of the server's.
    fn hello(self) -> Input {
        let mut input = self.raw(PREFACE).settings(&[]);
        frame::append_settings_acknowledgement(&mut input.bytes);
        input
    }

    fn raw(mut self, bytes: &[u8]) -> Input {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn frame(mut self, frame_type: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Input {
        frame::append_header(payload.len(), frame_type, flags, stream, &mut self.bytes);
        self.raw(payload)
    }

    fn settings(mut self, settings: &[(SettingId, u32)]) -> Input {
        frame::append_settings(settings, &mut self.bytes);
        self
    }

    /// A field section whose block refers to no dynamic table.
    fn headers(mut self, stream: u32, fields: &[(&str, &str)], end: bool) -> Input {
        frame::append_headers(stream, &block(fields), end, 16_384, &mut self.bytes);
        self
    }

    fn get(self, stream: u32) -> Input {
        self.headers(stream, GET, true)
    }

    fn post(self, stream: u32) -> Input {
        self.headers(stream, POST, false)
    }

    fn data(self, stream: u32, data: &[u8], end: bool) -> Input {
        self.frame(FrameType::DATA, u8::from(end), stream, data)
    }

    fn window(mut self, stream: u32, increment: u32) -> Input {
        frame::append_window_update(stream, increment, &mut self.bytes);
        self
    }

    fn reset(mut self, stream: u32, code: ErrorCode) -> Input {
        frame::append_reset_stream(stream, code, &mut self.bytes);
        self
    }

    fn ping(mut self, payload: &[u8; 8], acknowledgement: bool) -> Input {
        frame::append_ping(*payload, acknowledgement, &mut self.bytes);
        self
    }

    fn priority_update(mut self, stream: u32, value: &str) -> Input {
        frame::append_priority_update(stream, value.as_bytes(), &mut self.bytes);
        self
    }
}

const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
const POST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "h")];

fn with<'a>(fields: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [fields, more].concat()
}

/// A block in which every field is a plain literal, also those that an encoder would leave out.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        for (index, text) in [name, value].into_iter().enumerate() {
            if index == 0 {
                block.push(0);
            }
            super::super::hpack::integer::encode(text.len(), 7, 0, &mut block);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn response_block(status: u16) -> Vec<u8> {
    let mut block = Vec::new();
    encode_response_block(status, [(&b"a"[..], &b"b"[..])], &mut block);
    block
}

fn response_fields() -> Vec<(String, String)> {
    vec![(":status".into(), "200".into()), ("a".into(), "b".into())]
}

/// A server and its client.
struct Harness {
    connection: ServerConnection,
    events: Events,
    /// The bytes that the server has not consumed.
    rest: Vec<u8>,
    out: Vec<u8>,
    decoder: Decoder,
}

impl Harness {
    /// A connection on which nothing has happened.
    fn fresh(limits: Limits) -> Harness {
        Harness {
            connection: ServerConnection::new(limits),
            events: Events::new(),
            rest: Vec::new(),
            out: Vec::new(),
            decoder: Decoder::new(),
        }
    }

    /// A connection on which both sides have agreed on their settings.
    fn with_limits(limits: Limits) -> Harness {
        let mut harness = Harness::fresh(limits);
        assert_eq!(harness.receive(Input::new().hello()), []);
        harness.sent();
        harness
    }

    fn new() -> Harness {
        Harness::with_limits(Limits::default())
    }

    fn try_receive(&mut self, input: Input) -> Result<Vec<Seen>, ConnectionError> {
        self.rest.extend_from_slice(&input.bytes);
        let consumed = self.connection.receive(&self.rest, &mut self.events)?;
        let seen = seen(&self.events, &self.rest);
        self.rest.drain(..consumed);
        Ok(seen)
    }

    fn receive(&mut self, input: Input) -> Vec<Seen> {
        self.try_receive(input).unwrap()
    }

    /// The connection fails with a code, and sends it.
    fn fails(mut self, input: Input) -> ErrorCode {
        let error = self.try_receive(input).unwrap_err();
        let sent = self.sent();
        assert!(matches!(sent.last(), Some(Sent::GoAway(_, code)) if *code == error.code), "{sent:?}");
        assert!(self.connection.is_finished());
        assert_eq!(self.try_receive(Input::new()), Err(error));
        assert_eq!(self.sent(), []);
        error.code
    }

    fn key(&self, stream: u32) -> StreamKey {
        self.connection.key_of(stream).unwrap()
    }

    fn respond(&mut self, stream: u32, body: Body<'_>) -> Responded {
        let key = self.key(stream);
        self.connection.respond(key, &response_block(200), body, &mut self.out)
    }

    /// Everything that can be sent, bodies being made of the letter `x`.
    fn pump(&mut self) -> Vec<Sent> {
        while let Some(frame) = self.connection.next_data(usize::MAX, &mut self.out) {
            self.out.resize(self.out.len() + frame.length, b'x');
        }
        self.sent()
    }

    /// The output that the client has received since the last call.
    fn sent(&mut self) -> Vec<Sent> {
        self.connection.take_output(&mut self.out);
        let out = std::mem::take(&mut self.out);
        let mut rest = &out[..];
        let mut sent = Vec::new();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(header);
            let (payload, after) = after.split_at(header.length);
            sent.push(self.read(Frame::parse(header, payload).unwrap()));
            rest = after;
        }
        assert!(rest.is_empty());
        sent
    }

    fn read(&mut self, frame: Frame<'_>) -> Sent {
        match frame {
            Frame::Settings(settings) => {
                Sent::Settings(settings.iter().map(|(id, value)| (id.0, value)).collect())
            }
            Frame::SettingsAcknowledgement => Sent::SettingsAcknowledgement,
            Frame::Headers { stream, fragment, end_stream: end, end_headers: true, .. } => {
                let mut list = FieldList::new();
                let limits = ListLimits { bytes: usize::MAX, fields: usize::MAX };
                self.decoder.decode(fragment, limits, &mut list).unwrap();
                let pair = |field: &_| (text(list.name(field)), text(list.value(field)));
                Sent::Headers { stream, fields: list.fields().iter().map(pair).collect(), end }
            }
            Frame::Data { stream, data, end_stream: end } => Sent::Data { stream, data: data.to_vec(), end },
            Frame::ResetStream { stream, code } => Sent::Reset(stream, code),
            Frame::WindowUpdate { stream, increment } => Sent::WindowUpdate(stream, increment),
            Frame::GoAway { last_stream, code, .. } => Sent::GoAway(last_stream, code),
            Frame::Ping { payload, acknowledgement } => Sent::Ping(payload, acknowledgement),
            other => panic!("a server does not send {other:?}"),
        }
    }
}

/// The events, with what they refer to.
fn seen(events: &Events, input: &[u8]) -> Vec<Seen> {
    let fields = |fields: super::super::events::Fields<'_>| -> Vec<(String, String)> {
        fields.map(|field| (text(field.name), text(field.value))).collect()
    };
    events
        .iter()
        .map(|event| match event {
            Event::Request(request) => Seen::Request {
                stream: request.stream().id(),
                fields: fields(request.fields()),
                end: request.end_of_stream(),
            },
            Event::Data { stream, range, end_of_stream } => {
                Seen::Data { stream: stream.id(), data: input[range].to_vec(), end: end_of_stream }
            }
            Event::Trailers { stream, fields: trailers } => {
                Seen::Trailers { stream: stream.id(), fields: fields(trailers) }
            }
            Event::Reset { stream, code, reason } => {
                Seen::Reset { stream: stream.id(), code, by_client: reason.is_none() }
            }
            Event::Refused { stream_id, code, .. } => Seen::Refused { stream: stream_id, code },
            Event::GoAway { code } => Seen::GoAway(code),
            Event::Pong { payload } => Seen::Pong(payload),
        })
        .collect()
}

fn request(stream: u32, end: bool) -> Seen {
    Seen::Request { stream, fields: vec![], end }
}

fn data(stream: u32, length: usize, end: bool) -> Sent {
    Sent::Data { stream, data: vec![b'x'; length], end }
}

fn headers(stream: u32, end: bool) -> Sent {
    Sent::Headers { stream, fields: response_fields(), end }
}
