//! Calls a program that listens, with any of the protocols: tries one backend after the other, on a kept
//! connection or a new one, and makes the server's answer of the response.
//!
//! An error of the program becomes 502, a timeout 504, and 503 means that there is no room for the request;
//! the error log gives the reason. A request is repeated only if no action can happen twice: the program has
//! taken nothing of it, or its method is idempotent (RFC 9110 section 9.2.2); and its body must be available
//! again.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use touchstone_files::root::Root;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Handled, Level, Server};
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::pipe::pipe;

use super::backend_call::{BackendCall, Failure, FailureKind};
use super::connections::{Connection, Connections, NoConnection};
use super::group::{Group, RequestGuard};
use super::log_name::RequestLogName;
use super::ping::PingResult;
use super::protocol::{Output, Protocol};
use super::pump::{BodySender, Pump, log_message};
use super::respond::{self, Body};
use super::settings::TimeLimits;
use super::upload::Upload;
use crate::body_end::BodyEnd;
use crate::cgi_response::{DocumentHead, HeaderLimits, ProgramResponse, ResponseParser, pass_interim};

/// An answer up to this size that arrives at once is sent in one piece; of a longer one, at most this much is
/// held for the client.
const GATHERED_BYTES: usize = 64 * 1024;

/// If a request on a new connection has no answer after this time, kept connections may occupy the program.
/// Each further pause is twice as long.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(20);

/// How many connections that have become free may turn out to be closed by the program before one request.
const MOST_STALE: usize = 8;

/// The rules for all calls.
pub struct CallRules {
    /// How long an answer may take.
    pub times: TimeLimits,
    /// How large the header of an answer in the form of CGI may be.
    pub header: HeaderLimits,
    /// The directory of files that the program may name; `None`: it may not name files.
    pub send_files_from: Option<Arc<Root>>,
}

/// Calls the programs of a group on one core.
pub struct Caller<P> {
    group: Rc<Group>,
    server: Rc<dyn Server>,
    rules: CallRules,
    protocol: PhantomData<fn() -> P>,
}

/// The parts of a request that an attempt needs.
pub struct Call<P: Protocol> {
    /// The request up to its body, for the backend with this index.
    pub head: Box<dyn Fn(usize) -> Bytes>,
    /// The state of the protocol before the request.
    pub decoder: P::Decoder,
    /// The backend that the request must or should go to, if any.
    pub owner: Option<Owner>,
    /// Whether the method is HEAD.
    pub is_head: bool,
    /// The method is idempotent: repeating it has the same effect as one request.
    pub is_idempotent: bool,
    /// For log lines.
    pub log_name: RequestLogName,
    /// The receiver of interim responses.
    pub interim: Option<Rc<dyn TakesInterim>>,
}

/// The backend that has the session of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its position.
    pub index: usize,
    /// No other backend may answer.
    pub is_only: bool,
}

/// The result of an attempt.
enum Attempt<P: Protocol> {
    /// The head of an answer has arrived.
    Started {
        response: ProgramResponse,
        rest: Bytes,
        backend_call: Box<BackendCall<P>>,
    },
    Failed(FailedAttempt),
}

struct FailedAttempt {
    status: u16,
    reason: String,
    /// The backend could not be reached, or did not answer.
    is_of_backend: bool,
    /// The body, if another attempt may be made: on a new connection, or by another backend.
    again: Option<Upload>,
}

impl<P: Protocol> Caller<P> {
    /// A caller for the programs of a group.
    pub fn new(group: Rc<Group>, server: Rc<dyn Server>, rules: CallRules) -> Caller<P> {
        Caller { group, server, rules, protocol: PhantomData }
    }

    /// Tries one backend after the other.
    pub async fn call(&self, call: Call<P>, upload: Upload) -> Handled {
        self.call_after(call, None, upload).await
    }

    /// Continues a request without a body for which a backend was chosen, and which may already have been
    /// sent to it on a kept connection. If that fails, the other backends are tried.
    pub async fn continue_request(
        &self,
        call: Call<P>,
        guard: RequestGuard,
        sent: Option<Box<BackendCall<P>>>,
    ) -> Handled {
        self.call_after(call, Some((guard, sent)), Upload::none()).await
    }

