//! One request, from its stream to its answer.

use std::cell::OnceCell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use touchstone_access::{AdmittedRequest, MinimumRate};
use touchstone_config::{LimitsConfig, LogLevel};
use touchstone_files::cache::ConnectionForm;
use touchstone_handler::answer::{Answer, Framing};
use touchstone_handler::pipe::{Receiver, Sender, pipe};
use touchstone_handler::request::{Protocol, ReceivedHead, Request, TlsFacts};
use touchstone_http::grammar::split_fields;
use touchstone_http::h2::StreamRequest;
use touchstone_http::h3::{Error, ErrorCode, RequestHead as Head, SectionLimits};
use touchstone_http::request::{Expectation, HeadBuilder, Method};
use touchstone_observe::metrics::Timeout;
use touchstone_sites::site::Snapshot;

use super::body::{BodyLimits, BodyProblem, Reader, StreamItem, feed};
use super::connection::{Connection, OpenStream};
use super::response::{CachedAnswer, Writer, encode_answer, encode_fields};
use super::stream::{Failure, code, within};
use crate::accounting::{self, AnsweredRequest, ClientConnection};
use crate::stream_head::{empty_received_head, head_of, without_switch};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::{self, HitRoute, Lookup, LookupContext, LookupResult};
use touchstone_exchange::steps::{self, Arrival, ExchangeAnswer, Progress, RefusedRequest};

/// How many bytes of a request's body wait for its handler, besides what QUIC holds.
const BODY_BYTES: usize = 256 * 1024;

/// The status in logs for a request whose client left before its answer, as in nginx.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The task that feeds a request's body to its handler.
type BodyFeedTask<'a> = Pin<Box<dyn Future<Output = Result<(), BodyProblem>> + 'a>>;

/// Answers the request of a stream.
pub async fn serve(stream: OpenStream, mut send: SendStream, receive: RecvStream) {
    let connection = stream.connection.clone();
    let (limits, is_early, snapshot) = {
        let state = connection.listener.core.state.borrow();
        let limits = SectionLimits { bytes: state.limits.header_bytes, fields: state.limits.header_fields };
        (limits, receive.is_0rtt(), state.snapshot.clone())
    };
    let mut reader = Reader::new(receive, limits);
    let started = Instant::now();
    let mut task = StreamTask {
        stream: &stream,
        send: &mut send,
        started,
        is_early,
        is_tunnel: false,
        snapshot,
        progress: OnceCell::new(),
    };
    let error = match task.answer(&mut reader).await {
        Ok(()) => {
            // Discards the rest of a body that the answer did not need (RFC 9114 section 4.1).
            return reader.stop(ErrorCode::NO_ERROR);
        }
        Err(Failure::Protocol(Error::Connection(error))) => return connection.fail(error),
        Err(Failure::Protocol(Error::Stream(error))) => {
            connection.listener.core.error_log.debug(format_args!("refused a request: {error}"));
            connection.count_cancellation();
            error.code
        }
        Err(Failure::Gone) => {
            connection.count_cancellation();
            ErrorCode::REQUEST_CANCELLED
        }
        Err(Failure::Slow) => {
            connection.listener.core.counts.timed_out(Timeout::Send);
            ErrorCode::REQUEST_CANCELLED
        }
        Err(Failure::Broken(error)) => {
            let message = format_args!("an answer broke off: {error}");
            connection.listener.core.error_log.limited(LogLevel::Warning, "answer broke off", message);
            ErrorCode::INTERNAL_ERROR
        }
    };
    let _ = send.reset(code(error));
    reader.stop(error);
}

/// A request and its answer.
struct StreamTask<'a> {
    stream: &'a OpenStream,
    send: &'a mut SendStream,
    started: Instant,
    /// The request arrived in early data, which an attacker who recorded it may have sent again (RFC 8470).
    is_early: bool,
    /// It is an extended CONNECT: its stream becomes a tunnel (RFC 9220).
    is_tunnel: bool,
    /// The configuration under which it is answered.
    snapshot: Arc<Snapshot>,
    /// The state of the exchange. A hit of the cache has none.
    progress: OnceCell<Rc<Progress>>,
}

/// How a request continues after its head.
enum RequestAction {
    /// The cache has the answer.
    Hit(CachedAnswer, Hit),
    /// A handler answers it.
    Handled(Box<Handled>),
    /// It is refused.
    Refused(Box<Refusal>),
}

