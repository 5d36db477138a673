//! The handler of a route on a core: chooses a worker, sends it the request, and makes the answer from its
//! events.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{
    Handled, Handler, ImmediateAnswer, Level, LocalBoxFuture, PendingCall, Server,
};
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::pipe;
use touchstone_handler::request::{PlainGet, Protocol, Request};
use touchstone_http::field_lines;
use touchstone_http::request::Expectation;

use super::body::Body;
use super::end_of_turn::EndOfTurn;
use super::link::{Link, WorkerRequest};
use super::pool::{Pool, PoolState};
use super::request_events::{EarlyEnd, Event, SentFile};
use super::source;
use crate::shared::frame::BODY_WINDOW;
use crate::shared::head::{self, Head};
use crate::shared::segment::REQUEST_RING_BYTES;

/// How long a request may be answered directly by its connection.
const DIRECT_ANSWER_TIME: Duration = Duration::from_millis(100);

/// Bytes of an answer that wait for a client.
const PIPE_BYTES: usize = 128 * 1024;

/// The longest request without its body that a worker takes.
const LONGEST_REQUEST: usize = REQUEST_RING_BYTES / 4;

/// How often a safe request is repeated after its worker has ended.
const MOST_REPEATS: u32 = 1;

/// The core's own worker is preferred until it has this many more requests than another worker.
const PREFERENCE: usize = 4;

/// The pause in which the end of a worker should be noticed.
const NOTICE: Duration = Duration::from_millis(20);

/// The Retry-After of answers to requests that no worker can take, in seconds.
const RETRY_AFTER_S: &str = "2";

/// The status of an interim response with hints (RFC 8297).
const EARLY_HINTS: u16 = 103;

/// The handler.
pub struct PythonOfCore {
    pool: Arc<Pool>,
    server: Rc<dyn Server>,
    links: RefCell<Vec<Rc<Link>>>,
    /// The number of changes of the pool for which the links were made.
    changes: Cell<u64>,
    end_of_turn: Rc<EndOfTurn>,
    /// A buffer for requests; it is empty between two of them.
    written: RefCell<Vec<u8>>,
}

/// Why no worker takes the request.
enum NoWorkerReason {
    /// All workers have the maximum of waiting requests.
    Full,
    /// There is no worker.
    NoWorker,
}

/// Why there will be no answer.
enum NoAnswer {
    /// The worker has ended before the answer began.
    Lost,
    /// The application was not called.
    NotCalled,
}

impl PythonOfCore {
    /// A handler without links.
    pub fn new(pool: Arc<Pool>, server: Rc<dyn Server>) -> Rc<PythonOfCore> {
        let end_of_turn = Rc::new(EndOfTurn::default());
        tokio::task::spawn_local(end_of_turn.clone().run());
        Rc::new(PythonOfCore {
            pool,
            server,
            links: RefCell::default(),
            changes: Cell::new(u64::MAX),
            end_of_turn,
            written: RefCell::default(),
        })
    }

    /// Makes links to the current workers.
    fn refresh(&self) {
        let changes = self.pool.changes();
        if self.changes.replace(changes) == changes {
            return;
        }
        let mut links = self.links.borrow_mut();
        let known = std::mem::take(&mut *links);
        for worker in self.pool.workers() {
            let same = |link: &&Rc<Link>| link.worker.number == worker.number && link.is_open();
            match known.iter().find(same) {
                Some(link) => links.push(link.clone()),
                None => match Link::open(worker.clone(), self.end_of_turn.clone(), self.pool.log().clone()) {
                    Ok(link) => links.push(link),
                    Err(error) => {
                        let message = format!("worker {} cannot be linked: {error}", worker.pid);
                        self.server.log(Level::Warning, "a Python worker cannot be linked", &message);
                        // The next request tries again.
                        self.changes.set(u64::MAX);
                    }
                },
            }
        }
    }

