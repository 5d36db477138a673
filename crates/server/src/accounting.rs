//! Counts an answered request, and writes its line to the access log. The same for every version of HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use touchstone_handler::answer::CacheResult;
use touchstone_handler::request::{ClaimValues, Protocol, TlsFacts};
use touchstone_http::request::{HeadBuilder, KnownField, RequestHead};
use touchstone_http::request_view::{HeadFields, client_name};
use touchstone_observe::log::access::{Record, TlsRecord};
use touchstone_observe::metrics::AnswerFacts;
use touchstone_observe::request_id::RequestId;

pub use crate::answered::{AnsweredRequest, ClientConnection};
use crate::answered::{canonical, known};
use crate::spans;
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::HitRoute;

/// Counts and logs a request.
pub fn note(state: &mut CoreState, account: AnsweredRequest<'_>) {
    let AnsweredRequest { received, progress, table, started, .. } = account;
    let protocol = account.connection.protocol;
    let (site, route) = (progress.facts.site(), progress.facts.route());
    state.metrics.answered(&AnswerFacts {
        table,
        site,
        route,
        protocol,
        status: account.status,
        body_bytes: account.body_bytes,
        started,
        cache: progress.facts.cache(),
    });
    let fields = received.map(|(head, buffer)| HeadFields { head, buffer });
    let trace = spans::record_answered(state, &account, fields.as_ref());
    if !state.log.is_on() {
        return;
    }
    let AnsweredRequest { connection, .. } = account;
    let id = progress.facts.id().clone().or_else(|| request_id(state, connection.peer, fields.as_ref()));
    let client_behind = account.client.filter(|client| Some(*client) != connection.peer.map(canonical));
    let (text, line, hidden);
    let client = match client_behind {
        Some(client) => {
            text = client_name(client);
            &text
        }
        None => client_text(connection.peer_text, connection.peer),
    };
    let mut record = match (received, &fields) {
        (Some((head, buffer)), Some(fields)) => record(client, head, buffer, fields),
        _ => Record { client, request_line: account.unread_line, ..Record::default() },
    };
    if is_multiplexed(connection.protocol) && !record.request_line.is_empty() {
        (line, record.version) =
            (line_of(record.request_line, connection.protocol), connection.protocol.text());
        record.request_line = &line;
    }
    if progress.facts.hides_query() {
        hidden = without_query(record.request_line);
        record.request_line = &hidden;
        record.target = record.target.split(|&byte| byte == b'?').next().unwrap_or_default();
    }
    let (claims, bot) = (progress.facts.claims(), progress.facts.bot());
    let labels = table.labels_of(site, route);
    // After a reload the positions may be those of other sites.
    let is_present = Arc::ptr_eq(table, &state.snapshot.route_table);
    state.log.record(
        site.filter(|_| is_present),
        route,
        &Record {
            user: account.user,
            claims: claims.as_deref(),
            bot: bot.as_ref(),
            status: account.status,
            body_bytes: account.body_bytes,
            duration_us: microseconds_since(started),
            request_id: id.as_ref().map(RequestId::as_bytes),
            trace_ids: trace.as_ref(),
            locator: state.snapshot.locator.as_deref(),
            tls: connection.tls.map(tls_record),
            site: known(&labels.site),
            route: known(&labels.route),
            handler: progress.facts.handler(),
            cache: progress.facts.cache().word(),
            ..record
        },
    );
}

/// Counts and logs a GET of HTTP/1 that was answered with 200 straight from a cache. Its head is that in
/// `state.head`, of `bytes`.
#[inline]
pub fn note_hit(
    state: &mut CoreState,
    connection: ClientConnection<'_>,
    of: HitRoute,
    body_bytes: u64,
    bytes: &[u8],
) {
    state.metrics.hit(of.site, of.route, connection.protocol, body_bytes, of.is_accelerated);
    let may_record = may_record_hit(state, connection.peer);
    if may_record || state.log.is_on() {
        let head = std::mem::take(&mut state.head);
        show_hit(state, connection, of, body_bytes, (&head, bytes), may_record);
        state.head = head;
    }
}

/// The same for HTTP/2 and HTTP/3. `received` returns the head, which only the log needs.
#[inline]
pub fn note_stream_hit(
    state: &mut CoreState,
    connection: ClientConnection<'_>,
    of: HitRoute,
    body_bytes: u64,
    received: impl FnOnce() -> HeadBuilder,
) {
    state.metrics.hit(of.site, of.route, connection.protocol, body_bytes, of.is_accelerated);
    let may_record = may_record_hit(state, connection.peer);
    if (may_record || state.log.is_on())
        && let (head, buffer, Ok(())) = received().finish()
    {
        show_hit(state, connection, of, body_bytes, (&head, &buffer), may_record);
    }
}

