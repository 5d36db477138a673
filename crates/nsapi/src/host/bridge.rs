//! The bridge between a core and a worker. It passes the request's body to the worker and the answer to the
//! core, both in pieces and with limits.
//!
//! The worker may wait but the core must not, so the worker's end blocks and the core's end is a future.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::answer::Head;
use crate::connection::{AnswerHead, ClientDisconnected, Connection, RequestEnd};
use crate::functions::Function;

/// Bytes of an answer that are gathered before they are sent on.
const UNSENT_BYTES: usize = 32 * 1024;

/// The most pieces that wait in each direction.
const PIECES: usize = 4;

/// A message of a worker.
#[derive(Debug)]
pub enum Message {
    /// The head, the beginning of the body, and whether that is the whole body.
    Head(Head, Vec<u8>, bool),
    /// More of the body.
    Body(Vec<u8>),
    /// The worker requests the request's body; sent once. Until then another handler may still get the body.
    BodyRequested,
    /// The end.
    End(RequestEnd),
}

/// A piece of the request's body for a worker.
#[derive(Debug)]
pub enum Piece {
    /// Bytes of the body.
    Bytes(Bytes),
    /// The body is complete. If the channel is closed without this piece, the body broke off.
    End,
    /// The body broke off.
    Failed,
}

/// If a function does nothing for this time, the bytes that it has written are sent on.
const FLUSH_PAUSE: Duration = Duration::from_millis(20);

/// The longest time between two checks of the core whether something was written.
const LONGEST_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The worker's end.
pub struct WorkerEnd {
    messages: Sender<Message>,
    body: Option<Receiver<Piece>>,
    has_requested_body: bool,
    held: Bytes,
    state: Arc<BridgeState>,
}

/// The core's end.
pub struct CoreEnd {
    messages: Receiver<Message>,
    /// Takes the body to the worker, if there is one.
    pub body: Option<Sender<Piece>>,
    state: DisconnectOnDrop,
}

/// The state that both ends share.
#[derive(Default)]
struct BridgeState {
    /// The client has disconnected.
    is_gone: AtomicBool,
    /// The state of the job: [`WAITS`], [`RUNS`], [`ENDED`] or [`ABANDONED`].
    job_state: AtomicU8,
    /// Counts the steps of the functions: reads, writes, and the begin of each function.
    steps: AtomicUsize,
    /// A function waits for the client's body.
    reads: AtomicBool,
    /// The function that runs, or null.
    function: AtomicPtr<Function>,
    unsent: Mutex<UnsentBytes>,
}

/// The job is in the queue.
const WAITS: u8 = 0;
const RUNS: u8 = 1;
const ENDED: u8 = 2;
/// The core has answered without it.
const ABANDONED: u8 = 3;

/// The bytes that were written and not sent on yet.
#[derive(Default)]
struct UnsentBytes {
    head: Option<Head>,
    body: Vec<u8>,
}

impl UnsentBytes {
    /// The message that sends the bytes on, if there are any.
    fn take(&mut self, is_all: bool) -> Option<Message> {
        let body = std::mem::take(&mut self.body);
        match self.head.take() {
            Some(head) => Some(Message::Head(head, body, is_all)),
            None if body.is_empty() => None,
            None => Some(Message::Body(body)),
        }
    }
}

impl BridgeState {
    fn unsent(&self) -> MutexGuard<'_, UnsentBytes> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    fn change_job_state(&self, from: u8, to: u8) -> bool {
        self.job_state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Marks the client as disconnected when it is dropped.
struct DisconnectOnDrop(Arc<BridgeState>);

impl Drop for DisconnectOnDrop {
    fn drop(&mut self) {
        self.0.is_gone.store(true, Ordering::Release);
    }
}

/// An event for a core that waits for a worker.
#[derive(Debug)]
pub enum Event {
    /// A message; `None`: the worker's end was dropped.
    Message(Option<Message>),
    /// No worker has taken the job within the time limit.
    NoWorker,
    /// The function has neither ended nor read nor written within the time limit.
    Hangs,
}

/// Makes both ends, for a request with or without a body.
pub fn bridge(has_body: bool) -> (WorkerEnd, CoreEnd) {
    let (messages, received) = channel(PIECES);
    let (to_worker, body) = channel(PIECES);
    let state: Arc<BridgeState> = Arc::default();
    let worker = WorkerEnd {
        messages,
        body: has_body.then_some(body),
        has_requested_body: false,
        held: Bytes::new(),
        state: state.clone(),
    };
    (
        worker,
        CoreEnd { messages: received, body: has_body.then_some(to_worker), state: DisconnectOnDrop(state) },
    )
}

impl CoreEnd {
    /// Waits for the next event. If the worker has done nothing for a short time, the bytes that it has
    /// gathered are taken from it. A limit of zero means no limit.
    pub async fn next(&mut self, limit: Duration) -> Event {
        let state = self.state.0.clone();
        let mut wait = FLUSH_PAUSE;
        let mut since = Instant::now();
        let mut steps = state.steps.load(Ordering::Relaxed);
        loop {
            if let Ok(message) = tokio::time::timeout(wait, self.messages.recv()).await {
                return Event::Message(message);
            }
            let now = state.steps.load(Ordering::Relaxed);
            if now != steps || state.reads.load(Ordering::Relaxed) {
                (steps, since, wait) = (now, Instant::now(), FLUSH_PAUSE);
                continue;
            }
            if let Some(message) = self.take_unsent() {
                return Event::Message(Some(message));
            }
            wait = (wait * 2).min(LONGEST_CHECK_INTERVAL);
            if limit.is_zero() || since.elapsed() < limit {
                continue;
            }
            if state.change_job_state(WAITS, ABANDONED) {
                return Event::NoWorker;
            }
            if state.change_job_state(RUNS, ABANDONED) {
                return Event::Hangs;
            }
        }
    }