    /// The worker for a request: the core's own, unless another one has fewer requests.
    fn choose(&self) -> Result<Rc<Link>, NoWorkerReason> {
        self.refresh();
        let links = self.links.borrow();
        let under_way = |link: &&Rc<Link>| link.worker.under_way.load(Ordering::Relaxed);
        let open = || links.iter().filter(|link| link.is_open());
        let count = open().count();
        if count == 0 {
            return Err(NoWorkerReason::NoWorker);
        }
        let own = open().nth(self.server.core() % count).ok_or(NoWorkerReason::NoWorker)?;
        let mut chosen = own;
        if count > 1 {
            let least = open().min_by_key(under_way).unwrap_or(own);
            // If all threads of a WSGI worker are busy, a request waits, however short it is.
            let is_full = !self.pool.is_asgi() && under_way(&own) >= self.pool.settings().threads;
            let preference = if is_full { 0 } else { PREFERENCE };
            if under_way(&own) > under_way(&least) + preference {
                chosen = least;
            }
        }
        if under_way(&chosen) >= self.pool.settings().limits.queue {
            return Err(NoWorkerReason::Full);
        }
        Ok(chosen.clone())
    }

    /// Sends a worker the request that `write` writes.
    fn ask(&self, wanted: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<WorkerRequest, NoWorkerReason> {
        let link = self.choose()?;
        let mut written = self.written.borrow_mut();
        write(&mut written);
        link.ask(&written, wanted).ok_or(NoWorkerReason::NoWorker)
    }

    /// Waits until there is a worker.
    async fn wait_for_worker(&self) -> Option<()> {
        let mut state = self.pool.state().subscribe();
        let limit = self.pool.settings().limits.start;
        let wait = state.wait_for(|state| *state != PoolState::Starting);
        match tokio::time::timeout(limit, wait).await {
            Ok(Ok(state)) => (*state == PoolState::Ready).then_some(()),
            _ => None,
        }
    }

    async fn answer(
        self: Rc<Self>,
        mut request: Request,
        mut worker_request: Option<WorkerRequest>,
    ) -> Answer {
        let has_body = request.body_length() != Some(0);
        // In HTTP/2 and 3 this is an extended CONNECT (RFC 8441, RFC 9220), which the server presents as a
        // GET with Upgrade.
        let may_switch =
            request.protocol != Protocol::Http10 && request.received.values("upgrade").next().is_some();
        let expects = request.received.head.expectation != Expectation::None;
        let method = request.received.method_text();
        let is_head = method == b"HEAD";
        let is_safe = is_head || method == b"GET" || method == b"OPTIONS";
        let wanted = if expects { 0 } else { BODY_WINDOW };
        let mut written = Vec::with_capacity(1024);
        source::write(&mut written, &request, has_body, may_switch);
        if written.len() > LONGEST_REQUEST {
            return Answer::error(431);
        }
        let mut body = (has_body || may_switch).then(|| Body::new(request.take_body()));
        if let Some(body) = body.as_mut().filter(|_| !expects && !may_switch && !self.pool.is_asgi())
            && body.wait().await.is_err()
        {
            return Answer::error(400);
        }
        let interim = request.interim.clone();
        let mut repeats = 0;
        let mut waits = 0;
        loop {
            let sent = match worker_request.take() {
                Some(worker_request) => Ok(worker_request),
                None => self.ask(wanted, |out| out.clone_from(&written)),
            };
            let sent = match sent {
                Ok(worker_request) => Rc::new(worker_request),
                Err(NoWorkerReason::Full) => {
                    let message = format!("the queues of all workers of {} are full", self.name());
                    self.server.log(Level::Warning, "the queues of Python workers are full", &message);
                    self.pool.counts().full.fetch_add(1, Ordering::Relaxed);
                    return unavailable();
                }
                Err(NoWorkerReason::NoWorker) => {
                    waits += 1;
                    if waits > 10 || self.wait_for_worker().await.is_none() {
                        self.pool.counts().no_worker.fetch_add(1, Ordering::Relaxed);
                        return unavailable();
                    }
                    if waits > 1 {
                        tokio::time::sleep(NOTICE).await;
                    }
                    continue;
                }
            };
            let could_repeat = is_safe && body.is_none();
            if let Some(body) = body.take() {
                tokio::task::spawn_local(body.send(sent.clone()));
            }
            match self.clone().answer_of(sent, is_head, interim.as_deref()).await {
                Ok(answer) => return answer,
                // The application was not called, or may be called again.
                Err(NoAnswer::NotCalled | NoAnswer::Lost) if could_repeat && repeats < MOST_REPEATS => {
                    repeats += 1;
                    self.pool.counts().repeated.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(NOTICE).await;
                }
                Err(_) => {
                    self.pool.counts().lost.fetch_add(1, Ordering::Relaxed);
                    return Answer::error(502);
                }
            }
        }
    }

    fn name(&self) -> &str {
        self.pool.settings().name()
    }

    /// The answer of a worker.
    async fn answer_of(
        self: Rc<Self>,
        worker_request: Rc<WorkerRequest>,
        is_head: bool,
        interim: Option<&dyn TakesInterim>,
    ) -> Result<Answer, NoAnswer> {
        let mut file = None;
        let limit = self.pool.settings().limits.answer;
        loop {
            let event = match limit {
                None => worker_request.event().await,
                Some(limit) => match self.event_within(&worker_request, limit).await {
                    Some(event) => event,
                    None => return Ok(self.took_too_long(&worker_request)),
                },
            };
            match event {
                Event::Whole(bytes) => {
                    return Ok(match head::read(&bytes) {
                        Ok((head, end)) => whole(head, bytes.slice(end..), is_head),
                        Err(fault) => self.refuse(&fault),
                    });
                }
                Event::Head(bytes) => {
                    return Ok(match head::read(&bytes) {
                        Ok((head, _)) => self.stream(head, file, worker_request, is_head),
                        Err(fault) => self.refuse(&fault),
                    });
                }
                Event::File(sent) => file = Some(sent),
                Event::Hints(lines) => {
                    if let (Some(interim), true) = (interim, field_lines::are_valid(&lines)) {
                        interim.interim().push(EARLY_HINTS, lines);
                    }
                }
                // There was no head before this event.
                Event::Piece(_) | Event::End(Ok(_) | Err(EarlyEnd::Broken)) => return Ok(Answer::error(502)),
                Event::End(Err(EarlyEnd::NotCalled)) => return Err(NoAnswer::NotCalled),
                Event::Lost => return Err(NoAnswer::Lost),
            }
        }
    }

    /// The next event of the worker; `None` after the time limit. The limit starts again with each piece of
    /// the body, and does not run while the application waits for more of the client's body.
    async fn event_within(&self, worker_request: &WorkerRequest, limit: Duration) -> Option<Event> {
        let request_events = &worker_request.request_events;
        let mut until = request_events.last_sent().unwrap_or_else(Instant::now) + limit;
        loop {
            if let Ok(event) = tokio::time::timeout_at(until, worker_request.event()).await {
                return Some(event);
            }
            let now = Instant::now();
            until = match request_events.last_sent().map(|sent| sent + limit) {
                // The connection limits how long a client may take.
                _ if request_events.waits_for_body() => now + limit,
                Some(later) if later > now => later,
                _ => return None,
            };
        }
    }

    fn took_too_long(&self, worker_request: &WorkerRequest) -> Answer {
        let pid = worker_request.link.worker.pid;
        let message = format!("{}: a request in worker {pid} takes longer than 'limits.answer'", self.name());
        self.server.log(Level::Warning, "a Python application exceeded its time limit", &message);
        self.pool.counts().too_long.fetch_add(1, Ordering::Relaxed);
        // A thread cannot be stopped. A task that waits in an event loop can; a worker reports a loop that
        // does not return itself.
        if !worker_request.link.worker.is_asgi() {
            self.pool.report_stuck(&worker_request.link.worker);
        }
        Answer::error(504)
    }

    fn refuse(&self, fault: &head::Fault) -> Answer {
        let message = format!("an answer of {} is refused: {fault}", self.name());
        self.server.log(Level::Warning, "an answer of a Python application is refused", &message);
        Answer::error(502)
    }

    /// An answer whose body follows later.
    fn stream(
        self: Rc<Self>,
        head: Head,
        file: Option<SentFile>,
        worker_request: Rc<WorkerRequest>,
        is_head: bool,
    ) -> Answer {
        let Head { mut answer, content_length } = head;
        if let Some(SentFile { file, offset, length }) = file {
            if is_head {
                answer.declared_length = Some(length);
                return answer;
            }
            return answer.part(BodyPart::File { file, offset, length });
        }
        let (sender, body) = pipe::pipe(PIPE_BYTES);
        tokio::task::spawn_local(pass_on(self, worker_request, sender));
        let length = if answer.switches_protocols() { None } else { content_length };
        answer.part(BodyPart::Stream { body, length })
    }
}

impl Drop for PythonOfCore {
    fn drop(&mut self) {
        self.links.borrow().iter().for_each(|link| link.close());
        self.end_of_turn.close();
    }
}

impl Handler for PythonOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(async move { Handled::Answer(self.answer(request, None).await) })
    }

    fn answer_at_once(self: Rc<Self>, get: &PlainGet<'_>, _body: &mut Vec<u8>) -> ImmediateAnswer {
        // A client that requests a switch of protocols may send more.
        if get.head.fields.iter().any(|line| line.name.of(get.buffer).eq_ignore_ascii_case(b"upgrade")) {
            return ImmediateAnswer::Handle;
        }
        let is_short = get.buffer.len() <= LONGEST_REQUEST / 2;
        match self.ask(0, |out| source::write_get(out, get)) {
            Ok(worker_request) if is_short => ImmediateAnswer::Pending(Box::new(PendingGet {
                handler: self,
                worker_request: Some(worker_request),
            })),
            _ => ImmediateAnswer::Handle,
        }
    }
}

