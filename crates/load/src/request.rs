//! The bytes of every request, written once before the run.

use crate::plan::{ConnectionUse, Plan, PlannedRequest};
use crate::record::nanoseconds;
use crate::target::HttpVersion;
use crate::target::Target;
use std::ops::RangeInclusive;
use std::sync::Arc;
use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::hpack::{DEFAULT_TABLE_BYTES, Decoder, Encoder, FieldList, encode_fields_block};
use touchstone_http::h3::frame::{FrameType, append};
use touchstone_http::h3::qpack;
use touchstone_http::request::Method;

/// One request as it is sent, and what its answer must be.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// HTTP/1: request line, header fields and body, ready to send.
    pub(crate) bytes: Vec<u8>,
    /// The same for the last request of a connection, where only some requests are; empty otherwise.
    pub(crate) last_bytes: Vec<u8>,
    /// HTTP/2.
    pub(crate) blocks: Blocks,
    /// The index of its target.
    pub(crate) target: usize,
    /// The requests that follow it without a choice.
    pub(crate) then: Box<[usize]>,
    /// The think time before it, where it follows another.
    pub(crate) think_before_ns: u64,
    /// The connections end after the last of `then`.
    pub(crate) is_session: bool,
    /// The answer to HEAD has no body, whatever its head says.
    pub(crate) is_head: bool,
    /// It may be sent again when it is unknown whether the server carried it out (RFC 9110, section 9.2.2).
    pub(crate) is_idempotent: bool,
    /// What the answer must be.
    pub(crate) expected: Expected,
}

/// The same header section in the forms for the states of a connection's compression.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Puts the fields that all requests of the target share into the server's table. `None` if that is not
    /// possible.
    pub(crate) first: Option<Vec<u8>>,
    /// Refers to them and changes no table, so it is the same every time.
    pub(crate) later: Vec<u8>,
    /// Refers to no table at all.
    pub(crate) without_table: Vec<u8>,
    /// The body; empty: none.
    pub(crate) body: Option<Arc<[u8]>>,
    /// HTTP/3: all frames of the request.
    pub(crate) h3: Arc<[u8]>,
}

/// What a valid answer is.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The index into [`crate::Outcome::requests_by_class`].
    pub(crate) class: usize,
    pub(crate) status: Vec<RangeInclusive<u16>>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) body_sha256: Option<[u8; 32]>,
}

impl Expected {
    pub(crate) fn has_status(&self, status: u16) -> bool {
        match &self.status[..] {
            [] => (200..400).contains(&status),
            ranges => ranges.iter().any(|range| range.contains(&status)),
        }
    }
}

/// Writes all requests of the plan.
pub(crate) fn prepare(plan: &Plan) -> Vec<PreparedRequest> {
    plan.requests.iter().map(|request| prepare_one(plan, request)).collect()
}

fn prepare_one(plan: &Plan, request: &PlannedRequest) -> PreparedRequest {
    let target = plan.targets().nth(request.target).unwrap_or(&plan.target);
    let (mut bytes, mut last_bytes, mut blocks) = (Vec::new(), Vec::new(), Blocks::default());
    let version = plan.version_of(target);
    match (version, plan.connections) {
        (HttpVersion::Http2 | HttpVersion::Http3, _) => blocks = Blocks::new(plan, request, target),
        (_, ConnectionUse::NewShare(_)) => {
            bytes = http1(plan, request, target, ConnectionUse::Kept);
            last_bytes = http1(plan, request, target, ConnectionUse::New);
        }
        (_, connections) => bytes = http1(plan, request, target, connections),
    }
    PreparedRequest {
        bytes,
        last_bytes,
        blocks,
        target: request.target,
        then: request.then.clone().into_boxed_slice(),
        think_before_ns: nanoseconds(request.think_before),
        is_session: request.is_session,
        is_head: request.method == "HEAD",
        is_idempotent: Method::from_token(request.method.as_bytes()).is_idempotent(),
        expected: Expected {
            class: request.class,
            status: request.expected_status.clone(),
            body_bytes: request.expected_body_bytes,
            body_sha256: request.expected_body_sha256,
        },
    }
}

/// A header field of this side.
type Field = (String, String);

fn http1(plan: &Plan, request: &PlannedRequest, target: &Target, connections: ConnectionUse) -> Vec<u8> {
    let version = plan.version_of(target).name();
    let mut text = format!("{} {} {version}\r\n", request.method, request.path);
    for (name, value) in header_fields(plan, request, target, connections) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(request.body.as_deref().unwrap_or_default());
    bytes
}

