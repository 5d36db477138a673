//! A connection that speaks HTTP/2 (RFC 9113): the engine of the http crate, driven by this connection's bytes.
//!
//! Each turn takes in what was received, answers every request in it, and writes all frames that the windows allow in
//! one go. A plain GET of a cached file is answered in passing, its header block encoded once a second for all
//! connections of the core ([`crate::header_blocks`]); everything else goes to the same handlers as with HTTP/1.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};
use std::time::Instant;

use touchstone_files::cache::Variant;
use touchstone_http::content_coding::AcceptEncoding;
use touchstone_http::h2::hpack::KnownName;
use touchstone_http::h2::{
    Body, ErrorCode, Event, Events, Limits, Request, Responded, ServerConnection, StreamKey,
};
use touchstone_http::request::{Expectation, Method, Parsed, RequestHead};
use touchstone_http::target::is_plain_path;

use super::{Connection, client_text, microseconds_since};
use crate::answer::{Answer, Part};
use crate::core::Hot;
use crate::header_blocks::{encode_fields, split_field};
use crate::log::access::Record;
use crate::site::Snapshot;

/// The first bytes of every HTTP/2 connection (RFC 9113 section 3.4), as far as they tell it from HTTP/1.
const PREFACE_START: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Frames are gathered up to this size before they are written.
const OUTPUT_BYTES: usize = 128 * 1024;

/// The longest DATA frame.
const DATA_BYTES: usize = 16 * 1024;

/// Whether the first bytes of a connection are HTTP/2's.
#[inline]
pub fn begins(received: &[u8]) -> bool {
    received.first() == Some(&b'P') && received.starts_with(PREFACE_START)
}

/// A request that needs more than a look into the cache, copied out of the engine's buffers.
struct Waiting {
    stream: StreamKey,
    /// The request as HTTP/1 would have written it: what the handlers read.
    text: Vec<u8>,
    received_at: Instant,
}

/// A response body that is not sent yet.
struct Outgoing {
    stream: StreamKey,
    parts: VecDeque<Part>,
}

/// The HTTP/2 side of a connection.
pub struct Http2 {
    connection: Connection,
    engine: ServerConnection,
    events: Events,
    output: Vec<u8>,
    waiting: Vec<Waiting>,
    outgoing: Vec<Outgoing>,
    leaving: bool,
}

impl Http2 {
    /// Takes over a connection whose first bytes are in its input.
    pub fn new(connection: Connection) -> Http2 {
        let limits = {
            let hot = connection.core.hot.borrow();
            Limits {
                header_list_bytes: u32::try_from(hot.limits.header_bytes).unwrap_or(u32::MAX),
                header_fields: u32::try_from(hot.limits.header_fields).unwrap_or(u32::MAX),
                output_bytes: OUTPUT_BYTES,
                ..Limits::default()
            }
        };
        Http2 {
            connection,
            engine: ServerConnection::new(limits),
            events: Events::new(),
            output: Vec::new(),
            waiting: Vec::new(),
            outgoing: Vec::new(),
            leaving: false,
        }
    }

    /// Runs the connection to its end.
    pub async fn run(mut self) {
        let mut replenished = Instant::now();
        loop {
            let understood = self.take_in();
            self.answer_waiting().await;
            if !understood {
                self.engine.take_output(&mut self.output);
                let _ = self.write_output().await;
                break;
            }
            if self.connection.core.draining.get() && !self.leaving {
                self.leaving = true;
                self.engine.shut_down();
            }
            if self.send().await.is_err() || self.engine.is_finished() {
                break;
            }
            if replenished.elapsed().as_secs() >= 1 {
                replenished = Instant::now();
                self.engine.replenish();
            }
            if self.receive().await.is_err() {
                break;
            }
        }
        self.connection.linger().await;
    }

    /// Gives the input to the engine; false when the client broke the protocol and has been told so.
    fn take_in(&mut self) -> bool {
        let core = self.connection.core.clone();
        let mut events = std::mem::take(&mut self.events);
        let mut input = std::mem::take(&mut self.connection.input);
        let mut at = 0;
        let mut understood = true;
        while at < input.len() {
            match self.engine.receive(&input[at..], &mut events) {
                Ok(consumed) => {
                    let hot = &mut *core.hot.borrow_mut();
                    hot.received_at = hot.log.wants_duration().then(Instant::now);
                    for event in events.iter() {
                        self.take_event(hot, event);
                    }
                    if consumed == 0 {
                        break;
                    }
                    at += consumed;
                }
                Err(error) => {
                    core.error_log.debug(format_args!("an HTTP/2 connection was ended: {error}"));
                    understood = false;
                    break;
                }
            }
        }
        input.drain(..at);
        self.connection.input = input;
        self.events = events;
        understood
    }

