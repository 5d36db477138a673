//! The state that the threads of a WSGI application share: the rings, waiting requests, and the states of
//! requests in progress.
//!
//! A thread that needs something (a request, more of a body, credit to send more) reads the rings itself. If
//! they are empty, one thread sleeps on behalf of all, and the others wait for it. So an application that
//! answers quickly is called by one thread, and no other is woken. The [monitor](super::monitor) wakes or
//! starts more threads when requests wait because the busy threads are themselves waiting.
//!
//! The lock is never held while Python is called: Python may then run anything, in any thread.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::links::{CoreSender, Key, Links, ReceivedFrame};
use crate::shared::frame::{self, ANSWER_WINDOW, BROKEN, Kind};

/// The shared state.
pub struct Hub {
    state: Mutex<State>,
    /// Threads that wait for a request.
    idle: Condvar,
    /// Threads that wait for an event of their own request.
    waiting: Condvar,
    /// Wakes the thread that sleeps on behalf of all.
    wake: OwnedFd,
    /// The number of requests that were started.
    pub started_requests: AtomicU64,
    /// The worker must end when there are no requests in progress.
    is_quitting: AtomicBool,
}

#[derive(Default)]
struct State {
    links: Links,
    /// Requests that were found by threads which looked for other frames.
    requests: VecDeque<(Key, Vec<u8>)>,
    under_way: FxHashMap<Key, RequestState>,
    /// A thread sleeps on behalf of all.
    has_sleeper: bool,
    idle: usize,
    waiting: usize,
}

/// The state of a request.
#[derive(Default)]
struct RequestState {
    /// Pieces of its body that were not read.
    body: VecDeque<Vec<u8>>,
    /// Its body has ended; `true`: too early.
    body_end: Option<bool>,
    /// The client has disconnected.
    is_gone: bool,
    /// Bytes of the answer that may be sent.
    credit: usize,
}

/// A request for a thread.
pub struct Request {
    /// Its key.
    pub key: Key,
    /// The way back to its core.
    pub out: Arc<CoreSender>,
    /// There were more requests.
    pub more: bool,
}

/// The result of reading a body.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyRead {
    /// A part of it.
    Piece(Vec<u8>),
    /// Its end.
    End,
    /// It has broken off.
    Broken,
}

