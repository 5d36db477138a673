//! The fields that are forwarded: those of a request to the origin, and those of a response to the client.
//!
//! Hop-by-hop fields are not forwarded (RFC 9110 section 7.6.1). Fields about the client are replaced, see
//! `forwarded`.

use std::rc::Rc;

use bytes::Bytes;
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::request::{PlainGet, Protocol, Request};
use touchstone_handler::trace::RequestTrace;
use touchstone_http::date::{format_imf_fixdate, parse_http_date};
use touchstone_http::forged_fields;
use touchstone_http::grammar::list_members;
use touchstone_http::request::Method;
use touchstone_http::response::ResponseHead;
use touchstone_route::TargetRequest;

use super::forwarded::{self, ClientFacts, Forward, OWN_FIELDS};
use super::origin_url::OriginUrl;
use super::settings::{HostField, ProxySettings};
use touchstone_upstream::{HashBy, hash};

/// Hop-by-hop fields.
const CONNECTION_FIELDS: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that are replaced, or not forwarded to the origin.
const REPLACED_FIELDS: [&str; 4] = ["content-length", "expect", "host", "proxy-authorization"];

/// A request in the form that is sent to any origin.
#[derive(Clone)]
pub struct OutboundRequest {
    /// The method.
    pub method: Bytes,
    /// The path and query, without the base path.
    target: Bytes,
    /// The host that the client named.
    host: Option<Bytes>,
    /// The field lines, without `Host` and fields that frame the body.
    lines: Vec<u8>,
    /// The length of the body; `None`: not known before its end.
    pub body_length: Option<u64>,
    /// The client sent a length, which may be 0.
    has_length: bool,
    /// The allowed protocols that the client requests in Upgrade; empty: none.
    upgrade: Vec<u8>,
    /// The client uses HTTP/1; only HTTP/1 has `Upgrade`.
    is_http1: bool,
    /// The client accepts trailers.
    pub accepts_trailers: bool,
    /// The method is HEAD: the response has no body.
    pub is_head: bool,
    /// The method is idempotent.
    pub is_idempotent: bool,
    /// The receiver of interim responses.
    pub interim: Option<Rc<dyn TakesInterim>>,
}

impl OutboundRequest {
    /// The request to an origin; `None` if the path lacks the prefix that must be removed, or has no form for
    /// origins.
    pub fn new(settings: &ProxySettings, request: &Request) -> Option<OutboundRequest> {
        let target = target(settings, request)?;
        let mut lines = Vec::with_capacity(512);
        append_request_lines(settings, &forwarded::client_of(request), max_forwards(request), &mut lines);
        forwarded::append_set_lines(&settings.forward, request, &mut lines);
        // Upgrade in a request with a body is ignored (RFC 9110 section 7.8).
        let upgrade = match requests_upgrade(request) && request.body_length() == Some(0) {
            true => allowed_protocols(&settings.forward.upgrades, request).join(&b", "[..]),
            false => Vec::new(),
        };
        Some(OutboundRequest {
            method: request.received.share(request.received.method_text()),
            target,
            host: request.host.clone(),
            lines,
            body_length: request.body_length(),
            has_length: request.received.values("content-length").next().is_some(),
            upgrade,
            is_http1: matches!(request.protocol, Protocol::Http10 | Protocol::Http11),
            accepts_trailers: request.received.values("te").any(|value| list_contains(value, b"trailers")),
            is_head: request.method() == Method::Head,
            is_idempotent: request.method().is_idempotent(),
            interim: request.interim.clone(),
        })
    }

