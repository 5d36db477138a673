//! The handler of a route with `servlet`, for applications in this process.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_http::request::Expectation;
use touchstone_interfaces::answer::{Answer, Part};
use touchstone_interfaces::handler::{Handled, Handler, Interface, Level, OnCore, Server};
use touchstone_interfaces::pipe::{self, Receiver};
use touchstone_interfaces::request::{Protocol, Request};

use crate::core_queue::CoreQueue;
use crate::exchange::{End, Exchange, Gone, Output};
use crate::flat::{self, Facts};
use crate::path_parameters::{self, FIELD};
use crate::route::{self, Route, Standing};
use crate::settings::{JavaSettings, RouteSettings};
use crate::slab::INPUT_BYTES;

/// Bytes of an answer that wait for a client.
const PIPE_BYTES: usize = 128 * 1024;

/// What is said to requests while applications start: come again in so many seconds.
const RETRY_AFTER_S: &str = "2";

/// What a route with `servlet` is.
pub struct Servlets {
    route: Arc<Route>,
}

impl Servlets {
    /// Starts the applications; Java as well, if it was not. Both start while this returns.
    pub fn open(java: &JavaSettings, settings: &RouteSettings) -> Result<Servlets, String> {
        Ok(Servlets { route: route::get(java, settings)? })
    }
}

impl Interface for Servlets {
    fn name(&self) -> &'static str {
        "servlet"
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let queue = Arc::new(CoreQueue::default());
        self.route.pool().monitor().watch_core(&queue);
        tokio::task::spawn_local(queue.clone().run());
        Rc::new(OnThisCore { route: self.route.clone(), queue, server, sizes: Cell::new(512) })
    }
}

struct OnThisCore {
    route: Arc<Route>,
    queue: Arc<CoreQueue>,
    server: Rc<dyn Server>,
    /// How long requests usually are, once written down.
    sizes: Cell<usize>,
}

impl Drop for OnThisCore {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Handler for OnThisCore {
    fn handle(self: Rc<Self>, request: Request) -> OnCore<Handled> {
        Box::pin(async move { Handled::Answer(self.answer(request).await) })
    }
}

/// Tells Java when the core gives a request up.
struct Guard(Arc<Exchange>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.client_has_left();
    }
}

impl OnThisCore {
    async fn answer(self: Rc<Self>, request: Request) -> Answer {
        if self.route.standing() != Standing::Ready
            && let Some(answer) = self.wait_for_start().await
        {
            return answer;
        }
        let request = match path_parameters::take_out(request) {
            path_parameters::Taken::Nothing(request) => request,
            path_parameters::Taken::Again(request) => return self.server.answer(*request).await,
            path_parameters::Taken::Refused => return Answer::error(400),
        };
        let has_body = request.body_length() != Some(0);
        let may_switch =
            request.protocol == Protocol::Http11 && request.received.values("upgrade").next().is_some();
        let mut written = Vec::with_capacity(self.sizes.get());
        let path = path_parameters::as_sent(&request);
        flat::write(&mut written, &request, Facts { path, has_body, may_switch, hidden_field: FIELD });
        if written.len() > INPUT_BYTES {
            return Answer::error(431);
        }
        self.sizes.set(written.len().next_power_of_two().max(512));
        let is_wanted = request.received.head.expectation == Expectation::None;
        let exchange =
            Exchange::new(self.queue.clone(), self.route.pool().clone(), has_body || may_switch, is_wanted);
        if self.route.pool().submit(exchange.clone(), written).is_err() {
            let message = format!("threads and queue of {} are full", self.route.settings().name());
            self.server.log(Level::Warning, "no thread for a servlet", &message);
            return unavailable();
        }
        let guard = Guard(exchange.clone());
        let is_head = request.received.method_text() == b"HEAD";
        if has_body || may_switch {
            tokio::task::spawn_local(send_body(request.body, exchange.clone(), may_switch && !has_body));
        }
        self.answer_of(guard, is_head).await
    }

    async fn wait_for_start(&self) -> Option<Answer> {
        let wait = self.route.settings().start_timeout;
        match tokio::time::timeout(wait, self.route.started()).await {
            Ok(Standing::Ready) => None,
            _ => Some(unavailable()),
        }
    }

    async fn answer_of(&self, guard: Guard, is_head: bool) -> Answer {
        let first = async {
            loop {
                let output = poll_fn(|context| guard.0.poll_output(context)).await;
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
                    let message = format!("a servlet of {} has not answered", self.route.settings().name());
                    self.server.log(Level::Warning, "a servlet takes too long", &message);
                    return Answer::error(504);
                }
            },
        };
        let Output { head, mut pieces, end } = output;
        let Some(head) = head else {
            return if end == Some(End::Unavailable) { unavailable() } else { Answer::error(502) };
        };
        if head.status >= 400 && head.fields.is_empty() && pieces.is_empty() && end == Some(End::Whole) {
            // The container could not make a page.
            return Answer::error(head.status);
        }
        let declared = head.content_length;
        let mut answer = head.into_answer();
        if end == Some(End::Whole) {
            if is_head || answer.status == 304 {
                answer.declared_length = declared;
            }
            if is_head && declared.is_none() {
                // Its length is not known, which is not the same as none (RFC 9110 section 8.6).
                let (sender, body) = pipe::pipe(1);
                sender.finish();
                return answer.part(Part::Stream { body, length: None });
            }
            let body = if pieces.len() == 1 {
                pieces.pop_front()
            } else {
                Some(pieces.into_iter().flatten().collect())
            };
            return answer.part(Part::Bytes(body.unwrap_or_default()));
        }
        let (mut sender, body) = pipe::pipe(PIPE_BYTES);
        pieces.into_iter().for_each(|piece| sender.push(Bytes::from(piece)));
        if end.is_some() {
            // What was begun is sent, and the client sees that the end is missing.
            drop(sender);
        } else {
            tokio::task::spawn_local(pass_on(guard, sender));
        }
        let length = if answer.switches_protocols() { None } else { declared };
        answer.part(Part::Stream { body, length })
    }
}

fn unavailable() -> Answer {
    Answer::error(503).field("Retry-After", RETRY_AFTER_S)
}

/// Passes on what comes of an answer after its beginning.
async fn pass_on(guard: Guard, mut sender: pipe::Sender) {
    loop {
        // Java may go on only as fast as the client takes it.
        if poll_fn(|context| sender.poll_ready(context)).await.is_err() {
            return;
        }
        let output = tokio::select! {
            output = poll_fn(|context| guard.0.poll_output(context)) => output,
            () = sender.gone() => return,
        };
        output.pieces.into_iter().for_each(|piece| sender.push(Bytes::from(piece)));
        match output.end {
            None => {}
            Some(End::Whole) => return sender.finish(),
            Some(_) => {
                return sender.fail(std::io::Error::other("the servlet has left its answer incomplete"));
            }
        }
    }
}

/// Brings Java the request's body, as fast as it reads it.
async fn send_body(mut body: Receiver, exchange: Arc<Exchange>, after_a_switch: bool) {
    let _ = after_a_switch;
    while poll_fn(|context| exchange.poll_body_wanted(context)).await {
        let piece = tokio::select! {
            piece = body.next() => piece,
            () = poll_fn(|context| exchange.poll_ended(context)) => return,
        };
        match piece {
            Some(Ok(piece)) => exchange.push_body(piece),
            Some(Err(_)) => return exchange.end_body(Err(Gone)),
            None => return exchange.end_body(Ok(())),
        }
    }
}
