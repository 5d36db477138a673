//! A shared fetch: a response that is being fetched, for all requests that wait for it, on any core.
//!
//! The task that fetches it adds its head and the pieces of its body. Each reader receives them as they
//! arrive, from its own position. The lock is held only while one item is added or taken.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use touchstone_handler::pipe::wake;

use crate::rules::reuse::is_origin_error;
use crate::rules::storing::Terms;
use crate::store::Object;
use crate::store::lock;

/// The maximum number of bytes of a response that wait for its slowest reader, if it will not be stored.
const WINDOW_BYTES: usize = 1024 * 1024;

/// The shared fetches that other requests may join.
#[derive(Default)]
pub struct SharedFetches {
    by_key: Mutex<HashMap<Box<[u8]>, Arc<SharedFetch>>>,
}

/// The head of a response that can be stored.
#[derive(Debug)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Its field lines as they are stored.
    pub fields: Vec<u8>,
    /// The request fields that select it.
    pub selector: Vec<u8>,
    /// The terms of its reuse.
    pub terms: Terms,
    /// The length of its body, if known.
    pub length: Option<u64>,
}

/// The state of a shared fetch.
#[derive(Debug, Clone)]
pub enum Phase {
    /// The head has not arrived yet.
    Waiting,
    /// The response is for all requests, and its body is arriving.
    Streaming(Arc<Head>),
    /// The response was stored, or the stored one was validated.
    Ready {
        /// The response.
        object: Arc<Object>,
        /// The stored response was validated.
        is_validated: bool,
        /// Other requests may use it too.
        is_shared: bool,
    },
    /// The response is only for the request for which it was fetched.
    NotShared {
        /// The status of an answer; `None`: the handler sends the request to the origin.
        status: Option<u16>,
    },
    /// The fetch has ended without a response.
    Failed,
}

impl Phase {
    /// The status with which the origin has failed; without a response 502 (RFC 9110 section 15.6.3).
    pub fn failure(&self) -> Option<u16> {
        match self {
            Phase::NotShared { status } => status.filter(|status| is_origin_error(*status)),
            Phase::Failed => Some(502),
            _ => None,
        }
    }
}

/// A response that is being fetched.
pub struct SharedFetch {
    /// The key by which it is found; empty: no other request may join it.
    key: Box<[u8]>,
    /// The number of purges when its request was sent; not set: it has not been sent yet.
    purge_count: OnceLock<u64>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    pieces: VecDeque<Bytes>,
    /// The trailers.
    trailers: Bytes,
    /// The number of pieces that were dropped at the front.
    dropped: usize,
    held_bytes: usize,
    /// `Some`: the body has ended. `true`: it is complete; `false`: it broke off.
    end: Option<bool>,
    /// It is too long to be stored. Pieces are dropped when all readers have read them, and no request may
    /// join.
    passes_through: bool,
    readers: Vec<Option<ReaderPosition>>,
    fetcher: Option<Waker>,
}

/// The position of a reader.
struct ReaderPosition {
    next: usize,
    waker: Option<Waker>,
}

/// A reader of a shared fetch. Dropping it ends its waiting.
pub struct Reader {
    shared_fetch: Arc<SharedFetch>,
    index: usize,
}

impl SharedFetches {
    /// Joins the shared fetch with this key. If there is none, the caller must fetch the response.
    /// `is_outdated` gets a number of purges and returns whether a later purge applies to the response: a
    /// request after a purge does not wait for a response that was requested before it.
    pub fn join(&self, key: &[u8], is_outdated: impl Fn(u64) -> bool) -> JoinResult {
        let mut by_key = lock(&self.by_key);
        if let Some(shared_fetch) = by_key.get(key)
            && !shared_fetch.purge_count.get().is_some_and(|count| is_outdated(*count))
            && let Some(reader) = shared_fetch.read(true)
        {
            return JoinResult::Other(reader);
        }
        let shared_fetch = SharedFetch::new(key);
        by_key.insert(key.into(), shared_fetch.clone());
        JoinResult::Own(shared_fetch)
    }

    /// Removes a shared fetch if it has no readers. Returns false if a reader has joined.
    pub fn leave_if_abandoned(&self, shared_fetch: &Arc<SharedFetch>) -> bool {
        // `join` holds the same lock.
        let mut by_key = lock(&self.by_key);
        if lock(&shared_fetch.state).readers.iter().any(Option::is_some) {
            return false;
        }
        if by_key.get(&shared_fetch.key).is_some_and(|other| Arc::ptr_eq(other, shared_fetch)) {
            by_key.remove(&shared_fetch.key);
        }
        true
    }

    /// Removes a shared fetch, so that no request can join it any more.
    pub fn leave(&self, shared_fetch: &Arc<SharedFetch>) {
        let mut by_key = lock(&self.by_key);
        if by_key.get(&shared_fetch.key).is_some_and(|other| Arc::ptr_eq(other, shared_fetch)) {
            by_key.remove(&shared_fetch.key);
        }
    }
}

