//! The client, which does not use the connection of the engine. It tracks the permissions of the server, and
//! fails if the server exceeds them.

use std::collections::BTreeMap;

use touchstone_http::h2::ErrorCode;
use touchstone_http::h2::frame::{self, Frame, FrameHeader, FrameType, HEADER_BYTES, PREFACE};
use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::hpack::{Decoder, Encoder, FieldList};
use touchstone_http::h2::settings::{DEFAULT_FRAME_BYTES, DEFAULT_WINDOW_BYTES, SettingId};

use crate::random;
use crate::wire::{Wire, is_pattern, pattern};

const LIST: ListLimits = ListLimits { bytes: 1 << 20, fields: 1000 };

/// The window of the server at the end of a run.
const OPEN_WINDOW: u32 = 1 << 30;

const MOST_BODY_BYTES: usize = 60_000;

/// A client.
pub struct Client {
    input: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
    streams: BTreeMap<u32, Stream>,
    next_stream: u32,
    /// The window of the connection for the server.
    window: i64,
    /// The window of a new stream for the server, by the settings that it has acknowledged.
    stream_window: i64,
    /// Settings that were sent: windows and table sizes that apply when they are acknowledged.
    unacknowledged: Vec<(Option<u32>, Option<u32>)>,
    /// The windows of the connection and of a new stream for the client.
    send_window: i64,
    send_stream_window: i64,
    most_streams: usize,
    has_settings: bool,
    is_leaving: bool,
    block: Option<(u32, bool, Vec<u8>)>,
    /// Bits of its bytes are changed in transit: the server may send any complete frames.
    is_changed: bool,
    unanswered_pings: u64,
    /// Pings and settings of the server that the client must acknowledge.
    pongs: Vec<[u8; 8]>,
    acknowledgements: u64,
}

struct Stream {
    number: u64,
    kind: &'static str,
    length: usize,
    /// The length of the request body, and the number of bytes that were sent.
    body_bytes: usize,
    body_sent: usize,
    has_ended: bool,
    sends_trailers: bool,
    send_window: i64,
    window: i64,
    received: usize,
    has_head: bool,
    is_answered: bool,
    is_reset: bool,
    /// The server has reset the stream: its answer is complete, and it does not read the rest of the body.
    is_stopped: bool,
    /// The server does not process the stream.
    is_ignored: bool,
}

impl Client {
    pub fn new(to: &mut Wire, is_changed: bool) -> Client {
        let mut client = Client {
            input: Vec::new(),
            decoder: Decoder::new(),
            encoder: Encoder::new(random::pick(&[0, 100, 4096])),
            streams: BTreeMap::new(),
            next_stream: 1,
            window: i64::from(DEFAULT_WINDOW_BYTES),
            stream_window: i64::from(DEFAULT_WINDOW_BYTES),
            unacknowledged: Vec::new(),
            send_window: i64::from(DEFAULT_WINDOW_BYTES),
            send_stream_window: i64::from(DEFAULT_WINDOW_BYTES),
            most_streams: 100,
            has_settings: false,
            is_leaving: false,
            block: None,
            is_changed,
            unanswered_pings: 0,
            pongs: Vec::new(),
            acknowledgements: 0,
        };
        to.put(PREFACE);
        client.change_settings(to);
        client
    }

    /// Runs a random step.
    pub fn act(&mut self, to: &mut Wire) {
        if random::percent(50) {
            self.acknowledge(to);
        }
        match random::below(12) {
            0..=3 => self.send_request(to),
            4..=6 => self.send_bodies(to),
            7 | 8 => self.open_some_window(to),
            9 => self.reset_one(to),
            10 if self.unacknowledged.len() < 3 => self.change_settings(to),
            _ => self.send_other_frame(to),
        }
    }