    /// Takes the bytes that the worker has gathered. A message that it has sent before goes first.
    fn take_unsent(&mut self) -> Option<Message> {
        // The worker cannot write while this lock is held, so messages in the channel were written before.
        let mut unsent = self.state.0.unsent();
        self.messages.try_recv().ok().or_else(|| unsent.take(false))
    }

    /// The function that runs, with its plug-in, for the log.
    pub fn running(&self) -> String {
        let function = self.state.0.function.load(Ordering::Acquire);
        // SAFETY: functions are never freed.
        match unsafe { function.as_ref() } {
            Some(function) => function.to_string(),
            None => "a function".to_string(),
        }
    }

    /// Passes the request's body to the worker as fast as the worker reads it.
    pub fn send_body(&mut self, body: touchstone_handler::pipe::Receiver) {
        if let Some(to_worker) = self.body.take() {
            tokio::task::spawn_local(send_body(body, to_worker));
        }
    }
}

async fn send_body(mut body: touchstone_handler::pipe::Receiver, to_worker: Sender<Piece>) {
    // More is requested from the client only when the worker has taken the earlier pieces.
    while let Ok(place) = to_worker.reserve().await {
        match body.next().await {
            Some(Ok(bytes)) => place.send(Piece::Bytes(bytes)),
            Some(Err(_)) => return place.send(Piece::Failed),
            None => return place.send(Piece::End),
        }
    }
}

impl WorkerEnd {
    /// Called when a worker has taken the job. Returns false if the core has abandoned it.
    pub fn begin(&self) -> bool {
        self.state.step();
        self.state.change_job_state(WAITS, RUNS) && !self.state.is_gone()
    }

    fn send(&mut self, message: Message) -> Result<(), ClientDisconnected> {
        self.messages.blocking_send(message).map_err(|_| ClientDisconnected)
    }

    fn send_unsent(&mut self, is_all: bool) -> Result<(), ClientDisconnected> {
        let message = self.state.unsent().take(is_all);
        message.map_or(Ok(()), |message| self.send(message))
    }

    /// Continues an answer that was started on the core.
    pub fn resume(&mut self, head: Option<Head>, body: Vec<u8>) {
        *self.state.unsent() = UnsentBytes { head, body };
    }

    /// Begins the answer with a head that was made already.
    pub fn start_with(&mut self, head: Head) -> Result<(), ClientDisconnected> {
        self.state.step();
        self.state.unsent().head = Some(head);
        if self.is_alive() { Ok(()) } else { Err(ClientDisconnected) }
    }

    /// Called when the function has failed. Bytes that were not sent on are dropped, so that the client can
    /// get an error instead.
    pub fn abandon(&mut self) {
        *self.state.unsent() = UnsentBytes::default();
        // The core's end may have been dropped.
        let _ = self.send(Message::End(RequestEnd::Close));
    }

    /// Called when the worker has finished the job. Returns false if the core had abandoned it.
    pub fn end(self) -> bool {
        self.state.change_job_state(RUNS, ENDED)
    }