/// The result of [`SharedFetches::join`].
pub enum JoinResult {
    /// A reader of the shared fetch of another request.
    Other(Reader),
    /// A new shared fetch, whose response the caller must fetch.
    Own(Arc<SharedFetch>),
}

impl SharedFetch {
    /// A shared fetch with this key. With an empty key no other request can join it.
    pub fn new(key: &[u8]) -> Arc<SharedFetch> {
        Arc::new(SharedFetch {
            key: key.into(),
            purge_count: OnceLock::new(),
            state: Mutex::new(State {
                phase: Phase::Waiting,
                pieces: VecDeque::new(),
                trailers: Bytes::new(),
                dropped: 0,
                held_bytes: 0,
                end: None,
                passes_through: false,
                readers: Vec::new(),
                fetcher: None,
            }),
        })
    }

    /// Records the number of purges when its request is sent.
    pub fn begin(&self, purge_count: u64) {
        let _ = self.purge_count.set(purge_count);
    }

    /// A reader from the beginning. `None` if another request `joins` and the beginning is not available any
    /// more.
    pub fn read(self: &Arc<SharedFetch>, joins: bool) -> Option<Reader> {
        let mut state = lock(&self.state);
        if joins && (state.passes_through || state.end == Some(false)) {
            return None;
        }
        let position = Some(ReaderPosition { next: 0, waker: None });
        let index = match state.readers.iter().position(Option::is_none) {
            Some(free) => {
                state.readers[free] = position;
                free
            }
            None => {
                state.readers.push(position);
                state.readers.len() - 1
            }
        };
        Some(Reader { shared_fetch: self.clone(), index })
    }

