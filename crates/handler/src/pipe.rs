//! A pipe that carries a body from the connection to a handler, or back.
//!
//! It holds a limited number of bytes; a sender that sends more waits. It stays on its core, so it needs no
//! lock. Each end notices when the other is dropped: if the client disconnects, the handler's [`Receiver`]
//! fails or its [`Sender`] refuses to send; if a handler is dropped in the middle of a body, the connection
//! gets an error instead of the end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// The end that sends.
pub struct Sender {
    state: Rc<RefCell<PipeState>>,
}

/// The end that receives.
pub struct Receiver {
    source: Source,
}

/// The source of a receiver's pieces.
enum Source {
    /// A pipe.
    Pipe(Rc<RefCell<PipeState>>),
    /// A complete body, which has no sender.
    Whole(Bytes),
}

/// The receiver was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverDropped;

struct PipeState {
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces`.
    held_bytes: usize,
    capacity_bytes: usize,
    end: End,
    /// The trailers: field lines, each with its CRLF.
    trailers: Vec<u8>,
    /// The receiver has requested a piece.
    is_wanted: bool,
    /// The usual limit for the length of a body does not apply.
    is_unlimited: bool,
    /// The limit for the length of a body, if the receiver has one of its own.
    most_bytes: Option<u64>,
    receiver_is_gone: bool,
    sender_waker: Option<Waker>,
    receiver_waker: Option<Waker>,
}

enum End {
    /// More may follow.
    Open,
    /// Nothing follows the held pieces.
    Finished,
    /// The body broke off after the held pieces; `None` once the receiver has received the error.
    Failed(Option<io::Error>),
}

/// Makes a pipe that holds at most this many bytes.
pub fn pipe(capacity_bytes: usize) -> (Sender, Receiver) {
    let state = Rc::new(RefCell::new(PipeState {
        pieces: VecDeque::new(),
        held_bytes: 0,
        capacity_bytes,
        end: End::Open,
        trailers: Vec::new(),
        is_wanted: false,
        is_unlimited: false,
        most_bytes: None,
        receiver_is_gone: false,
        sender_waker: None,
        receiver_waker: None,
    }));
    (Sender { state: state.clone() }, Receiver { source: Source::Pipe(state) })
}

impl Sender {
    /// Ready when the pipe has room.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReceiverDropped>> {
        let state = &mut *self.state.borrow_mut();
        if state.receiver_is_gone {
            return Poll::Ready(Err(ReceiverDropped));
        }
        if state.held_bytes < state.capacity_bytes {
            return Poll::Ready(Ok(()));
        }
        state.sender_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when the receiver waits for a piece and there is none. Only then is 100 (Continue) sent to the
    /// client, so that it does not send a body that the handler never reads.
    pub fn poll_wanted(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReceiverDropped>> {
        let state = &mut *self.state.borrow_mut();
        if state.receiver_is_gone {
            return Poll::Ready(Err(ReceiverDropped));
        }
        if state.is_wanted && state.held_bytes < state.capacity_bytes {
            return Poll::Ready(Ok(()));
        }
        state.sender_waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Sends a piece, even if there is no room. A caller that respects the limit calls [`Sender::poll_ready`]
    /// before.
    pub fn push(&mut self, piece: Bytes) {
        let state = &mut *self.state.borrow_mut();
        if piece.is_empty() || state.receiver_is_gone || !matches!(state.end, End::Open) {
            return;
        }
        state.held_bytes += piece.len();
        state.pieces.push_back(piece);
        wake(&mut state.receiver_waker);
    }

    /// Sends a piece when there is room for it.
    pub async fn send(&mut self, piece: Bytes) -> Result<(), ReceiverDropped> {
        poll_fn(|context| self.poll_ready(context)).await?;
        self.push(piece);
        Ok(())
    }

    /// Ends the body.
    pub fn finish(self) {
        self.end(End::Finished);
    }

    /// Ends the body with trailers (RFC 9110 section 6.5): field lines, each with its CRLF.
    pub fn finish_with_trailers(self, trailers: Vec<u8>) {
        self.state.borrow_mut().trailers = trailers;
        self.end(End::Finished);
    }

    /// Ends the body with an error.
    pub fn fail(self, error: io::Error) {
        self.end(End::Failed(Some(error)));
    }

    /// Waits until the receiver is dropped.
    pub async fn gone(&mut self) {
        poll_fn(|context| {
            let state = &mut *self.state.borrow_mut();
            if state.receiver_is_gone {
                return Poll::Ready(());
            }
            state.sender_waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes this task when a piece is received or the receiver is dropped.
    pub fn wake_when_read(&mut self, context: &mut Context<'_>) {
        self.state.borrow_mut().sender_waker = Some(context.waker().clone());
    }

    /// Bytes that were sent and not yet received.
    pub fn held_bytes(&self) -> usize {
        self.state.borrow().held_bytes
    }

    /// Whether the limits for the length of a body and for its pauses are lifted, see
    /// [`Receiver::lift_limit`].
    pub fn is_unlimited(&self) -> bool {
        self.state.borrow().is_unlimited
    }

    /// The limit for the length of the body, where `usual` is that of the server.
    pub fn most_bytes(&self, usual: u64) -> u64 {
        self.state.borrow().most_bytes.unwrap_or(usual)
    }

    /// Whether the receiver was dropped.
    pub fn is_gone(&self) -> bool {
        self.state.borrow().receiver_is_gone
    }

    fn end(&self, end: End) {
        let state = &mut *self.state.borrow_mut();
        if matches!(state.end, End::Open) {
            state.end = end;
            wake(&mut state.receiver_waker);
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if matches!(self.state.borrow().end, End::Open) {
            let message = "the sender of the body stopped before its end";
            self.end(End::Failed(Some(io::Error::new(io::ErrorKind::UnexpectedEof, message))));
        }
    }
}

impl Receiver {
    /// A receiver of a complete body.
    pub fn of(body: Bytes) -> Receiver {
        Receiver { source: Source::Whole(body) }
    }

    /// Lifts the limits for a body that is a stream of messages: it may have any length, and may pause.
    pub fn lift_limit(&self) {
        if let Source::Pipe(state) = &self.source {
            let state = &mut *state.borrow_mut();
            state.is_unlimited = true;
            wake(&mut state.sender_waker);
        }
    }

    /// Sets the limit for the length of the body.
    pub fn limit(&self, most_bytes: u64) {
        let Source::Pipe(state) = &self.source else { return };
        let state = &mut *state.borrow_mut();
        state.most_bytes = Some(most_bytes);
        // Nothing was received yet, so the held bytes are all that was sent.
        if state.held_bytes as u64 > most_bytes {
            state.pieces.clear();
            state.held_bytes = 0;
            let message = "the request's body is too large";
            state.end = End::Failed(Some(io::Error::new(io::ErrorKind::FileTooLarge, message)));
        }
    }

    /// The next piece; `None` at the end, and after an error.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let state = match &mut self.source {
            Source::Whole(body) if body.is_empty() => return Poll::Ready(None),
            Source::Whole(body) => return Poll::Ready(Some(Ok(std::mem::take(body)))),
            Source::Pipe(state) => &mut *state.borrow_mut(),
        };
        if let Some(piece) = state.pieces.pop_front() {
            state.held_bytes -= piece.len();
            wake(&mut state.sender_waker);
            return Poll::Ready(Some(Ok(piece)));
        }
        match &mut state.end {
            End::Finished => Poll::Ready(None),
            End::Failed(error) => Poll::Ready(error.take().map(Err)),
            End::Open => {
                if !std::mem::replace(&mut state.is_wanted, true) {
                    wake(&mut state.sender_waker);
                }
                state.receiver_waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next piece; `None` at the end, and after an error.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Receives the whole body. A body of more than `most_bytes` bytes is an error.
    pub async fn collect(&mut self, most_bytes: usize) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if whole.len() + piece.len() > most_bytes {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the body is longer than may be"));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// The trailers of the body, once its end was received: field lines, each with its CRLF.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        match &self.source {
            Source::Whole(_) => Vec::new(),
            Source::Pipe(state) => std::mem::take(&mut state.borrow_mut().trailers),
        }
    }

    /// Whether the body has ended and all of its pieces were received.
    pub fn is_finished(&self) -> bool {
        match &self.source {
            Source::Whole(body) => body.is_empty(),
            Source::Pipe(state) => {
                let state = state.borrow();
                state.pieces.is_empty() && matches!(state.end, End::Finished)
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let Source::Pipe(state) = &self.source else { return };
        let state = &mut *state.borrow_mut();
        state.receiver_is_gone = true;
        state.pieces.clear();
        state.held_bytes = 0;
        wake(&mut state.sender_waker);
    }
}

/// Wakes the waiting task, if there is one.
pub fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;

    fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn pieces_are_received_in_order() {
        let (mut sender, mut receiver) = pipe(10);
        sender.push(Bytes::from_static(b"one"));
        sender.push(Bytes::from_static(b"two"));
        sender.finish();
        assert_eq!(poll_once(receiver.collect(100)).map(Result::unwrap), Poll::Ready(b"onetwo".to_vec()));
        assert!(receiver.is_finished());
    }

    #[test]
    fn a_full_pipe_makes_its_sender_wait() {
        let (mut sender, mut receiver) = pipe(4);
        assert_eq!(poll_once(sender.send(Bytes::from_static(b"12345"))), Poll::Ready(Ok(())));
        assert!(poll_once(sender.send(Bytes::from_static(b"6"))).is_pending());
        assert!(poll_once(receiver.next()).is_ready());
        assert_eq!(poll_once(sender.send(Bytes::from_static(b"6"))), Poll::Ready(Ok(())));
    }

    #[test]
    fn no_piece_is_wanted_before_the_receiver_waits() {
        let (mut sender, mut receiver) = pipe(4);
        assert!(poll_once(poll_fn(|context| sender.poll_wanted(context))).is_pending());
        assert!(poll_once(receiver.next()).is_pending());
        assert_eq!(poll_once(poll_fn(|context| sender.poll_wanted(context))), Poll::Ready(Ok(())));
    }

    #[test]
    fn each_end_notices_that_the_other_was_dropped() {
        let (mut sender, receiver) = pipe(4);
        drop(receiver);
        assert_eq!(poll_once(sender.send(Bytes::from_static(b"1"))), Poll::Ready(Err(ReceiverDropped)));
        assert!(poll_once(sender.gone()).is_ready());
        let (mut sender, mut receiver) = pipe(4);
        sender.push(Bytes::from_static(b"half"));
        drop(sender);
        assert!(matches!(poll_once(receiver.next()), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(poll_once(receiver.next()), Poll::Ready(Some(Err(_)))));
        assert!(matches!(poll_once(receiver.next()), Poll::Ready(None)));
    }

    #[test]
    fn a_body_that_is_too_long_is_not_collected() {
        let mut receiver = Receiver::of(Bytes::from_static(b"12345"));
        let collected = poll_once(receiver.collect(4));
        assert!(matches!(collected, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::FileTooLarge));
    }
}