    fn send_request(&mut self, to: &mut Wire) {
        let open = self.streams.values().filter(|stream| !stream.is_closed()).count();
        if self.is_leaving || open >= self.most_streams || self.streams.len() > 60 || !self.has_settings {
            return;
        }
        let id = self.next_stream;
        self.next_stream += 2;
        let (number, kind) = (u64::from(id), random::pick(&["whole", "length", "stream", "nothing"]));
        let length = if kind == "nothing" { 0 } else { random::length(MOST_BODY_BYTES) };
        let has_body = random::percent(40);
        let body_bytes = if has_body { random::length(MOST_BODY_BYTES) } else { 0 };
        let path = format!("/{kind}/{length}/{number}");
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = vec![
            (b":method".to_vec(), if has_body { b"POST".to_vec() } else { b"GET".to_vec() }),
            (b":scheme".to_vec(), b"https".to_vec()),
            (b":authority".to_vec(), b"example.org".to_vec()),
            (b":path".to_vec(), path.into_bytes()),
        ];
        for index in 0..random::below(6) {
            let value = format!("{}-{}", random::below(4), "z".repeat(random::size(60)));
            fields.push((format!("x-{index}").into_bytes(), value.into_bytes()));
        }
        if random::one_in(8) {
            fields.push((b"x-long".to_vec(), vec![b'q'; 20_000]));
        }
        if random::one_in(4) {
            fields.push((b"priority".to_vec(), format!("u={}, i", random::below(8)).into_bytes()));
        }
        let sends_trailers = has_body && random::one_in(4);
        let ends = !has_body;
        let mut out = Vec::new();
        let block = self.encode(&fields);
        frame::append_headers(id, &block, ends, DEFAULT_FRAME_BYTES as usize, &mut out);
        to.put(&out);
        random::note(|| format!("client: requests {kind} {length} on {id}, with a body of {body_bytes}"));
        let stream = Stream {
            number,
            kind,
            length,
            body_bytes,
            body_sent: 0,
            has_ended: ends,
            sends_trailers,
            send_window: self.send_stream_window,
            window: self.stream_window,
            received: 0,
            has_head: false,
            is_answered: false,
            is_reset: false,
            is_stopped: false,
            is_ignored: false,
        };
        self.streams.insert(id, stream);
    }

    fn encode(&mut self, fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.encode_fields(fields.iter().map(|(name, value)| (&name[..], &value[..])), &mut block);
        block
    }

    /// Sends bodies as far as the windows of the server allow.
    fn send_bodies(&mut self, to: &mut Wire) {
        let ids: Vec<u32> = self.streams.keys().copied().collect();
        for id in ids {
            let of_connection = self.send_window;
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if stream.has_ended || stream.is_reset || stream.is_stopped || stream.is_ignored {
                continue;
            }
            let left = stream.body_bytes - stream.body_sent;
            let window = of_connection.min(stream.send_window).max(0) as usize;
            let length = left.min(window).min(random::size(DEFAULT_FRAME_BYTES as usize) + 1);
            if length == 0 && left > 0 {
                continue;
            }
            let is_end = length == left && !stream.sends_trailers;
            let mut out = Vec::new();
            if length > 0 || is_end {
                frame::append_data_header(id, length, is_end, &mut out);
                out.extend_from_slice(&pattern(stream.number, stream.body_sent + length)[stream.body_sent..]);
            }
            stream.body_sent += length;
            stream.send_window -= length as i64;
            stream.has_ended = is_end || length == left;
            let ends_with_trailers = length == left && stream.sends_trailers;
            self.send_window -= length as i64;
            if ends_with_trailers {
                let block = self.encode(&[(b"checksum".to_vec(), b"1".to_vec())]);
                frame::append_headers(id, &block, true, DEFAULT_FRAME_BYTES as usize, &mut out);
            }
            to.put(&out);
        }
    }

    /// Acknowledges the settings and pings of the server.
    fn acknowledge(&mut self, to: &mut Wire) {
        let mut out = Vec::new();
        for _ in 0..std::mem::take(&mut self.acknowledgements) {
            frame::append_settings_acknowledgement(&mut out);
        }
        for payload in self.pongs.drain(..) {
            frame::append_ping(payload, true, &mut out);
        }
        to.put(&out);
    }

