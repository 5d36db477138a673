//! The requests of the plan, encoded once before the run.

use crate::fields::header_fields;
use crate::header_blocks::HeaderBlocks;
use crate::messages::MessagePlan;
use crate::plan::{ConnectionUse, Plan, PlanError, PlannedRequest};
use crate::record::nanoseconds;
use crate::request_template::RequestTemplate;
use crate::target::HttpVersion;
use crate::target::Target;
use crate::websocket::WebSocketSetup;
use std::ops::RangeInclusive;
use std::sync::Arc;
use touchstone_http::request::Method;
use touchstone_session::{Script, ScriptError, Step};

/// One encoded request, and the conditions of a valid answer.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// HTTP/1: request line, header fields and body, ready to send.
    pub(crate) bytes: Vec<u8>,
    /// The same for the last request on a connection, if a share of the requests closes its connection; empty
    /// otherwise.
    pub(crate) last_bytes: Vec<u8>,
    /// HTTP/2.
    pub(crate) blocks: HeaderBlocks,
    /// The index of the target.
    pub(crate) target: usize,
    /// The requests that follow it, without a choice by weight.
    pub(crate) then: Box<[usize]>,
    /// The think time before it, if it follows another request.
    pub(crate) think_before_ns: u64,
    /// The client closes its connections after the last request of `then`.
    pub(crate) is_session: bool,
    /// The method is HEAD: the answer has no body, even if its head describes one.
    pub(crate) is_head: bool,
    /// It may be sent again if it is unknown whether the server has processed it (RFC 9110, section 9.2.2).
    pub(crate) is_idempotent: bool,
    /// The conditions of a valid answer.
    pub(crate) expected: AnswerConditions,
    /// The template of the request, if it varies.
    pub(crate) varying: Option<RequestTemplate>,
    /// The values to extract from the answer, and its assertions.
    pub(crate) step: Option<Step>,
    /// The answer is a stream of messages.
    pub(crate) messages: Option<MessagePlan>,
    /// The request opens a WebSocket.
    pub(crate) websocket: Option<Arc<WebSocketSetup>>,
    /// Parts of the answer are retained, in addition to its length.
    pub(crate) retains_answer: bool,
}

/// The conditions of a valid answer.
#[derive(Debug)]
pub(crate) struct AnswerConditions {
    /// The index into [`crate::Outcome::requests_by_class`].
    pub(crate) class: usize,
    pub(crate) status: Vec<RangeInclusive<u16>>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) body_sha256: Option<[u8; 32]>,
}

impl AnswerConditions {
    pub(crate) fn has_status(&self, status: u16) -> bool {
        match &self.status[..] {
            [] => (200..400).contains(&status),
            ranges => ranges.iter().any(|range| range.contains(&status)),
        }
    }
}

/// The template of a request that varies, and the step that is done with its answer.
type CompiledRequest = (Option<RequestTemplate>, Option<Step>);

/// Encodes all requests of the plan, and compiles the script of the sessions.
pub(crate) fn prepare(plan: &Plan) -> Result<(Vec<PreparedRequest>, Script), PlanError> {
    let (script, compiled) = compile(plan)?;
    let requests = plan.requests.iter().zip(compiled);
    let prepared =
        requests.map(|(request, (varying, step))| prepare_one(plan, request, varying, step)).collect();
    Ok((prepared, script))
}

/// Compiles the script of the sessions, the templates and the steps; returns the first error.
pub(crate) fn compile(plan: &Plan) -> Result<(Script, Vec<CompiledRequest>), PlanError> {
    let mut script = match &plan.script {
        Some(script) => Script::compile(script).map_err(|error| PlanError(error.0))?,
        None => Script::default(),
    };
    let mut steps = Vec::with_capacity(plan.requests.len());
    for request in &plan.requests {
        let step = request.step.as_ref().filter(|step| !step.is_empty());
        if plan.script.is_none() && step.is_some() {
            return Err(PlanError(format!(
                "{}: values are extracted from its answer, but the plan has no script",
                request.path
            )));
        }
        let step = step.map(|step| script.step(step)).transpose();
        steps.push(step.map_err(|error: ScriptError| PlanError(format!("{}: {error}", request.path)))?);
    }
    let mut compiled = Vec::with_capacity(plan.requests.len());
    for (request, step) in plan.requests.iter().zip(steps) {
        compiled.push((RequestTemplate::compile(plan, request, &script)?, step));
    }
    check_order(plan, &compiled, &script)?;
    Ok((script, compiled))
}

/// Checks that every variable is set before it is used: by an earlier request of the session.
fn check_order(plan: &Plan, compiled: &[CompiledRequest], script: &Script) -> Result<(), PlanError> {
    for first in (0..compiled.len()).filter(|&first| plan.requests[first].weight > 0.0) {
        let mut known = std::collections::BTreeSet::new();
        for number in [first].into_iter().chain(plan.requests[first].then.iter().copied()) {
            let (varying, step) = &compiled[number];
            let is_known = |variable: &usize| script.is_known_at_start(*variable) || known.contains(variable);
            let mut used = varying.iter().flat_map(RequestTemplate::variables);
            if let Some(variable) = used.find(|variable| !is_known(variable)) {
                return Err(PlanError(format!(
                    "{} {}: the variable {} is set by no request before it in its session",
                    plan.requests[number].method,
                    plan.requests[number].path,
                    script.name(variable)
                )));
            }
            known.extend(step.iter().flat_map(Step::sets));
        }
    }
    Ok(())
}