impl Hub {
    /// A hub whose threads are woken by this eventfd.
    pub fn new(wake: OwnedFd) -> Hub {
        Hub {
            state: Mutex::default(),
            idle: Condvar::new(),
            waiting: Condvar::new(),
            wake,
            started_requests: AtomicU64::new(0),
            is_quitting: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the links.
    pub fn with_links<T>(&self, change: impl FnOnce(&mut Links) -> T) -> T {
        change(&mut self.lock().links)
    }

    /// Wakes the thread that sleeps.
    pub fn wake(&self) {
        // If the counter is full, it was woken often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Orders the worker to end.
    pub fn quit(&self) {
        self.is_quitting.store(true, Ordering::SeqCst);
        self.idle.notify_all();
        self.wake();
    }

    /// Whether the worker must end.
    pub fn is_quitting(&self) -> bool {
        self.is_quitting.load(Ordering::SeqCst)
    }

    /// Becomes readable when a core has written something.
    pub fn descriptor(&self) -> i32 {
        self.wake.as_raw_fd()
    }

    /// Clears the readability of the descriptor.
    pub fn take_wake(&self) {
        let mut counter = [0u8; 8];
        // If a signal ends the read early, the descriptor is still readable.
        let _ = rustix::io::read(&self.wake, &mut counter);
    }

    /// The next request, if there is one now. `buffer` gets it.
    pub fn take_request(&self, buffer: &mut Vec<u8>) -> Option<Request> {
        self.lock().take_request(buffer).map(|request| self.begin(request))
    }

    /// Waits for the next request. Called without the interpreter's lock. `None`: the worker must end.
    pub fn wait_for_request(&self, buffer: &mut Vec<u8>) -> Option<Request> {
        let mut state = self.lock();
        loop {
            if let Some(request) = state.take_request(buffer) {
                drop(state);
                return Some(self.begin(request));
            }
            if self.is_quitting.load(Ordering::SeqCst) {
                self.idle.notify_all();
                return None;
            }
            state = if state.has_sleeper {
                state.idle += 1;
                let mut state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                state
            } else {
                self.sleep_for_all(state)
            };
        }
    }

    fn begin(&self, request: Request) -> Request {
        self.started_requests.fetch_add(1, Ordering::Relaxed);
        request
    }

    /// Sleeps until a core has written something.
    fn sleep_for_all<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.links.wake_cores(true);
        if !state.links.fall_asleep() {
            return state;
        }
        state.has_sleeper = true;
        drop(state);
        let mut counter = [0u8; 8];
        // If a signal ends the wait early, the rings are just checked earlier.
        let _ = rustix::io::read(&self.wake, &mut counter);
        let mut state = self.lock();
        state.has_sleeper = false;
        state.links.wake_up();
        // Another thread must sleep on behalf of those that wait for an event of their own request.
        if state.waiting > 0 {
            self.waiting.notify_one();
        }
        state
    }

    /// Stores a frame that was found by a thread with the request `own`.
    fn sort_in(&self, state: &mut State, taken: ReceivedFrame, buffer: Vec<u8>, own: Key) {
        let is_of_other = taken.key != own;
        if taken.kind == Kind::Request && state.idle > 0 {
            self.idle.notify_one();
        }
        state.sort_in(taken, buffer);
        if is_of_other && state.waiting > 0 {
            self.waiting.notify_all();
        }
    }

    /// Waits for a condition of a request. Called without the interpreter's lock.
    fn wait_until<T>(&self, key: Key, mut look: impl FnMut(&mut RequestState) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            let found = match state.under_way.get_mut(&key) {
                Some(under_way) => look(under_way),
                None => return None,
            };
            if found.is_some() {
                return found;
            }
            let mut buffer = Vec::new();
            if let Some(taken) = state.links.take(&mut buffer) {
                self.sort_in(&mut state, taken, buffer, key);
                continue;
            }
            state = if state.has_sleeper {
                state.waiting += 1;
                let mut state = self.waiting.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
                state
            } else {
                self.sleep_for_all(state)
            };
        }
    }

    /// The next piece of a request's body, if available; `None`: it must be awaited.
    pub fn take_body(&self, key: Key) -> Option<BodyRead> {
        let mut state = self.lock();
        loop {
            let Some(under_way) = state.under_way.get_mut(&key) else { return Some(BodyRead::Broken) };
            if let Some(read) = under_way.take_body() {
                return Some(read);
            }
            let mut buffer = Vec::new();
            let taken = state.links.take(&mut buffer)?;
            self.sort_in(&mut state, taken, buffer, key);
        }
    }

    /// Waits for the next piece of a request's body. Called without the interpreter's lock.
    pub fn wait_for_body(&self, key: Key) -> BodyRead {
        self.wait_until(key, RequestState::take_body).unwrap_or(BodyRead::Broken)
    }

    /// Waits for credit to send up to `wanted` bytes; returns how much. `None`: the client has disconnected.
    /// Called without the interpreter's lock.
    pub fn wait_for_credit(&self, key: Key, wanted: usize) -> Option<usize> {
        let credit = self.wait_until(key, |under_way| {
            if under_way.is_gone {
                return Some(0);
            }
            let granted = under_way.credit.min(wanted);
            under_way.credit -= granted;
            (granted > 0).then_some(granted)
        });
        credit.filter(|granted| *granted > 0)
    }

    /// Takes the available credit, up to `wanted` bytes; `None`: the client has disconnected.
    pub fn take_credit(&self, key: Key, wanted: usize) -> Option<usize> {
        let mut state = self.lock();
        let under_way = state.under_way.get_mut(&key)?;
        if under_way.is_gone {
            return None;
        }
        let granted = under_way.credit.min(wanted);
        under_way.credit -= granted;
        Some(granted)
    }

    /// The request has ended.
    pub fn finish(&self, key: Key) {
        self.lock().under_way.remove(&key);
    }

    /// Requests in progress.
    pub fn under_way(&self) -> usize {
        let state = self.lock();
        state.under_way.len() + state.requests.len()
    }

    /// Checks requests that wait while all threads are busy; returns whether one more thread is needed.
    /// `is_moving`: a request was taken since the last check, so the waiting ones will be taken soon.
    pub fn needs_thread(&self, is_moving: bool) -> bool {
        let state = self.lock();
        // Frames in the rings wake a thread that sleeps. Requests that were already read from them do not:
        // the thread that has read them waits for an event of its own request.
        let waits = !state.requests.is_empty() || (!state.has_sleeper && state.links.has_frame());
        state.links.wake_cores(false);
        if !waits || is_moving {
            return false;
        }
        if state.waiting > 0 && !state.has_sleeper {
            self.waiting.notify_one();
        }
        if state.idle > 0 {
            self.idle.notify_one();
            return false;
        }
        true
    }

    /// Notifies the cores of answers, if they were not notified for a while or there is nothing else to do.
    pub fn wake_cores(&self, all: bool) {
        self.lock().links.wake_cores(all);
    }
}

impl State {
    fn take_request(&mut self, buffer: &mut Vec<u8>) -> Option<Request> {
        let key = loop {
            if let Some((key, payload)) = self.requests.pop_front() {
                // A client that has disconnected needs no answer.
                if self.under_way.get(&key).is_some_and(|under_way| !under_way.is_gone) {
                    *buffer = payload;
                    break key;
                }
                self.under_way.remove(&key);
                if let Some(out) = self.links.out(key.link) {
                    out.count_started();
                }
                continue;
            }
            let taken = self.links.take(buffer)?;
            if taken.kind == Kind::Request {
                self.under_way.insert(taken.key, RequestState::new());
                break taken.key;
            }
            let payload = std::mem::take(buffer);
            self.sort_in(taken, payload);
        };
        let out = self.links.out(key.link)?;
        out.count_started();
        Some(Request { key, out, more: !self.requests.is_empty() || self.links.has_frame() })
    }

    /// Stores a frame with its request.
    fn sort_in(&mut self, taken: ReceivedFrame, payload: Vec<u8>) {
        if taken.kind == Kind::Request {
            self.under_way.insert(taken.key, RequestState::new());
            self.requests.push_back((taken.key, payload));
            return;
        }
        // Frames for a request that has ended are dropped.
        let Some(under_way) = self.under_way.get_mut(&taken.key) else { return };
        match taken.kind {
            Kind::Body => under_way.body.push_back(payload),
            Kind::BodyEnd => under_way.body_end = Some(taken.flags & BROKEN != 0),
            Kind::Credit => under_way.credit += frame::number(&payload),
            Kind::Gone => under_way.is_gone = true,
            _ => {}
        }
    }
}

impl RequestState {
    fn new() -> RequestState {
        RequestState { credit: ANSWER_WINDOW, ..RequestState::default() }
    }

    /// The next piece of the body, or its end, if available.
    fn take_body(&mut self) -> Option<BodyRead> {
        match (self.body.pop_front(), self.body_end) {
            (Some(piece), _) => Some(BodyRead::Piece(piece)),
            (None, Some(true)) => Some(BodyRead::Broken),
            (None, Some(false)) => Some(BodyRead::End),
            (None, None) => self.is_gone.then_some(BodyRead::Broken),
        }
    }
}
