//! Plain GETs of cached files and of kept answers, answered in passing.

use std::sync::Arc;

use touchstone_files::cache::{Prepared, Variant};
use touchstone_http::content_coding::AcceptEncoding;
use touchstone_http::h2::hpack::KnownName;
use touchstone_http::h2::{Body, Request, Responded};
use touchstone_http::request::{Expectation, Method, RequestHead};
use touchstone_http::target::is_plain_path;
use touchstone_interfaces::request::Protocol;

use super::Http2;
use super::streams::Outgoing;
use crate::accelerator::{self, ListedFields, Ready};
use crate::account::{self, HitOf};
use crate::answer::Part;
use crate::connection::as_http1::request_text;
use crate::core::Hot;
use touchstone_http::request_view::RequestView;

impl Http2 {
    /// Answers a plain GET of a cached file.
    pub(super) fn try_hit(&mut self, hot: &mut Hot, request: &Request<'_>) -> bool {
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
        if hot.front.is_some() && self.try_accelerated(hot, request, site, path) {
            return true;
        }
        // Rules look at more than this way has at hand.
        if hot.snapshot.sites[site].rules.is_some() || hot.snapshot.config.request_id.answer {
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
        let body_bytes = self.send_hit(request, block, prepared);
        self.note_hit(hot, request, HitOf::file(site, None), body_bytes);
        true
    }

    /// Answers a plain GET from the cache before programs and origins.
    fn try_accelerated(&mut self, hot: &mut Hot, request: &Request<'_>, site: usize, path: &[u8]) -> bool {
        let date = self.connection.core.clock.second();
        let is_tls = self.connection.transport.scheme() != "http";
        let listed: Vec<(&[u8], &[u8])> = request.fields().map(|field| (field.name, field.value)).collect();
        let fields = ListedFields(&listed);
        let target = request.path();
        let snapshot = &hot.snapshot;
        let peer = self.connection.peer.map(|peer| peer.ip());
        let is_secure = snapshot.connection_gate.is_secure(peer, &fields, is_tls);
        let view = RequestView {
            client: peer.map(|peer| snapshot.connection_gate.client(peer, &fields)),
            method: b"GET",
            path,
            query: (path.len() < target.len()).then(|| &target[path.len() + 1..]),
            host: Some(request.authority()),
            fields: &fields,
        };
        if snapshot.config.request_id.answer {
            return false;
        }
        let Some(front) = hot.front.as_mut() else { return false };
        let when = (Variant::Persistent, &date);
        let Some(Ready { prepared, route }) =
            accelerator::ready(front, &snapshot.sites[site], &view, fields, is_secure, when)
        else {
            return false;
        };
        let block = hot.header_blocks.block_of(prepared);
        let body_bytes = self.send_hit(request, block, prepared);
        let of = HitOf { site, route: Some(route), is_accelerated: true };
        self.note_hit(hot, request, of, body_bytes);
        true
    }

    /// Sends what is kept, or as much as the windows allow; returns the length of its body.
    fn send_hit(&mut self, request: &Request<'_>, block: &[u8], prepared: &Arc<Prepared>) -> u64 {
        let body = prepared.body();
        match self.engine.respond(request.stream(), block, Body::Bytes(body), &mut self.output) {
            Responded::Complete | Responded::Gone => {}
            Responded::Queued => {
                let part = Part::Cached(prepared.clone(), 0..body.len());
                self.outgoing.push(Outgoing::new(request.stream(), vec![part]));
            }
        }
        body.len() as u64
    }

    /// Counts it, and writes its line of the access log.
    fn note_hit(&mut self, hot: &mut Hot, request: &Request<'_>, of: HitOf, body_bytes: u64) {
        self.connection.requests += 1;
        if hot.log.is_on() {
            self.connection.tls_facts();
        }
        let limits = hot.limits;
        let written = |head: &mut RequestHead| {
            let text = request_text(request, request.end_of_stream());
            head.parse(&text, &limits).is_ok().then_some(text)
        };
        let origin = self.connection.origin(Protocol::Http2);
        account::note_hit(hot, origin, of, body_bytes, written, &[]);
    }
}