/// The answer to a request that no handler gets.
struct Refusal {
    /// The head, as far as it was read.
    received: Rc<ReceivedHead>,
    /// The whole head was read.
    is_complete: bool,
    /// The host that it names.
    host: Option<Bytes>,
    answer: Answer,
}

impl Refusal {
    /// The refusal of a request whose head was not read.
    fn unread(status: u16) -> Refusal {
        let received = Rc::new(empty_received_head());
        Refusal { received, is_complete: false, host: None, answer: Answer::error(status) }
    }
}

/// A request for a handler.
struct Handled {
    snapshot: Arc<Snapshot>,
    received: Rc<ReceivedHead>,
    request: Request,
    asks_for_body: bool,
}

/// A hit that is not counted and logged yet.
struct Hit {
    hit_route: HitRoute,
    /// The head and the user; `None`: neither a log nor a span needs them.
    received: Option<Box<(HeadBuilder, AdmittedRequest)>>,
    /// That of the configuration under which it was found.
    generation: u64,
}

impl StreamTask<'_> {
    fn connection(&self) -> &Connection {
        &self.stream.connection
    }

    /// The state of the exchange; the first call creates it.
    fn progress(&self) -> &Rc<Progress> {
        let peer = || Some(self.connection().quic.remote_address());
        self.progress.get_or_init(|| Progress::new(&self.snapshot, peer(), None))
    }

    /// Answers the request. This future is small, since each request has one; only what is not in the cache
    /// needs the large futures, which are boxed.
    async fn answer(&mut self, reader: &mut Reader) -> Result<(), Failure> {
        let (header_timeout, minimum) =
            self.with_limits(|limits| (limits.header_timeout, MinimumRate::of_answers(limits)));
        let head = match within(header_timeout, reader.next(self.connection())).await.0 {
            Some(Ok(StreamItem::Head(head))) => head,
            Some(Ok(_)) => return Err(Failure::Gone),
            Some(Err(failure)) => return Err(failure),
            None => {
                self.connection().listener.core.counts.timed_out(Timeout::Header);
                return Box::pin(self.refuse(Refusal::unread(408))).await;
            }
        };
        // The fields are valid: there is no wait between here and their last use.
        let ended = reader.look_ahead().await?;
        let (sender, body) = match ended {
            true => (None, None),
            false => {
                let (sender, receiver) = pipe(BODY_BYTES);
                (Some(sender), Some(receiver))
            }
        };
        match self.begin(&head, body) {
            RequestAction::Hit(answer, hit) => {
                let mut writer = Writer::new(self.send, &self.stream.connection.turns, minimum);
                let result = writer.cached(answer).await;
                let body_bytes = writer.body_bytes;
                self.note_hit(hit, body_bytes);
                result
            }
            RequestAction::Refused(refusal) => Box::pin(self.refuse(*refusal)).await,
            RequestAction::Handled(handled) => Box::pin(self.handle(reader, *handled, sender)).await,
        }
    }

    /// Has a handler answer a request.
    async fn handle(
        &mut self,
        reader: &mut Reader,
        handled: Handled,
        sender: Option<Sender>,
    ) -> Result<(), Failure> {
        let Handled { snapshot, received, request, asks_for_body } = handled;
        let (answers, bodies) =
            self.with_limits(|limits| (MinimumRate::of_answers(limits), MinimumRate::of_bodies(limits)));
        if asks_for_body {
            let turns = &self.stream.connection.turns;
            let mut writer = Writer::new(self.send, turns, answers);
            writer.frames(encode_fields(100, [].into_iter())).await?;
        }
        let core = self.connection().listener.core.clone();
        let most_bytes = snapshot.most_body_bytes;
        let progress = self.progress().clone();
        let work = steps::answer(core, snapshot, request, ConnectionForm::Persistent, progress.clone());
        let connection = self.stream.connection.clone();
        let limits = BodyLimits { most_bytes, minimum: bodies, is_tunnel: self.is_tunnel };
        let feeding = sender
            .map(|sender| Box::pin(feed(reader, &connection, sender, limits, &progress)) as BodyFeedTask<'_>);
        self.drive(&received, work, feeding).await
    }

    /// What `read` takes from the limits of the configuration.
    fn with_limits<T>(&self, read: impl FnOnce(&LimitsConfig) -> T) -> T {
        read(&self.connection().listener.core.state.borrow().snapshot.config.limits)
    }

    // ---- from the head to the handler

    fn begin(&mut self, head: &Head, body: Option<Receiver>) -> RequestAction {
        let connection = self.stream.connection.clone();
        let listener = &connection.listener;
        let fields = listener.fields.borrow();
        let view = head.view(&fields);
        self.is_tunnel = view.protocol().is_some();
        let priority = connection.priority(self.stream.id, view.priority());
        if priority != Default::default() {
            let _ = self.send.set_priority(3 - i32::from(priority.urgency));
        }
        let state = &mut *listener.core.state.borrow_mut();
        if let Some(hit) = self.try_hit(state, &view, body.is_some()) {
            return hit;
        }
        self.begin_exchange(state, &view, body)
    }

    /// Finds the answer in the caches, if that is possible at once.
    fn try_hit(
        &self,
        state: &mut CoreState,
        view: &StreamRequest<'_>,
        has_body: bool,
    ) -> Option<RequestAction> {
        let connection = self.connection();
        let date = connection.listener.core.clock.second();
        let context = LookupContext {
            sites: connection.listener.sites(&state.snapshot),
            may_serve: |host: Option<&[u8]>| connection.may_serve(host),
            peer: Some(connection.quic.remote_address().ip()),
            is_tls: true,
        };
        let lookup = Lookup::of_stream(*view, has_body);
        let result = cache_lookup::find(&mut state.caches, &state.snapshot, &context, &lookup, &date);
        let LookupResult::Hit { prepared, hit_route } = result else { return None };
        let answer = connection.listener.cached_answer(prepared);
        connection.count_answer();
        let limits = state.limits;
        let received = state.needs_facts().then(|| {
            let user = hit_route.has_user.then(|| std::mem::take(&mut state.caches.admitted));
            Box::new((head_of(view, true, limits), user.unwrap_or_default()))
        });
        Some(RequestAction::Hit(answer, Hit { hit_route, received, generation: state.generation }))
    }

    /// Counts and logs a hit, of whose body this many bytes were sent.
    fn note_hit(&self, hit: Hit, body_bytes: u64) {
        let connection = self.connection();
        let state = &mut *connection.listener.core.state.borrow_mut();
        let Hit { mut hit_route, received, generation } = hit;
        if generation != state.generation {
            // The positions may be those of other sites.
            (hit_route.site, hit_route.route) = (usize::MAX, None);
        }
        state.metrics.begin_turn_at(self.started);
        state.received_at = Some(self.started);
        let Some((received, admitted)) = received.map(|received| *received) else {
            return state.metrics.hit(
                hit_route.site,
                hit_route.route,
                Protocol::Http3,
                body_bytes,
                hit_route.is_accelerated,
            );
        };
        state.caches.admitted = admitted;
        let tls = connection.tls_facts();
        let mut peer_text = String::new();
        let client_connection = self.client_connection(&mut peer_text, Some(&tls));
        accounting::note_stream_hit(state, client_connection, hit_route, body_bytes, || received);
    }

    fn begin_exchange(
        &self,
        state: &mut CoreState,
        view: &StreamRequest<'_>,
        body: Option<Receiver>,
    ) -> RequestAction {
        let connection = self.connection();
        let host = || Some(Bytes::copy_from_slice(view.authority())).filter(|host| !host.is_empty());
        if view.is_header_section_too_large() {
            return RequestAction::Refused(Box::new(Refusal { host: host(), ..Refusal::unread(431) }));
        }
        let has_body = body.is_some();
        let mut builder = head_of(view, !has_body, state.limits);
        if self.is_early && view.fields().all(|field| field.name != b"early-data") {
            // RFC 8470 section 5.1: the next server must get this information.
            builder.field(b"early-data", b"1");
        }
        let (head, buffer, outcome) = builder.finish();
        let is_complete = outcome.is_ok();
        // The fields have been checked. What HTTP/3 allows and HTTP/1 does not is refused as in HTTP/1.
        let refusal = match outcome {
            _ if self.is_early && !view.method().is_safe() => Some(Answer::error(425)),
            _ if view.expectation() == Expectation::Unknown => Some(Answer::error(417)),
            // The client has already ended its direction of the tunnel; an answer like that to a GET would be
            // regarded as an open tunnel.
            _ if self.is_tunnel && !has_body => Some(Answer::error(400)),
            Ok(()) => {
                let error_log = &connection.listener.core.error_log;
                steps::refuse(error_log, &state.snapshot, &head, &buffer)
            }
            Err(error) => Some(Answer::error(error.status())),
        };
        let received = Rc::new(ReceivedHead { head, buffer: buffer.into() });
        if state.snapshot.config.admin.is_on() {
            let under_way = connection.session.begin_request(received.method_text(), received.target());
            self.progress().set_under_way(under_way);
        }
        if let Some(answer) = refusal {
            return RequestAction::Refused(Box::new(Refusal { received, is_complete, host: host(), answer }));
        }
        let arrival = self.arrival();
        let sites = connection.listener.sites(&state.snapshot);
        let may_serve = |host: Option<&[u8]>| connection.may_serve(host);
        match steps::make_request(&state.snapshot, sites, arrival, received.clone(), may_serve, body) {
            Ok(request) => RequestAction::Handled(Box::new(Handled {
                snapshot: state.snapshot.clone(),
                received,
                request,
                asks_for_body: has_body && view.expectation() == Expectation::Continue,
            })),
            Err(answer) => {
                RequestAction::Refused(Box::new(Refusal { received, is_complete, host: host(), answer }))
            }
        }
    }

    /// How the request arrived.
    fn arrival(&self) -> Arrival {
        let connection = self.connection();
        Arrival {
            protocol: Protocol::Http3,
            peer: Some(connection.quic.remote_address()),
            listener: connection.listener.configured.into(),
            tls: Some(connection.tls_facts()),
            connection: connection.number(),
            stream: Some(self.stream.id),
        }
    }

    // ---- the answer

    /// Answers a request that is refused, with the error page of its site if it has one.
    async fn refuse(&mut self, refusal: Refusal) -> Result<(), Failure> {
        let Refusal { received, is_complete, host, answer } = refusal;
        let complete = is_complete.then(|| received.clone());
        let answer = self.with_error_page(complete, host, answer).await;
        self.write_answer(&received, answer.into()).await
    }

    /// A refusal with the error page of its site, if it has one.
    async fn with_error_page(
        &self,
        received: Option<Rc<ReceivedHead>>,
        host: Option<Bytes>,
        answer: Answer,
    ) -> Answer {
        let (connection, snapshot) = (self.connection(), &self.snapshot);
        let core = connection.listener.core.clone();
        let sites = connection.listener.sites(snapshot);
        let refused =
            RefusedRequest { sites, arrival: self.arrival(), received, host, progress: self.progress() };
        let may_serve = |host: Option<&[u8]>| connection.may_serve(host);
        let form = ConnectionForm::Persistent;
        steps::with_refusal_page(&core, snapshot, refused, may_serve, form, answer).await
    }

    /// Runs the handler, feeds it the body, and writes its answer, until the client leaves.
    async fn drive(
        &mut self,
        received: &Rc<ReceivedHead>,
        work: impl Future<Output = ExchangeAnswer>,
        mut feeding: Option<BodyFeedTask<'_>>,
    ) -> Result<(), Failure> {
        let mut stopped = pin!(self.send.stopped());
        let minimum = self.with_limits(MinimumRate::of_answers);
        let outcome = {
            let mut work = pin!(work);
            loop {
                tokio::select! {
                    biased;
                    answered = &mut work => break Ok(answered),
                    frames = poll_fn(|_| poll_interim(self.progress())) => {
                        Writer::new(self.send, &self.stream.connection.turns, minimum).frames(frames).await?;
                    }
                    fed = poll_feeding(&mut feeding), if feeding.is_some() => {
                        feeding = None;
                        match fed {
                            Ok(()) => {}
                            // The connection, not the handler, has the reason why the body ended early.
                            Err(BodyProblem::TooLarge) => break Err(413),
                            Err(BodyProblem::Timeout) => break Err(408),
                            Err(BodyProblem::Failed(failure)) => {
                                self.log_closed_by_client(received);
                                return Err(failure);
                            }
                        }
                    }
                    _ = &mut stopped => {
                        self.log_closed_by_client(received);
                        return Err(Failure::Gone);
                    }
                }
            }
        };
        let answered = match outcome {
            Ok(answered) => answered,
            Err(status) => {
                let answer = Answer::error(status);
                Box::pin(self.with_error_page(Some(received.clone()), None, answer)).await.into()
            }
        };
        let mut writing = pin!(self.write_answer(received, answered));
        loop {
            tokio::select! {
                biased;
                written = &mut writing => return written,
                fed = poll_feeding(&mut feeding), if feeding.is_some() => {
                    feeding = None;
                    if let Err(BodyProblem::Failed(failure)) = fed {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Writes an answer, and logs it.
    async fn write_answer(
        &mut self,
        received: &ReceivedHead,
        mut answered: ExchangeAnswer,
    ) -> Result<(), Failure> {
        without_switch(&mut answered.answer, self.is_tunnel);
        let answer = &mut answered.answer;
        let framing = answer.framing(received.head.method == Method::Head, true);
        let core = self.connection().listener.core.clone();
        let mut head = encode_answer(answer, framing, &core);
        // Interim responses may have arrived together with the answer.
        let mut ahead = Vec::new();
        append_interim(self.progress(), &mut ahead);
        if !ahead.is_empty() {
            head.splice(..0, ahead);
        }
        let has_body = framing != Framing::None && received.head.method != Method::Head;
        let parts = std::mem::take(&mut answer.body);
        let parts = if has_body { parts } else { Vec::new() };
        self.connection().count_answer();
        let stopped = self.send.stopped();
        let minimum = self.progress().signals.send_rate();
        let minimum = minimum.unwrap_or_else(|| self.with_limits(MinimumRate::of_answers));
        let mut writer = Writer::new(self.send, &self.stream.connection.turns, minimum);
        let result = tokio::select! {
            biased;
            result = writer.answer(head, parts) => result,
            // Without this, a handler that has no data to send would not notice the end.
            _ = stopped => Err(Failure::Gone),
        };
        let body_bytes = writer.body_bytes;
        self.log(received, &answered, answered.answer.status, body_bytes);
        result
    }

    /// Counts and logs a request whose client has closed it before the answer.
    fn log_closed_by_client(&self, received: &ReceivedHead) {
        self.log(received, &Answer::new(CLIENT_CLOSED_REQUEST).into(), CLIENT_CLOSED_REQUEST, 0);
    }

    /// Counts and logs the answer.
    fn log(&self, received: &ReceivedHead, answered: &ExchangeAnswer, status: u16, body_bytes: u64) {
        let connection = self.connection();
        let state = &mut *connection.listener.core.state.borrow_mut();
        let tls = state.needs_facts().then(|| connection.tls_facts());
        let mut peer_text = String::new();
        let request = AnsweredRequest {
            connection: self.client_connection(&mut peer_text, tls.as_deref()),
            received: Some((&received.head, &received.buffer)),
            unread_line: &[],
            table: &self.snapshot.route_table,
            progress: self.progress(),
            client: answered.client,
            user: answered.user.as_deref(),
            status,
            body_bytes,
            started: self.started,
        };
        accounting::note(state, request);
    }

    fn client_connection<'o>(
        &self,
        peer_text: &'o mut String,
        tls: Option<&'o TlsFacts>,
    ) -> ClientConnection<'o> {
        let peer = Some(self.connection().quic.remote_address());
        ClientConnection { protocol: Protocol::Http3, peer, peer_text, tls }
    }
}

/// The frames of interim responses to be sent before an answer that is not ready.
fn poll_interim(progress: &Progress) -> Poll<Vec<u8>> {
    let mut frames = Vec::new();
    if let Some(hints) = progress.signals.take_early_hints() {
        append_one(103, &hints, &mut frames);
    }
    append_interim(progress, &mut frames);
    if frames.is_empty() { Poll::Pending } else { Poll::Ready(frames) }
}

/// Appends the frames of interim responses that a handler has queued.
fn append_interim(progress: &Progress, frames: &mut Vec<u8>) {
    while let Some(interim) = progress.signals.interim().take() {
        append_one(interim.status, &interim.fields, frames);
    }
}

fn append_one(status: u16, fields: &[u8], frames: &mut Vec<u8>) {
    frames.extend_from_slice(&encode_fields(status, split_fields(fields)));
}

async fn poll_feeding(feeding: &mut Option<BodyFeedTask<'_>>) -> Result<(), BodyProblem> {
    match feeding {
        Some(feeding) => feeding.await,
        None => pending().await,
    }
}
