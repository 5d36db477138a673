//! A request that a worker has, on its core: what the worker has said of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use crate::shared::ring::Frame;

/// What a worker has said.
#[derive(Debug)]
pub enum Event {
    /// A whole answer: head and body.
    Whole(Bytes),
    /// The head of an answer.
    Head(Bytes),
    /// Some of its body.
    Piece(Bytes),
    /// A part of a file is its body.
    File(SentFile),
    /// The answer has ended: with these trailers, or too early.
    End(Result<Vec<u8>, Ended>),
    /// Fields of an interim response 103.
    Hints(Vec<u8>),
    /// The worker is gone.
    Lost,
}

/// Why an answer has ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has broken off.
    Broken,
    /// The application was not called.
    Untouched,
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
pub struct Exchange {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// A whole answer that lies in the ring, and its place among those.
    whole: Option<(Frame, u64)>,
    events: VecDeque<Event>,
    waker: Option<Waker>,
    /// Bytes of the request's body that the worker wants.
    wanted: usize,
    body_waker: Option<Waker>,
    /// When some of the body was last sent.
    last_sent: Option<Instant>,
    is_over: bool,
}

impl Exchange {
    /// A request of whose body so many bytes are wanted at once.
    pub fn new(wanted: usize) -> Exchange {
        Exchange { state: RefCell::new(State { wanted, ..State::default() }) }
    }

    /// A whole answer is in the ring.
    pub fn push_whole(&self, frame: Frame, place: u64) {
        let mut state = self.state.borrow_mut();
        state.whole = Some((frame, place));
        state.end();
    }

    /// The worker has said something.
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

    /// The worker wants more of the request's body.
    pub fn want(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        state.wanted = state.wanted.saturating_add(bytes);
        wake(&mut state.body_waker);
    }

    /// The worker is gone.
    pub fn lose(&self) {
        if !self.state.borrow().is_over {
            self.push(Event::Lost);
        }
    }

    /// Takes the whole answer that lies in the ring.
    pub fn take_whole(&self) -> Option<(Frame, u64)> {
        self.state.borrow_mut().whole.take()
    }

    /// Puts a whole answer back that was taken.
    pub fn put_back(&self, frame: Frame, place: u64) {
        self.state.borrow_mut().whole = Some((frame, place));
    }

    /// Whether something was said, for the future that waits for it.
    pub fn poll_said(&self, context: &mut Context<'_>) -> Poll<()> {
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

    /// Takes the next thing that was said.
    pub fn take_event(&self) -> Option<Event> {
        self.state.borrow_mut().events.pop_front()
    }

    /// How much of the body the worker wants; `None`: it wants none any more.
    pub fn poll_wanted(&self, context: &mut Context<'_>) -> Poll<Option<usize>> {
        let mut state = self.state.borrow_mut();
        if state.is_over {
            return Poll::Ready(None);
        }
        if state.wanted > 0 {
            return Poll::Ready(Some(state.wanted));
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

    /// Some of the body was sent.
    pub fn sent_body(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        state.wanted = state.wanted.saturating_sub(bytes);
        state.last_sent = Some(Instant::now());
    }

    /// When some of the body was last sent.
    pub fn last_sent(&self) -> Option<Instant> {
        self.state.borrow().last_sent
    }

    /// The client needs no answer any more.
    pub fn give_up(&self) {
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

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