    fn open_some_window(&mut self, to: &mut Wire) {
        let increment = random::pick(&[1, 100, 5000, 70_000]);
        let mut out = Vec::new();
        if random::percent(50) && self.window < 1 << 24 {
            frame::append_window_update(0, increment, &mut out);
            self.window += i64::from(increment);
        }
        if let Some((id, stream)) = self.some_stream()
            && !stream.is_done()
            && stream.window < 1 << 24
        {
            frame::append_window_update(id, increment, &mut out);
            stream.window += i64::from(increment);
        }
        to.put(&out);
    }

    fn some_stream(&mut self) -> Option<(u32, &mut Stream)> {
        let place = random::size(self.streams.len());
        self.streams.iter_mut().nth(place).map(|(id, stream)| (*id, stream))
    }

    fn reset_one(&mut self, to: &mut Wire) {
        if random::percent(60) {
            return;
        }
        let Some((id, stream)) = self.some_stream() else { return };
        if stream.is_closed() {
            return;
        }
        random::note(|| format!("client: resets {id}"));
        stream.is_reset = true;
        let mut out = Vec::new();
        frame::append_reset_stream(id, ErrorCode::CANCEL, &mut out);
        to.put(&out);
    }

    fn change_settings(&mut self, to: &mut Wire) {
        let window = random::percent(60).then(|| random::pick(&[0, 1, 1000, 65_535, 200_000]));
        let table = random::percent(30).then(|| random::pick(&[0, 100, 4096, 10_000]));
        let mut settings = Vec::new();
        settings.extend(window.map(|window| (SettingId::INITIAL_WINDOW_SIZE, window)));
        settings.extend(table.map(|table| (SettingId::HEADER_TABLE_SIZE, table)));
        if random::one_in(4) {
            settings.push((SettingId(0x7777), 5));
        }
        random::note(|| format!("client: settings, window {window:?}, table {table:?}"));
        let mut out = Vec::new();
        frame::append_settings(&settings, &mut out);
        to.put(&out);
        if let Some(table) = table {
            // A larger table may be used at once.
            let most = self.unacknowledged.iter().filter_map(|(_, table)| *table).chain([table]).max();
            self.decoder.set_table_limit(most.unwrap_or(table).max(4096));
        }
        self.unacknowledged.push((window, table));
    }

    fn send_other_frame(&mut self, to: &mut Wire) {
        let mut out = Vec::new();
        match random::below(4) {
            0 => {
                frame::append_ping([7; 8], false, &mut out);
                self.unanswered_pings += 1;
            }
            1 => frame::append_header(0, FrameType(0xfa), 0, 0, &mut out),
            2 => {
                let stream = self.next_stream + 2 * random::below(3) as u32;
                frame::append_priority_update(stream, b"u=1", &mut out);
            }
            _ => {
                frame::append_header(5, FrameType::PRIORITY, 0, self.next_stream, &mut out);
                out.extend_from_slice(&[0, 0, 0, 0, 16]);
            }
        }
        to.put(&out);
    }

