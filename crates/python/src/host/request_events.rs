//! A request that was sent to a worker, on its core: the events that the worker has reported.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use crate::shared::ring::Frame;

/// An event that a worker has reported.
#[derive(Debug)]
pub enum Event {
    /// A whole answer: head and body.
    Whole(Bytes),
    /// The head of an answer.
    Head(Bytes),
    /// A part of its body.
    Piece(Bytes),
    /// The body is a part of a file.
    File(SentFile),
    /// The answer has ended: with these trailers, or early.
    End(Result<Vec<u8>, EarlyEnd>),
    /// Fields of an interim response 103.
    Hints(Vec<u8>),
    /// The worker has ended.
    Lost,
}

/// Why an answer has ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyEnd {
    /// It has broken off.
    Broken,
    /// The application was not called.
    NotCalled,
}

/// A part of a file.
#[derive(Debug, Clone)]
pub struct SentFile {
    /// The file.
    pub file: Arc<OwnedFd>,
    /// Where the part begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
}

/// A request.
#[derive(Default)]
pub struct RequestEvents {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// A whole answer in the ring, and its position there.
    whole: Option<(Frame, u64)>,
    events: VecDeque<Event>,
    waker: Option<Waker>,
    /// Bytes of the request's body that the worker has requested and that were not sent; negative: this many
    /// were sent in excess.
    wanted: i64,
    body_waker: Option<Waker>,
    /// When a part of the body was last sent.
    last_sent: Option<Instant>,
    /// The application waits for a part of the body that the client has not sent.
    waits_for_body: bool,
    is_over: bool,
    is_lost: bool,
}

impl RequestEvents {
    /// A request for whose body the worker initially accepts this many bytes.
    pub fn new(wanted: usize) -> RequestEvents {
        let wanted = as_credit(wanted);
        RequestEvents { state: RefCell::new(State { wanted, ..State::default() }) }
    }

    /// A whole answer is in the ring.
    pub fn push_whole(&self, frame: Frame, place: u64) {
        let mut state = self.state.borrow_mut();
        state.whole = Some((frame, place));
        state.end();
    }

    /// The worker has reported an event.
    pub fn push(&self, event: Event) {
        let mut state = self.state.borrow_mut();
        let is_end = matches!(event, Event::End(_) | Event::Lost);
        state.events.push_back(event);
        if is_end {
            state.end();
        } else {
            wake(&mut state.waker);
        }
    }

    /// The worker requests this many more bytes of the request's body; 0: the application waits for bytes
    /// that were requested before.
    pub fn want(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        if bytes == 0 {
            state.waits_for_body = true;
            return;
        }
        state.wanted = state.wanted.saturating_add(as_credit(bytes));
        wake(&mut state.body_waker);
    }

    /// The worker has ended. Returns whether its answer was incomplete.
    pub fn note_worker_end(&self) -> bool {
        let is_lost = !self.state.borrow().is_over;
        if is_lost {
            self.state.borrow_mut().is_lost = true;
            self.push(Event::Lost);
        }
        is_lost
    }

    /// Whether the worker has ended before its answer was complete.
    pub fn is_lost(&self) -> bool {
        self.state.borrow().is_lost
    }

    /// Takes the whole answer from the ring.
    pub fn take_whole(&self) -> Option<(Frame, u64)> {
        self.state.borrow_mut().whole.take()
    }

    /// Puts back a whole answer that was taken.
    pub fn put_back(&self, frame: Frame, place: u64) {
        self.state.borrow_mut().whole = Some((frame, place));
    }

    /// Ready when there is an event, for the future that waits for it.
    pub fn poll_event_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        if state.whole.is_some() || !state.events.is_empty() {
            return Poll::Ready(());
        }
        match &state.waker {
            Some(waker) if waker.will_wake(context.waker()) => {}
            _ => state.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Takes the next event.
    pub fn take_event(&self) -> Option<Event> {
        self.state.borrow_mut().events.pop_front()
    }

    /// Ready when the worker requests more of the body; `false`: it needs no more.
    pub fn poll_wanted(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.state.borrow_mut();
        if state.is_over {
            return Poll::Ready(false);
        }
        if state.wanted > 0 {
            return Poll::Ready(true);
        }
        state.body_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when the answer has ended.
    pub fn poll_over(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        if state.is_over {
            return Poll::Ready(());
        }
        state.body_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Notes that a part of the body was sent, or its end. A piece may be longer than the worker has
    /// requested; then nothing more is sent until the worker has requested the rest.
    pub fn sent_body(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        state.wanted = state.wanted.saturating_sub(as_credit(bytes));
        state.last_sent = Some(Instant::now());
        state.waits_for_body = false;
    }

    /// Whether the application waits for more of the body from the client.
    pub fn waits_for_body(&self) -> bool {
        self.state.borrow().waits_for_body
    }

    /// When a part of the body was last sent.
    pub fn last_sent(&self) -> Option<Instant> {
        self.state.borrow().last_sent
    }

    /// The client does not need an answer any more.
    pub fn abandon(&self) {
        let mut state = self.state.borrow_mut();
        state.end();
        state.events.clear();
    }
}

impl State {
    fn end(&mut self) {
        self.is_over = true;
        wake(&mut self.waker);
        wake(&mut self.body_waker);
    }
}

fn as_credit(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(request_events: &RequestEvents) -> bool {
        request_events.poll_wanted(&mut Context::from_waker(Waker::noop())) == Poll::Ready(true)
    }

    #[test]
    fn bytes_in_excess_of_the_window_count() {
        let request_events = RequestEvents::new(100);
        assert!(wants(&request_events));
        request_events.sent_body(1_000);
        assert!(!wants(&request_events));
        request_events.want(899);
        assert!(!wants(&request_events), "one byte of the window is not given back");
        request_events.want(2);
        assert!(wants(&request_events));
    }

    #[test]
    fn a_wait_for_the_body_ends_with_its_next_piece() {
        let request_events = RequestEvents::new(100);
        assert!(!request_events.waits_for_body());
        request_events.want(0);
        assert!(request_events.waits_for_body() && wants(&request_events));
        request_events.sent_body(1);
        assert!(!request_events.waits_for_body());
    }
}