    async fn call_after(
        &self,
        call: Call<P>,
        mut chosen: Option<(RequestGuard, Option<Box<BackendCall<P>>>)>,
        mut upload: Upload,
    ) -> Handled {
        let mut tried = Vec::new();
        let mut last = None;
        loop {
            let (guard, sent) = match chosen.take() {
                Some(chosen) => chosen,
                None => {
                    let Some(index) = self.choose(call.owner, &tried) else { break };
                    (self.group.begin(index), None)
                }
            };
            let index = guard.index();
            let attempt = match sent {
                Some(backend_call) => self.attempt_again(index, &call, backend_call).await,
                None => self.try_backend(index, &call, upload).await,
            };
            match attempt {
                Attempt::Started { response, rest, backend_call } => {
                    self.group.succeeded(index);
                    return self.respond(index, guard, call, response, rest, backend_call).await;
                }
                Attempt::Failed(failed) => {
                    let reason = format!("{} ({})", failed.reason, call.log_name);
                    self.group.log_failure(index, &reason, failed.is_of_backend);
                    last = Some(failed.status);
                    match failed.again {
                        Some(again) if self.group.len() > 1 => upload = again,
                        _ => break,
                    }
                }
            }
            upload.rewind();
            tried.push(index);
        }
        match last {
            Some(503) | None => Handled::Answer(unavailable()),
            Some(status) => Handled::Answer(Answer::error(status)),
        }
    }

    /// The backend for the next attempt, after those in `tried` have failed.
    fn choose(&self, owner: Option<Owner>, tried: &[usize]) -> Option<usize> {
        match owner {
            Some(owner) if tried.is_empty() && (owner.is_only || self.group.try_admit(owner.index)) => {
                Some(owner.index)
            }
            Some(owner) if owner.is_only => None,
            _ => self.group.choose(tried),
        }
    }

    /// Tries a kept connection, and a new one if the kept one had ended.
    async fn try_backend(&self, index: usize, call: &Call<P>, upload: Upload) -> Attempt<P> {
        let connections = self.group.connections(index);
        let mut upload = upload;
        if let Some(connection) = self.take_kept(connections).await {
            match self.attempt(index, call, connection, upload, true).await {
                Attempt::Failed(FailedAttempt { again: Some(again), status: 502, .. }) => upload = again,
                other => return other,
            }
            upload.rewind();
        }
        self.try_new(index, call, upload).await
    }

    /// Continues the call on a kept connection, and tries a new one if the kept one had ended.
    async fn attempt_again(
        &self,
        index: usize,
        call: &Call<P>,
        backend_call: Box<BackendCall<P>>,
    ) -> Attempt<P> {
        match self.listen(index, call, backend_call, true).await {
            Attempt::Failed(FailedAttempt { again: Some(upload), status: 502, .. }) => {
                self.try_new(index, call, upload).await
            }
            other => other,
        }
    }

    /// Tries a new connection, or those that have become free since until one of them was not closed by the
    /// program.
    async fn try_new(&self, index: usize, call: &Call<P>, upload: Upload) -> Attempt<P> {
        let connections = self.group.connections(index);
        let (mut upload, mut stale) = (upload, 0);
        loop {
            let (connection, is_kept) = match self.open(connections).await {
                Ok(opened) => opened,
                Err(problem) => return self.no_connection(index, problem, upload),
            };
            match self.attempt(index, call, connection, upload, is_kept).await {
                Attempt::Failed(FailedAttempt { again: Some(again), status: 502, .. })
                    if is_kept && stale < MOST_STALE =>
                {
                    upload = again;
                    stale += 1;
                }
                other => return other,
            }
            upload.rewind();
        }
    }

    fn no_connection(&self, index: usize, problem: NoConnection, upload: Upload) -> Attempt<P> {
        let is_of_backend = matches!(problem, NoConnection::Unreachable(_) | NoConnection::Silent);
        if is_of_backend {
            self.group.failed(index);
        }
        let (status, reason) = match problem {
            NoConnection::Unreachable(error) => (502, format!("cannot connect: {error}")),
            NoConnection::Silent => (502, "it accepts connections, and does not answer on them".to_string()),
            NoConnection::Full => (503, "all connections are in use, and too many requests wait".to_string()),
            NoConnection::WaitedTooLong => (503, "no connection was free for too long".to_string()),
        };
        Attempt::Failed(FailedAttempt { status, reason, is_of_backend, again: Some(upload) })
    }

