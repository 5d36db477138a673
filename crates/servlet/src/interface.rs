//! The handler of a route with `servlet`, for applications in this process.

use std::cell::{Cell, RefCell};
use std::future::{poll_fn, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{
    CallUnderWay, Caller, ConnectionReturn, Handled, Handler, Interface, Level, LocalBoxFuture, Server,
};
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::pipe::{self, Receiver};
use touchstone_handler::request::{Protocol, Request};
use touchstone_http::request::{Expectation, Method};
use touchstone_interfaces::ajp::AmbiguousPath;

use crate::answers::{complete_answer, unavailable};
use crate::call_durations::PathKey;
use crate::caller::RouteCaller;
use crate::core_queue::CoreQueue;
use crate::end_of_turn::EndOfTurn;
use crate::flat::{self, HandlerFacts, Source};
use crate::isolated::{Flags, Link};
use crate::java_call::{AnswerEnd, ClientDisconnected, JavaCall, Output, Threads};
use crate::path_parameters;
use crate::route::Route;
use crate::route_state::RouteState;
use crate::routes::ServletRoutes;
use crate::server_log::log;
use crate::settings::{JavaSettings, RouteSettings};
use crate::slab::{INPUT_BYTES, OUTPUT_BYTES};

/// Bytes of an answer that wait for a client.
const PIPE_BYTES: usize = 128 * 1024;

/// The pause in which the end of a process should be noticed.
const NOTICE: Duration = Duration::from_millis(50);

/// The status of an interim response with hints (RFC 8297).
const EARLY_HINTS: u16 = 103;

/// The receiver of interim responses, if there is one.
type Interim<'a> = Option<&'a dyn TakesInterim>;

/// A route with `servlet`.
pub struct Servlets {
    route: Arc<Route>,
}

impl Servlets {
    /// Starts the applications, and Java if it is not running. Returns before both have started.
    pub fn open(
        java: &JavaSettings,
        settings: &RouteSettings,
        routes: &ServletRoutes,
    ) -> Result<Servlets, String> {
        Ok(Servlets { route: routes.get(java, settings)? })
    }
}

impl Interface for Servlets {
    fn name(&self) -> &'static str {
        "servlet"
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn takes_missing_length(&self) -> bool {
        true
    }

    fn judges_parameters(&self) -> bool {
        true
    }

    fn is_called(&self) -> bool {
        // Calls run on one of the pool's platform threads, never on a virtual one.
        self.route.pool().is_some() && !self.route.settings().has_virtual_threads
    }

    fn caller(&self, connection_return: Arc<dyn ConnectionReturn>) -> Option<Box<dyn Caller>> {
        match RouteCaller::new(self.route.clone(), connection_return) {
            Ok(caller) => Some(Box::new(caller)),
            Err(message) => {
                log(1, &format!("{}: {message}", self.route.settings().name()));
                None
            }
        }
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let queue = Arc::new(CoreQueue::default());
        if let Some(pool) = self.route.pool() {
            pool.monitor().watch(&queue);
        }
        tokio::task::spawn_local(queue.clone().run());
        let end_of_turn = Rc::new(EndOfTurn::default());
        if let Some(pool) = self.route.pool() {
            tokio::task::spawn_local(end_of_turn.clone().announce(pool.clone()));
        }
        let route = self.route.clone();
        Rc::new(ServletOfCore {
            route,
            queue,
            end_of_turn,
            server,
            sizes: Cell::new(512),
            link: RefCell::default(),
        })
    }
}

struct ServletOfCore {
    route: Arc<Route>,
    queue: Arc<CoreQueue>,
    end_of_turn: Rc<EndOfTurn>,
    server: Rc<dyn Server>,
    /// The usual size of requests and answers.
    sizes: Cell<usize>,
    /// The connection to the process of the applications, if they have one.
    link: RefCell<Option<Rc<Link>>>,
}

impl Drop for ServletOfCore {
    fn drop(&mut self) {
        self.queue.close();
        self.end_of_turn.close();
        if let Some(link) = self.link.take() {
            link.close();
        }
    }
}

impl Handler for ServletOfCore {
    fn handle(self: Rc<Self>, mut request: Request) -> LocalBoxFuture<Handled> {
        match path_parameters::other_path(&request) {
            Ok(None) => Box::pin(async move { Handled::Answer(self.answer(request).await) }),
            Ok(Some(path)) => {
                request.path = path.into();
                request.depth += 1;
                Box::pin(ready(Handled::Again(Box::new(request))))
            }
            Err(AmbiguousPath) => Box::pin(ready(Handled::Answer(Answer::error(400)))),
        }
    }

    fn await_call(
        self: Rc<Self>,
        call: CallUnderWay,
        interim: Rc<dyn TakesInterim>,
    ) -> LocalBoxFuture<Answer> {
        Box::pin(async move {
            let Ok(java_call) = call.downcast::<Arc<JavaCall>>() else { return Answer::error(500) };
            java_call.adopt(&self.queue);
            let java_request = JavaRequest { _handler: self.clone(), java_call: *java_call, through: None };
            self.answer_of(java_request, false, Some(&*interim)).await.unwrap_or_else(|| Answer::error(502))
        })
    }
}

/// A request that was passed to Java. Dropping it informs Java that the core has cancelled the request.
struct JavaRequest {
    /// Keeps the applications running, even if the configuration was replaced.
    _handler: Rc<ServletOfCore>,
    java_call: Arc<JavaCall>,
    /// The connection to another process through which it was sent, and its number there.
    through: Option<(Rc<Link>, u32)>,
}

impl JavaRequest {
    /// The output of Java since the last call.
    async fn output(&self) -> Output {
        let output = poll_fn(|context| self.java_call.poll_output(context)).await;
        if let (Some((link, number)), None) = (&self.through, output.end) {
            link.taken(*number, output.pieces.iter().map(Vec::len).sum());
        }
        output
    }
}

impl Drop for JavaRequest {
    fn drop(&mut self) {
        self.java_call.note_client_end();
        if let Some((link, number)) = &self.through {
            link.release(*number);
        }
    }
}

impl ServletOfCore {
    async fn answer(self: Rc<Self>, request: Request) -> Answer {
        if self.route.state() != RouteState::Ready
            && let Some(answer) = self.wait_for_start().await
        {
            return answer;
        }
        let has_body = request.body_length() != Some(0);
        // In HTTP/2 and 3 this is an extended CONNECT (RFC 8441, RFC 9220), which the server presents as a
        // GET with Upgrade.
        let may_switch =
            request.protocol != Protocol::Http10 && request.received.values("upgrade").next().is_some();
        let mut written = Vec::with_capacity(self.sizes.get());
        let path = path_parameters::as_sent(&request);
        let handler_facts = HandlerFacts { path: &path, has_body, may_switch };
        flat::write(&mut written, &Source::from(&request), handler_facts);
        if written.len() > INPUT_BYTES {
            return Answer::error(431);
        }
        let is_body_requested = request.received.head.expectation == Expectation::None;
        let flags = Flags { has_body: has_body || may_switch, is_body_requested };
        let is_head = request.received.method_text() == b"HEAD";
        let client = request.interim.clone();
        let client = client.as_deref();
        // If a process ends, its requests get no answer; requests with safe methods are repeated once.
        let is_safe = is_head || request.received.method_text() == b"GET";
        if self.route.child().is_some() && is_safe && !flags.has_body {
            if let Some(java_request) = self.start_call(written.clone(), PathKey::default(), flags).await
                && let Some(answer) = self.answer_of(java_request, is_head, client).await
            {
                return answer;
            }
            tokio::time::sleep(NOTICE).await;
            if let Some(answer) = self.wait_for_start().await {
                return answer;
            }
        }
        let path = PathKey::of(&request.path);
        let may_be_called = !self.route.settings().has_virtual_threads
            && !flags.has_body
            && is_plain(&request)
            && self.is_quick(path);
        let Some(java_request) = self.start_call(written, path, flags).await else { return unavailable() };
        if flags.has_body {
            let (java_call, through) = (java_request.java_call.clone(), java_request.through.clone());
            tokio::task::spawn_local(send_body(request.body, java_call, through));
        }
        let answer =
            self.answer_of(java_request, is_head, client).await.unwrap_or_else(|| Answer::error(502));
        Answer { may_be_called: may_be_called && !answer.streams() && self.is_quick(path), ..answer }
    }

    fn is_quick(&self, path: PathKey) -> bool {
        self.route.pool().is_some_and(|pool| pool.call_durations().is_quick(path))
    }

    /// Passes the request to a thread, or to another process; `None` if neither has room.
    async fn start_call(
        self: &Rc<Self>,
        written: Vec<u8>,
        path: PathKey,
        flags: Flags,
    ) -> Option<JavaRequest> {
        let pool = self.route.pool().cloned();
        // Another process reads the body as fast as it requests it.
        let is_body_requested = flags.is_body_requested && pool.is_some();
        let threads = pool.clone().map(|pool| pool as Arc<dyn Threads>);
        let java_call = JavaCall::new(self.queue.clone(), threads, path, flags.has_body, is_body_requested);
        let through = match pool {
            Some(pool) => {
                if pool.submit(java_call.clone(), written).is_err() {
                    let message = format!(
                        "all threads of {} are in use, and its queue is full",
                        self.route.settings().name()
                    );
                    self.server.log(Level::Warning, "servlets: all threads are in use", &message);
                    return None;
                }
                self.end_of_turn.note_request();
                None
            }
            None => {
                let link = self.open_link().await?;
                let number = link.submit(&java_call, &written, flags);
                Some((link, number))
            }
        };
        Some(JavaRequest { _handler: self.clone(), java_call, through })
    }

    /// The connection to the other process.
    async fn open_link(&self) -> Option<Rc<Link>> {
        if let Some(link) = self.link.borrow().as_ref().filter(|link| link.is_open()) {
            return Some(link.clone());
        }
        let link = Link::connect(&self.route.child()?.socket()).await?;
        // Another request may have connected first.
        let mut kept = self.link.borrow_mut();
        match kept.as_ref().filter(|kept| kept.is_open()) {
            Some(kept) => {
                link.close();
                Some(kept.clone())
            }
            None => Some(kept.insert(link).clone()),
        }
    }

    async fn wait_for_start(&self) -> Option<Answer> {
        let wait = self.route.settings().start_timeout;
        match tokio::time::timeout(wait, self.route.started()).await {
            Ok(RouteState::Ready) => None,
            _ => Some(unavailable()),
        }
    }

    /// The answer; `None` if there will be none.
    async fn answer_of(
        &self,
        java_request: JavaRequest,
        is_head: bool,
        client: Interim<'_>,
    ) -> Option<Answer> {
        let first = async {
            loop {
                let mut output = java_request.output().await;
                if let Some(client) = client {
                    output.early_hints.drain(..).for_each(|lines| client.interim().push(EARLY_HINTS, lines));
                }
                if output.head.is_some() || output.end.is_some() {
                    return output;
                }
            }
        };
        let output = match self.route.settings().answer_timeout {
            None => first.await,
            Some(limit) => match tokio::time::timeout(limit, first).await {
                Ok(output) => output,
                Err(_) => {
                    let message =
                        format!("a servlet of {} did not answer in time", self.route.settings().name());
                    self.server.log(Level::Warning, "servlets: no answer in time", &message);
                    return Some(Answer::error(504));
                }
            },
        };
        let Output { head, mut pieces, end, trailers, .. } = output;
        let Some(head) = head else {
            return (end == Some(AnswerEnd::Unavailable)).then(unavailable);
        };
        if end == Some(AnswerEnd::Whole) && trailers.is_empty() {
            // The next request brings a buffer of this size for its answer.
            let length = pieces.front().map_or(0, Vec::len);
            self.sizes.set(length.clamp(512, OUTPUT_BYTES));
            let body = if pieces.len() == 1 {
                pieces.pop_front()
            } else {
                Some(pieces.into_iter().flatten().collect())
            };
            return Some(complete_answer(head, body.unwrap_or_default().into(), is_head));
        }
        let declared = head.content_length;
        let answer = head.into_answer();
        let (mut sender, body) = pipe::pipe(PIPE_BYTES);
        pieces.into_iter().for_each(|piece| sender.push(Bytes::from(piece)));
        if end == Some(AnswerEnd::Whole) {
            sender.finish_with_trailers(trailers);
        } else if end.is_some() {
            // The beginning was sent, and the client detects that the end is missing.
            drop(sender);
        } else {
            tokio::task::spawn_local(pass_on(java_request, sender));
        }
        let length = if answer.switches_protocols() { None } else { declared };
        Some(answer.part(BodyPart::Stream { body, length }))
    }
}

/// Whether the connection could have passed the request as a `PlainGet`.
fn is_plain(request: &Request) -> bool {
    let head = &request.received.head;
    request.method() == Method::Get
        && !head.has_conditions_or_range
        && head.expectation == Expectation::None
        && matches!(request.protocol, Protocol::Http10 | Protocol::Http11)
        && request.tls.is_none()
}

/// Sends the rest of an answer after its beginning.
async fn pass_on(java_request: JavaRequest, mut sender: pipe::Sender) {
    loop {
        // Java may continue only as fast as the client reads.
        if poll_fn(|context| sender.poll_ready(context)).await.is_err() {
            return;
        }
        let output = tokio::select! {
            output = java_request.output() => output,
            () = sender.gone() => return,
        };
        output.pieces.into_iter().for_each(|piece| sender.push(Bytes::from(piece)));
        match output.end {
            None => {}
            Some(AnswerEnd::Whole) => return sender.finish_with_trailers(output.trailers),
            Some(_) => {
                return sender.fail(std::io::Error::other("the answer of the servlet is incomplete"));
            }
        }
    }
}

/// Passes the request's body to Java, as fast as Java reads it.
async fn send_body(mut body: Receiver, java_call: Arc<JavaCall>, through: Option<(Rc<Link>, u32)>) {
    while poll_fn(|context| java_call.poll_body_requested(context)).await {
        let piece = tokio::select! {
            piece = body.next() => piece,
            () = poll_fn(|context| java_call.poll_ended(context)) => return,
        };
        match (piece, &through) {
            (Some(Ok(piece)), None) => java_call.push_body(piece),
            (Some(Ok(piece)), Some((link, number))) => {
                java_call.is_served();
                link.send_body(*number, &piece);
            }
            (end, through) => {
                let end = end.map_or_else(|| Ok(body.take_trailers()), |_| Err(ClientDisconnected));
                return match through {
                    None => java_call.end_body(end),
                    Some((link, number)) => link.end_body(*number, end),
                };
            }
        }
    }
}