/// A GET that was sent to a worker.
struct PendingGet {
    handler: Rc<PythonOfCore>,
    worker_request: Option<WorkerRequest>,
}

impl PendingCall for PendingGet {
    /// After this time the request continues in the usual way, which notices if the client disconnects.
    fn limit(&self) -> Duration {
        self.handler
            .pool
            .settings()
            .limits
            .answer
            .map_or(DIRECT_ANSWER_TIME, |limit| limit.min(DIRECT_ANSWER_TIME))
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, give: &mut dyn FnMut(Answer, &[u8])) -> Poll<()> {
        let Some(worker_request) = &self.worker_request else { return Poll::Ready(()) };
        if worker_request.request_events.poll_event_ready(context).is_pending() {
            return Poll::Pending;
        }
        // If the answer is not complete at once, the request continues like others.
        let Some((frame, place)) = worker_request.request_events.take_whole() else { return Poll::Ready(()) };
        let is_given = worker_request.link.with_payload(&frame, |bytes| match head::read(bytes) {
            Ok((head, end)) if !is_bare_error(&head.answer, bytes.len() - end) => {
                give(head.answer, &bytes[end..]);
                true
            }
            _ => false,
        });
        if is_given {
            worker_request.link.free(place);
            self.worker_request = None;
        } else {
            worker_request.request_events.put_back(frame, place);
        }
        Poll::Ready(())
    }

