//! Plain GETs on an HTTP/2 connection that the caches answer.

use touchstone_handler::answer::BodyPart;
use touchstone_handler::request::Protocol;
use touchstone_http::h2::{Body, Request, Responded};

use super::Http2;
use super::streams::UnsentBody;
use super::unnoted::{CacheHit, UnnotedAnswer};
use crate::stream_head::head_of;
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::{self, HitRoute, Lookup, LookupContext, LookupResult};

impl Http2 {
    /// Answers a request from the caches, if that is possible at once.
    pub(super) fn try_hit(&mut self, state: &mut CoreState, request: &Request<'_>) -> bool {
        self.connection.listener.follow_config(state);
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
        let LookupResult::Hit { prepared, hit_route } = result else { return false };
        let block = state.header_blocks.get(prepared);
        let body = prepared.body();
        let responded = self.engine.respond(request.stream(), block, Body::Bytes(body), &mut self.output);
        let is_complete = responded == Responded::Complete;
        let length = if is_complete { body.len() } else { 0 };
        let queued =
            (responded == Responded::Queued).then(|| vec![BodyPart::Cached(prepared.clone(), 0..body.len())]);
        self.connection.requests += 1;
        if is_complete && !state.needs_facts() {
            // Counts alone do not wait for the write: most hits of many are sent in one.
            let body_bytes = length as u64;
            state.metrics.hit(
                hit_route.site,
                hit_route.route,
                Protocol::Http2,
                body_bytes,
                hit_route.is_accelerated,
            );
            return true;
        }
        let mut answer = UnnotedAnswer::of_cache(hit_of(state, request, hit_route));
        answer.append(length);
        match queued {
            Some(parts) => self.outgoing.push(UnsentBody::new(request.stream(), parts, answer)),
            None => self.ended.push(answer),
        }
        true
    }
}

/// The facts about a hit that are needed when its answer was sent.
fn hit_of(state: &mut CoreState, request: &Request<'_>, of: HitRoute) -> CacheHit {
    let (limits, generation) = (state.limits, state.generation);
    let (received_at, sampled_at) = (state.received_at, state.metrics.turn());
    let received = state.needs_facts().then(|| {
        let user = of.has_user.then(|| std::mem::take(&mut state.caches.admitted));
        Box::new((head_of(request, request.end_of_stream(), limits), user.unwrap_or_default()))
    });
    CacheHit { of, received, received_at, sampled_at, generation }
}
