//! Waits for a program's answer to a request that was passed to it in place, on an HTTP/1 connection.
//!
//! The request stays at the start of the input until then. A complete answer is sent like one that was ready
//! at once. For any other answer, the head becomes a request and continues as if the exchange had passed it
//! to the program.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Handler, PendingCall};
use touchstone_handler::request::ReceivedHead;
use touchstone_http::request::{Parsed, RequestHead};

use super::outcome::{Body, CacheAttempt, PendingAnswer, ReadyAnswer};
use super::request_body::BodyFeed;
use super::{Connection, ConnectionStep};
use touchstone_exchange::steps::{self, ProgramRequest};

/// The result of the wait.
enum WaitOutcome {
    /// The answer was sent.
    Given(ConnectionStep),
    /// The request continues in the usual way.
    Continue(ReadyAnswer),
    /// The client left.
    Left(ReadyAnswer),
}

impl Connection {
    /// Waits for the answer to the request at the start of the input, and sends it.
    pub(super) async fn wait_for(&mut self, waits: Box<PendingAnswer>) -> ConnectionStep {
        let PendingAnswer { made, handler, call } = *waits;
        let Some(mut call) = call else {
            return Box::pin(self.go_on(made, handler, None)).await;
        };
        self.set_deadline(call.limit());
        let mut made = Some(made);
        let outcome = poll_fn(|context| self.poll_call(&mut *call, &mut made, context)).await;
        self.forget_deadline();
        match outcome {
            WaitOutcome::Given(next) => next,
            WaitOutcome::Continue(made) => Box::pin(self.go_on(made, handler, Some(call))).await,
            WaitOutcome::Left(made) => {
                drop(call);
                self.note_departure(&made)
            }
        }
    }

    fn poll_call(
        &mut self,
        call: &mut dyn PendingCall,
        made: &mut Option<ReadyAnswer>,
        context: &mut Context<'_>,
    ) -> Poll<WaitOutcome> {
        let mut given = None;
        let polled = call.poll_answer(context, &mut |answer, body| {
            given = made.take().map(|made| self.give_received(made, answer, body));
        });
        if let Some(next) = given {
            return Poll::Ready(WaitOutcome::Given(next));
        }
        let is_over = polled.is_ready() || self.deadline_expired(context);
        let has_left = !is_over && BodyFeed::none().poll(self, true, context).is_ready();
        if !is_over && !has_left {
            return Poll::Pending;
        }
        match made.take() {
            Some(made) if is_over => Poll::Ready(WaitOutcome::Continue(made)),
            Some(made) => Poll::Ready(WaitOutcome::Left(made)),
            // The answer was sent, and there are no polls after that.
            None => Poll::Ready(WaitOutcome::Given(ConnectionStep::Close)),
        }
    }

    /// Sends an answer that is complete.
    fn give_received(&mut self, mut made: ReadyAnswer, answer: Answer, body: &[u8]) -> ConnectionStep {
        made.answered.answer = answer;
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        let mut input = std::mem::take(&mut self.input);
        // The head was complete when the wait began, and no bytes of the input were removed since.
        let Ok(Parsed::Complete(length)) = state.head.parse(&input, &state.limits) else {
            return ConnectionStep::Close;
        };
        if self.listener.generation != state.generation {
            self.listener.apply_config(state);
        }
        let last = length == input.len() && !state.head.lacks_length;
        let hit = self.give_now(state, &input, made, Body::Bytes(body), last);
        input.drain(..length);
        self.input = input;
        let next = match hit {
            CacheAttempt::Answered { persistent: true } if last => ConnectionStep::Receive,
            CacheAttempt::Answered { persistent: true } => ConnectionStep::Buffered,
            CacheAttempt::Answered { persistent: false } if !last => ConnectionStep::Linger,
            _ => ConnectionStep::Close,
        };
        self.send_gathered(state, next)
    }

    /// Converts the head into a request, which the program answers.
    async fn go_on(
        &mut self,
        made: ReadyAnswer,
        handler: Rc<dyn Handler>,
        call: Option<Box<dyn PendingCall>>,
    ) -> ConnectionStep {
        let ReadyAnswer { answered, progress, started, snapshot } = made;
        let Some(received) = self.take_head() else { return ConnectionStep::Close };
        let received = Rc::new(received);
        let sites = self.listener.index.and_then(|index| snapshot.listeners.get(index));
        let arrival = self.arrival(&received.head);
        let mut feed = BodyFeed::none();
        let answered = match steps::begin(&snapshot, sites, arrival, received.clone(), |_| true, None) {
            Ok(mut request) => {
                request.user = answered.user;
                request.id = progress.facts.id_text();
                let form = self.form_after_body(&received.head, true);
                let asked = ProgramRequest { request, handler, call };
                let core = self.core.clone();
                let answer = steps::answer_by_program(core, snapshot.clone(), asked, form, progress.clone());
                let takes_interim = received.head.version == touchstone_http::request::Version::Http11;
                match self.drive(std::pin::pin!(answer), &mut feed, &progress, takes_interim).await {
                    Some(answered) => answered,
                    None => return self.note_left(&snapshot, &received, &progress, started),
                }
            }
            // The address was found when the wait began, but a reload has removed it since.
            Err(answer) => answer.into(),
        };
        self.give_answer(&snapshot, answered, &received, feed, &progress, started).await
    }

    /// Records that the client left before its answer.
    fn note_departure(&mut self, made: &ReadyAnswer) -> ConnectionStep {
        match self.take_head() {
            Some(received) => self.note_left(&made.snapshot, &received, &made.progress, made.started),
            None => ConnectionStep::Close,
        }
    }

    /// Takes the head at the start of the input, which was found complete before.
    pub(super) fn take_head(&mut self) -> Option<ReceivedHead> {
        let limits = self.core.state.borrow().limits;
        let mut head = RequestHead::new();
        let Ok(Parsed::Complete(length)) = head.parse(&self.input, &limits) else { return None };
        Some(ReceivedHead { head, buffer: self.input.drain(..length).collect() })
    }
}