    fn continue_request(self: Box<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let PendingGet { handler, worker_request } = *self;
        Box::pin(async move { Handled::Answer(handler.answer(request, worker_request).await) })
    }
}

/// An error without a body, for which the server has a page.
fn is_bare_error(answer: &Answer, body: usize) -> bool {
    answer.status >= 400 && answer.fields.is_empty() && body == 0
}

/// The answer if there is no worker.
fn unavailable() -> Answer {
    Answer::error(503).field("Retry-After", RETRY_AFTER_S)
}

/// An answer that is complete.
fn whole(head: Head, body: Bytes, is_head: bool) -> Answer {
    let Head { mut answer, content_length } = head;
    if is_bare_error(&answer, body.len()) && !is_head {
        return Answer::error(answer.status);
    }
    if is_head || answer.status == 304 {
        answer.declared_length = content_length;
        if content_length.is_none() {
            // Its length is not known.
            return answer;
        }
    }
    answer.part(BodyPart::Bytes(body))
}

/// Sends the rest of an answer after its head.
async fn pass_on(handler: Rc<PythonOfCore>, worker_request: Rc<WorkerRequest>, mut sender: pipe::Sender) {
    loop {
        // The application may continue only as fast as the client reads.
        if poll_fn(|context| sender.poll_ready(context)).await.is_err() {
            break;
        }
        let event = tokio::select! {
            event = worker_request.event() => event,
            () = sender.gone() => break,
        };
        match event {
            Event::Piece(piece) => {
                let bytes = piece.len();
                sender.push(piece);
                worker_request.took(bytes);
            }
            Event::End(Ok(trailers)) if field_lines::are_valid(&trailers) => {
                sender.finish_with_trailers(trailers);
                break;
            }
            Event::Hints(_) | Event::File(_) => {}
            Event::End(_) | Event::Lost | Event::Whole(_) | Event::Head(_) => {
                sender.fail(std::io::Error::other("the answer of the application is incomplete"));
                break;
            }
        }
    }
    drop(worker_request);
    drop(handler);
}
