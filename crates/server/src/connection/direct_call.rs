//! Calls programs directly from an HTTP/1 connection: the handler gets a plain GET in the connection's
//! buffer. The answer is sent in the same turn, or when it arrives (see [`pending`](super::pending)).
//!
//! This applies only if the program alone is involved: there are no rewrites, fields or error pages of the
//! site, and no access rules that would have to wait. The exchange serves all other requests.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use touchstone_access::{AdmittedRequest, Identity};
use touchstone_admin::connection_info::UnderWayGuard;
use touchstone_files::cache::ConnectionForm;
use touchstone_handler::answer::{Answer, BodyPart, Framing};
use touchstone_handler::handler::{CallResult, Caller, Handler, ImmediateAnswer};
use touchstone_handler::request::PlainGet;
use touchstone_http::forged_fields;
use touchstone_http::request_view::{HeadFields, RequestView};
use touchstone_http::trace_context;
use touchstone_observe::request_id::RequestIds;
use touchstone_sites::route::{ImmediateProgram, SiteRules};
use touchstone_sites::site::Snapshot;

use super::outcome::{Body, CacheAttempt, PendingAnswer, ReadyAnswer};
use super::request_body::BodyFeed;
use super::{Connection, ConnectionStep, protocol_of};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::worker::{CalledRequest, Callers};
use touchstone_exchange::steps::{self, ExchangeAnswer, Progress};

/// A body longer than this is sent from its own buffer after the head, because copying it would cost more.
const TOGETHER_BYTES: u64 = 2 * 1024;

/// Memory for bodies up to this size is kept for the next answer.
const KEPT_BYTES: usize = 256 * 1024;

impl Connection {
    /// Calls the program of a route for the request in `state.head`, if it can answer at once.
    pub(super) fn call_program(
        &mut self,
        state: &mut CoreState,
        bytes: &[u8],
        site: usize,
        path: &[u8],
        last: bool,
    ) -> CacheAttempt {
        let core = self.core.clone();
        let callers = core.callers.as_ref();
        let is_on_thread = callers.is_some();
        if !self.may_call_program(state, site, is_on_thread, last) {
            return CacheAttempt::NeedsExchange;
        }
        let snapshot = state.snapshot.clone();
        let Some(rules) = &snapshot.sites[site].rules else { return CacheAttempt::NeedsExchange };
        let head = &state.head;
        let target = head.target.of(bytes);
        let host = head.host.map(|host| host.of(bytes));
        let fields = HeadFields { head, buffer: bytes };
        let client = steps::client_of(&snapshot, self.peer.address, &fields);
        let query = (path.len() < target.len()).then(|| &target[path.len() + 1..]);
        let view = RequestView {
            client: client.map(|client| client.ip()),
            method: b"GET",
            path,
            query,
            host,
            fields: &fields,
            connection: None,
            locator: snapshot.locator.as_deref(),
        };
        let program = rules.immediate_program(&view);
        let Some(program) = program.filter(|program| is_on_thread || program.interface.answers_at_once())
        else {
            return CacheAttempt::NeedsExchange;
        };
        let is_trusted = self.is_from_trusted_proxy(&snapshot);
        if !head.fields.iter().all(|line| is_forwarded(line.name.of(bytes), is_trusted)) {
            return CacheAttempt::NeedsExchange;
        }
        let started = Instant::now();
        let tls = self.tls_facts();
        let connection = self.peer.number.get();
        let get = PlainGet {
            head,
            buffer: bytes,
            protocol: protocol_of(head),
            path,
            target,
            query,
            host,
            client,
            is_from_trusted_proxy: is_trusted,
            server: self.listener.address.for_programs(tls.is_some()),
            tls: tls.as_deref(),
            user: None,
            id: "",
            unix_seconds: core.clock.second().unix_seconds,
            received_at: started,
            connection,
        };
        if let Some(callers) = callers {
            let Some(mut caller) = callers.get(program.interface) else { return CacheAttempt::NeedsExchange };
            let (answered, is_written, identity) =
                match call(callers, &mut **caller, site, &program, &view, get) {
                    Ok(called) => called,
                    Err(hit) => return hit,
                };
            let progress = progress_of(&snapshot, self.peer.address, None, site, &program);
            note_claims(&progress, identity);
            let ready_answer = ReadyAnswer { answered, progress, started, snapshot };
            return match is_written {
                true => self.send_now(state, bytes, ready_answer, Body::Called(&mut **caller), last),
                false => self.send_or_wait(state, bytes, ready_answer, last),
            };
        }
        let Some(admitted) = program.admit(&view) else { return CacheAttempt::NeedsExchange };
        let user = name_of_user(&admitted);
        let handler = steps::handler_of(&core, &snapshot, program.interface);
        let under_way = self.begin_request(&snapshot, b"GET", target);
        let progress = progress_of(&snapshot, self.peer.address, under_way, site, &program);
        note_claims(&progress, admitted.identity);
        if state.log.needs_request_id() {
            note_id(&mut state.request_ids, &snapshot, &fields, &progress);
        }
        let id = progress.facts.id();
        let get = PlainGet { user: user.as_deref(), id: id.as_ref().map_or("", |id| id.as_str()), ..get };
        let mut written = std::mem::take(&mut state.written);
        let immediate = handler.clone().answer_at_once(&get, &mut written);
        drop(id);
        let answered =
            ExchangeAnswer { answer: Answer::new(200), client: client.map(|client| client.ip()), user };
        let ready = ReadyAnswer { answered, progress, started, snapshot };
        let hit = self.send_immediate(state, bytes, ready, (immediate, handler, &written), last);
        keep_for_next(&mut state.written, written);
        hit
    }

