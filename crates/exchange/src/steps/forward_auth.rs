//! Queries the authority of a site or route (`forward_auth`) whether a request is allowed.
//!
//! ```text
//! request -> question (GET, without the body) -> decision: 2xx passes, 3xx and 4xx go to the client
//!                                                         anything else, or nothing: 502, 503 or 504
//! ```
//!
//! The authority gets the path in the form that rules judge and handlers use, so that no other reading of it
//! can pass. While the authority cannot be reached, no request is allowed.

use std::rc::Rc;
use std::sync::Arc;

use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::Handled;
use touchstone_handler::request::Request;
use touchstone_http::added_fields::{AddedFields, IfPresent};
use touchstone_http::forged_fields::{ends_here, is_alike};
use touchstone_http::request::Method;
use touchstone_sites::forward_auth::{AuthorityApproval, ForwardAuth};
use touchstone_sites::site::Snapshot;

use super::core_handlers::handler_of;
use crate::core::Core;

/// The largest body of a refusal.
const MOST_BODY_BYTES: usize = 256 * 1024;

/// Fields that describe the request to an authority. Values of the client in these fields are never sent.
const QUESTION_FIELDS: [&str; 6] = [
    "x-auth-request-redirect",
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
];

/// A request that an authority allows.
pub struct AllowedRequest {
    /// The identity and fields that the authority has returned.
    pub passed: AuthorityApproval,
    /// `Set-Cookie` lines for the client.
    pub cookies: Vec<u8>,
}

/// Queries the authority. The error is the answer to a request that is not allowed.
pub async fn ask(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    authority: &ForwardAuth,
    request: &Request,
) -> Result<AllowedRequest, Answer> {
    let Some(question) = question(authority, request) else { return Err(Answer::error(400)) };
    let key = authority.key(request, &question);
    if let Some(passed) = key.and_then(|key| authority.remembered(key)) {
        return Ok(AllowedRequest { passed, cookies: Vec::new() });
    }
    let handler = handler_of(core, snapshot, &authority.interface);
    let whole = async {
        match handler.handle(question).await {
            Handled::Answer(answer) => with_whole_body(answer).await,
            _ => Answer::error(502),
        }
    };
    let answer = match tokio::time::timeout(authority.config.timeout, whole).await {
        Ok(answer) => answer,
        Err(_) => Answer::error(504),
    };
    match answer.status {
        200..=299 => {
            let allowed = allowed(authority, &answer);
            if let Some(key) = key.filter(|_| allowed.cookies.is_empty() && !is_not_stored(&answer)) {
                authority.remember(key, &allowed.passed);
            }
            Ok(allowed)
        }
        300..=499 => Err(refusal(authority, request, answer)),
        502..=504 if answer.is_error_page => Err(answer),
        _ => Err(Answer::error(502)),
    }
}

/// Adds cookies to an answer, which shared caches must then not store.
pub fn add_cookies(cookies: &[u8], answer: &mut Answer) {
    answer.fields.extend_from_slice(cookies);
    let is_kept_by_one = |value: &[u8]| {
        value.split(|&byte| byte == b',').any(|word| {
            let word = word.trim_ascii();
            word.eq_ignore_ascii_case(b"no-store") || word.eq_ignore_ascii_case(b"private")
        })
    };
    if !fields_of(answer, "cache-control").any(|(_, value)| is_kept_by_one(value)) {
        let mut private = AddedFields::default();
        private.add("Cache-Control", "private, no-cache", IfPresent::Replace);
        private.apply(&mut answer.fields);
    }
}

/// The fields of a trace context. Where the server traces the request, the authority gets its own.
const TRACE_FIELDS: [&str; 2] = ["traceparent", "tracestate"];