    /// The same request with another parent span: `traceparent` names that span, unless the configuration
    /// removes the field.
    pub fn with_trace_parent(&self, trace: &RequestTrace) -> OutboundRequest {
        let mut request = self.clone();
        let name = b"traceparent: ";
        let mut at = 0;
        for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
            if line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name)) {
                let value = at + name.len()..at + line.len() - 2;
                request.lines.splice(value, trace.trace_parent());
                break;
            }
            at += line.len();
        }
        request
    }

    /// Forwards an interim response to the client.
    pub fn forward_interim(&self, status: u16, fields: Vec<u8>) {
        if let Some(client) = &self.interim {
            client.interim().push(status, fields);
        }
    }

    /// The request of an active check.
    pub fn check(path: &str, host: Option<&str>) -> OutboundRequest {
        OutboundRequest {
            method: Bytes::from_static(b"GET"),
            target: Bytes::copy_from_slice(path.as_bytes()),
            host: host.map(|host| Bytes::copy_from_slice(host.as_bytes())),
            lines: b"User-Agent: touchstone-check\r\n".to_vec(),
            body_length: Some(0),
            has_length: false,
            upgrade: Vec::new(),
            is_http1: false,
            accepts_trailers: false,
            is_head: false,
            is_idempotent: true,
            interim: None,
        }
    }

    /// The value of Content-Length for the origin; `None`: the field is not sent.
    pub fn declared_length(&self) -> Option<u64> {
        self.body_length.filter(|length| *length > 0 || self.has_length)
    }

    /// Whether the client requests to switch protocols.
    pub fn is_upgrade(&self) -> bool {
        !self.upgrade.is_empty()
    }

    /// Whether the client has requested the protocol that the origin switches to.
    pub fn requested_protocol_of(&self, head: &ResponseHead) -> bool {
        head.field(b"upgrade").is_some_and(|protocol| list_contains(&self.upgrade, protocol.trim_ascii()))
    }

    /// The field lines of a response for this client. With 426 they include the required protocols.
    pub fn response_fields(&self, head: &ResponseHead) -> Vec<u8> {
        let mut lines = response_fields(head);
        if let (426, true, Some(protocols)) = (head.status, self.is_http1, head.field(b"upgrade")) {
            for piece in [b"Connection: upgrade\r\nUpgrade: ", protocols, b"\r\n"] {
                lines.extend_from_slice(piece);
            }
        }
        lines
    }

    /// Whether it has no body.
    pub fn has_no_body(&self) -> bool {
        self.body_length == Some(0) && !self.is_upgrade()
    }

    /// Path and query for an origin.
    pub fn path(&self, origin: &OriginUrl) -> Vec<u8> {
        let mut path = Vec::with_capacity(origin.base_path.len() + self.target.len() + 1);
        append_path(origin, &self.target, &mut path);
        path
    }

    /// The value of `Host` for an origin.
    pub fn authority<'a>(&'a self, settings: &ProxySettings, origin: &'a OriginUrl) -> &'a [u8] {
        authority_for(settings, origin, self.host.as_deref())
    }

    /// The field lines, without `Host` and fields that frame the body.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// The head in HTTP/1.1.
    pub fn http1_head(&self, settings: &ProxySettings, origin: &OriginUrl) -> Vec<u8> {
        let mut head = Vec::with_capacity(self.lines.len() + self.target.len() + 256);
        let authority = self.authority(settings, origin);
        append_http1_start(&self.method, origin, &self.target, authority, &mut head);
        let mut add = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| head.extend_from_slice(piece));
        add(&[&self.lines]);
        match (self.is_upgrade(), self.accepts_trailers) {
            (true, _) => add(&[b"Connection: upgrade\r\nUpgrade: ", &self.upgrade, b"\r\n"]),
            (false, true) => add(&[b"Connection: TE\r\nTE: trailers\r\n"]),
            (false, false) => {}
        }
        match (self.body_length, self.declared_length()) {
            (None, _) => add(&[b"Transfer-Encoding: chunked\r\n"]),
            (_, None) => {}
            (_, Some(length)) => add(&[b"Content-Length: ", length.to_string().as_bytes(), b"\r\n"]),
        }
        add(&[b"\r\n"]);
        head
    }
}

/// Appends path and query for an origin. `target` is what is left of those of the request.
fn append_path(origin: &OriginUrl, target: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(origin.base_path.as_bytes());
    if !target.starts_with(b"/") {
        out.push(b'/');
    }
    out.extend_from_slice(target);
}

/// The value of `Host` for an origin. `host` is the host that the client named.
fn authority_for<'a>(settings: &ProxySettings, origin: &'a OriginUrl, host: Option<&'a [u8]>) -> &'a [u8] {
    match (settings.host, host) {
        (HostField::Client, Some(host)) => host,
        _ => origin.authority.as_bytes(),
    }
}