    /// Sends the answer of a handler, or waits for it. `ready` has all data except the answer.
    fn send_immediate(
        &mut self,
        state: &mut CoreState,
        bytes: &[u8],
        mut ready: ReadyAnswer,
        (immediate, handler, written): (ImmediateAnswer, Rc<dyn Handler>, &[u8]),
        last: bool,
    ) -> CacheAttempt {
        match immediate {
            ImmediateAnswer::Written(answer) => {
                ready.answered.answer = answer;
                self.send_now(state, bytes, ready, Body::Bytes(written), last)
            }
            ImmediateAnswer::Answer(answer) => {
                ready.answered.answer = answer;
                self.send_or_wait(state, bytes, ready, last)
            }
            waits => CacheAttempt::Pending(Box::new(PendingAnswer::new(ready, handler, waits))),
        }
    }

    fn is_from_trusted_proxy(&self, snapshot: &Snapshot) -> bool {
        self.peer.address.is_some_and(|peer| snapshot.connection_gate.trusts_fields_of(peer.ip()))
    }

    /// Whether programs of the site may answer the request in `state.head` at once.
    fn may_call_program(&self, state: &CoreState, site: usize, is_on_thread: bool, last: bool) -> bool {
        // During a call, no other request may wait on this thread.
        let is_alone = !is_on_thread || (last && state.gathered.is_empty());
        let may_answer = |rules: &SiteRules| match is_on_thread {
            true => rules.has_called_programs(),
            false => rules.has_immediate_programs(),
        };
        let site = &state.snapshot.sites[site];
        is_alone
            && site.rules.as_ref().is_some_and(may_answer)
            // An error page of the site may have to be read first, and an id that is passed on changes the
            // request's head.
            && site.config.error_pages.is_empty()
            && !state.snapshot.config.request_id.forward
    }

    /// Sends an answer now, if its whole body is available.
    fn send_or_wait(
        &mut self,
        state: &mut CoreState,
        bytes: &[u8],
        mut ready_answer: ReadyAnswer,
        last: bool,
    ) -> CacheAttempt {
        match complete_body(&mut ready_answer.answered.answer) {
            Some(body) => self.send_now(state, bytes, ready_answer, Body::Bytes(&body), last),
            None => CacheAttempt::Ready(Box::new(ready_answer.with_site_fields())),
        }
    }

    /// Sends an answer whose whole body is `body`, or collects it with others. `bytes` are those of the head.
    pub(super) fn send_now(
        &mut self,
        state: &mut CoreState,
        bytes: &[u8],
        ready_answer: ReadyAnswer,
        body: Body<'_>,
        last: bool,
    ) -> CacheAttempt {
        let ready_answer = ready_answer.with_site_fields();
        let form = self.form(state);
        let answer = &ready_answer.answered.answer;
        let (framing, mut body) = match answer.framing(false, true) {
            Framing::None => (Framing::None, Body::Bytes(&[])),
            _ => (Framing::Length(body.bytes().len() as u64), body),
        };
        let body_bytes = body.bytes().len() as u64;
        let date = self.core.clock.second();
        let goes_alone = last && state.gathered.is_empty();
        answer.append_head(&date, form, framing, &mut state.gathered);
        self.requests += 1;
        let attempt = CacheAttempt::Answered { persistent: form != ConnectionForm::Close };
        if !goes_alone {
            state.gathered.extend_from_slice(body.bytes());
            self.gathered_program(state, ready_answer, body_bytes, bytes);
            return attempt;
        }
        let [first, second] = match body_bytes > TOGETHER_BYTES {
            true => body.with_head(&state.gathered),
            false => {
                state.gathered.extend_from_slice(body.bytes());
                [&state.gathered[..], &[]]
            }
        };
        let sent = self.send_answer(first, second, form);
        let unsent = sent.as_ref().map_or(0, |sent| first.len() + second.len() - sent);
        if let Ok(sent) = sent {
            self.output.extend_from_slice(first.get(sent..).unwrap_or_default());
            self.output.extend_from_slice(&second[sent.saturating_sub(first.len())..]);
        }
        state.gathered.clear();
        if unsent > 0 {
            self.unsent_program(state, ready_answer, unsent, body_bytes, bytes);
        } else {
            self.note_program(state, &ready_answer, bytes, if sent.is_ok() { body_bytes } else { 0 });
        }
        if sent.is_ok() { attempt } else { CacheAttempt::ConnectionFailed }
    }