    fn take_event(&mut self, hot: &mut Hot, event: Event<'_>) {
        match event {
            Event::Request(request) => {
                if !self.try_hit(hot, &request) {
                    let waiting = Waiting {
                        stream: request.stream(),
                        text: request_text(&request),
                        received_at: Instant::now(),
                    };
                    self.waiting.push(waiting);
                }
            }
            // The handlers of today read no bodies: what comes is let go, so that the windows stay open.
            Event::Data { stream, range, .. } => self.engine.release(stream, range.len()),
            Event::Reset { stream, .. } => {
                self.outgoing.retain(|outgoing| outgoing.stream != stream);
                self.waiting.retain(|waiting| waiting.stream != stream);
            }
            Event::GoAway { .. } | Event::Trailers { .. } | Event::Refused { .. } | Event::Pong { .. } => {}
        }
    }

    /// Answers a plain GET of a cached file.
    fn try_hit(&mut self, hot: &mut Hot, request: &Request<'_>) -> bool {
        let plain = request.method() == Method::Get
            && request.end_of_stream()
            && !request.is_conditional()
            && !request.is_header_section_too_large()
            && request.expectation() == Expectation::None;
        let target = request.path();
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        if !plain || !is_plain_path(path) {
            return false;
        }
        if self.connection.generation != hot.generation {
            self.connection.take_up(hot);
        }
        let Some(listener) = self.connection.listener_index else { return false };
        let Some(site) = hot.snapshot.listeners[listener].site(Some(request.authority())) else {
            return false;
        };
        if !self.connection.transport.may_serve(Some(request.authority())) {
            return false;
        }
        // Rules look at more than this way has at hand.
        if hot.snapshot.sites[site].rules.is_some() {
            return false;
        }
        let date = self.connection.core.clock.second();
        let Some(cache) = hot.caches.get_mut(site) else { return false };
        let mut accept_encoding = AcceptEncoding::ABSENT;
        request.values(KnownName::AcceptEncoding).for_each(|value| accept_encoding.add(value));
        let Some(prepared) = cache.hit(path, accept_encoding, Variant::Persistent, &date) else {
            return false;
        };
        let block = hot.header_blocks.block(site, path, prepared);
        let body = prepared.body();
        match self.engine.respond(request.stream(), block, Body::Bytes(body), &mut self.output) {
            Responded::Complete | Responded::Gone => {}
            Responded::Queued => {
                let part = Part::Cached(prepared.clone(), 0..body.len());
                self.outgoing.push(Outgoing { stream: request.stream(), parts: VecDeque::from([part]) });
            }
        }
        self.connection.requests += 1;
        if hot.log.is_on() {
            let body_bytes = prepared.body_length() as u64;
            let duration_us = hot.received_at.map_or(0, microseconds_since);
            let text = request_text(request);
            let client = client_text(&mut self.connection.peer_text, self.connection.peer);
            log(hot, client, &text, 200, body_bytes, duration_us);
        }
        true
    }

    /// Answers the requests that `take_in` left over.
    async fn answer_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            let (snapshot, limits) = {
                let hot = self.connection.core.hot.borrow();
                (hot.snapshot.clone(), hot.limits)
            };
            let mut head = RequestHead::new();
            // The engine has checked the fields; what it lets through and HTTP/1 does not is refused like there.
            let answer = match head.parse(&waiting.text, &limits) {
                Ok(Parsed::Complete(_)) => self.answer(&snapshot, &head, &waiting.text).await,
                Ok(Parsed::Partial) => Answer::error(431),
                Err(error) => Answer::error(error.status()),
            };
            self.respond(&head, waiting, answer);
        }
    }

    async fn answer(&mut self, snapshot: &Snapshot, head: &RequestHead, text: &[u8]) -> Answer {
        if let Some(refusal) = self.connection.check(&snapshot.config, head) {
            return refusal;
        }
        if self.connection.generation == 0 {
            let core = self.connection.core.clone();
            self.connection.take_up(&core.hot.borrow());
        }
        self.connection.route(snapshot, head, text).await
    }

    fn respond(&mut self, head: &RequestHead, waiting: Waiting, answer: Answer) {
        let core = self.connection.core.clone();
        let date = core.clock.second();
        let length = answer.body_length();
        let length_text = length.to_string();
        let lines = answer.fields.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let own: [(&[u8], &[u8]); 2] = [(b"server", b"touchstone"), (b"date", &date.text)];
        // RFC 9110 section 8.6: not in 204, and in 304 only if it is the 200's.
        let counted = !matches!(answer.status, 204 | 304);
        let length_field = counted.then_some((&b"content-length"[..], length_text.as_bytes()));
        let fields = own.into_iter().chain(lines.filter_map(split_field)).chain(length_field);
        let block = encode_fields(answer.status, fields);
        let has_body = counted && head.method != Method::Head && length > 0;
        let body = if has_body { Body::Length(length) } else { Body::Empty };
        if self.engine.respond(waiting.stream, &block, body, &mut self.output) == Responded::Queued {
            self.outgoing.push(Outgoing { stream: waiting.stream, parts: answer.body.into() });
        }
        self.connection.requests += 1;
        let hot = &mut *core.hot.borrow_mut();
        if hot.log.is_on() {
            let client = client_text(&mut self.connection.peer_text, self.connection.peer);
            let body_bytes = if has_body { length } else { 0 };
            let duration_us = microseconds_since(waiting.received_at);
            log(hot, client, &waiting.text, answer.status, body_bytes, duration_us);
        }
    }

    /// Writes everything that the windows allow.
    async fn send(&mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.engine.next_data(DATA_BYTES, &mut self.output) {
                let Some(index) = self.outgoing.iter().position(|outgoing| outgoing.stream == frame.stream)
                else {
                    return Err(io::Error::other("the engine asked for a body that is not there"));
                };
                append_body(&mut self.outgoing[index].parts, frame.length, &mut self.output)?;
                if frame.is_last {
                    self.outgoing.swap_remove(index);
                }
            }
            if self.output.is_empty() {
                return Ok(());
            }
            self.write_output().await?;
            tokio::task::yield_now().await;
        }
    }

    async fn write_output(&mut self) -> io::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        let written = self.connection.write(&output, &[]).await;
        output.clear();
        // A connection that sent much once need not keep the memory.
        output.shrink_to(OUTPUT_BYTES);
        self.output = output;
        written
    }

    /// Waits for bytes; an error is the connection's end.
    async fn receive(&mut self) -> io::Result<()> {
        let core = self.connection.core.clone();
        let idle = self.engine.open_streams() == 0 && !self.engine.is_within_header_block();
        let limit = {
            let hot = core.hot.borrow();
            let limits = &hot.snapshot.config.limits;
            if idle { limits.keep_alive_timeout } else { limits.stall_timeout }
        };
        if let Some(deadline) = &self.connection.deadline {
            deadline.set(core.clock.coarse_ms(), limit, idle);
        }
        let connection = &mut self.connection;
        let received: io::Result<()> = poll_fn(|context| {
            if connection.deadline_expired(context) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let hot = &mut *core.hot.borrow_mut();
            let mut buffer = std::mem::take(&mut hot.receive_buffer);
            let received = connection.transport.poll_receive(context, &mut buffer);
            if let Poll::Ready(Ok(count)) = received {
                connection.input.extend_from_slice(&buffer[..count]);
            }
            hot.receive_buffer = buffer;
            match ready!(received)? {
                0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                _ => Poll::Ready(Ok(())),
            }
        })
        .await;
        if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            self.engine.close(ErrorCode::NO_ERROR, "nothing was asked for long");
            self.engine.take_output(&mut self.output);
            let _ = self.write_output().await;
        }
        received
    }
}

