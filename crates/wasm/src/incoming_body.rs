//! A body that the core passes to an instance, which may run in another thread.
//!
//! It holds one piece. The core polls the source only when the instance requests a piece, so that the client
//! gets no 100 (Continue) for a body that is never read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use wasmtime_wasi_http::Error;

use crate::message;

/// The end that the instance reads.
pub struct IncomingBody {
    state: Arc<Mutex<IncomingState>>,
}

/// The end that the core writes.
pub struct Feeder {
    state: Arc<Mutex<IncomingState>>,
}

/// The source of the pieces.
pub trait Source {
    /// The next piece; `None` at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;

    /// The field lines of the trailers, after the end.
    fn take_trailers(&mut self) -> Vec<u8>;
}

impl Source for touchstone_handler::pipe::Receiver {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        touchstone_handler::pipe::Receiver::poll_next(self, context)
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        touchstone_handler::pipe::Receiver::take_trailers(self)
    }
}

#[derive(Default)]
struct IncomingState {
    piece: Option<Result<Frame<Bytes>, Error>>,
    is_requested: bool,
    has_delivered: bool,
    has_ended: bool,
    is_reader_dropped: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Creates both ends of a body.
pub fn incoming_body() -> (Feeder, IncomingBody) {
    let state = Arc::default();
    (Feeder { state: Arc::clone(&state) }, IncomingBody { state })
}

fn lock(state: &Mutex<IncomingState>) -> MutexGuard<'_, IncomingState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Feeder {
    /// Passes pieces on request. Ready when the body has ended or is no longer read.
    pub fn poll(&mut self, context: &mut Context<'_>, source: &mut dyn Source) -> Poll<()> {
        loop {
            {
                let state = &mut *lock(&self.state);
                if state.is_reader_dropped || state.has_ended {
                    return Poll::Ready(());
                }
                if !state.is_requested || state.piece.is_some() {
                    state.writer = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
            let Poll::Ready(next) = source.poll_next(context) else { return Poll::Pending };
            let (piece, has_ended) = match next {
                Some(Ok(bytes)) => (Some(Ok(Frame::data(bytes))), false),
                Some(Err(_)) => (Some(Err(Error::ConnectionTerminated)), true),
                None => {
                    (message::header_map(&source.take_trailers()).map(|map| Ok(Frame::trailers(map))), true)
                }
            };
            let state = &mut *lock(&self.state);
            state.piece = piece;
            state.has_ended = has_ended;
            state.is_requested = false;
            state.has_delivered = true;
            wake(&mut state.reader);
        }
    }
}

impl Feeder {
    /// Whether the instance has not requested any piece.
    pub fn is_unread(&self) -> bool {
        let state = lock(&self.state);
        !(state.is_requested || state.has_ended || state.piece.is_some() || state.has_delivered)
    }

    /// Wakes the task that polls this.
    pub fn wake(&self) {
        wake(&mut lock(&self.state).writer);
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        let state = &mut *lock(&self.state);
        if !state.has_ended {
            state.has_ended = true;
            state.piece.get_or_insert(Err(Error::ConnectionTerminated));
            wake(&mut state.reader);
        }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let state = &mut *lock(&self.state);
        if let Some(piece) = state.piece.take() {
            wake(&mut state.writer);
            return Poll::Ready(Some(piece));
        }
        if state.has_ended {
            return Poll::Ready(None);
        }
        state.is_requested = true;
        state.reader = Some(context.waker().clone());
        wake(&mut state.writer);
        Poll::Pending
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        let state = &mut *lock(&self.state);
        state.is_reader_dropped = true;
        wake(&mut state.writer);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body_util::BodyExt as _;
    use touchstone_handler::pipe;

    use super::*;

    fn poll_once(feeder: &mut Feeder, receiver: &mut pipe::Receiver) -> Poll<()> {
        feeder.poll(&mut Context::from_waker(Waker::noop()), receiver)
    }

    #[test]
    fn no_piece_is_taken_before_it_is_requested() {
        let (mut sender, mut receiver) = pipe::pipe(10);
        sender.push(Bytes::from_static(b"abc"));
        let (mut feeder, mut body) = incoming_body();
        assert!(poll_once(&mut feeder, &mut receiver).is_pending());
        assert_eq!(sender.held_bytes(), 3);
        let mut next = Box::pin(async move { body.frame().await.map(|frame| frame.unwrap().into_data()) });
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(poll_once(&mut feeder, &mut receiver).is_pending());
        assert_eq!(sender.held_bytes(), 0);
        let Poll::Ready(Some(Ok(bytes))) = next.as_mut().poll(&mut context) else { panic!("no piece") };
        assert_eq!(bytes, "abc");
    }

    #[tokio::test]
    async fn body_and_trailers_arrive() {
        let (mut sender, mut receiver) = pipe::pipe(10);
        sender.push(Bytes::from_static(b"abc"));
        sender.push(Bytes::from_static(b"def"));
        sender.finish_with_trailers(b"Digest: x\r\n".to_vec());
        let (mut feeder, body) = incoming_body();
        let feed = poll_fn(|context| feeder.poll(context, &mut receiver));
        let (collected, ()) = tokio::join!(body.collect(), feed);
        let collected = collected.unwrap();
        assert_eq!(collected.trailers().unwrap()["digest"], "x");
        assert_eq!(collected.to_bytes(), "abcdef");
    }

    #[tokio::test]
    async fn an_incomplete_body_is_an_error() {
        let (mut sender, mut receiver) = pipe::pipe(10);
        sender.push(Bytes::from_static(b"abc"));
        drop(sender);
        let (mut feeder, body) = incoming_body();
        let feed = poll_fn(|context| feeder.poll(context, &mut receiver));
        let (collected, ()) = tokio::join!(body.collect(), feed);
        assert!(collected.is_err());
        let (feeder, body) = incoming_body();
        drop(feeder);
        assert!(body.collect().await.is_err());
    }
}