/// The fields of a request. A field of the plan replaces ours of the same name, and one of the request both.
fn header_fields(
    plan: &Plan,
    request: &PlannedRequest,
    target: &Target,
    connections: ConnectionUse,
) -> Vec<Field> {
    let mut fields = own_fields(plan, target);
    // RFC 9112, section 9.3: HTTP/1.1 keeps a connection by default, HTTP/1.0 closes it by default.
    match (connections, plan.version_of(target)) {
        (ConnectionUse::Kept, HttpVersion::Http10) => fields.push(field("Connection", "keep-alive")),
        (ConnectionUse::New, HttpVersion::Http11) => fields.push(field("Connection", "close")),
        _ => {}
    }
    if let Some(body) = &request.body {
        fields.push(field("Content-Length", &body.len().to_string()));
    }
    for given in [&plan.headers, &request.headers] {
        replace(&mut fields, given);
    }
    fields
}

fn own_fields(plan: &Plan, target: &Target) -> Vec<Field> {
    if !plan.usual_fields {
        return Vec::new();
    }
    vec![
        field("Host", &target.host),
        field("User-Agent", concat!("touchstone-load/", env!("CARGO_PKG_VERSION"))),
        field("Accept", "*/*"),
    ]
}

fn field(name: &str, value: &str) -> Field {
    (name.to_string(), value.to_string())
}

/// Adds fields, `name: value`, and replaces those of the same names.
fn replace(fields: &mut Vec<Field>, given: &[String]) {
    let given: Vec<(&str, &str)> = given.iter().filter_map(|header| header.split_once(':')).collect();
    fields.retain(|(name, _)| !given.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    fields.extend(given.iter().map(|(name, value)| field(name, value.trim_matches([' ', '\t']))));
}

impl Blocks {
    fn new(plan: &Plan, request: &PlannedRequest, target: &Target) -> Blocks {
        let scheme = if target.tls.is_some() { "https" } else { "http" };
        let pseudo =
            [field(":method", &request.method), field(":scheme", scheme), field(":path", &request.path)];
        let mut common = own_fields(plan, target);
        replace(&mut common, &plan.headers);
        let mut length = Vec::new();
        if let Some(body) = &request.body {
            length.push(field("content-length", &body.len().to_string()));
        }
        let mut all = [&common[..], &length].concat();
        replace(&mut all, &request.headers);
        if plan.version_of(target) == HttpVersion::Http3 {
            let mut section = Vec::new();
            let all = [&pseudo[..], &with_authority(&all)].concat();
            qpack::encode_fields(as_bytes(&all), &mut section);
            let body = request.body.as_deref().unwrap_or_default();
            return Blocks { h3: http3_frames(&section, body), ..Blocks::default() };
        }
        let without_table = block(&[&pseudo, &with_authority(&all)]);
        let mut blocks = Blocks { without_table, body: request.body.clone(), ..Blocks::default() };

        // A request that replaces a common field cannot share the table with the others.
        let shares = all[..common.len().min(all.len())] == common[..];
        if !shares {
            return blocks;
        }
        let mut encoder = Encoder::new(DEFAULT_TABLE_BYTES);
        let mut encode_common = || {
            let mut bytes = block(&[&pseudo]);
            encoder.encode_fields(as_bytes(&with_authority(&common)), &mut bytes);
            bytes.extend_from_slice(&block(&[&all[common.len()..]]));
            bytes
        };
        let (first, later) = (encode_common(), encode_common());
        if !changes_table(&first, &later) {
            (blocks.first, blocks.later) = (Some(first), later);
        }
        blocks
    }
}

/// An HTTP/3 request as one piece: the HEADERS frame with its field section, and the body in a DATA frame.
fn http3_frames(section: &[u8], body: &[u8]) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(section.len() + body.len() + 20);
    append(FrameType::HEADERS, section, &mut bytes);
    if !body.is_empty() {
        append(FrameType::DATA, body, &mut bytes);
    }
    bytes.into()
}

/// Whether the second block changes the table after the first one: fields that are too large to stay in it
/// together do so each time.
fn changes_table(first: &[u8], later: &[u8]) -> bool {
    let (mut decoder, mut fields) = (Decoder::new(), FieldList::new());
    let limits = ListLimits { bytes: 0, fields: 0 };
    let mut decode = |block| decoder.decode(block, limits, &mut fields);
    match (decode(first), decode(later)) {
        (Ok(_), Ok(later)) => later.changes_table,
        _ => true,
    }
}

/// A field section as a block that refers to no table.
fn block(parts: &[&[Field]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|fields| encode_fields_block(as_bytes(fields), &mut bytes));
    bytes
}

/// The Host field is `:authority` in HTTP/2, and comes first with the other pseudo-header fields.
fn with_authority(fields: &[Field]) -> Vec<Field> {
    let is_host = |(name, _): &&Field| name.eq_ignore_ascii_case("host");
    let authority = fields.iter().filter(is_host).map(|(_, value)| field(":authority", value));
    authority.chain(fields.iter().filter(|field| !is_host(field)).cloned()).collect()
}