/// Appends the next `length` bytes of a body.
fn append_body(parts: &mut VecDeque<Part>, length: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let mut missing = length;
    while missing > 0 {
        let Some(part) = parts.front_mut() else {
            return Err(io::Error::other("a body is shorter than was said"));
        };
        let taken = match part {
            Part::Bytes(bytes) => {
                let count = bytes.len().min(missing);
                out.extend(bytes.drain(..count));
                count
            }
            Part::Cached(prepared, range) => {
                let count = range.len().min(missing);
                out.extend_from_slice(&prepared.body()[range.start..range.start + count]);
                range.start += count;
                count
            }
            Part::File { file, offset, length } => {
                let count = usize::try_from(*length).unwrap_or(usize::MAX).min(missing);
                append_file(file, *offset, count, out)?;
                *offset += count as u64;
                *length -= count as u64;
                count
            }
        };
        if taken == 0 {
            parts.pop_front();
        }
        missing -= taken;
    }
    Ok(())
}

fn append_file(
    file: &std::os::fd::OwnedFd,
    mut offset: u64,
    count: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let start = out.len();
    out.resize(start + count, 0);
    let mut filled = start;
    while filled < out.len() {
        match rustix::io::pread(file, &mut out[filled..], offset)? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter while it was sent",
                ));
            }
            read => {
                filled += read;
                offset += read as u64;
            }
        }
    }
    Ok(())
}

/// The request as HTTP/1 would have written it, for handlers and log.
fn request_text(request: &Request<'_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    for piece in
        [request.method_text(), b" ", request.path(), b" HTTP/1.1\r\nhost: ", request.authority(), b"\r\n"]
    {
        text.extend_from_slice(piece);
    }
    for field in request.fields() {
        // The engine has dealt with the body's length; the handlers need not know of a body.
        if matches!(field.name, b"content-length" | b"expect") {
            continue;
        }
        for piece in [field.name, b": ", field.value, b"\r\n"] {
            text.extend_from_slice(piece);
        }
    }
    text.extend_from_slice(b"\r\n");
    text
}

fn log(hot: &mut Hot, client: &str, text: &[u8], status: u16, body_bytes: u64, duration_us: u64) {
    let limits = hot.limits;
    let mut head = RequestHead::new();
    if head.parse(text, &limits).is_err() {
        return;
    }
    let line = head.request_line.of(text);
    let line = [line.strip_suffix(b"HTTP/1.1").unwrap_or(line), b"HTTP/2.0"].concat();
    let mut record = super::record(client, &head, text, status, body_bytes, duration_us);
    record = Record { request_line: &line, version: "HTTP/2.0", ..record };
    hot.log.record(&record);
}