fn prepare_one(
    plan: &Plan,
    request: &PlannedRequest,
    varying: Option<RequestTemplate>,
    step: Option<Step>,
) -> PreparedRequest {
    let target = plan.targets().nth(request.target).unwrap_or(&plan.target);
    let (mut bytes, mut last_bytes, mut blocks) = (Vec::new(), Vec::new(), HeaderBlocks::default());
    let version = plan.version_of(target);
    match (version, plan.connections) {
        (HttpVersion::Http2 | HttpVersion::Http3, _) => blocks = HeaderBlocks::new(plan, request, target),
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
        expected: AnswerConditions {
            class: request.class,
            status: match request.websocket {
                Some(_) => vec![101..=101],
                None => request.expected_status.clone(),
            },
            body_bytes: request.expected_body_bytes,
            body_sha256: request.expected_body_sha256,
        },
        retains_answer: step.is_some()
            || request.expected_body_sha256.is_some()
            || request.messages.is_some(),
        messages: request.messages,
        websocket: websocket_setup(plan, request),
        varying,
        step,
    }
}

/// The common part of all WebSockets of a request.
fn websocket_setup(plan: &Plan, request: &PlannedRequest) -> Option<Arc<WebSocketSetup>> {
    let message = || request.body.clone().unwrap_or_else(|| Arc::new([]));
    let offered = plan.headers.iter().chain(&request.headers).filter_map(|field| field.split_once(':'));
    let offered = offered.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"));
    let protocols = offered.flat_map(|(_, value)| value.split(','));
    let protocols = protocols.map(|protocol| protocol.trim().to_string()).collect();
    request.websocket.map(|plan| Arc::new(WebSocketSetup { plan, message: message(), protocols }))
}

fn http1(plan: &Plan, request: &PlannedRequest, target: &Target, connections: ConnectionUse) -> Vec<u8> {
    let version = plan.version_of(target).name();
    let mut text = format!("{} {} {version}\r\n", request.method, request.path);
    for (name, value) in header_fields(plan, request, target, connections) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    if request.websocket.is_none() {
        bytes.extend_from_slice(request.body.as_deref().unwrap_or_default());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::h2::hpack::decoder::ListLimits;
    use touchstone_http::h2::hpack::{Decoder, FieldList};

    fn planned(change: impl FnOnce(&mut Plan)) -> PreparedRequest {
        let mut plan =
            Plan::of_one(Target::plain(([127, 0, 0, 1], 8080).into(), "www.example:8080"), "/a?b=c");
        change(&mut plan);
        prepare(&plan).expect("it can be written").0.remove(0)
    }

    fn written(change: impl FnOnce(&mut Plan)) -> String {
        String::from_utf8(planned(change).bytes).expect("requests are text")
    }

    #[test]
    fn the_fields_depend_on_version_and_connection_use() {
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
    fn a_request_can_be_equal_to_that_of_webstone() {
        let text = written(|plan| {
            plan.version = HttpVersion::Http10;
            plan.connections = ConnectionUse::New;
            plan.usual_fields = false;
            plan.headers = vec!["Accept: */* HTTP/1.0".to_string()];
        });
        // The request of get.c in WebStone 2.0.1, which has a second HTTP/1.0 in the value of Accept.
        assert_eq!(text, "GET /a?b=c HTTP/1.0\r\nAccept: */* HTTP/1.0\r\n\r\n");
    }

    #[test]
    fn fields_of_the_plan_and_of_the_request_replace_default_fields() {
        let text = written(|plan| {
            plan.headers = vec!["host: other".to_string(), "X-Trace: 1".to_string()];
            plan.requests[0].headers = vec!["x-trace:2".to_string()];
        });
        assert!(!text.contains("www.example") && !text.contains("X-Trace: 1"), "{text}");
        assert!(text.ends_with("host: other\r\nx-trace: 2\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_body_has_a_content_length() {
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
    fn all_encodings_of_a_header_section_are_equivalent() {
        let prepared = planned(|plan| {
            plan.version = HttpVersion::Http2;
            plan.headers = vec!["Accept: text/html".to_string(), "X-All: 1".to_string()];
            plan.requests[0].headers = vec!["X-One: 2".to_string()];
        });
        let HeaderBlocks { first, later, without_table, .. } = prepared.blocks;
        let (first, mut decoder) = (first.expect("the table can be used"), Decoder::new());
        let expected = decoded(&mut Decoder::new(), &without_table);
        assert_eq!(
            expected[..4],
            [":method: GET", ":scheme: http", ":path: /a?b=c", ":authority: www.example:8080"]
        );
        assert_eq!(expected[5..], ["accept: text/html", "x-all: 1", "x-one: 2"]);
        assert_eq!(decoded(&mut decoder, &first), expected);
        for _ in 0..3 {
            assert_eq!(decoded(&mut decoder, &later), expected);
        }
        assert!(later.len() < without_table.len() / 2 + 10, "{} {}", later.len(), without_table.len());
    }

    #[test]
    fn replaced_or_large_fields_are_sent_without_the_table() {
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
