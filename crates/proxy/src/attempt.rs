//! A request and its attempts: one origin after the other is tried, until one answers or no other may be
//! tried.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::Bytes;

use touchstone_handler::answer::Answer;
use touchstone_handler::handler::Level;
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::Request;
use touchstone_handler::trace::{ActiveSpan, RequestTrace};
use touchstone_http::request::Method;

use super::connections::{Connection, ConnectionGrant, ConnectionPermit};
use super::failure::{Failure, TimedStep};
use super::fields::{Outbound, hash_key, max_forwards};
use super::forwarded;
use super::group::Group;
use super::http2_connection::Http2Connection;
use super::http3_connection::Http3Connection;
use super::origin::Opened;
use super::origin_attempt::OriginAttempt;
use super::proxy_header;
use super::request_body::RequestBody;
use super::sessions::{Multiplexed, SessionUse, Sessions};
use super::version::Version;
use super::{grpc, http1, http2, http2_connection, http3, http3_connection, span};
use touchstone_upstream::Balance;
use touchstone_upstream::clock::now_ms;

/// How many kept connections may turn out to be closed before a new one is opened.
const MOST_STALE: usize = 2;

/// A request with the values that its attempts need.
struct Call {
    outbound: Rc<Outbound>,
    body: Rc<RequestBody>,
    /// The hash that chooses its origin, if origins are chosen by hash.
    key: Option<u64>,
    /// The origin that has its session.
    owner: Option<usize>,
    /// The PROXY header at the beginning of its connection, if configured.
    begins_with: Vec<u8>,
    /// When the whole request must be complete.
    deadline: Option<tokio::time::Instant>,
    /// For log lines: `GET /a [id]`.
    log_name: String,
    /// The trace of the request, if it is recorded.
    trace: Option<Rc<RequestTrace>>,
}

/// A connection for a request.
enum Link {
    Http1(Box<Connection>),
    Http2(SessionUse<Http2Connection>),
    Http3(SessionUse<Http3Connection>),
}

impl Link {
    /// The version of HTTP, as spans name it.
    fn version(&self) -> &'static str {
        match self {
            Link::Http1(_) => "1.1",
            Link::Http2(_) => "2",
            Link::Http3(_) => "3",
        }
    }
}

/// Answers a request through the origins of a group.
pub async fn answer(group: Rc<Group>, mut request: Request) -> Answer {
    let settings = group.settings();
    if forwarded::goes_in_circles(&settings.forward, &request) {
        let message =
            format!("{} comes by again and again: this server is its own origin", log_name(&request));
        group.server.log(Level::Warning, "request in circles", &message);
        return Answer::error(508);
    }
    // RFC 9110 section 7.6.2: with 0, this server must answer the request itself.
    match (max_forwards(&request), request.method()) {
        (Some(0), Method::Options) => return Answer::new(204).field("Allow", "OPTIONS"),
        (Some(0), _) => return Answer::error(405).field("Allow", "OPTIONS"),
        _ => {}
    }
    let Some(outbound) = Outbound::new(settings, &request) else { return Answer::error(400) };
    if grpc::is_call(&request, settings.version) {
        request.body.lift_limit();
    }
    let body = std::mem::replace(&mut request.body, Receiver::of(Bytes::new()));
    let call = Call {
        outbound: Rc::new(outbound),
        body: Rc::new(RequestBody::new(body)),
        key: match &settings.balance {
            Balance::Hash(by) => hash_key(by, &request),
            Balance::LeastOutstanding | Balance::LeastRequests | Balance::RoundRobin => None,
        },
        owner: group.owner(&request),
        begins_with: settings.proxy_header.map_or(Vec::new(), |version| {
            proxy_header::header(version, request.internet_client().map(|client| (client, request.server)))
        }),
        deadline: settings.times.total.map(|total| tokio::time::Instant::now() + total),
        log_name: log_name(&request),
        trace: request.trace.clone().filter(|trace| trace.is_sampled()),
    };
    drop(request);
    let attempts = try_origins(&group, &call);
    let result = match (call.deadline, settings.times.total) {
        (Some(deadline), Some(total)) => match tokio::time::timeout_at(deadline, attempts).await {
            Ok(result) => result,
            Err(_) => {
                let failure = Failure::Timeout(TimedStep::Total, total);
                let message = format!("{failure} ({})", call.log_name);
                group.server.log(Level::Warning, "origin failed", &message);
                Err(failure)
            }
        },
        _ => attempts.await,
    };
    match result {
        Ok(mut answer) => {
            if !group.settings().answers.is_empty() {
                group.settings().answers.apply(&mut answer.fields);
            }
            answer
        }
        Err(failure) if failure.status() == 503 => Answer::error(503).field("Retry-After", "1"),
        Err(failure) => Answer::error(failure.status()),
    }
}