    /// Processes the received bytes.
    pub fn receive(&mut self, from: &mut Wire) {
        from.take(&mut self.input);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(header);
            assert!(header.length <= DEFAULT_FRAME_BYTES as usize, "a frame of {} bytes", header.length);
            let Some((payload, after)) = after.split_at_checked(header.length) else { break };
            let frame = Frame::parse(header, payload).expect("the server sent an invalid frame");
            assert!(!matches!(frame, Frame::Unknown(_)), "a frame of an unknown type");
            if !self.is_changed {
                self.take_frame(frame);
            }
            rest = after;
        }
        self.input = rest.to_vec();
    }

    fn take_frame(&mut self, frame: Frame<'_>) {
        if let Some((id, _, _)) = &self.block {
            assert!(
                matches!(frame, Frame::Continuation { stream, .. } if stream == *id),
                "a frame within a field block"
            );
        }
        match frame {
            Frame::Settings(settings) => {
                for (id, value) in settings.iter() {
                    match id {
                        SettingId::MAX_CONCURRENT_STREAMS => self.most_streams = value as usize,
                        SettingId::INITIAL_WINDOW_SIZE => {
                            let change = i64::from(value) - self.send_stream_window;
                            self.send_stream_window = i64::from(value);
                            self.streams.values_mut().for_each(|stream| stream.send_window += change);
                        }
                        SettingId::HEADER_TABLE_SIZE => self.encoder.set_peer_limit(value),
                        _ => {}
                    }
                }
                self.has_settings = true;
                self.acknowledgements += 1;
            }
            Frame::SettingsAcknowledgement => self.apply_acknowledged_settings(),
            Frame::Headers { stream, fragment, end_stream, end_headers, .. } => {
                self.block = Some((stream, end_stream, fragment.to_vec()));
                self.end_block(end_headers);
            }
            Frame::Continuation { fragment, end_headers, .. } => {
                let (_, _, block) = self.block.as_mut().expect("CONTINUATION without HEADERS");
                block.extend_from_slice(fragment);
                self.end_block(end_headers);
            }
            Frame::Data { stream, data, end_stream } => self.take_data(stream, data, end_stream),
            Frame::WindowUpdate { stream: 0, increment } => self.send_window += i64::from(increment),
            Frame::WindowUpdate { stream, increment } => {
                let stream = self.streams.get_mut(&stream).expect("WINDOW_UPDATE for an unknown stream");
                stream.send_window += i64::from(increment);
            }
            Frame::ResetStream { stream, code } => {
                random::note(|| format!("client: the server resets {stream}: {code:?}"));
                let stream = self.streams.get_mut(&stream).expect("RST_STREAM for an unknown stream");
                let is_early_end = code == ErrorCode::NO_ERROR && stream.is_answered;
                assert!(is_early_end || stream.is_reset, "the server resets a request: {code:?}");
                stream.is_stopped = true;
            }
            Frame::GoAway { last_stream, code, .. } => {
                assert_eq!(code, ErrorCode::NO_ERROR, "the server closes the connection with an error");
                self.is_leaving = true;
                for (_, stream) in self.streams.range_mut(last_stream.saturating_add(1)..) {
                    assert!(!stream.has_head, "an answered stream is declared unprocessed");
                    stream.is_ignored = true;
                }
            }
            Frame::Ping { acknowledgement: true, .. } => {
                self.unanswered_pings =
                    self.unanswered_pings.checked_sub(1).expect("PING acknowledged twice");
            }
            Frame::Ping { payload, .. } => self.pongs.push(payload),
            other => panic!("a server does not send {other:?}"),
        }
    }

    fn apply_acknowledged_settings(&mut self) {
        assert!(!self.unacknowledged.is_empty(), "settings are acknowledged twice");
        let (window, table) = self.unacknowledged.remove(0);
        if let Some(window) = window {
            let change = i64::from(window) - self.stream_window;
            self.stream_window = i64::from(window);
            self.streams.values_mut().for_each(|stream| stream.window += change);
        }
        if let Some(table) = table {
            let most = self.unacknowledged.iter().filter_map(|(_, table)| *table).chain([table]).max();
            self.decoder.set_table_limit(most.unwrap_or(table));
        }
    }

    fn end_block(&mut self, end_headers: bool) {
        if !end_headers {
            return;
        }
        let (id, end_stream, block) = self.block.take().unwrap();
        let mut list = FieldList::new();
        let decoded = self.decoder.decode(&block, LIST, &mut list).expect("a block that cannot be decoded");
        assert!(!decoded.is_too_large);
        let value = |wanted: &[u8]| {
            let mut fields = list.fields().iter();
            fields.find(|field| list.name(field) == wanted).map(|field| list.value(field).to_vec())
        };
        let stream = self.streams.get_mut(&id).expect("HEADERS for an unknown stream");
        assert!(!stream.is_answered, "stream {id}: a field block after the end");
        assert!(!stream.is_ignored, "stream {id} was declared unprocessed");
        let status = value(b":status");
        match status.as_deref() {
            Some(b"103") => assert!(!stream.has_head && !end_stream),
            Some(b"200") => {
                assert!(!stream.has_head, "stream {id} is answered twice");
                stream.has_head = true;
                let number = stream.number.to_string();
                assert_eq!(
                    value(b"x-number").as_deref(),
                    Some(number.as_bytes()),
                    "the answer to another request"
                );
                let received = value(b"x-received").unwrap();
                let whole = stream.body_bytes.to_string();
                let is_early = received == b"part";
                assert!(is_early || received == whole.as_bytes(), "the body of the request is incomplete");
            }
            Some(other) => panic!("status {}", other.escape_ascii()),
            None => {
                let is_due = stream.kind == "stream" && stream.number.is_multiple_of(3);
                assert!(is_due && stream.has_head && end_stream, "unexpected trailers");
                assert_eq!(value(b"last").as_deref(), Some(&b"yes"[..]));
            }
        }
        if end_stream {
            stream.end(id);
        }
    }

    fn take_data(&mut self, id: u32, data: &[u8], end_stream: bool) {
        self.window -= data.len() as i64;
        assert!(self.window >= 0, "the window of the connection is exceeded by {}", -self.window);
        let stream = self.streams.get_mut(&id).expect("DATA for an unknown stream");
        stream.window -= data.len() as i64;
        // If settings have made a window negative, the client must wait.
        assert!(data.is_empty() || stream.window >= 0, "stream {id}: its window is exceeded");
        assert!(stream.has_head && !stream.is_answered, "stream {id}: unexpected data");
        assert!(is_pattern(stream.number, stream.received, data), "stream {id}: bytes of another body");
        stream.received += data.len();
        if end_stream {
            let has_trailers = stream.kind == "stream" && stream.number.is_multiple_of(3);
            assert!(!has_trailers, "stream {id}: the trailers are missing");
            stream.end(id);
        }
    }

    /// Opens all windows, so that the server can send all answers.
    pub fn open_windows(&mut self, to: &mut Wire) {
        let mut out = Vec::new();
        let increment = OPEN_WINDOW - u32::try_from(self.window.max(0)).unwrap();
        frame::append_window_update(0, increment, &mut out);
        self.window += i64::from(increment);
        frame::append_settings(&[(SettingId::INITIAL_WINDOW_SIZE, 1 << 20)], &mut out);
        self.unacknowledged.push((Some(1 << 20), None));
        for (id, stream) in &mut self.streams {
            if !stream.is_done() {
                frame::append_window_update(*id, 1 << 24, &mut out);
                stream.window += 1 << 24;
            }
        }
        to.put(&out);
    }

    /// Sends the rest of all bodies.
    pub fn send_rest(&mut self, to: &mut Wire) {
        self.send_bodies(to);
        self.acknowledge(to);
    }

    /// Whether every request that was not reset is answered, and nothing else is pending.
    pub fn is_complete(&self) -> bool {
        self.unacknowledged.is_empty()
            && self.unanswered_pings == 0
            && self.streams.values().all(|stream| stream.is_done() || stream.is_ignored)
    }

    /// A description of the pending requests.
    pub fn unanswered(&self) -> String {
        let open = self.streams.iter().filter(|(_, stream)| !stream.is_done() && !stream.is_ignored);
        let shown: Vec<String> = open
            .map(|(id, it)| {
                format!(
                    "{id} ({}, {} of {} bytes, {} of {} sent)",
                    it.kind, it.received, it.length, it.body_sent, it.body_bytes
                )
            })
            .collect();
        format!(
            "{}; {} settings, {} pings",
            shown.join(", "),
            self.unacknowledged.len(),
            self.unanswered_pings
        )
    }
}

impl Stream {
    /// Whether the stream no longer counts as open (RFC 9113 section 5.1.2): an answered request counts until
    /// it has ended, too.
    fn is_closed(&self) -> bool {
        self.is_reset || self.is_stopped || self.is_ignored || self.is_answered && self.has_ended
    }

    fn is_done(&self) -> bool {
        self.is_answered || self.is_reset
    }

    fn end(&mut self, id: u32) {
        assert!(self.has_head, "stream {id} ends without an answer");
        assert_eq!(self.received, self.length, "stream {id}: the body has the wrong length");
        self.is_answered = true;
    }
}