/// Appends the request line and `Host` of a head in HTTP/1.1.
fn append_http1_start(
    method: &[u8],
    origin: &OriginUrl,
    target: &[u8],
    authority: &[u8],
    head: &mut Vec<u8>,
) {
    head.extend_from_slice(method);
    head.push(b' ');
    append_path(origin, target, head);
    for piece in [b" HTTP/1.1\r\nHost: ", authority, b"\r\n"] {
        head.extend_from_slice(piece);
    }
}

/// Appends the field lines of a request that are forwarded, and those that describe its client.
fn append_request_lines<'a, F: Iterator<Item = (&'a [u8], &'a [u8])> + Clone>(
    settings: &ProxySettings,
    client: &ClientFacts<'a, F>,
    max_forwards: Option<u64>,
    lines: &mut Vec<u8>,
) {
    let rules = &settings.forward;
    let is_removed = |name: &[u8]| {
        rules.remove.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
            || rules.set.iter().any(|(other, _)| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    let connection: Vec<&[u8]> = client.values("connection").collect();
    for (name, value) in client.fields.clone() {
        let is_dropped = max_forwards.is_some() && name.eq_ignore_ascii_case(b"max-forwards")
            || is_one_of(name, &CONNECTION_FIELDS)
            || is_one_of(name, &REPLACED_FIELDS)
            || is_one_of(name, &OWN_FIELDS);
        if !is_dropped && !connection.iter().any(|list| list_contains(list, name)) && !is_removed(name) {
            push_line(name, value, lines);
        }
    }
    if let Some(left) = max_forwards {
        lines.extend_from_slice(format!("Max-Forwards: {}\r\n", left.saturating_sub(1)).as_bytes());
    }
    client.append_lines(rules, lines);
}

/// Whether [`append_plain_get`] can append requests with these settings.
pub fn can_append_plain_gets(settings: &ProxySettings) -> bool {
    settings.path.is_none() && settings.forward.set.is_empty()
}

/// Appends the whole head of a plain GET in HTTP/1.1, the same bytes as [`OutboundRequest::http1_head`].
/// Returns false, and may have appended a part of the head, if the request needs the longer way: it is in a
/// loop, its path lacks the prefix that must be removed, or its head depends on more than its fields.
pub fn append_plain_get(
    settings: &ProxySettings,
    origin: &OriginUrl,
    get: &PlainGet<'_>,
    head: &mut Vec<u8>,
) -> bool {
    let rules = &settings.forward;
    let appends = rules.x_forwarded == Forward::Append || rules.forwarded == Forward::Append;
    let client = forwarded::client_of_plain_get(get);
    let has = |name: &'static str| client.values(name).next().is_some();
    // The address of a trusted proxy is not known here.
    let needs_proxy_address = appends && get.is_from_trusted_proxy;
    if needs_proxy_address || has("te") || has("content-length") || client.is_in_loop(rules) {
        return false;
    }
    let Some(target) = get.target.strip_prefix(settings.strip_prefix.as_slice()) else { return false };
    append_http1_start(b"GET", origin, target, authority_for(settings, origin, get.host), head);
    append_request_lines(settings, &client, None, head);
    head.extend_from_slice(b"\r\n");
    true
}

/// The hash of the part of a request that chooses its origin; `None` if the request lacks that part.
pub fn hash_key(by: &HashBy, request: &Request) -> Option<u64> {
    match by {
        HashBy::Path => Some(hash(&request.path)),
        HashBy::Client => {
            request.client.map(|client| hash(client.ip().to_canonical().to_string().as_bytes()))
        }
        HashBy::Field(name) => request.received.values(name).next().map(hash),
        HashBy::Cookie(name) => {
            let pairs = request.received.values("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
            let find = |pair: &[u8]| {
                let pair = pair.trim_ascii();
                pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(hash)
            };
            pairs.map(find).find(Option::is_some).flatten()
        }
    }
}

/// How many more servers may pass the request on (RFC 9110 section 7.6.2).
pub fn max_forwards(request: &Request) -> Option<u64> {
    let counts = matches!(request.method(), Method::Options | Method::Trace);
    let value = request.received.values("max-forwards").next().filter(|_| counts)?;
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}

/// The path and query that the origin gets.
fn target(settings: &ProxySettings, request: &Request) -> Option<Bytes> {
    if let Some(path) = &settings.path {
        let target = TargetRequest {
            path: &request.path,
            query: request.query.as_deref(),
            host: request.host.as_deref(),
            source: request,
        };
        return path.path_and_query(&target).map(Bytes::from);
    }
    let target: Bytes = request.path_and_query().into();
    Some(match settings.strip_prefix.as_slice() {
        b"" => target,
        prefix => target.slice_ref(target.strip_prefix(prefix)?),
    })
}

/// Whether the client requests to switch protocols.
fn requests_upgrade(request: &Request) -> bool {
    let names_upgrade = |value: &[u8]| list_contains(value, b"upgrade");
    request.received.values("upgrade").next().is_some()
        && request.received.values("connection").any(names_upgrade)
}

/// The allowed protocols that the client requests: names with an optional version.
fn allowed_protocols<'r>(allowed: &[String], request: &'r Request) -> Vec<&'r [u8]> {
    let is_allowed = |protocol: &&[u8]| {
        let name = protocol.split(|&byte| byte == b'/').next().unwrap_or_default();
        allowed.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    request.received.values("upgrade").flat_map(list_members).filter(is_allowed).collect()
}

/// The field lines of a response that are forwarded to the client.
pub fn response_fields(head: &ResponseHead) -> Vec<u8> {
    let mut lines = Vec::with_capacity(256);
    let connection: Vec<&[u8]> = head
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .map(|(_, value)| value)
        .collect();
    for (name, value) in head.fields() {
        if is_for_client(name) && !connection.iter().any(|list| list_contains(list, name)) {
            push_line(name, value, &mut lines);
        }
    }
    if head.status == 101 {
        lines.extend_from_slice(b"Connection: upgrade\r\n");
        if let Some(protocol) = head.field(b"upgrade") {
            push_line(b"Upgrade", protocol, &mut lines);
        }
    }
    lines
}

/// The origin's Date: an intermediary must not change it (RFC 9110 section 6.6.1).
pub fn response_date(value: Option<&[u8]>) -> Option<[u8; 29]> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0));
    let date = parse_http_date(value?, now)?;
    Some(format_imf_fixdate(date))
}

