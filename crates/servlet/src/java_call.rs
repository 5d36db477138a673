//! The state of one request and its answer, which a core and a Java thread share. Java itself is called by
//! `java_thread` and `caller`.
//!
//! Java's side may wait for room or for more of the request's body. The core's side never waits. It is woken
//! through its [`CoreQueue`], so that many answers wake it once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use touchstone_handler::handler::ConnectionReturn;

use crate::call_durations::PathKey;
use crate::core_queue::{CoreEvent, CoreQueue};
use crate::head::{Fault, Head, Piece};

/// Bytes of an answer that wait for the client before Java must wait.
const UNSENT_BYTES: usize = 256 * 1024;

/// Bytes of a request's body that wait for Java before the client must wait.
const BODY_BYTES: usize = 64 * 1024;

/// The most interim responses that wait to be sent. Further ones are dropped; a client may ignore any of
/// them.
const MOST_INTERIM: usize = 16;

/// The client has disconnected, or its body broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientDisconnected;

/// An event for an asynchronous request. The numbers are those of `Host.event`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// More of the body has arrived, or its end.
    Readable = 0,
    /// There is room again.
    Writable = 1,
    /// The client has disconnected.
    ClientGone = 2,
}

/// The threads of a route on which Java runs.
pub trait Threads: Send + Sync {
    /// The number of the route.
    fn route(&self) -> i32;

    /// Passes an event of the request with this slab and number to Java.
    fn post(self: Arc<Self>, slab: i32, number: i32, event: Event);

    /// A call on the thread of its connection had its neighbours move.
    fn note_moved(&self, path: PathKey);

    /// Wakes the monitor, because there may be work.
    fn kick_monitor(&self);
}

/// How an answer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// It is complete.
    Whole,
    /// It broke off.
    Broken,
    /// The application cannot be used.
    Unavailable,
}

/// The part of an answer that the core takes.
#[derive(Debug, Default)]
pub struct Output {
    /// The head, in the first part.
    pub head: Option<Head>,
    /// Pieces of the body.
    pub pieces: VecDeque<Vec<u8>>,
    /// How it has ended.
    pub end: Option<AnswerEnd>,
    /// Field lines of interim responses 103 (RFC 8297), which are sent before the head.
    pub early_hints: Vec<Vec<u8>>,
    /// The trailers (RFC 9110 section 6.5), once the body has ended.
    pub trailers: Vec<u8>,
}

impl Output {
    fn is_empty(&self) -> bool {
        self.head.is_none() && self.pieces.is_empty() && self.end.is_none() && self.early_hints.is_empty()
    }
}

/// A request that is being answered.
pub struct JavaCall {
    /// The threads on which Java runs; `None` if Java runs in another process.
    threads: Option<Arc<dyn Threads>>,
    /// The key of its path, for which the durations of calls are stored.
    path: PathKey,
    /// The time at which it began.
    since: Instant,
    state: Mutex<State>,
    /// Java's threads wait for this.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The queue of its core; `None` while it is called on the thread of its connection.
    core: Option<Arc<CoreQueue>>,
    /// Set while it is called on the thread of its connection. The connection must return to its core before
    /// the core gets any output.
    connection_return: Option<Arc<dyn ConnectionReturn>>,
    output: Output,
    unsent_bytes: usize,
    body: VecDeque<Bytes>,
    body_bytes: usize,
    body_end: Option<Result<(), ClientDisconnected>>,
    /// The trailers of the request's body.
    body_trailers: Vec<u8>,
    /// Java requests the body.
    is_body_requested: bool,
    client_has_disconnected: bool,
    has_ended: bool,
    /// Its slab and its number in Java.
    place: Option<(i32, i32)>,
    is_async: bool,
    /// The answer is complete while the call continues. It has this many bytes of the slab's output.
    complete_bytes: Option<usize>,
    needs_read_event: bool,
    needs_write_event: bool,
    /// It is in the core's queue.
    is_announced: bool,
    answer_waker: Option<Waker>,
    body_waker: Option<Waker>,
}

