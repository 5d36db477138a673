//! Answers that are counted and logged once their frames were written, with the bytes of their bodies that
//! were sent.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_access::AdmittedRequest;
use touchstone_handler::request::{Protocol, ReceivedHead};
use touchstone_http::request::HeadBuilder;
use touchstone_sites::site::Snapshot;

use super::Http2;
use crate::accounting::{self, AnsweredRequest};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::HitRoute;
use touchstone_exchange::steps::{ExchangeAnswer, Progress};

/// An answer that is not counted and logged yet.
pub struct UnnotedAnswer {
    source: Source,
    /// Bytes of its body that were written.
    sent_bytes: u64,
    /// Bytes of its body in frames that are not written yet.
    unwritten_bytes: u64,
}

/// What has answered.
enum Source {
    Cache(CacheHit),
    Exchange(Box<ExchangedRequest>),
}

/// A request that a cache has answered.
pub struct CacheHit {
    /// Its site and route.
    pub of: HitRoute,
    /// The head and the user; `None`: neither a log nor a span needs them.
    pub received: Option<Box<(HeadBuilder, AdmittedRequest)>>,
    /// When it was received, if a log or a span needs that.
    pub received_at: Option<Instant>,
    /// When its turn began, if its duration is measured.
    pub sampled_at: Option<Instant>,
    /// That of the configuration under which the answer was found.
    pub generation: u64,
}

/// A request that the exchange has answered.
pub struct ExchangedRequest {
    /// The head.
    pub received: Rc<ReceivedHead>,
    /// When it was received.
    pub received_at: Instant,
    /// The answer, without its body.
    pub answered: ExchangeAnswer,
    /// The state of the exchange.
    pub progress: Rc<Progress>,
    /// The configuration under which it was answered.
    pub snapshot: Arc<Snapshot>,
}

impl UnnotedAnswer {
    /// The answer of a cache.
    pub fn of_cache(hit: CacheHit) -> UnnotedAnswer {
        UnnotedAnswer { source: Source::Cache(hit), sent_bytes: 0, unwritten_bytes: 0 }
    }

    /// An answer of the exchange.
    pub fn of_exchange(request: ExchangedRequest) -> UnnotedAnswer {
        UnnotedAnswer { source: Source::Exchange(Box::new(request)), sent_bytes: 0, unwritten_bytes: 0 }
    }

    /// Bytes of its body were appended to the frames.
    pub fn append(&mut self, bytes: usize) {
        self.unwritten_bytes += bytes as u64;
    }

    fn written(&mut self) {
        self.sent_bytes += std::mem::take(&mut self.unwritten_bytes);
    }
}

impl Http2 {
    /// Counts and logs the answers that have ended, after all frames were written.
    pub(super) fn note_written(&mut self) {
        self.outgoing.iter_mut().for_each(|outgoing| outgoing.answer.written());
        self.ended.iter_mut().for_each(UnnotedAnswer::written);
        self.note_ended();
    }

    /// Counts and logs all answers at the end of the connection.
    pub(super) fn note_all(&mut self) {
        self.ended.extend(self.outgoing.drain(..).map(|outgoing| outgoing.answer));
        self.note_ended();
    }

    fn note_ended(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let core = self.connection.core.clone();
        let state = &mut *core.state.borrow_mut();
        let mut ended = std::mem::take(&mut self.ended);
        for UnnotedAnswer { source, sent_bytes, .. } in ended.drain(..) {
            match source {
                Source::Cache(hit) => self.note_hit(state, hit, sent_bytes),
                Source::Exchange(request) => self.note_exchanged(state, &request, sent_bytes),
            }
        }
        self.ended = ended;
    }

    fn note_hit(&mut self, state: &mut CoreState, hit: CacheHit, body_bytes: u64) {
        let CacheHit { mut of, received, received_at, sampled_at, generation } = hit;
        if generation != state.generation {
            // The positions may be those of other sites.
            (of.site, of.route) = (usize::MAX, None);
        }
        state.metrics.resume_turn(sampled_at);
        let Some((received, admitted)) = received.map(|received| *received) else {
            return state.metrics.hit(of.site, of.route, Protocol::Http2, body_bytes, of.is_accelerated);
        };
        state.received_at = received_at;
        state.caches.admitted = admitted;
        self.connection.tls_facts();
        let client_connection = self.connection.client_connection(Protocol::Http2);
        accounting::note_stream_hit(state, client_connection, of, body_bytes, || received);
    }

    fn note_exchanged(&mut self, state: &mut CoreState, request: &ExchangedRequest, body_bytes: u64) {
        self.connection.tls_facts();
        let ExchangedRequest { received, received_at, answered, progress, snapshot } = request;
        let request = AnsweredRequest {
            connection: self.connection.client_connection(Protocol::Http2),
            received: Some((&received.head, &received.buffer)),
            unread_line: &[],
            table: &snapshot.route_table,
            progress,
            client: answered.client,
            user: answered.user.as_deref(),
            status: answered.answer.status,
            body_bytes,
            started: *received_at,
        };
        accounting::note(state, request);
    }
}