    /// Reports how the request ended.
    pub fn finish(&mut self, request_end: RequestEnd) {
        let is_all = request_end == RequestEnd::Answered;
        if self.send_unsent(is_all).is_ok() {
            // The core's end may have been dropped.
            let _ = self.send(Message::End(request_end));
        }
    }
}

impl Connection for WorkerEnd {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, ClientDisconnected> {
        if self.held.is_empty() {
            if self.body.is_some() && !self.has_requested_body {
                self.has_requested_body = true;
                // A plug-in may write a part of the answer before it reads. That part is sent first.
                self.send(Message::BodyRequested)?;
            }
            let Some(body) = &mut self.body else { return Ok(0) };
            self.state.reads.store(true, Ordering::Relaxed);
            let piece = body.blocking_recv();
            self.state.reads.store(false, Ordering::Relaxed);
            self.state.step();
            match piece {
                Some(Piece::Bytes(bytes)) => self.held = bytes,
                Some(Piece::End) => {
                    self.body = None;
                    return Ok(0);
                }
                Some(Piece::Failed) | None => return Err(ClientDisconnected),
            }
        }
        let read = self.held.len().min(to.len());
        to[..read].copy_from_slice(&self.held.split_to(read));
        Ok(read)
    }

    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), ClientDisconnected> {
        self.state.step();
        self.state.unsent().head = Some(Head::of(head));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientDisconnected> {
        if self.state.is_gone() {
            return Err(ClientDisconnected);
        }
        self.state.step();
        let unsent_bytes = {
            let mut unsent = self.state.unsent();
            unsent.body.extend_from_slice(bytes);
            unsent.body.len()
        };
        if unsent_bytes >= UNSENT_BYTES { self.send_unsent(false) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ClientDisconnected> {
        self.state.step();
        self.send_unsent(false)
    }

    fn is_alive(&self) -> bool {
        !self.state.is_gone()
    }

    fn break_off(&mut self) {
        self.abandon();
    }

    fn runs(&mut self, function: &'static Function) {
        self.state.step();
        self.state.function.store(ptr::from_ref(function).cast_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: Duration = Duration::ZERO;
    const LIMIT: Duration = Duration::from_millis(1);

    fn head() -> Head {
        Head { status: 200, ..Head::default() }
    }

    fn on_core<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn written_bytes_are_taken_while_the_function_pauses() {
        let (mut worker, mut core) = bridge(false);
        assert!(worker.begin());
        worker.start_with(head()).unwrap();
        worker.write(b"one").unwrap();
        on_core(async {
            let Event::Message(Some(Message::Head(_, body, false))) = core.next(NO_LIMIT).await else {
                panic!("no head")
            };
            assert_eq!(body, b"one");
            worker.write(b"two").unwrap();
            let Event::Message(Some(Message::Body(body))) = core.next(NO_LIMIT).await else {
                panic!("no body")
            };
            assert_eq!(body, b"two");
        });
        // A message in the channel goes before bytes that were gathered after it.
        let big = vec![b'x'; UNSENT_BYTES];
        worker.write(&big).unwrap();
        worker.write(b"end").unwrap();
        assert!(matches!(core.take_unsent(), Some(Message::Body(body)) if body == big));
        assert!(matches!(core.take_unsent(), Some(Message::Body(body)) if body == b"end"));
        assert!(core.take_unsent().is_none());
        assert!(worker.end());
    }

    #[test]
    fn a_job_that_nothing_takes_and_a_function_that_hangs_are_given_up() {
        let (worker, mut core) = bridge(false);
        assert!(matches!(on_core(core.next(LIMIT)), Event::NoWorker));
        assert!(!worker.begin());

        let (worker, mut core) = bridge(false);
        assert!(worker.begin());
        assert!(matches!(on_core(core.next(LIMIT)), Event::Hangs));
        assert!(!worker.end());
    }

    #[test]
    fn a_disconnected_client_is_noticed() {
        let (mut worker, core) = bridge(true);
        drop(core);
        assert!(!worker.is_alive() && !worker.begin());
        assert_eq!(worker.write(b"x"), Err(ClientDisconnected));
    }

    #[test]
    fn a_body_ends_only_where_its_end_was_sent() {
        let (mut worker, mut core) = bridge(true);
        let to_worker = core.body.take().unwrap();
        to_worker.try_send(Piece::Bytes(Bytes::from_static(b"hel"))).unwrap();
        to_worker.try_send(Piece::End).unwrap();
        let mut read = [0; 8];
        assert_eq!(worker.read(&mut read), Ok(3));
        assert_eq!((worker.read(&mut read), worker.read(&mut read)), (Ok(0), Ok(0)));

        // The core's end is dropped piece by piece: the sender of the body before the mark of the client.
        let (mut worker, mut core) = bridge(true);
        drop(core.body.take());
        assert_eq!(worker.read(&mut read), Err(ClientDisconnected));
    }
}