    /// Sends an answer that was ready at once but whose body has not arrived yet.
    pub(super) async fn send_ready(&mut self, ready_answer: ReadyAnswer) -> ConnectionStep {
        let Some(received) = self.take_head().map(Rc::new) else { return ConnectionStep::Close };
        let ReadyAnswer { answered, progress, started, snapshot } = ready_answer;
        self.complete_request(&snapshot, answered, &received, BodyFeed::none(), &progress, started).await
    }
}

/// Calls a program on this thread, which must be a worker's, for the only request that was received. Returns
/// the answer, and whether the caller has its body.
fn call(
    callers: &Callers,
    caller: &mut dyn Caller,
    site: usize,
    program: &ImmediateProgram<'_>,
    view: &RequestView<'_>,
    get: PlainGet<'_>,
) -> Result<(ExchangeAnswer, bool, Option<Arc<Identity>>), CacheAttempt> {
    if !caller.takes(&get) {
        return Err(CacheAttempt::NeedsExchange);
    }
    let admitted = program.admit(view).ok_or(CacheAttempt::NeedsExchange)?;
    let user = name_of_user(&admitted);
    let client = get.client.map(|client| client.ip());
    let called_request =
        CalledRequest { site, route: program.route, client, user: user.clone(), started: get.received_at };
    callers.link.begin_call(callers.connection.get(), get.buffer, called_request);
    let called = caller.call(&PlainGet { user: user.as_deref(), ..get });
    match (called, callers.link.end_call()) {
        (CallResult::Answer(answer), Some(_)) => {
            Ok((ExchangeAnswer { answer, client, user }, false, admitted.identity))
        }
        (CallResult::Written(answer), Some(_)) => {
            Ok((ExchangeAnswer { answer, client, user }, true, admitted.identity))
        }
        _ => Err(CacheAttempt::ConnectionReturned),
    }
}

fn note_claims(progress: &Progress, identity: Option<Arc<Identity>>) {
    if let Some(identity) = identity {
        progress.facts.set_claims(identity);
    }
}

/// Keeps the buffer of a body for the next one, unless it is large.
fn keep_for_next(place: &mut Vec<u8>, mut written: Vec<u8>) {
    if written.capacity() <= KEPT_BYTES {
        written.clear();
        *place = written;
    }
}

/// The state of a request that `program` answers.
fn progress_of(
    snapshot: &Snapshot,
    peer: Option<SocketAddr>,
    under_way: Option<UnderWayGuard>,
    site: usize,
    program: &ImmediateProgram<'_>,
) -> Rc<Progress> {
    let progress = Progress::of_program(snapshot, peer, under_way, site, program.route);
    progress.set_handler_name(program.interface.name());
    progress
}

/// Sets the request's id, for the logs.
fn note_id(ids: &mut RequestIds, snapshot: &Snapshot, fields: &HeadFields<'_>, progress: &Progress) {
    let id = ids.of(&snapshot.config.request_id, progress.is_from_proxy(), fields);
    progress.facts.set_id(id);
}

/// Whether a field of a request is passed to programs unchanged. A request to switch protocols needs the
/// exchange, because bytes follow its answer.
fn is_forwarded(name: &[u8], is_from_trusted_proxy: bool) -> bool {
    trace_context::is_forwarded(name, None)
        && !forged_fields::ends_here(name, is_from_trusted_proxy)
        && !name.eq_ignore_ascii_case(b"upgrade")
}

fn name_of_user(admitted: &AdmittedRequest) -> Option<Box<str>> {
    admitted.user.as_ref().map(|user| String::from_utf8_lossy(user.name()).into())
}

/// The body, if it is complete and in one piece.
fn complete_body(answer: &mut Answer) -> Option<Bytes> {
    match answer.body.as_mut_slice() {
        [] => Some(Bytes::new()),
        [BodyPart::Bytes(bytes)] => Some(std::mem::take(bytes)),
        _ => None,
    }
}