/// Whether a hit may be traced.
#[inline]
fn may_record_hit(state: &mut CoreState, peer: Option<SocketAddr>) -> bool {
    let gate = &state.snapshot.connection_gate;
    let is_from_proxy = || peer.is_some_and(|peer| gate.trusts_fields_of(peer.ip()));
    state.tracer.as_mut().is_some_and(|tracer| tracer.may_record_hit(is_from_proxy))
}

/// Records the span of a hit, if it is traced, and logs it.
fn show_hit(
    state: &mut CoreState,
    connection: ClientConnection<'_>,
    of: HitRoute,
    body_bytes: u64,
    (head, buffer): (&RequestHead, &[u8]),
    may_record: bool,
) {
    let trace = match may_record {
        true => spans::record_hit(state, &connection, of, body_bytes, (head, buffer)),
        false => None,
    };
    if !state.log.is_on() {
        return;
    }
    let HitRoute { site, route, is_accelerated, has_user } = of;
    let admitted = if has_user { std::mem::take(&mut state.caches.admitted) } else { Default::default() };
    let user = admitted.user.as_ref().map(|user| String::from_utf8_lossy(user.name()));
    let claims = admitted.identity.as_deref();
    let fields = HeadFields { head, buffer };
    let id = request_id(state, connection.peer, Some(&fields));
    let (text, line);
    let gate = &state.snapshot.connection_gate;
    let client = match connection.peer {
        Some(peer) if gate.trusts_fields_of(peer.ip()) => {
            text = client_name(gate.client(peer.ip(), &fields));
            &text
        }
        peer => client_text(connection.peer_text, peer),
    };
    let mut record = record(client, head, buffer, &fields);
    if is_multiplexed(connection.protocol) {
        (line, record.version) =
            (line_of(record.request_line, connection.protocol), connection.protocol.text());
        record.request_line = &line;
    }
    let labels = state.snapshot.route_table.labels_of(Some(site), route);
    state.log.record(
        Some(site),
        route,
        &Record {
            status: 200,
            body_bytes,
            duration_us: state.received_at.map_or(0, microseconds_since),
            request_id: id.as_ref().map(RequestId::as_bytes),
            trace_ids: trace.as_ref(),
            locator: state.snapshot.locator.as_deref(),
            tls: connection.tls.map(tls_record),
            site: known(&labels.site),
            route: known(&labels.route),
            handler: "cache",
            user: user.as_deref(),
            claims: claims.map(|identity| identity as &dyn ClaimValues),
            cache: if is_accelerated { CacheResult::Hit.word() } else { "" },
            ..record
        },
    );
}

/// The id that a line of the log needs.
fn request_id(
    state: &mut CoreState,
    peer: Option<SocketAddr>,
    fields: Option<&HeadFields<'_>>,
) -> Option<RequestId> {
    if !state.log.needs_request_id() {
        return None;
    }
    let from_proxy = peer.is_some_and(|peer| state.snapshot.connection_gate.trusts_fields_of(peer.ip()));
    let config = &state.snapshot.config.request_id;
    Some(match fields {
        Some(fields) => state.request_ids.of(config, from_proxy, fields),
        None => RequestId::New(state.request_ids.next_uuid()),
    })
}

fn record<'a>(
    client: &'a str,
    head: &RequestHead,
    buffer: &'a [u8],
    fields: &'a HeadFields<'a>,
) -> Record<'a> {
    Record {
        client,
        request_line: head.request_line.of(buffer),
        method: head.method_span.of(buffer),
        target: head.target.of(buffer),
        // The parser accepts only `HTTP/` and two digits.
        version: std::str::from_utf8(head.version_span.of(buffer)).unwrap_or_default(),
        host: head.host.map(|host| host.of(buffer)),
        referer: head.value(buffer, KnownField::Referer),
        user_agent: head.value(buffer, KnownField::UserAgent),
        fields: Some(fields),
        ..Record::default()
    }
}

/// For handlers and logs, requests of these versions are written in the form of HTTP/1.1.
fn is_multiplexed(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Http2 | Protocol::Http3)
}

/// The request line with the version that the client used.
fn line_of(line: &[u8], protocol: Protocol) -> Vec<u8> {
    [line.strip_suffix(b"HTTP/1.1").unwrap_or(line), protocol.text().as_bytes()].concat()
}

/// A request line without the query of its target.
fn without_query(line: &[u8]) -> Vec<u8> {
    let Some(begin) = memchr::memchr(b'?', line) else { return line.to_vec() };
    let end = memchr::memrchr(b' ', line).filter(|&end| end > begin).unwrap_or(line.len());
    [&line[..begin], &line[end..]].concat()
}

fn tls_record(facts: &TlsFacts) -> TlsRecord<'_> {
    TlsRecord {
        version: facts.version,
        cipher: facts.cipher_suite,
        server_name: facts.server_name.as_deref(),
        subject: facts.client_subject.as_deref(),
    }
}

fn client_text(text: &mut String, peer: Option<SocketAddr>) -> &str {
    if text.is_empty() {
        *text = peer.map_or_else(|| "-".to_string(), |peer| client_name(peer.ip()));
    }
    text
}

fn microseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}
