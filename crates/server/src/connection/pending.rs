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
    Sent(ConnectionStep),
    /// The request continues in the usual way.
    Continue(ReadyAnswer),
    /// The client left.
    Left(ReadyAnswer),
}

impl Connection {
    /// Waits for the answer to the request at the start of the input, and sends it.
    pub(super) async fn wait_for(&mut self, waits: Box<PendingAnswer>) -> ConnectionStep {
        let PendingAnswer { ready_answer, handler, call } = *waits;
        let Some(mut call) = call else {
            return Box::pin(self.continue_request(ready_answer, handler, None)).await;
        };
        self.set_deadline(call.limit());
        let mut ready_answer = Some(ready_answer);
        let outcome = poll_fn(|context| self.poll_call(&mut *call, &mut ready_answer, context)).await;
        self.forget_deadline();
        match outcome {
            WaitOutcome::Sent(next) => next,
            WaitOutcome::Continue(ready_answer) => {
                Box::pin(self.continue_request(ready_answer, handler, Some(call))).await
            }
            WaitOutcome::Left(ready_answer) => {
                drop(call);
                self.note_departure(&ready_answer)
            }
        }
    }

    fn poll_call(
        &mut self,
        call: &mut dyn PendingCall,
        ready_answer: &mut Option<ReadyAnswer>,
        context: &mut Context<'_>,
    ) -> Poll<WaitOutcome> {
        let mut sent = None;
        let polled = call.poll_answer(context, &mut |answer, body| {
            sent = ready_answer.take().map(|ready_answer| self.send_received(ready_answer, answer, body));
        });
        if let Some(next) = sent {
            return Poll::Ready(WaitOutcome::Sent(next));
        }
        let is_over = polled.is_ready() || self.deadline_expired(context);
        let has_left = !is_over && BodyFeed::none().poll(self, true, context).is_ready();
        if !is_over && !has_left {
            return Poll::Pending;
        }
        match ready_answer.take() {
            Some(ready_answer) if is_over => Poll::Ready(WaitOutcome::Continue(ready_answer)),
            Some(ready_answer) => Poll::Ready(WaitOutcome::Left(ready_answer)),
            // The answer was sent, and there are no polls after that.
            None => Poll::Ready(WaitOutcome::Sent(ConnectionStep::Close)),
        }
    }

    /// Sends an answer that is complete.
    fn send_received(
        &mut self,
        mut ready_answer: ReadyAnswer,
        answer: Answer,
        body: &[u8],
    ) -> ConnectionStep {
        ready_answer.answered.answer = answer;
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        let mut input = std::mem::take(&mut self.input);
        // The head was complete when the wait began, and no bytes of the input were removed since.
        let Ok(Parsed::Complete(length)) = state.head.parse(&input, &state.limits) else {
            return ConnectionStep::Close;
        };
        self.listener.follow_config(state);
        let last = length == input.len() && !state.head.lacks_length;
        let hit = self.send_now(state, &input[..length], ready_answer, Body::Bytes(body), last);
        let next = match hit {
            CacheAttempt::Answered { persistent: true } if last => ConnectionStep::Receive,
            CacheAttempt::Answered { persistent: true } => ConnectionStep::Buffered,
            CacheAttempt::Answered { persistent: false } if !last => ConnectionStep::Linger,
            _ => ConnectionStep::Close,
        };
        let next = self.send_gathered(state, &input, next);
        input.drain(..length);
        self.input = input;
        next
    }

    /// Converts the head into a request, which the program answers.
    async fn continue_request(
        &mut self,
        ready_answer: ReadyAnswer,
        handler: Rc<dyn Handler>,
        call: Option<Box<dyn PendingCall>>,
    ) -> ConnectionStep {
        let ReadyAnswer { answered, progress, started, snapshot } = ready_answer;
        let Some(received) = self.take_head() else { return ConnectionStep::Close };
        let received = Rc::new(received);
        let sites = self.listener.index.and_then(|index| snapshot.listeners.get(index));
        let arrival = self.arrival(&received.head);
        let mut feed = BodyFeed::none();
        let answered = match steps::make_request(&snapshot, sites, arrival, received.clone(), |_| true, None)
        {
            Ok(mut request) => {
                request.user = answered.user;
                request.id = progress.facts.id_text();
                let form = self.form_after_body(&received.head, true);
                let program_request = ProgramRequest { request, handler, call };
                let core = self.core.clone();
                let answer =
                    steps::answer_by_program(core, snapshot.clone(), program_request, form, progress.clone());
                let takes_interim = received.head.version == touchstone_http::request::Version::Http11;
                match self.drive(std::pin::pin!(answer), &mut feed, &progress, takes_interim).await {
                    Some(answered) => answered,
                    None => return self.note_client_left(&snapshot, &received, &progress, started),
                }
            }
            // The address was found when the wait began, but a reload has removed it since.
            Err(answer) => answer.into(),
        };
        self.complete_request(&snapshot, answered, &received, feed, &progress, started).await
    }

    /// Records that the client left before its answer.
    fn note_departure(&mut self, ready_answer: &ReadyAnswer) -> ConnectionStep {
        match self.take_head() {
            Some(received) => self.note_client_left(
                &ready_answer.snapshot,
                &received,
                &ready_answer.progress,
                ready_answer.started,
            ),
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