    /// A kept connection. If it was idle for long, the program has answered a ping on it.
    async fn take_kept(&self, connections: &Connections) -> Option<Connection> {
        while let Some((mut connection, idle_for)) = connections.take_kept() {
            let ping = self.group.rules().ping.as_ref().filter(|rules| idle_for >= rules.after_idle);
            match ping {
                Some(rules) => match rules.ping.ask(&connection.stream, &mut connection.received).await {
                    PingResult::Answered => return Some(connection),
                    PingResult::Refused => {}
                    // The others were used before this one, and would cost as much time again, each.
                    PingResult::TimedOut => connections.close_kept(),
                },
                None => return Some(connection),
            }
        }
        None
    }

    /// A new connection, or one that has become free since.
    async fn open(&self, connections: &Connections) -> Result<(Connection, bool), NoConnection> {
        let (mut connection, is_kept) = connections.open().await?;
        let ping = self.group.rules().ping.as_ref().filter(|rules| rules.on_connect && !is_kept);
        if let Some(rules) = ping
            && !rules.ping.is_answered(&connection.stream, &mut connection.received).await
        {
            return Err(NoConnection::Silent);
        }
        Ok((connection, is_kept))
    }

    /// One request on one connection, up to the head of the answer.
    async fn attempt(
        &self,
        index: usize,
        call: &Call<P>,
        connection: Connection,
        upload: Upload,
        is_kept: bool,
    ) -> Attempt<P> {
        let (head, decoder) = ((call.head)(index), call.decoder.clone());
        let backend_call =
            Box::new(BackendCall::<P>::new(connection, decoder, head, upload, self.rules.times));
        self.listen(index, call, backend_call, is_kept).await
    }

    /// Waits for the head of the answer.
    async fn listen(
        &self,
        index: usize,
        call: &Call<P>,
        mut backend_call: Box<BackendCall<P>>,
        is_kept: bool,
    ) -> Attempt<P> {
        let mut parser = ResponseParser::new(self.rules.header);
        let mut is_first = !is_kept;
        loop {
            let output =
                self.next_output(index, call, &mut backend_call, std::mem::take(&mut is_first)).await;
            let (status, reason) = match output {
                Ok(Output::Head(head)) => {
                    let response = ProgramResponse::Document(*head);
                    return Attempt::Started { response, rest: Bytes::new(), backend_call };
                }
                // The backend call has already handled this.
                Ok(Output::BodyWanted) => continue,
                Ok(Output::Answer(bytes)) => {
                    let fed = parser.feed(&bytes);
                    pass_interim(&mut parser, call.interim.as_deref());
                    match fed {
                        Ok(None) => continue,
                        Ok(Some((response, end))) => {
                            let rest = bytes.slice(end..);
                            return Attempt::Started { response, rest, backend_call };
                        }
                        Err(error) => (502, error.to_string()),
                    }
                }
                Ok(Output::Message(bytes)) => {
                    self.log_message(index, call, &bytes);
                    continue;
                }
                Ok(Output::End { status, .. }) => {
                    let returned =
                        if status == 0 { String::new() } else { format!(" and returned {status}") };
                    (502, format!("{}{returned}", parser.ended()))
                }
                Ok(Output::Overloaded) => {
                    let upload = backend_call.into_upload();
                    let again = upload.is_repeatable().then_some(upload);
                    let reason = "it reports that it is overloaded".to_string();
                    return Attempt::Failed(FailedAttempt {
                        status: 503,
                        reason,
                        is_of_backend: false,
                        again,
                    });
                }
                Err(failure) => return self.failed(index, call, *backend_call, &failure, is_kept),
            };
            return Attempt::Failed(FailedAttempt { status, reason, is_of_backend: false, again: None });
        }
    }

