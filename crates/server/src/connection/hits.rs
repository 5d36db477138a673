//! Answers from the cache: each plain GET of a cached file is one write of a prepared response, and answers
//! to pipelined requests are collected into one write. The steps that may wait serve the other requests.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use touchstone_files::cache::{ConnectionForm, PreparedResponse};
use touchstone_http::request::Parsed;
use touchstone_http::request_view::HeadFields;

use super::outcome::CacheAttempt;
use super::{Connection, ConnectionStep, ParsedHead, Refusal, protocol_of};
use crate::accounting::{self, AnsweredRequest};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::{self, Lookup, LookupContext, LookupResult};
use touchstone_exchange::steps::Progress;

/// Answers to pipelined requests are gathered up to this size before they are written.
pub(super) const GATHER_BYTES: usize = 128 * 1024;

impl Connection {
    /// Serves the requests in `bytes` as long as they are plain hits; returns how many bytes that took. When
    /// it returns, collected answers were written, or are in `output`.
    pub(super) fn serve(&mut self, state: &mut CoreState, bytes: &[u8]) -> (usize, ConnectionStep) {
        state.received_at = state.needs_time(self.peer.address).then(Instant::now);
        state.metrics.begin_turn();
        let (consumed, next) = self.serve_hits(state, bytes);
        (consumed, self.send_gathered(state, bytes, next))
    }

    /// Sends the answers that were collected for requests in `bytes`, and returns the next step, which
    /// replaces `next` if they were not all sent.
    pub(super) fn send_gathered(
        &mut self,
        state: &mut CoreState,
        bytes: &[u8],
        next: ConnectionStep,
    ) -> ConnectionStep {
        if !state.gathered.is_empty() {
            let written = match next {
                ConnectionStep::Close => self.transport.try_send_last(&state.gathered, &[]),
                _ => self.transport.try_send(&state.gathered, &[]),
            };
            if let Ok(count) = written {
                self.output.extend_from_slice(&state.gathered[count..]);
            }
            state.gathered.clear();
            self.note_gathered(state, bytes, written.as_ref().ok().copied());
            if written.is_err() {
                return ConnectionStep::Close;
            }
        }
        match next {
            // The rest of an answer must be sent before the connection ends.
            ConnectionStep::Close if !self.output.is_empty() => ConnectionStep::Linger,
            next => next,
        }
    }

