//! Plain GETs on an HTTP/2 connection that the caches answer.

use std::sync::Arc;

use touchstone_files::cache::Prepared;
use touchstone_handler::answer::BodyPart;
use touchstone_handler::request::Protocol;
use touchstone_http::h2::{Body, Request, Responded};

use super::Http2;
use super::streams::Outgoing;
use crate::accounting;
use crate::stream_head::head_of;
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::{self, HitRoute, Lookup, LookupContext, LookupResult};

impl Http2 {
    /// Answers a request from the caches, if that is possible at once.
    pub(super) fn try_hit(&mut self, state: &mut CoreState, request: &Request<'_>) -> bool {
        if self.connection.listener.generation != state.generation {
            self.connection.listener.apply_config(state);
        }
        let date = self.connection.core.clock.second();
        let transport = &self.connection.transport;
        let context = LookupContext {
            sites: self.connection.listener.index.map(|index| &state.snapshot.listeners[index]),
            may_serve: |host: Option<&[u8]>| transport.may_serve(host),
            peer: self.connection.peer.address.map(|peer| peer.ip()),
            is_tls: transport.scheme() != "http",
        };
        let lookup = Lookup::of_stream(**request, !request.end_of_stream());
        let result = cache_lookup::find(&mut state.caches, &state.snapshot, &context, &lookup, &date);
        let LookupResult::Hit { prepared, of, path } = result else { return false };
        let block = state.header_blocks.block(of.file_site(), path, prepared);
        let body_bytes = self.send_hit(request, block, prepared);
        self.note_hit(state, request, of, body_bytes);
        true
    }

    /// Sends the prepared response, or as much as the windows allow; returns the length of its body.
    fn send_hit(&mut self, request: &Request<'_>, block: &[u8], prepared: &Arc<Prepared>) -> u64 {
        let body = prepared.body();
        match self.engine.respond(request.stream(), block, Body::Bytes(body), &mut self.output) {
            Responded::Complete | Responded::Gone => {}
            Responded::Queued => {
                let part = BodyPart::Cached(prepared.clone(), 0..body.len());
                self.outgoing.push(Outgoing::new(request.stream(), vec![part]));
            }
        }
        body.len() as u64
    }

    /// Counts it, and writes its line of the access log.
    fn note_hit(&mut self, state: &mut CoreState, request: &Request<'_>, of: HitRoute, body_bytes: u64) {
        self.connection.requests += 1;
        if state.needs_facts() {
            self.connection.tls_facts();
        }
        let limits = state.limits;
        let received = || head_of(request, request.end_of_stream(), limits);
        let client_connection = self.connection.client_connection(Protocol::Http2);
        accounting::note_stream_hit(state, client_connection, of, body_bytes, received);
    }
}