/// Tries one origin after the other.
async fn try_origins(group: &Rc<Group>, call: &Call) -> Result<Answer, Failure> {
    let (settings, shared) = (group.settings(), &group.shared);
    if settings.buffered_request_bytes > 0 && !call.outbound.has_no_body() && !call.outbound.switches() {
        call.body.gather(settings.buffered_request_bytes).await.map_err(Failure::RequestBody)?;
    }
    shared.budget.earn(&settings.retry);
    let mut tried = Vec::new();
    let mut attempts = 0;
    let mut last = None;
    while let Some(index) = group.choose(&tried, call.owner, call.key) {
        let member = group.member(index);
        tried.push(index);
        let Some(guard) = member.origin.begin(settings.most_requests) else {
            let failure = Failure::Full("so many requests are under way as there may be");
            group.failed(index, &failure);
            last = Some(failure);
            continue;
        };
        if attempts > 0 {
            member.counts.retries.fetch_add(1, Relaxed);
        }
        attempts += 1;
        member.counts.attempts.fetch_add(1, Relaxed);
        let began = Instant::now();
        let origin_attempt = OriginAttempt::new(group.clone(), index, guard, call.deadline);
        let result = match &call.trace {
            None => attempt(origin_attempt, call, &call.outbound, &mut None).await,
            // Boxed, so that other futures do not get larger.
            Some(trace) => Box::pin(traced_attempt(trace, origin_attempt, call, attempts)).await,
        };
        let failure = match result {
            Ok(answer) => {
                group.answered(index, answer.status, began.elapsed());
                let is_unwanted = settings.retry.statuses.contains(&answer.status);
                let is_safe = call.outbound.is_idempotent;
                if !is_unwanted || !may_repeat(group, call, &tried, attempts, is_safe) {
                    return Ok(answer);
                }
                continue;
            }
            Err(failure) => failure,
        };
        group.failed(index, &failure);
        group.log_failure(index, &failure, &call.log_name);
        let is_safe = failure.is_unprocessed() || call.outbound.is_idempotent && !call.outbound.switches();
        let again = failure.may_be_repeated() && may_repeat(group, call, &tried, attempts, is_safe);
        last = Some(failure);
        if !again {
            break;
        }
    }
    Err(last.unwrap_or(Failure::Full("no origin is available")))
}

/// Whether another origin may be tried; takes the attempt from the budget.
fn may_repeat(group: &Rc<Group>, call: &Call, tried: &[usize], attempts: u32, is_safe: bool) -> bool {
    let rules = &group.settings().retry;
    is_safe
        && attempts <= rules.most
        && group.has_others(tried)
        && call.body.rewind()
        && group.shared.budget.spend(rules, now_ms())
}

/// An attempt as a span of the request's trace.
async fn traced_attempt(
    trace: &Rc<RequestTrace>,
    origin_attempt: OriginAttempt,
    call: &Call,
    number: u32,
) -> Result<Answer, Failure> {
    let url = &origin_attempt.member().spec.url;
    let mut span = span::begin(trace, &call.outbound.method, url, number);
    let outbound = match &span {
        Some(span) => Rc::new(call.outbound.inside(&span.inside())),
        None => call.outbound.clone(),
    };
    let result = attempt(origin_attempt, call, &outbound, &mut span).await;
    span::finish(span, &result);
    result
}

/// Sends a request to one origin: on kept connections, and on a new one if those have ended.
async fn attempt(
    origin_attempt: OriginAttempt,
    call: &Call,
    outbound: &Rc<Outbound>,
    span: &mut Option<ActiveSpan>,
) -> Result<Answer, Failure> {
    let mut origin_attempt = origin_attempt;
    for stale in 0.. {
        let began = span.is_some().then(Instant::now);
        let (link, is_kept) = link(&origin_attempt, call, stale >= MOST_STALE).await?;
        if let (Some(span), Some(began)) = (&mut *span, began) {
            span::note_connection(span, is_kept, link.version(), began.elapsed());
        }
        let (group, index) = (origin_attempt.group().clone(), origin_attempt.index());
        let result = match link {
            Link::Http1(connection) => http1::call(origin_attempt, *connection, outbound, &call.body).await,
            Link::Http2(session) => http2::call(origin_attempt, session, outbound, &call.body).await,
            Link::Http3(session) => http3::call(origin_attempt, session, outbound, &call.body).await,
        };
        // RFC 9112 section 9.3.1: the origin may close a connection at the moment when it is used again.
        let is_stale = match &result {
            Err(Failure::Closed(_)) => call.outbound.is_idempotent || call.outbound.switches(),
            Err(Failure::Refused(_)) => true,
            _ => false,
        };
        if !is_kept || !is_stale || stale >= MOST_STALE || !call.body.rewind() {
            return result;
        }
        let Some(guard) = group.origin(index).begin(0) else { return result };
        origin_attempt = OriginAttempt::new(group, index, guard, call.deadline);
    }
    Err(Failure::Full("no connection is any good"))
}