fn as_bytes(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(change: impl FnOnce(&mut Plan)) -> PreparedRequest {
        let mut plan =
            Plan::of_one(Target::plain(([127, 0, 0, 1], 8080).into(), "www.example:8080"), "/a?b=c");
        change(&mut plan);
        prepare(&plan).remove(0)
    }

    fn written(change: impl FnOnce(&mut Plan)) -> String {
        String::from_utf8(planned(change).bytes).expect("requests are text")
    }

    #[test]
    fn the_version_and_the_use_of_connections_decide_the_fields() {
        let agent = concat!("User-Agent: touchstone-load/", env!("CARGO_PKG_VERSION"), "\r\nAccept: */*\r\n");
        let with = |line: &str, connection: &str| {
            format!("GET /a?b=c {line}\r\nHost: www.example:8080\r\n{agent}{connection}\r\n")
        };
        assert_eq!(written(|_| ()), with("HTTP/1.1", ""));
        assert_eq!(
            written(|plan| plan.connections = ConnectionUse::New),
            with("HTTP/1.1", "Connection: close\r\n")
        );
        assert_eq!(
            written(|plan| plan.version = HttpVersion::Http10),
            with("HTTP/1.0", "Connection: keep-alive\r\n")
        );
        assert_eq!(
            written(|plan| {
                plan.version = HttpVersion::Http10;
                plan.connections = ConnectionUse::New;
            }),
            with("HTTP/1.0", "")
        );
        let prepared = planned(|plan| plan.connections = ConnectionUse::NewShare(0.5));
        assert_eq!(prepared.bytes, with("HTTP/1.1", "").into_bytes());
        assert_eq!(prepared.last_bytes, with("HTTP/1.1", "Connection: close\r\n").into_bytes());
    }

    #[test]
    fn a_request_can_be_as_short_as_those_of_webstone() {
        let text = written(|plan| {
            plan.version = HttpVersion::Http10;
            plan.connections = ConnectionUse::New;
            plan.usual_fields = false;
            plan.headers = vec!["Accept: */* HTTP/1.0".to_string()];
        });
        // What get.c of WebStone 2.0.1 writes, with the second HTTP/1.0 that it has in the value of Accept.
        assert_eq!(text, "GET /a?b=c HTTP/1.0\r\nAccept: */* HTTP/1.0\r\n\r\n");
    }

    #[test]
    fn a_given_field_replaces_ours_and_one_of_the_request_both() {
        let text = written(|plan| {
            plan.headers = vec!["host: other".to_string(), "X-Trace: 1".to_string()];
            plan.requests[0].headers = vec!["x-trace:2".to_string()];
        });
        assert!(!text.contains("www.example") && !text.contains("X-Trace: 1"), "{text}");
        assert!(text.ends_with("host: other\r\nx-trace: 2\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_body_comes_with_its_length() {
        let text = written(|plan| {
            plan.requests[0].method = "POST".to_string();
            plan.requests[0].body = Some(b"a=b".as_slice().into());
        });
        assert!(
            text.starts_with("POST /a?b=c HTTP/1.1\r\n") && text.contains("Content-Length: 3\r\n"),
            "{text}"
        );
        assert!(text.ends_with("\r\n\r\na=b"), "{text}");
    }

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
        let mut list = FieldList::new();
        let limits = ListLimits { bytes: 1 << 20, fields: 100 };
        decoder.decode(block, limits, &mut list).expect("a good block");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        list.fields().iter().map(|f| format!("{}: {}", text(list.name(f)), text(list.value(f)))).collect()
    }

    #[test]
    fn all_forms_of_a_header_section_say_the_same() {
        let prepared = planned(|plan| {
            plan.version = HttpVersion::Http2;
            plan.headers = vec!["Accept: text/html".to_string(), "X-All: 1".to_string()];
            plan.requests[0].headers = vec!["X-One: 2".to_string()];
        });
        let Blocks { first, later, without_table, .. } = prepared.blocks;
        let (first, mut decoder) = (first.expect("the table can be used"), Decoder::new());
        let wanted = decoded(&mut Decoder::new(), &without_table);
        assert_eq!(
            wanted[..4],
            [":method: GET", ":scheme: http", ":path: /a?b=c", ":authority: www.example:8080"]
        );
        assert_eq!(wanted[5..], ["accept: text/html", "x-all: 1", "x-one: 2"]);
        assert_eq!(decoded(&mut decoder, &first), wanted);
        for _ in 0..3 {
            assert_eq!(decoded(&mut decoder, &later), wanted);
        }
        assert!(later.len() < without_table.len() / 2 + 10, "{} {}", later.len(), without_table.len());
    }

    #[test]
    fn what_cannot_share_the_table_does_without() {
        let own = planned(|plan| {
            plan.version = HttpVersion::Http2;
            plan.requests[0].headers = vec!["Accept: text/css".to_string()];
        });
        assert!(own.blocks.first.is_none() && !own.blocks.without_table.is_empty());
        let large = planned(|plan| {
            plan.version = HttpVersion::Http2;
            (0..4).for_each(|number| plan.headers.push(format!("X-{number}: {}", "y".repeat(1500))));
        });
        assert!(large.blocks.first.is_none());
    }
}
