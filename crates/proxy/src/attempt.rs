//! A request and its attempts: origins are tried one after another, until one answers or no further attempt
//! is allowed.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use touchstone_handler::answer::Answer;
use touchstone_handler::handler::Level;
use touchstone_handler::request::Request;
use touchstone_handler::trace::{ActiveSpan, RequestTrace};
use touchstone_http::request::Method;

use super::connections::{Connection, ConnectionGrant, ConnectionPermit};
use super::failure::{Failure, TimedStep};
use super::fields::{OutboundRequest, hash_key, max_forwards};
use super::forwarded;
use super::group::Group;
use super::http2_connection::Http2Connection;
use super::http3_connection::Http3Connection;
use super::origin::{NewConnection, RequestGuard};
use super::origin_attempt::OriginAttempt;
use super::proxy_header;
use super::request_body::RequestBody;
use super::sessions::{Multiplexed, SessionUse, Sessions};
use super::version::Version;
use super::{grpc, http1, http2, http2_connection, http3, http3_connection, span};
use touchstone_upstream::Balance;
use touchstone_upstream::clock::now_ms;

/// The most idle connections that may turn out to be closed before a new one is opened.
const MOST_STALE: usize = 2;

/// A request with the values that its attempts need.
struct Call {
    outbound: Rc<OutboundRequest>,
    body: Rc<RequestBody>,
    /// The hash that selects the origin, if the balance method is by hash.
    hash: Option<u64>,
    /// The origin of the request's session.
    session_origin: Option<usize>,
    /// The PROXY header for a new connection; empty: none.
    proxy_header: Vec<u8>,
    /// When the whole request must be complete.
    deadline: Option<tokio::time::Instant>,
    /// The name of the request in the log: `GET /a [id]`.
    log_name: String,
    /// The trace of the request, if it is recorded.
    trace: Option<Rc<RequestTrace>>,
}

/// A request that was passed to an origin before its attempts begin, see [`pending_get`](super::pending_get).
pub struct StartedAttempt {
    /// The origin.
    pub index: usize,
    /// Counts the attempt.
    pub guard: RequestGuard,
    /// The connection that the request was sent on, if it was sent.
    pub connection: Option<Connection>,
    /// When it was sent.
    pub began: Instant,
}

/// A connection for a request.
enum RequestConnection {
    Http1(Box<Connection>),
    Http2(SessionUse<Http2Connection>),
    Http3(SessionUse<Http3Connection>),
}

impl RequestConnection {
    /// The version of HTTP, in the form of the span attribute.
    fn version(&self) -> &'static str {
        match self {
            RequestConnection::Http1(_) => "1.1",
            RequestConnection::Http2(_) => "2",
            RequestConnection::Http3(_) => "3",
        }
    }

    /// Sends the request and returns the answer when the response's head has arrived.
    async fn call(
        self,
        attempt: OriginAttempt,
        outbound: &Rc<OutboundRequest>,
        body: &Rc<RequestBody>,
    ) -> Result<Answer, Failure> {
        match self {
            RequestConnection::Http1(connection) => http1::call(attempt, *connection, outbound, body).await,
            RequestConnection::Http2(session) => http2::call(attempt, session, outbound, body).await,
            RequestConnection::Http3(session) => http3::call(attempt, session, outbound, body).await,
        }
    }
}