/// A connection for the request, and whether it has served other requests. `is_new`: it must be a new one.
async fn link(origin_attempt: &OriginAttempt, call: &Call, is_new: bool) -> Result<(Link, bool), Failure> {
    let (settings, group) = (origin_attempt.settings(), origin_attempt.group());
    if settings.version == Version::Http11 || call.outbound.switches() {
        let wants_kept = !is_new && settings.proxy_header.is_none();
        return match grant(origin_attempt, wants_kept).await? {
            ConnectionGrant::Kept(connection) => Ok((Link::Http1(connection), true)),
            ConnectionGrant::New(permit) => open(origin_attempt, call, permit, true).await,
        };
    }
    let sessions = &group.sessions[origin_attempt.index()];
    if settings.version == Version::Http3 {
        return shared_link(origin_attempt, call, &sessions.http3, is_new, Link::Http3).await;
    }
    if settings.version == Version::Http2 || sessions.http2.was_agreed_on.get() {
        return shared_link(origin_attempt, call, &sessions.http2, is_new, Link::Http2).await;
    }
    match grant(origin_attempt, !is_new).await? {
        ConnectionGrant::Kept(connection) => Ok((Link::Http1(connection), true)),
        ConnectionGrant::New(permit) => open(origin_attempt, call, permit, false).await,
    }
}

/// A connection that many requests share, or a new one.
async fn shared_link<C: Multiplexed + 'static>(
    origin_attempt: &OriginAttempt,
    call: &Call,
    sessions: &Sessions<C>,
    is_new: bool,
    link_of: fn(SessionUse<C>) -> Link,
) -> Result<(Link, bool), Failure> {
    let most_uses = origin_attempt.settings().connections.most_uses;
    let find = || if is_new { None } else { sessions.find(most_uses) };
    if let Some(session) = find() {
        return Ok((link_of(session), true));
    }
    let room = async {
        match is_new {
            true => std::future::pending().await,
            false => sessions.room(most_uses).await,
        }
    };
    let mut room = std::pin::pin!(room);
    let asked = Instant::now();
    // If several requests arrive at once, only one opens a connection.
    let _connecting = tokio::select! {
        biased;
        connecting = sessions.connecting.lock() => connecting,
        session = &mut room => return Ok((link_of(session), true)),
    };
    if let Some(session) = find() {
        return Ok((link_of(session), true));
    }
    if let Some(failure) = sessions.failure_since(asked) {
        return Err(failure);
    }
    // With as many connections as there may be, a stream of one of them may become free first.
    let granted = tokio::select! {
        biased;
        granted = grant(origin_attempt, false) => granted,
        session = &mut room => return Ok((link_of(session), true)),
    };
    let opened = match granted {
        Ok(ConnectionGrant::Kept(connection)) => return Ok((Link::Http1(connection), true)),
        Ok(ConnectionGrant::New(permit)) => open(origin_attempt, call, permit, false).await,
        Err(failure) => Err(failure),
    };
    if let Err(failure) = &opened {
        sessions.note_failure(failure);
    }
    opened
}

/// A kept HTTP/1.1 connection, or the permit for a new one.
async fn grant(origin_attempt: &OriginAttempt, wants_kept: bool) -> Result<ConnectionGrant, Failure> {
    let core = origin_attempt.group().server.core();
    origin_attempt.origin().connections.grant(core, wants_kept).await.map_err(Failure::Full)
}

/// A new connection of any version.
async fn open(
    origin_attempt: &OriginAttempt,
    call: &Call,
    permit: ConnectionPermit,
    only_http1: bool,
) -> Result<(Link, bool), Failure> {
    let settings = origin_attempt.settings();
    let sessions = &origin_attempt.group().sessions[origin_attempt.index()];
    let opened = origin_attempt.member().open(settings, permit, &call.begins_with, only_http1).await?;
    let link = match opened {
        Opened::Http1(connection) => Link::Http1(connection),
        Opened::Http2(new) => Link::Http2(http2_connection::begin(&sessions.http2, new, settings).await?),
        Opened::Http3(new) => Link::Http3(http3_connection::begin(&sessions.http3, new, settings).await?),
    };
    Ok((link, false))
}

/// The name of a request in log lines.
fn log_name(request: &Request) -> String {
    let method = String::from_utf8_lossy(request.received.method_text()).into_owned();
    let path = String::from_utf8_lossy(&request.path_as_sent).into_owned();
    match request.id.as_ref() {
        "" => format!("{method} {path}"),
        id => format!("{method} {path} [{id}]"),
    }
}