impl State {
    fn called(connection_return: Arc<dyn ConnectionReturn>) -> State {
        State {
            connection_return: Some(connection_return),
            body_end: Some(Ok(())),
            is_body_requested: true,
            ..State::default()
        }
    }
}

impl JavaCall {
    /// A request for the threads of a route. If the client waits for `100 Continue`, the body is not read
    /// before Java requests it.
    pub fn new(
        core: Arc<CoreQueue>,
        threads: Option<Arc<dyn Threads>>,
        path: PathKey,
        has_body: bool,
        is_body_requested: bool,
    ) -> Arc<JavaCall> {
        let body_end = if has_body { None } else { Some(Ok(())) };
        let state = State { core: Some(core), body_end, is_body_requested, ..State::default() };
        Arc::new(JavaCall {
            threads,
            path,
            since: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// A request without a body, for a call on the thread of its connection.
    pub fn called(
        threads: Arc<dyn Threads>,
        path: PathKey,
        connection_return: Arc<dyn ConnectionReturn>,
    ) -> Arc<JavaCall> {
        let state = Mutex::new(State::called(connection_return));
        Arc::new(JavaCall {
            threads: Some(threads),
            path,
            since: Instant::now(),
            state,
            changed: Condvar::new(),
        })
    }

    /// Turns an ended call into another such request of the same pool.
    pub fn become_called(&mut self, path: PathKey, connection_return: Arc<dyn ConnectionReturn>) {
        self.path = path;
        self.since = Instant::now();
        *self.state.get_mut().unwrap_or_else(PoisonError::into_inner) = State::called(connection_return);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Informs the core that there is output, now or together with the next one.
    fn announce(self: &Arc<Self>, mut state: MutexGuard<'_, State>, now: bool) {
        self.send_back(&mut state);
        let Some(core) = state.core.clone() else { return };
        let is_new = !std::mem::replace(&mut state.is_announced, true);
        drop(state);
        if is_new {
            core.push(self.clone());
        }
        if now {
            core.wake();
        }
    }

    /// Sends the connection back to its core, if that was not done yet. It finds the output there.
    fn send_back(self: &Arc<Self>, state: &mut State) {
        if let Some(connection_return) = state.connection_return.take() {
            if let Some(threads) = &self.threads {
                threads.note_moved(self.path);
            }
            connection_return.return_connection(Box::new(self.clone()));
        }
    }

    fn post(self: &Arc<Self>, state: &State, event: Event) {
        if let (Some((slab, number)), Some(threads)) = (state.place, &self.threads) {
            threads.clone().post(slab, number, event);
        }
    }

    // --- The core's side.

    /// Sets the core that waits for the answer of a running call.
    pub fn adopt(&self, core: &Arc<CoreQueue>) {
        self.lock().core = Some(core.clone());
    }

    /// Takes what Java has written since the last call. It counts as sent.
    pub fn poll_output(self: &Arc<Self>, context: &mut Context<'_>) -> Poll<Output> {
        let mut state = self.lock();
        if state.output.is_empty() {
            state.answer_waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let mut output = std::mem::take(&mut state.output);
        if output.end.is_none() {
            // Trailers stay here until the end, even if Java sets them early.
            state.output.trailers = std::mem::take(&mut output.trailers);
        }
        let was_full = state.unsent_bytes >= UNSENT_BYTES;
        state.unsent_bytes = 0;
        if std::mem::replace(&mut state.needs_write_event, false) {
            self.post(&state, Event::Writable);
        }
        drop(state);
        if was_full {
            self.changed.notify_all();
        }
        Poll::Ready(output)
    }

    /// Ready with true when there is room for more of the body and Java requests it; ready with false when
    /// the body is not needed any more.
    pub fn poll_body_requested(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        if state.client_has_disconnected || state.has_ended || state.body_end.is_some() {
            return Poll::Ready(false);
        }
        if state.is_body_requested && state.body_bytes < BODY_BYTES {
            return Poll::Ready(true);
        }
        state.body_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when Java has ended its answer.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.has_ended || state.client_has_disconnected {
            return Poll::Ready(());
        }
        state.body_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Notes that a part of the body will arrive. No more is sent before Java requests more again.
    pub fn is_served(&self) {
        self.lock().is_body_requested = false;
    }

    /// Adds a piece of the body.
    pub fn push_body(self: &Arc<Self>, piece: Bytes) {
        let mut state = self.lock();
        state.body_bytes += piece.len();
        state.body.push_back(piece);
        self.body_has_changed(state);
    }

    /// Ends the body, with its trailers.
    pub fn end_body(self: &Arc<Self>, end: Result<Vec<u8>, ClientDisconnected>) {
        let mut state = self.lock();
        if state.body_end.is_none() {
            state.body_end = Some(end.map(|trailers| state.body_trailers = trailers));
            self.body_has_changed(state);
        }
    }

    fn body_has_changed(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.needs_read_event, false) {
            self.post(&state, Event::Readable);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Called when the client has disconnected, or has received its whole answer.
    pub fn note_client_end(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.client_has_disconnected || state.has_ended {
            return;
        }
        state.client_has_disconnected = true;
        if state.is_async {
            self.post(&state, Event::ClientGone);
        }
        drop(state);
        self.changed.notify_all();
    }

    // --- Java's side.

    /// The queue of its core.
    pub fn core(&self) -> Option<Arc<CoreQueue>> {
        self.lock().core.clone()
    }

    /// The time at which it began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Its path.
    pub fn path(&self) -> PathKey {
        self.path
    }

    /// Called when the call of this number takes long. Its connection returns to its core, with the answer if
    /// that is complete. `written` returns the given number of bytes that Java has written. Returns false if
    /// the connection has already returned, or the call has ended.
    pub fn handle_long_call<'a>(
        self: &Arc<Self>,
        number: i32,
        written: impl FnOnce(usize) -> Result<Piece<'a>, Fault>,
    ) -> bool {
        let mut state = self.lock();
        let is_it = state.connection_return.is_some() && state.place.is_some_and(|(_, now)| now == number);
        if is_it {
            self.send_back(&mut state);
            if let Some(Ok(piece)) = state.complete_bytes.map(written) {
                self.handle_complete(state, piece);
            }
        }
        is_it
    }

    /// Called when the answer is complete, in the first bytes of the slab's output, while the call continues.
    /// The client gets it now. On the thread of a connection the monitor does this, so that calls that return
    /// at once need no extra work.
    pub fn complete(self: &Arc<Self>, piece: Piece<'_>, bytes: usize) {
        let mut state = self.lock();
        if state.has_ended {
            return;
        }
        if state.connection_return.is_some() {
            state.complete_bytes = Some(bytes);
        } else {
            self.handle_complete(state, piece);
        }
    }

    fn handle_complete(self: &Arc<Self>, mut state: MutexGuard<'_, State>, piece: Piece<'_>) {
        state.has_ended = true;
        take_in(&mut state, piece, Vec::new());
        state.output.end = Some(AnswerEnd::Whole);
        self.announce(state, false);
        if let Some(threads) = &self.threads {
            // Most calls return soon, and their thread wakes the core then.
            threads.kick_monitor();
        }
    }

    /// Called when it must wait for its application. It is in no call during the wait.
    pub fn wait_for_application(self: &Arc<Self>) {
        let mut state = self.lock();
        state.place = None;
        self.send_back(&mut state);
    }

    /// Called when the call has ended on the thread of its connection. Returns false if the connection has
    /// returned to its core, which must be notified of the end.
    pub fn end_direct_call(&self) -> bool {
        let mut state = self.lock();
        let end_direct_call = state.connection_return.take().is_some();
        if end_direct_call {
            state.place = None;
            state.has_ended = true;
        }
        end_direct_call
    }

    /// The number of its route.
    pub fn route(&self) -> i32 {
        self.threads.as_ref().map_or(0, |threads| threads.route())
    }

    /// Whether no client waits for the answer any more.
    pub fn has_no_client(&self) -> bool {
        self.lock().client_has_disconnected
    }

    /// Called when Java gets it.
    pub fn enter(&self, slab: i32, number: i32) {
        self.lock().place = Some((slab, number));
    }

    /// Called when Java has returned and will end it later.
    pub fn becomes_async(self: &Arc<Self>) {
        let mut state = self.lock();
        self.send_back(&mut state);
        state.is_async = true;
        if state.client_has_disconnected {
            self.post(&state, Event::ClientGone);
        }
    }

    /// Ends the answer, with its last piece. `now`: wakes the core at once.
    pub fn finish(self: &Arc<Self>, piece: Option<Piece<'_>>, end: AnswerEnd, now: bool) {
        self.finish_into(piece, end, now, Vec::new());
    }

    /// The same, with a buffer for the last piece: the memory of the request, so that the core frees memory
    /// that it has allocated itself.
    pub fn finish_into(
        self: &Arc<Self>,
        piece: Option<Piece<'_>>,
        end: AnswerEnd,
        now: bool,
        buffer: Vec<u8>,
    ) {
        let mut state = self.lock();
        state.place = None;
        if std::mem::replace(&mut state.has_ended, true) {
            // It was cut off, and the rest of the answer is dropped.
            return;
        }
        match piece {
            Some(piece) => {
                take_in(&mut state, piece, buffer);
                state.output.end = Some(end);
            }
            None => {
                state.output.end = Some(if end == AnswerEnd::Unavailable { end } else { AnswerEnd::Broken })
            }
        }
        self.announce(state, now);
    }

    /// Cuts it off: the client gets no more of the answer, and Java can neither write nor read any more.
    pub fn cut(self: &Arc<Self>) {
        self.note_client_end();
        self.finish(None, AnswerEnd::Broken, true);
    }

    /// Writes a piece of the answer. If it may wait, it waits while too many bytes were not sent yet.
    pub fn write(self: &Arc<Self>, piece: Piece<'_>, may_wait: bool) -> Result<(), ClientDisconnected> {
        let mut state = self.lock();
        while may_wait && state.unsent_bytes >= UNSENT_BYTES && !state.client_has_disconnected {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.client_has_disconnected || state.has_ended {
            return Err(ClientDisconnected);
        }
        take_in(&mut state, piece, Vec::new());
        self.announce(state, true);
        Ok(())
    }

    /// Whether there is room. If not, an event is sent when there is room.
    pub fn has_room(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.unsent_bytes < UNSENT_BYTES || state.client_has_disconnected;
        state.needs_write_event = !has_room;
        has_room
    }

    /// Reads a part of the body and returns its length. `take` gets a piece and returns how many bytes of it
    /// it took. `None`: the end.
    pub fn read(
        self: &Arc<Self>,
        waits: bool,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> Result<Option<usize>, ClientDisconnected> {
        let mut state = self.lock();
        loop {
            if state.client_has_disconnected {
                return Err(ClientDisconnected);
            }
            if let Some(piece) = state.body.front_mut() {
                let taken = take(piece).min(piece.len());
                let _ = piece.split_to(taken);
                if piece.is_empty() {
                    state.body.pop_front();
                }
                let was_full = state.body_bytes >= BODY_BYTES;
                state.body_bytes -= taken;
                if was_full && state.body_bytes < BODY_BYTES {
                    self.announce(state, true);
                }
                return Ok(Some(taken));
            }
            match state.body_end {
                Some(Ok(())) => return Ok(None),
                Some(Err(ClientDisconnected)) => return Err(ClientDisconnected),
                None => {}
            }
            if !waits {
                drop(self.request_body(state));
                return Ok(Some(0));
            }
            if !state.is_body_requested {
                // The lock was released in between, so the state is checked again before waiting.
                state = self.request_body(state);
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Requests the body, if that was not done before.
    fn request_body<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if std::mem::replace(&mut state.is_body_requested, true) {
            return state;
        }
        self.announce(state, true);
        self.lock()
    }

    /// How many bytes of the body have arrived; `None`: the end.
    pub fn readable(&self) -> Result<Option<usize>, ClientDisconnected> {
        let state = self.lock();
        match (state.body_bytes, state.body_end) {
            (0, Some(Ok(()))) => Ok(None),
            (0, Some(Err(ClientDisconnected))) => Err(ClientDisconnected),
            (bytes, _) => Ok(Some(bytes)),
        }
    }

    /// Takes the trailers of the request's body, once its end was read.
    pub fn take_body_trailers(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().body_trailers)
    }

    /// Adds an interim response 103 with these field lines.
    pub fn hint(self: &Arc<Self>, lines: &[u8]) {
        let mut state = self.lock();
        if state.output.early_hints.len() < MOST_INTERIM && !state.client_has_disconnected {
            state.output.early_hints.push(lines.to_vec());
            self.announce(state, true);
        }
    }

    /// Sets the trailers of the answer's body, which ends next.
    pub fn set_trailers(&self, lines: &[u8]) {
        self.lock().output.trailers = lines.to_vec();
    }

    /// Requests an event when data may be read.
    pub fn request_read_event(self: &Arc<Self>) {
        let mut state = self.request_body(self.lock());
        if state.body_bytes > 0 || state.body_end.is_some() {
            self.post(&state, Event::Readable);
        } else {
            state.needs_read_event = true;
        }
    }

    /// Sends `100 Continue`, so that the client sends its body.
    pub fn acknowledge(self: &Arc<Self>) {
        drop(self.request_body(self.lock()));
    }
}

impl CoreEvent for JavaCall {
    fn take_wakers(&self) -> [Option<Waker>; 2] {
        let mut state = self.lock();
        state.is_announced = false;
        [state.answer_waker.take(), state.body_waker.take()]
    }
}

fn take_in(state: &mut State, piece: Piece<'_>, mut buffer: Vec<u8>) {
    if piece.head.is_some() {
        state.output.head = piece.head;
    }
    if !piece.body.is_empty() && !state.client_has_disconnected {
        state.unsent_bytes += piece.body.len();
        buffer.clear();
        buffer.extend_from_slice(piece.body);
        state.output.pieces.push_back(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn java_call(has_body: bool) -> Arc<JavaCall> {
        JavaCall::new(Arc::default(), None, PathKey::default(), has_body, false)
    }

    fn poll<T>(poll_function: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        poll_function(&mut Context::from_waker(Waker::noop()))
    }

    fn piece(body: &[u8]) -> Piece<'_> {
        Piece { head: None, body }
    }

    #[test]
    fn a_body_is_wanted_when_java_reads_it_and_arrives_in_order() {
        let java_call = java_call(true);
        assert!(poll(|context| java_call.poll_body_requested(context)).is_pending());
        assert_eq!(java_call.read(false, |_| 0), Ok(Some(0)));
        assert_eq!(poll(|context| java_call.poll_body_requested(context)), Poll::Ready(true));
        let reader = java_call.clone();
        let java = std::thread::spawn(move || {
            let mut all = Vec::new();
            while let Ok(Some(_)) = reader.read(true, |bytes| {
                all.push(bytes[0]);
                1
            }) {}
            all
        });
        java_call.push_body(Bytes::from_static(b"ab"));
        java_call.push_body(Bytes::from_static(b"c"));
        java_call.end_body(Ok(b"A: b\r\n".to_vec()));
        assert_eq!(java.join().unwrap(), b"abc");
        assert_eq!(java_call.readable(), Ok(None));
        assert_eq!(java_call.take_body_trailers(), b"A: b\r\n");
        assert_eq!(poll(|context| java_call.poll_body_requested(context)), Poll::Ready(false));
    }

    #[test]
    fn java_waits_for_a_slow_client_and_hears_that_one_has_left() {
        let java_call = java_call(false);
        let big = vec![b'x'; UNSENT_BYTES];
        assert_eq!(java_call.write(piece(&big), true), Ok(()));
        assert!(!java_call.has_room());
        let writer = java_call.clone();
        let java = std::thread::spawn(move || writer.write(piece(b"more"), true));
        let Poll::Ready(output) = poll(|context| java_call.poll_output(context)) else { panic!("nothing") };
        assert_eq!(output.pieces[0].len(), UNSENT_BYTES);
        assert_eq!(java.join().unwrap(), Ok(()));
        java_call.note_client_end();
        assert_eq!(java_call.write(piece(b"lost"), true), Err(ClientDisconnected));
        assert_eq!(java_call.read(true, |_| 0), Err(ClientDisconnected));
    }

    #[test]
    fn hints_and_trailers_are_told_and_there_is_an_end_to_hints() {
        let java_call = java_call(false);
        (0..MOST_INTERIM + 3).for_each(|_| java_call.hint(b"Link: </a>\r\n"));
        let Poll::Ready(output) = poll(|context| java_call.poll_output(context)) else { panic!("nothing") };
        assert_eq!(output.early_hints, vec![b"Link: </a>\r\n".to_vec(); MOST_INTERIM]);
        assert!(poll(|context| java_call.poll_output(context)).is_pending());
        assert_eq!(java_call.write(piece(b"some"), true), Ok(()));
        java_call.set_trailers(b"A: b\r\n");
        let Poll::Ready(output) = poll(|context| java_call.poll_output(context)) else { panic!("nothing") };
        assert_eq!((output.end, output.trailers.len()), (None, 0));
        java_call.finish(Some(piece(b"body")), AnswerEnd::Whole, true);
        let Poll::Ready(output) = poll(|context| java_call.poll_output(context)) else { panic!("nothing") };
        assert_eq!((output.end, &output.trailers[..]), (Some(AnswerEnd::Whole), &b"A: b\r\n"[..]));
    }

    #[test]
    fn what_was_cut_stays_cut() {
        let java_call = java_call(true);
        assert_eq!(java_call.write(piece(&vec![b'x'; UNSENT_BYTES]), true), Ok(()));
        let (writer, reader) = (java_call.clone(), java_call.clone());
        let writes = std::thread::spawn(move || writer.write(piece(b"more"), true));
        let reads = std::thread::spawn(move || reader.read(true, |_| 0));
        java_call.cut();
        assert_eq!(
            (writes.join().unwrap(), reads.join().unwrap()),
            (Err(ClientDisconnected), Err(ClientDisconnected))
        );
        java_call.finish(Some(piece(b"late")), AnswerEnd::Whole, true);
        let Poll::Ready(output) = poll(|context| java_call.poll_output(context)) else { panic!("nothing") };
        assert_eq!((output.end, output.pieces.len()), (Some(AnswerEnd::Broken), 1));
    }

    #[test]
    fn an_end_is_told_once_and_what_java_could_not_write_is_broken() {
        let java_call = java_call(false);
        assert!(poll(|context| java_call.poll_output(context)).is_pending());
        java_call.finish(None, AnswerEnd::Whole, true);
        let Poll::Ready(output) = poll(|context| java_call.poll_output(context)) else { panic!("nothing") };
        assert_eq!(output.end, Some(AnswerEnd::Broken));
        assert!(poll(|context| java_call.poll_output(context)).is_pending());
        assert!(poll(|context| java_call.poll_ended(context)).is_ready());
    }
}