/// Answers a request through the origins of a group. `started`: its first attempt has begun.
pub async fn answer(group: Rc<Group>, mut request: Request, started: Option<StartedAttempt>) -> Answer {
    let settings = group.settings();
    if forwarded::client_of(&request).is_in_loop(&settings.forward) {
        let message = format!("{}: the address of an origin leads back to this server", log_name(&request));
        group.server.log(Level::Warning, "request loop", &message);
        return Answer::error(508);
    }
    // RFC 9110 section 7.6.2: with 0, this server must answer the request itself.
    match (max_forwards(&request), request.method()) {
        (Some(0), Method::Options) => return Answer::new(204).field("Allow", "OPTIONS"),
        (Some(0), _) => return Answer::error(405).field("Allow", "OPTIONS"),
        _ => {}
    }
    let Some(outbound) = OutboundRequest::new(settings, &request) else { return Answer::error(400) };
    if grpc::is_call(&request, settings.version) {
        request.body.lift_limit();
    }
    let began = started.as_ref().map_or_else(Instant::now, |started| started.began);
    let body = request.take_body();
    let call = Call {
        outbound: Rc::new(outbound),
        body: Rc::new(RequestBody::new(body)),
        hash: match &settings.balance {
            Balance::Hash(by) => hash_key(by, &request),
            Balance::LeastOutstanding | Balance::LeastRequests | Balance::RoundRobin => None,
        },
        session_origin: group.session_origin(&request),
        proxy_header: settings.proxy_header.map_or(Vec::new(), |version| {
            proxy_header::header(version, request.internet_client().map(|client| (client, request.server)))
        }),
        deadline: settings.times.total.map(|total| tokio::time::Instant::from(began) + total),
        log_name: log_name(&request),
        trace: request.trace.clone().filter(|trace| trace.is_sampled()),
    };
    drop(request);
    let attempts = try_origins(&group, &call, started);
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

/// Tries the origins one after another.
async fn try_origins(
    group: &Rc<Group>,
    call: &Call,
    mut started: Option<StartedAttempt>,
) -> Result<Answer, Failure> {
    let (settings, shared) = (group.settings(), &group.shared);
    if settings.buffered_request_bytes > 0 && !call.outbound.has_no_body() && !call.outbound.is_upgrade() {
        call.body.buffer_up_to(settings.buffered_request_bytes).await.map_err(Failure::RequestBody)?;
    }
    if started.is_none() {
        shared.budget.earn(&settings.retry);
    }
    let mut tried = Vec::new();
    let mut attempts = 0;
    let mut last = None;
    loop {
        let started = started.take();
        let chosen = match &started {
            Some(started) => Some(started.index),
            None => group.choose(&tried, call.session_origin, call.hash),
        };
        let Some(index) = chosen else { break };
        let member = group.member(index);
        tried.push(index);
        let (guard, sent) = match started {
            Some(StartedAttempt { guard, connection, began, .. }) => {
                (Some(guard), connection.map(|connection| (connection, began)))
            }
            None => (member.origin.begin(settings.most_requests), None),
        };
        let Some(guard) = guard else {
            let failure = Failure::Full("the limit of requests in progress is reached");
            group.record_failure(index, &failure);
            last = Some(failure);
            continue;
        };
        if attempts > 0 {
            member.counts.retries.fetch_add(1, Relaxed);
        }
        attempts += 1;
        member.counts.attempts.fetch_add(1, Relaxed);
        let began = sent.as_ref().map_or_else(Instant::now, |(_, began)| *began);
        let origin_attempt = OriginAttempt::new(group.clone(), index, guard, call.deadline);
        let result = match &call.trace {
            None => attempt(origin_attempt, call, &call.outbound, sent, &mut None).await,
            // Boxed, so that futures without a trace are smaller. The outbound request has its own field of
            // the trace, so it is not one that was sent before.
            Some(trace) => Box::pin(traced_attempt(trace, origin_attempt, call, attempts)).await,
        };
        let failure = match result {
            Ok(answer) => {
                group.record_answer(index, answer.status, began.elapsed());
                let is_unwanted = settings.retry.statuses.contains(&answer.status);
                let is_safe = call.outbound.is_idempotent;
                if !is_unwanted || !may_retry(group, call, &tried, attempts, is_safe) {
                    return Ok(answer);
                }
                continue;
            }
            Err(failure) => failure,
        };
        group.record_failure(index, &failure);
        group.log_failure(index, &failure, &call.log_name);
        let is_safe = failure.is_unprocessed() || call.outbound.is_idempotent && !call.outbound.is_upgrade();
        let is_retried = failure.is_retryable() && may_retry(group, call, &tried, attempts, is_safe);
        last = Some(failure);
        if !is_retried {
            break;
        }
    }
    Err(last.unwrap_or(Failure::Full("no origin is available")))
}

/// Whether another origin may be tried. If so, takes one retry from the budget.
fn may_retry(group: &Rc<Group>, call: &Call, tried: &[usize], attempts: u32, is_safe: bool) -> bool {
    let rules = &group.settings().retry;
    is_safe
        && attempts <= rules.most
        && group.has_untried(tried)
        && call.body.rewind()
        && group.shared.budget.spend(rules, now_ms())
}

/// Makes an attempt and records it as a span of the request's trace.
async fn traced_attempt(
    trace: &Rc<RequestTrace>,
    origin_attempt: OriginAttempt,
    call: &Call,
    number: u32,
) -> Result<Answer, Failure> {
    let url = &origin_attempt.member().spec.url;
    let mut span = span::begin(trace, &call.outbound.method, url, number);
    let outbound = match &span {
        Some(span) => Rc::new(call.outbound.with_trace_parent(&span.inside())),
        None => call.outbound.clone(),
    };
    let result = attempt(origin_attempt, call, &outbound, None, &mut span).await;
    span::finish(span, &result);
    result
}

/// Sends a request to one origin: on idle connections, and on a new one if those were closed. `sent`: the
/// idle connection on which the request was sent before, and when.
async fn attempt(
    origin_attempt: OriginAttempt,
    call: &Call,
    outbound: &Rc<OutboundRequest>,
    mut sent: Option<(Connection, Instant)>,
    span: &mut Option<ActiveSpan>,
) -> Result<Answer, Failure> {
    let mut origin_attempt = origin_attempt;
    for stale in 0.. {
        let (group, index) = (origin_attempt.group().clone(), origin_attempt.index());
        let (result, is_reused) = match sent.take() {
            Some((connection, sent_at)) => {
                let called =
                    http1::continue_call(origin_attempt, connection, sent_at, outbound, &call.body).await;
                (called, true)
            }
            None => {
                let began = span.is_some().then(Instant::now);
                let (connection, is_reused) =
                    get_connection(&origin_attempt, call, stale >= MOST_STALE).await?;
                if let (Some(span), Some(began)) = (&mut *span, began) {
                    span::note_connection(span, is_reused, connection.version(), began.elapsed());
                }
                (connection.call(origin_attempt, outbound, &call.body).await, is_reused)
            }
        };
        // RFC 9112 section 9.3.1: the origin may close an idle connection while the next request is sent.
        let is_stale = match &result {
            Err(Failure::Closed(_)) => call.outbound.is_idempotent || call.outbound.is_upgrade(),
            Err(Failure::Refused(_)) => true,
            _ => false,
        };
        if !is_reused || !is_stale || stale >= MOST_STALE || !call.body.rewind() {
            return result;
        }
        let Some(guard) = group.origin(index).begin(0) else { return result };
        origin_attempt = OriginAttempt::new(group, index, guard, call.deadline);
    }
    Err(Failure::Full("no usable connection was found"))
}

/// A connection for the request, and whether it has served other requests. `is_new`: it must be a new one.
async fn get_connection(
    origin_attempt: &OriginAttempt,
    call: &Call,
    is_new: bool,
) -> Result<(RequestConnection, bool), Failure> {
    let (settings, group) = (origin_attempt.settings(), origin_attempt.group());
    if settings.version == Version::Http11 || call.outbound.is_upgrade() {
        let allow_idle = !is_new && settings.proxy_header.is_none();
        return match grant(origin_attempt, allow_idle).await? {
            ConnectionGrant::Idle(connection) => Ok((RequestConnection::Http1(connection), true)),
            ConnectionGrant::New(permit) => open(origin_attempt, call, permit, true).await,
        };
    }
    let sessions = &group.sessions[origin_attempt.index()];
    if settings.version == Version::Http3 {
        let wrap = RequestConnection::Http3;
        return get_shared_connection(origin_attempt, call, &sessions.http3, is_new, wrap).await;
    }
    if settings.version == Version::Http2 || sessions.http2.was_negotiated.get() {
        let wrap = RequestConnection::Http2;
        return get_shared_connection(origin_attempt, call, &sessions.http2, is_new, wrap).await;
    }
    match grant(origin_attempt, !is_new).await? {
        ConnectionGrant::Idle(connection) => Ok((RequestConnection::Http1(connection), true)),
        ConnectionGrant::New(permit) => open(origin_attempt, call, permit, false).await,
    }
}

/// A connection that several requests share: an open one with a free stream, or a new one.
async fn get_shared_connection<C: Multiplexed + 'static>(
    origin_attempt: &OriginAttempt,
    call: &Call,
    sessions: &Sessions<C>,
    is_new: bool,
    wrap: fn(SessionUse<C>) -> RequestConnection,
) -> Result<(RequestConnection, bool), Failure> {
    let most_uses = origin_attempt.settings().connections.most_uses;
    let find = || if is_new { None } else { sessions.find(most_uses) };
    if let Some(session) = find() {
        return Ok((wrap(session), true));
    }
    let free_stream = async {
        match is_new {
            true => std::future::pending().await,
            false => sessions.wait_for_stream(most_uses).await,
        }
    };
    let mut free_stream = std::pin::pin!(free_stream);
    let waiting_since = Instant::now();
    // If several requests arrive at the same time, only one of them opens a connection.
    let _connecting = tokio::select! {
        biased;
        connecting = sessions.connecting.lock() => connecting,
        session = &mut free_stream => return Ok((wrap(session), true)),
    };
    if let Some(session) = find() {
        return Ok((wrap(session), true));
    }
    if let Some(failure) = sessions.failure_since(waiting_since) {
        return Err(failure);
    }
    // If the limit of connections is reached, a stream may become free before a connection does.
    let granted = tokio::select! {
        biased;
        granted = grant(origin_attempt, false) => granted,
        session = &mut free_stream => return Ok((wrap(session), true)),
    };
    let opened = match granted {
        Ok(ConnectionGrant::Idle(connection)) => return Ok((RequestConnection::Http1(connection), true)),
        Ok(ConnectionGrant::New(permit)) => open(origin_attempt, call, permit, false).await,
        Err(failure) => Err(failure),
    };
    if let Err(failure) = &opened {
        sessions.record_failure(failure);
    }
    opened
}