    /// Sets its state.
    pub fn set_phase(&self, phase: Phase) {
        let wakers = {
            let mut state = lock(&self.state);
            state.phase = phase;
            state.take_wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Adds a piece of the body.
    pub fn push(&self, piece: Bytes) {
        let wakers = {
            let mut state = lock(&self.state);
            state.held_bytes += piece.len();
            state.pieces.push_back(piece);
            state.drop_read();
            state.take_wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sets the trailers, before the body is finished.
    pub fn set_trailers(&self, trailers: Vec<u8>) {
        lock(&self.state).trailers = trailers.into();
    }

    /// The trailers, once the body has ended.
    pub fn trailers(&self) -> Bytes {
        lock(&self.state).trailers.clone()
    }

    /// Wakes all readers, for events that are not part of the response.
    pub fn wake_readers(&self) {
        let wakers = lock(&self.state).take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the body. `is_proper`: it is complete.
    pub fn finish(&self, is_proper: bool) {
        let wakers = {
            let mut state = lock(&self.state);
            state.end.get_or_insert(is_proper);
            state.take_wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The pieces that have arrived, for the store.
    pub fn pieces(&self) -> Vec<Bytes> {
        lock(&self.state).pieces.iter().cloned().collect()
    }

    /// Called when it will not be stored. From now on only the pieces that its readers need are kept.
    pub fn pass(&self) {
        let mut state = lock(&self.state);
        state.passes_through = true;
        state.drop_read();
    }

    /// Waits until it has no readers.
    pub async fn abandoned(&self) {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if state.readers.iter().all(Option::is_none) {
                return Poll::Ready(());
            }
            state.fetcher = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until there is room for more, if it is not stored. Returns false if it has no readers.
    pub async fn room(&self) -> bool {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if !state.passes_through {
                return Poll::Ready(true);
            }
            if state.readers.iter().all(Option::is_none) {
                return Poll::Ready(false);
            }
            if state.held_bytes < WINDOW_BYTES {
                return Poll::Ready(true);
            }
            state.fetcher = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl State {
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.readers.iter_mut().flatten().filter_map(|position| position.waker.take()).collect()
    }

    /// Drops the pieces that all readers have read, if it is not stored.
    fn drop_read(&mut self) {
        if !self.passes_through {
            return;
        }
        let slowest = self.readers.iter().flatten().map(|position| position.next).min();
        let slowest = slowest.unwrap_or(usize::MAX);
        while self.dropped < slowest
            && let Some(piece) = self.pieces.pop_front()
        {
            self.held_bytes -= piece.len();
            self.dropped += 1;
        }
    }
}

impl Reader {
    /// Waits for the head, and returns the state of the shared fetch.
    pub async fn head(&mut self) -> Phase {
        poll_fn(|context| {
            let mut state = lock(&self.shared_fetch.state);
            if !matches!(state.phase, Phase::Waiting) {
                return Poll::Ready(state.phase.clone());
            }
            if state.end.is_some() {
                return Poll::Ready(Phase::Failed);
            }
            self.wait(&mut state, context);
            Poll::Pending
        })
        .await
    }

    /// The next piece of the body; `None`: its end. The error: it broke off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, IncompleteResponse> {
        poll_fn(|context| {
            let mut state = lock(&self.shared_fetch.state);
            let Some(position) = state.readers.get(self.index).and_then(Option::as_ref) else {
                return Poll::Ready(Err(IncompleteResponse));
            };
            let next = position.next;
            if let Some(piece) = state.pieces.get(next - state.dropped).cloned() {
                if let Some(position) = &mut state.readers[self.index] {
                    position.next += 1;
                }
                state.drop_read();
                wake(&mut state.fetcher);
                return Poll::Ready(Ok(Some(piece)));
            }
            match state.end {
                Some(true) => return Poll::Ready(Ok(None)),
                Some(false) => return Poll::Ready(Err(IncompleteResponse)),
                None => {}
            }
            self.wait(&mut state, context);
            Poll::Pending
        })
        .await
    }

    /// The trailers, once the end of the body was read.
    pub fn trailers(&self) -> Bytes {
        self.shared_fetch.trailers()
    }

    fn wait(&self, state: &mut State, context: &mut Context<'_>) {
        if let Some(Some(position)) = state.readers.get_mut(self.index) {
            position.waker = Some(context.waker().clone());
        }
    }
}

/// The response broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompleteResponse;

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.shared_fetch.state);
        state.readers[self.index] = None;
        state.drop_read();
        wake(&mut state.fetcher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn head() -> Arc<Head> {
        let terms = Terms::default();
        Arc::new(Head { status: 200, fields: Vec::new(), selector: Vec::new(), terms, length: None })
    }

    #[test]
    fn every_reader_gets_the_whole_body_at_any_time() {
        let shared_fetches = SharedFetches::default();
        let JoinResult::Own(shared_fetch) = shared_fetches.join(b"a", |_| false) else {
            panic!("joined another fetch")
        };
        let mut first = shared_fetch.read(false).unwrap();
        assert!(poll_once(first.head()).is_pending());
        shared_fetch.set_phase(Phase::Streaming(head()));
        shared_fetch.push(Bytes::from_static(b"1"));
        assert!(matches!(poll_once(first.head()), Poll::Ready(Phase::Streaming(_))));
        assert_eq!(poll_once(first.next()), Poll::Ready(Ok(Some(Bytes::from_static(b"1")))));
        assert!(poll_once(first.next()).is_pending());
        let JoinResult::Other(mut second) = shared_fetches.join(b"a", |_| false) else {
            panic!("not joined")
        };
        shared_fetch.push(Bytes::from_static(b"2"));
        shared_fetch.finish(true);
        for expected in [&b"1"[..], b"2"] {
            let piece = Bytes::from_static(expected);
            assert_eq!(poll_once(second.next()), Poll::Ready(Ok(Some(piece))));
        }
        assert_eq!(poll_once(second.next()), Poll::Ready(Ok(None)));
        shared_fetches.leave(&shared_fetch);
        assert!(matches!(shared_fetches.join(b"a", |_| false), JoinResult::Own(_)));
    }

    #[test]
    fn who_comes_after_a_purge_waits_for_nothing_older() {
        let shared_fetches = SharedFetches::default();
        let JoinResult::Own(older) = shared_fetches.join(b"a", |_| true) else {
            panic!("joined another fetch")
        };
        let _reader = older.read(false).unwrap();
        // A request that has not been sent yet is sent after the purge.
        assert!(matches!(shared_fetches.join(b"a", |count| count < 2), JoinResult::Other(_)));
        older.begin(1);
        let JoinResult::Own(newer) = shared_fetches.join(b"a", |count| count < 2) else { panic!("joined") };
        newer.begin(2);
        shared_fetches.leave(&older);
        assert!(matches!(shared_fetches.join(b"a", |count| count < 2), JoinResult::Other(_)));
    }

    #[test]
    fn the_last_who_leaves_is_noticed() {
        let shared_fetch = SharedFetch::new(b"");
        let (one, other) = (shared_fetch.read(false), shared_fetch.read(false));
        drop(one);
        assert!(poll_once(shared_fetch.abandoned()).is_pending());
        drop(other);
        assert!(poll_once(shared_fetch.abandoned()).is_ready());
    }

    #[test]
    fn what_is_not_stored_waits_for_the_slowest_and_is_kept_no_longer() {
        let shared_fetch = SharedFetch::new(b"");
        let (mut fast, mut slow) = (shared_fetch.read(false).unwrap(), shared_fetch.read(false).unwrap());
        shared_fetch.push(Bytes::from(vec![0; WINDOW_BYTES]));
        shared_fetch.pass();
        assert!(shared_fetch.read(true).is_none());
        assert!(poll_once(fast.next()).is_ready());
        assert!(poll_once(shared_fetch.room()).is_pending());
        assert!(poll_once(slow.next()).is_ready());
        assert_eq!(poll_once(shared_fetch.room()), Poll::Ready(true));
        assert!(shared_fetch.pieces().is_empty());
        drop((fast, slow));
        assert_eq!(poll_once(shared_fetch.room()), Poll::Ready(false));
    }
}