    /// The next output before the head of the answer. If there is none for long, and another backend could
    /// answer the request as well, this backend is checked by a ping.
    async fn next_output(
        &self,
        index: usize,
        call: &Call<P>,
        backend_call: &mut BackendCall<P>,
        is_first: bool,
    ) -> Result<Output, Failure> {
        let mut output = match is_first {
            true => self.first_output(index, backend_call).await,
            false => backend_call.next().await,
        };
        while let Err(Failure { kind: FailureKind::Quiet, .. }) = output {
            let is_bound = call.owner.is_some_and(|owner| owner.is_only);
            let may_go_elsewhere = call.is_idempotent
                && backend_call.is_unanswered()
                && backend_call.has_body_again()
                && !is_bound
                && self.group.has_other(index);
            output = tokio::select! {
                biased;
                output = backend_call.next() => output,
                true = self.group.is_silent(index), if may_go_elsewhere => {
                    let reason = "neither an answer nor that to a ping came".to_string();
                    Err(Failure { kind: FailureKind::Silent, reason })
                }
            };
        }
        output
    }

    /// The first output on a new connection. If it takes long, idle kept connections are closed one by one:
    /// they may occupy all the program's processes.
    async fn first_output(&self, index: usize, backend_call: &mut BackendCall<P>) -> Result<Output, Failure> {
        let connections = self.group.connections(index);
        if !connections.keeps() {
            return backend_call.next().await;
        }
        let mut close_requests = Vec::new();
        let mut pause = UNANSWERED_PAUSE;
        loop {
            if let Ok(output) = tokio::time::timeout(pause, backend_call.next()).await {
                return output;
            }
            if !backend_call.waits_for_client() {
                close_requests.push(connections.request_close());
            }
            pause *= 2;
        }
    }

    fn failed(
        &self,
        index: usize,
        call: &Call<P>,
        backend_call: BackendCall<P>,
        failure: &Failure,
        is_kept: bool,
    ) -> Attempt<P> {
        let status = match failure.kind {
            FailureKind::Closed | FailureKind::WrongBytes => 502,
            FailureKind::TimedOut | FailureKind::Quiet | FailureKind::Silent => 504,
            FailureKind::Client => 400,
        };
        // The program may have closed a kept connection, which is no sign of a failure.
        let is_of_backend =
            failure.kind == FailureKind::Silent || !is_kept && failure.kind != FailureKind::Client;
        if is_of_backend {
            self.group.failed(index);
        }
        let may_repeat = matches!(failure.kind, FailureKind::Closed | FailureKind::Silent)
            && (backend_call.is_unsent() || call.is_idempotent && backend_call.is_unanswered());
        let upload = backend_call.into_upload();
        let again = (may_repeat && upload.is_repeatable()).then_some(upload);
        Attempt::Failed(FailedAttempt { status, reason: failure.reason.clone(), is_of_backend, again })
    }

    /// Makes the answer of a head; its body follows as it arrives.
    async fn respond(
        &self,
        index: usize,
        guard: RequestGuard,
        call: Call<P>,
        response: ProgramResponse,
        rest: Bytes,
        mut backend_call: Box<BackendCall<P>>,
    ) -> Handled {
        let mut head = match response {
            ProgramResponse::Document(head) => head,
            ProgramResponse::LocalRedirect(target) => {
                self.gather(index, &call, &mut backend_call, &mut Vec::new()).await;
                return Handled::LocalRedirect { target };
            }
        };
        let mut pieces = Vec::from([rest]);
        let gathered = self.gather(index, &call, &mut backend_call, &mut pieces).await;
        if let Some(root) = &self.rules.send_files_from
            && let Some(file) = respond::named_file(&mut head, root)
        {
            if let GatherResult::Complete { keeps } = gathered {
                self.release(index, *backend_call, keeps);
            }
            return Handled::Answer(respond::send_file(
                &self.server,
                head,
                root,
                &file,
                &call.log_name.to_string(),
            ));
        }
        match gathered {
            GatherResult::Complete { keeps } => {
                self.release(index, *backend_call, keeps);
                Handled::Answer(self.complete(index, &call, head, pieces))
            }
            GatherResult::Broken(reason) => Handled::Answer(self.bad_answer(index, &call, &reason)),
            GatherResult::More => {
                drop(guard);
                let (sender, receiver) = pipe(GATHERED_BYTES);
                let length = head.content_length;
                let mut body = BodySender::new(sender, body_end(&head, call.is_head));
                if let Err(reason) = pieces.into_iter().try_for_each(|piece| body.push(piece)) {
                    return Handled::Answer(self.bad_answer(index, &call, &reason));
                }
                let pump = Pump::<P> {
                    group: self.group.clone(),
                    server: self.server.clone(),
                    index,
                    log_name: call.log_name,
                    backend_call,
                    body,
                };
                tokio::task::spawn_local(pump.run());
                Handled::Answer(respond::answer(head, call.is_head, Body::Stream { receiver, length }))
            }
        }
    }