/// The fields of a response, or of trailers, that are forwarded to the client, as lines.
pub fn client_field_lines<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Vec<u8> {
    let mut lines = Vec::with_capacity(256);
    fields
        .filter(|(name, _)| is_for_client(name))
        .for_each(|(name, value)| push_line(name, value, &mut lines));
    lines
}

fn push_line(name: &[u8], value: &[u8], lines: &mut Vec<u8>) {
    [name, b": ", value, b"\r\n"].into_iter().for_each(|piece| lines.extend_from_slice(piece));
}

/// Whether a field of a response, or of trailers, is forwarded to the client.
pub fn is_for_client(name: &[u8]) -> bool {
    !is_one_of(name, &["content-length", "date", "server"])
        && !is_one_of(name, &CONNECTION_FIELDS)
        && !forged_fields::looks_like_framing(name)
}

/// Fields that decide how a request is processed before its trailers arrive: in trailers they are not valid
/// (RFC 9110 section 6.5.1).
const NOT_IN_TRAILERS: [&str; 10] = [
    "authorization",
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "cookie",
    "forwarded",
    "max-forwards",
    "pragma",
    "range",
];

/// The trailers of a request that are forwarded to an origin.
pub fn trailer_lines(lines: &[u8]) -> Vec<u8> {
    let is_for_origin = |line: &&[u8]| {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
        let name = &line[..colon];
        let is_conditional = name.len() > 3 && name[..3].eq_ignore_ascii_case(b"if-");
        !is_conditional
            && !is_one_of(name, &CONNECTION_FIELDS)
            && !is_one_of(name, &REPLACED_FIELDS)
            && !is_one_of(name, &OWN_FIELDS)
            && !is_one_of(name, &NOT_IN_TRAILERS)
            && !forged_fields::ends_here(name, false)
    };
    lines.split_inclusive(|&byte| byte == b'\n').filter(is_for_origin).flatten().copied().collect()
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

fn list_contains(list: &[u8], name: &[u8]) -> bool {
    list_members(list).any(|member| member.eq_ignore_ascii_case(name))
}
