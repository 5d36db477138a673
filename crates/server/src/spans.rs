//! The spans of clients' requests: the same for every version of HTTP, as the lines of the access log are.
//!
//! A request that was traced while it was answered has its trace. For others, such as hits of the caches, it
//! is decided here whether they are recorded: no program needs their trace context.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_handler::answer::CacheResult;
use touchstone_handler::trace::RequestTrace;
use touchstone_http::request::{KnownField, RequestHead};
use touchstone_http::request_view::HeadFields;
use touchstone_observe::log::access::TraceIds;
use touchstone_telemetry::{SamplingInput, ServerFacts, record_server_span};

use crate::answered::{AnsweredRequest, ClientConnection, canonical, known};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::HitRoute;

/// Records the span of a request, if it is traced. Returns the ids for the log.
pub fn record_answered(
    state: &mut CoreState,
    account: &AnsweredRequest<'_>,
    fields: Option<&HeadFields<'_>>,
) -> Option<TraceIds> {
    // After a reload spans of the previous configuration may still arrive.
    if state.tracer.is_none() && account.progress.facts.trace().is_none() {
        return None;
    }
    let facts = &account.progress.facts;
    let is_present = Arc::ptr_eq(account.table, &state.snapshot.route_table);
    let trace = facts.trace().or_else(|| {
        let sampling_input = SamplingInput {
            site: facts.site().filter(|_| is_present),
            route: facts.route(),
            is_from_proxy: is_from_proxy(state, &account.connection),
        };
        decide(state, sampling_input, account.received)
    })?;
    if trace.is_sampled() {
        let labels = account.table.labels_of(facts.site(), facts.route());
        let about = RequestData {
            site: known(&labels.site),
            route: known(&labels.route),
            handler: facts.handler(),
            cache: facts.cache().word(),
            status: account.status,
            body_bytes: account.body_bytes,
            started: account.started,
            client: account.client,
        };
        record(state, &trace, &account.connection, about, account.received, fields);
    }
    Some(TraceIds::new(trace.trace_id, trace.span_id))
}

/// Records the span of a hit, if it is traced. Returns the ids for the log.
#[cold]
pub fn record_hit(
    state: &mut CoreState,
    connection: &ClientConnection<'_>,
    HitRoute { site, route, is_accelerated, .. }: HitRoute,
    body_bytes: u64,
    (head, buffer): (&RequestHead, &[u8]),
) -> Option<TraceIds> {
    let sampling_input =
        SamplingInput { site: Some(site), route, is_from_proxy: is_from_proxy(state, connection) };
    let trace = decide(state, sampling_input, Some((head, buffer)))?;
    let fields = HeadFields { head, buffer };
    let gate = &state.snapshot.connection_gate;
    let table = state.snapshot.route_table.clone();
    let labels = table.labels_of(Some(site), route);
    let about = RequestData {
        site: known(&labels.site),
        route: known(&labels.route),
        handler: "cache",
        cache: if is_accelerated { CacheResult::Hit.word() } else { "" },
        status: 200,
        body_bytes,
        started: state.received_at.unwrap_or_else(Instant::now),
        client: connection.peer.map(|peer| gate.client(peer.ip(), &fields)),
    };
    record(state, &trace, connection, about, Some((head, buffer)), Some(&fields));
    Some(TraceIds::new(trace.trace_id, trace.span_id))
}

/// The data of a request in addition to its head.
struct RequestData<'a> {
    site: &'a str,
    route: &'a str,
    handler: &'a str,
    cache: &'a str,
    status: u16,
    body_bytes: u64,
    started: Instant,
    client: Option<IpAddr>,
}

fn record(
    state: &CoreState,
    trace: &RequestTrace,
    connection: &ClientConnection<'_>,
    about: RequestData<'_>,
    received: Option<(&RequestHead, &[u8])>,
    fields: Option<&HeadFields<'_>>,
) {
    let gate = &state.snapshot.connection_gate;
    let peer = connection.peer.map(|peer| peer.ip());
    let is_tls = connection.tls.is_some();
    let part = |of: fn(&RequestHead) -> touchstone_http::request::Span| {
        received.map_or(&b""[..], |(head, buffer)| of(head).of(buffer))
    };
    let facts = ServerFacts {
        protocol: connection.protocol,
        method: part(|head| head.method_span),
        target: part(|head| head.target),
        host: received.and_then(|(head, buffer)| head.host.map(|host| host.of(buffer))),
        is_tls: fields.map_or(is_tls, |fields| gate.is_secure(peer, fields, is_tls)),
        client: about.client.or(connection.peer.map(canonical)),
        user_agent: received.and_then(|(head, buffer)| head.value(buffer, KnownField::UserAgent)),
        site: about.site,
        route: about.route,
        handler: about.handler,
        cache: about.cache,
        status: about.status,
        body_bytes: about.body_bytes,
        started: about.started,
    };
    let has_query = state.tracer.as_ref().is_some_and(|tracer| tracer.has_query());
    record_server_span(trace, &facts, has_query);
}

/// The trace of a request for which no trace was started; `None` if it is not recorded.
fn decide(
    state: &mut CoreState,
    sampling_input: SamplingInput,
    received: Option<(&RequestHead, &[u8])>,
) -> Option<Rc<RequestTrace>> {
    let lines = received.map_or(&[][..], |(head, _)| &head.fields[..]);
    let buffer = received.map_or(&[][..], |(_, buffer)| buffer);
    let fields = lines.iter().map(|line| (line.name.of(buffer), line.value.of(buffer)));
    state.tracer.as_mut()?.record_hit(sampling_input, fields, &mut state.request_ids)
}

fn is_from_proxy(state: &CoreState, connection: &ClientConnection<'_>) -> bool {
    connection.peer.is_some_and(|peer| state.snapshot.connection_gate.trusts_fields_of(peer.ip()))
}