    /// The answer to the client when the program's answer is invalid.
    fn bad_answer(&self, index: usize, call: &Call<P>, reason: &str) -> Answer {
        let address = self.group.connections(index).address();
        let message = format!("{} {address}: {reason} ({})", P::NAME, call.log_name);
        self.server.log(Level::Warning, "program failed", &message);
        Answer::error(502)
    }

    /// Takes the output that is available without waiting.
    async fn gather(
        &self,
        index: usize,
        call: &Call<P>,
        backend_call: &mut BackendCall<P>,
        pieces: &mut Vec<Bytes>,
    ) -> GatherResult {
        let mut bytes: usize = pieces.iter().map(Bytes::len).sum();
        while bytes < GATHERED_BYTES {
            match backend_call.next_now().await {
                None => break,
                Some(Ok(Output::Answer(piece))) => {
                    bytes += piece.len();
                    pieces.push(piece);
                }
                Some(Ok(Output::Message(message))) => self.log_message(index, call, &message),
                Some(Ok(Output::BodyWanted)) => {}
                Some(Ok(Output::End { keeps, .. })) => return GatherResult::Complete { keeps },
                Some(Ok(Output::Overloaded | Output::Head(_))) => {
                    return GatherResult::Broken("it gave up within the answer".to_string());
                }
                Some(Err(failure)) => return GatherResult::Broken(failure.reason),
            }
        }
        GatherResult::More
    }

    /// An answer that has arrived completely.
    fn complete(&self, index: usize, call: &Call<P>, head: DocumentHead, mut pieces: Vec<Bytes>) -> Answer {
        let mut body = match pieces.len() {
            1 => pieces.swap_remove(0),
            _ => pieces.concat().into(),
        };
        let mut end = body_end(&head, call.is_head);
        if head.is_chunked {
            let taken = match end.is_chunked() {
                true => end.take_piece(body).and_then(|taken| end.missing().map_or(Ok(taken), Err)),
                false => Ok(Bytes::new()),
            };
            match taken {
                Ok(taken) => body = taken,
                Err(reason) => return self.bad_answer(index, call, &reason),
            }
        }
        if let Some(length) = head.content_length
            && !call.is_head
            && head.status != 304
        {
            let promised = usize::try_from(length).unwrap_or(usize::MAX);
            if body.len() != promised {
                let message = format!(
                    "{} {}: Content-Length is {promised}, but {} bytes were sent ({})",
                    P::NAME,
                    self.group.connections(index).address(),
                    body.len(),
                    call.log_name
                );
                self.server.log(Level::Warning, "wrong Content-Length", &message);
                if body.len() < promised {
                    return Answer::error(502);
                }
                body.truncate(promised);
            }
        }
        respond::answer(head, call.is_head, Body::Whole(body))
    }

    fn release(&self, index: usize, backend_call: BackendCall<P>, keeps: bool) {
        if keeps && backend_call.is_all_sent() {
            self.group.connections(index).release(backend_call.into_connection());
        }
    }

    fn log_message(&self, index: usize, call: &Call<P>, bytes: &[u8]) {
        log_message::<P>(&*self.server, &self.group, index, &call.log_name, bytes);
    }
}

/// The end of the body after this head, if there is one.
fn body_end(head: &DocumentHead, is_head: bool) -> BodyEnd {
    match is_head || matches!(head.status, 204 | 304) {
        true => BodyEnd::default(),
        false => BodyEnd::of(head),
    }
}

enum GatherResult {
    /// All of the answer has arrived.
    Complete {
        /// The connection may serve another request.
        keeps: bool,
    },
    /// More will follow.
    More,
    Broken(String),
}

/// The program has no capacity at the moment.
pub fn unavailable() -> Answer {
    Answer::error(503).field("Retry-After", "1")
}