/// The request to the authority; `None` if the client's request has no such form.
fn question(authority: &ForwardAuth, request: &Request) -> Option<Request> {
    let mut question = request.derive(&authority.target)?;
    let is_trusted = request.trusted_proxy.is_some();
    let send = &authority.config.send;
    let is_of_proxy = |name: &[u8]| {
        is_trusted
            && (name.eq_ignore_ascii_case(b"x-forwarded-proto") || name.eq_ignore_ascii_case(b"forwarded"))
    };
    let trace = request.trace.as_ref().map(|trace| trace.trace_parent());
    let trace = trace.as_ref().map(|value| (TRACE_FIELDS[0].as_bytes(), &value[..]));
    let is_of_trace = |name: &[u8]| TRACE_FIELDS.iter().any(|other| is_alike(name, other.as_bytes()));
    let stays = |name: &[u8]| {
        let is_sent = || send.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        let is_replaced = trace.is_some() && is_of_trace(name)
            || QUESTION_FIELDS.iter().any(|other| is_alike(name, other.as_bytes()));
        !is_replaced
            && !ends_here(name, is_trusted)
            // The head is not valid without a host; the host that is sent is that of the authority.
            && (send.is_empty() || is_sent() || is_of_proxy(name) || name.eq_ignore_ascii_case(b"host"))
    };
    let (method, uri) = (request.received.method_text(), request.path_and_query());
    let scheme: &[u8] = if request.is_https() { b"https://" } else { b"http://" };
    let url = request.host.as_ref().map(|host| [scheme, host, &uri].concat());
    let url = url.as_ref().map(|url| (&b"X-Original-URL"[..], &url[..]));
    let added = [
        (&b"X-Forwarded-Method"[..], method),
        (b"X-Forwarded-Uri", &uri),
        (b"X-Original-Method", method),
        (b"X-Original-URI", &uri),
    ];
    let received = question.received.with_fields(stays, added.into_iter().chain(url).chain(trace))?;
    question.received = Rc::new(received);
    question.user = None;
    Some(question)
}

/// An answer with its body in memory; 502 if it is too long, or ends too early.
async fn with_whole_body(mut answer: Answer) -> Answer {
    let mut whole = Vec::new();
    for part in std::mem::take(&mut answer.body) {
        match part {
            BodyPart::Bytes(bytes) => whole.extend_from_slice(&bytes),
            BodyPart::Stream { mut body, .. } => match body.collect(MOST_BODY_BYTES).await {
                Ok(bytes) => whole.extend_from_slice(&bytes),
                Err(_) => return Answer::error(502),
            },
            BodyPart::Cached(..) | BodyPart::File { .. } => return Answer::error(502),
        }
    }
    answer.body.push(BodyPart::Bytes(whole.into()));
    answer
}

/// Reads an answer that allows the request.
fn allowed(authority: &ForwardAuth, answer: &Answer) -> AllowedRequest {
    let values_of = |name: &str| fields_of(answer, name).map(|(_, value)| value).collect::<Vec<_>>();
    let config = &authority.config;
    let mut fields = Vec::new();
    for name in &config.fields {
        fields.extend(values_of(name).into_iter().map(|value| (name.as_str().into(), value.into())));
    }
    let user: Option<Box<str>> = match config.user.as_str() {
        "" => None,
        name => values_of(name)
            .first()
            .and_then(|value| std::str::from_utf8(value).ok())
            .filter(|user| !user.is_empty())
            .map(Box::from),
    };
    let cookies = fields_of(answer, "set-cookie").flat_map(|(line, _)| line).copied().collect();
    AllowedRequest { passed: AuthorityApproval { user, fields }, cookies }
}

/// The part of a refusal that the client gets: all of it, or a redirect to sign in.
fn refusal(authority: &ForwardAuth, request: &Request, mut answer: Answer) -> Answer {
    let sign_in = &authority.config.sign_in;
    let is_page = matches!(request.method(), Method::Get | Method::Head);
    if answer.status == 401 && is_page && !sign_in.is_empty() {
        let location = sign_in.replace("{url}", &requested_url(request));
        let mut redirect = Answer::redirect(302, location.as_bytes());
        fields_of(&answer, "set-cookie").for_each(|(line, _)| redirect.fields.extend_from_slice(line));
        return redirect.field("Cache-Control", "no-store");
    }
    // It is only for this client, whatever the authority states.
    if !is_not_stored(&answer) {
        answer = answer.field("Cache-Control", "no-store");
    }
    answer
}

/// The URL that the client requested, percent-encoded for a query.
fn requested_url(request: &Request) -> String {
    let scheme: &[u8] = if request.is_https() { b"https://" } else { b"http://" };
    let (host, uri) = (request.host.as_deref().unwrap_or_default(), request.path_and_query());
    touchstone_http::path::escaped_for_query(&[scheme, host, &uri].concat())
}

fn is_not_stored(answer: &Answer) -> bool {
    let has = |value: &[u8]| {
        value.split(|&byte| byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(b"no-store"))
    };
    fields_of(answer, "cache-control").any(|(_, value)| has(value))
}

/// The lines of this name, with their values.
fn fields_of<'a>(answer: &'a Answer, name: &str) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let lines = answer.fields.split_inclusive(|&byte| byte == b'\n');
    lines.filter_map(move |line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found.eq_ignore_ascii_case(name.as_bytes()).then(|| (line, value.trim_ascii()))
    })
}