/// An idle HTTP/1.1 connection, or the permit for a new one.
async fn grant(origin_attempt: &OriginAttempt, allow_idle: bool) -> Result<ConnectionGrant, Failure> {
    let core = origin_attempt.group().server.core();
    origin_attempt.origin().connections.grant(core, allow_idle).await.map_err(Failure::Full)
}

/// Opens a connection, and begins the negotiated version of HTTP on it.
async fn open(
    origin_attempt: &OriginAttempt,
    call: &Call,
    permit: ConnectionPermit,
    only_http1: bool,
) -> Result<(RequestConnection, bool), Failure> {
    let settings = origin_attempt.settings();
    let sessions = &origin_attempt.group().sessions[origin_attempt.index()];
    let opened = origin_attempt.member().open(settings, permit, &call.proxy_header, only_http1).await?;
    let connection = match opened {
        NewConnection::Http1(connection) => RequestConnection::Http1(connection),
        NewConnection::Http2(new) => {
            RequestConnection::Http2(http2_connection::begin(&sessions.http2, new, settings).await?)
        }
        NewConnection::Http3(new) => {
            RequestConnection::Http3(http3_connection::begin(&sessions.http3, new, settings).await?)
        }
    };
    Ok((connection, false))
}

/// The name of a request in the log.
fn log_name(request: &Request) -> String {
    let method = String::from_utf8_lossy(request.received.method_text()).into_owned();
    let path = String::from_utf8_lossy(&request.encoded_path).into_owned();
    match request.id.as_ref() {
        "" => format!("{method} {path}"),
        id => format!("{method} {path} [{id}]"),
    }
}