    #[inline]
    pub(super) fn serve_hits(&mut self, state: &mut CoreState, bytes: &[u8]) -> (usize, ConnectionStep) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = match state.head.parse(rest, &state.limits) {
                Ok(Parsed::Complete(length)) => length,
                Ok(Parsed::Partial) => return (at, ConnectionStep::Receive),
                Err(error) => return (at, ConnectionStep::Refuse(Refusal::Head(error))),
            };
            // After a head without a length, more bytes may follow that belong to its request.
            let last = at + length == bytes.len() && !state.head.lacks_length;
            self.gathered.request_at = at;
            match self.try_hit(state, &rest[..length], last) {
                CacheAttempt::Answered { persistent: true } => at += length,
                CacheAttempt::Answered { persistent: false } if last => {
                    return (at + length, ConnectionStep::Close);
                }
                CacheAttempt::Answered { persistent: false } => return (at + length, ConnectionStep::Linger),
                CacheAttempt::PartlySent { prepared, sent } => {
                    return (at, ConnectionStep::Finish { prepared, sent });
                }
                CacheAttempt::Ready(ready_answer) => return (at, ConnectionStep::SendReady(ready_answer)),
                CacheAttempt::ConnectionReturned => return (bytes.len(), ConnectionStep::ConnectionReturned),
                CacheAttempt::Pending(waits) => return (at, ConnectionStep::Wait(waits)),
                CacheAttempt::NeedsExchange => {
                    let parsed = ParsedHead { head: std::mem::take(&mut state.head), length };
                    return (at, ConnectionStep::Answer(Box::new(parsed)));
                }
                CacheAttempt::ConnectionFailed => return (bytes.len(), ConnectionStep::Close),
            }
            if state.gathered.len() > GATHER_BYTES {
                // `serve` has written them; no more bytes are read from a client that does not read its
                // answers.
                return (at, ConnectionStep::Buffered);
            }
        }
        (at, ConnectionStep::Receive)
    }

    /// Answers the request in `state.head`, whose bytes are `bytes`, from the caches, or calls a program that
    /// answers it at once.
    #[inline]
    pub(super) fn try_hit(&mut self, state: &mut CoreState, bytes: &[u8], last: bool) -> CacheAttempt {
        self.listener.follow_config(state);
        let form = self.form(state);
        let date = self.core.clock.second();
        let context = LookupContext {
            sites: self.listener.index.map(|index| &state.snapshot.listeners[index]),
            may_serve: |host: Option<&[u8]>| self.transport.may_serve(host),
            peer: self.peer.address.map(|peer| peer.ip()),
            is_tls: self.transport.scheme() != "http",
        };
        let lookup = Lookup::of_head(&state.head, bytes, form);
        let (prepared, hit_route) =
            match cache_lookup::find(&mut state.caches, &state.snapshot, &context, &lookup, &date) {
                LookupResult::Hit { prepared, hit_route, .. } => (prepared, hit_route),
                LookupResult::Miss { site, path } => {
                    return self.call_program(state, bytes, site, path, last);
                }
                LookupResult::Exchange => return CacheAttempt::NeedsExchange,
            };
        let (first, second) = (prepared.first_buffer(), prepared.second_buffer());
        let body_bytes = prepared.body_length() as u64;
        let persistent = form != ConnectionForm::Close;
        if !last || !state.gathered.is_empty() {
            state.gathered.extend_from_slice(first);
            state.gathered.extend_from_slice(second);
            self.requests += 1;
            self.gathered_hit(state, hit_route, body_bytes, bytes);
            return CacheAttempt::Answered { persistent };
        }
        let (body_bytes, attempt) = match self.send_answer(first, second, form) {
            Ok(sent) if sent == first.len() + second.len() => {
                (body_bytes, CacheAttempt::Answered { persistent })
            }
            Ok(sent) => return CacheAttempt::PartlySent { prepared: prepared.clone(), sent },
            Err(_) => (0, CacheAttempt::ConnectionFailed),
        };
        self.requests += 1;
        let protocol = protocol_of(&state.head);
        if state.needs_facts() {
            self.tls_facts();
        }
        accounting::note_hit(state, self.client_connection(protocol), hit_route, body_bytes, bytes);
        attempt
    }

    /// Sends as much as possible of the answer to the last received request.
    #[inline]
    pub(super) fn send_answer(
        &mut self,
        first: &[u8],
        second: &[u8],
        form: ConnectionForm,
    ) -> io::Result<usize> {
        match form {
            ConnectionForm::Close => self.transport.try_send_last(first, second),
            _ => self.transport.try_send(first, second),
        }
    }

    /// Writes the rest of a hit that was not sent completely.
    pub(super) async fn finish_hit(
        &mut self,
        prepared: Arc<PreparedResponse>,
        sent: usize,
    ) -> ConnectionStep {
        let started = Instant::now();
        let (first, second) = (prepared.first_buffer(), prepared.second_buffer());
        let mut sent = sent;
        let mut written = Ok(());
        for (buffer, begin) in [(first, 0), (second, first.len())] {
            if written.is_ok() {
                written = self.write_counted(&buffer[(sent - begin).min(buffer.len())..], &mut sent).await;
            }
        }
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        let input = std::mem::take(&mut self.input);
        // It was complete when the hit was found, and the input has not lost bytes since.
        let Ok(Parsed::Complete(length)) = state.head.parse(&input, &state.limits) else {
            return ConnectionStep::Close;
        };
        let unsent = first.len() + second.len() - sent;
        let body_bytes = prepared.body_length().saturating_sub(unsent) as u64;
        self.note_finished(state, &input, body_bytes, started);
        let form = self.form(state);
        self.requests += 1;
        self.input = input;
        self.input.drain(..length);
        match written {
            Err(_) => ConnectionStep::Close,
            Ok(()) if form == ConnectionForm::Close => ConnectionStep::Linger,
            Ok(()) => ConnectionStep::Buffered,
        }
    }

    /// Counts and logs a hit that was not sent completely at once.
    pub(super) fn note_finished(
        &mut self,
        state: &mut CoreState,
        bytes: &[u8],
        body_bytes: u64,
        started: Instant,
    ) {
        self.tls_facts();
        let head = std::mem::take(&mut state.head);
        let host = head.host.map(|host| host.of(bytes));
        let listener = self.listener.index.and_then(|index| state.snapshot.listeners.get(index));
        let progress = Progress::default();
        progress.facts.set_hit(listener.and_then(|listener| listener.site(host)));
        let fields = HeadFields { head: &head, buffer: bytes };
        let client = self.peer.address.map(|peer| state.snapshot.connection_gate.client(peer.ip(), &fields));
        let table = state.snapshot.route_table.clone();
        let request = AnsweredRequest {
            connection: self.client_connection(protocol_of(&head)),
            received: Some((&head, bytes)),
            unread_line: &[],
            table: &table,
            progress: &progress,
            client,
            user: None,
            status: 200,
            body_bytes,
            started,
        };
        accounting::note(state, request);
        state.head = head;
    }
}
