//! The request's body for an origin. If the first origin fails, the body can be sent to another one, as long
//! as all bytes that were sent are still buffered.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use touchstone_handler::pipe::Receiver;

use super::fields::trailer_lines;

/// The most bytes that are buffered for another attempt.
const REPLAY_BYTES: usize = 64 * 1024;

/// A request's body.
pub struct RequestBody {
    state: RefCell<State>,
}

struct State {
    receiver: Receiver,
    /// The bytes received so far; empty if they exceed the limit.
    kept: Vec<Bytes>,
    kept_bytes: usize,
    most_kept_bytes: usize,
    /// The number of pieces of `kept` that this attempt has sent.
    position: usize,
    /// All received bytes are in `kept`.
    is_replayable: bool,
    is_ended: bool,
    /// The trailers, once the body has ended.
    trailers: Vec<u8>,
}

impl RequestBody {
    /// The body from this pipe.
    pub fn new(receiver: Receiver) -> RequestBody {
        let state = State {
            receiver,
            kept: Vec::new(),
            kept_bytes: 0,
            most_kept_bytes: REPLAY_BYTES,
            position: 0,
            is_replayable: true,
            is_ended: false,
            trailers: Vec::new(),
        };
        RequestBody { state: RefCell::new(state) }
    }

    /// The next piece; `None` at the end.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let state = &mut *self.state.borrow_mut();
        if let Some(piece) = state.kept.get(state.position) {
            state.position += 1;
            return Poll::Ready(Some(Ok(piece.clone())));
        }
        if state.is_ended {
            return Poll::Ready(None);
        }
        let piece = match ready!(state.receiver.poll_next(context)) {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => {
                state.is_ended = true;
                state.trailers = trailer_lines(&state.receiver.take_trailers());
                return Poll::Ready(None);
            }
        };
        state.keep(&piece);
        Poll::Ready(Some(Ok(piece)))
    }

    /// The next piece; `None` at the end.
    pub async fn next(&self) -> Option<io::Result<Bytes>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The trailers that are forwarded to an origin, once the body has ended (RFC 9110 section 6.5).
    pub fn trailers(&self) -> Vec<u8> {
        self.state.borrow().trailers.clone()
    }

    /// Waits until the whole body, or this many bytes, have arrived.
    pub async fn buffer_up_to(&self, bytes: usize) -> io::Result<()> {
        // The piece that exceeds the limit is kept as well.
        self.state.borrow_mut().most_kept_bytes = usize::MAX;
        while self.state.borrow().kept_bytes < bytes {
            match self.next().await {
                Some(piece) => drop(piece?),
                None => break,
            }
        }
        let state = &mut *self.state.borrow_mut();
        state.position = 0;
        state.most_kept_bytes = state.kept_bytes.max(REPLAY_BYTES);
        Ok(())
    }

    /// Restarts at the first byte; false if sent bytes are no longer buffered.
    pub fn rewind(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        state.position = 0;
        state.is_replayable
    }
}

impl State {
    fn keep(&mut self, piece: &Bytes) {
        if !self.is_replayable {
            return;
        }
        if self.kept_bytes + piece.len() > self.most_kept_bytes {
            self.is_replayable = false;
            self.kept = Vec::new();
            self.position = 0;
            return;
        }
        self.kept_bytes += piece.len();
        self.kept.push(piece.clone());
        self.position = self.kept.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_handler::pipe::pipe;

    async fn read(body: &RequestBody) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = body.next().await {
            all.extend_from_slice(&piece.unwrap());
        }
        all
    }

    fn sent(pieces: &[usize]) -> RequestBody {
        let (mut sender, receiver) = pipe(1 << 20);
        for (index, length) in pieces.iter().enumerate() {
            sender.push(vec![b'a' + index as u8; *length].into());
        }
        sender.finish();
        RequestBody::new(receiver)
    }

    #[tokio::test]
    async fn a_short_body_can_be_sent_again() {
        let body = sent(&[10, 20]);
        assert_eq!(body.next().await.unwrap().unwrap().len(), 10);
        assert!(body.rewind());
        let first = read(&body).await;
        assert_eq!(first.len(), 30);
        assert!(body.rewind());
        assert_eq!(read(&body).await, first);
    }

    #[tokio::test]
    async fn a_long_body_cannot_be_sent_again() {
        let body = sent(&[60_000, 5_000, 5_000]);
        assert_eq!(body.next().await.unwrap().unwrap().len(), 60_000);
        assert!(body.rewind());
        assert_eq!(read(&body).await.len(), 70_000);
        assert!(!body.rewind());
    }

    #[tokio::test]
    async fn buffered_bytes_are_sent_first() {
        for bytes in [1, 60_000, 64_999, 65_000, 1_000_000] {
            let body = sent(&[60_000, 5_000, 5_000]);
            body.buffer_up_to(bytes).await.unwrap();
            assert_eq!(read(&body).await.len(), 70_000, "{bytes}");
        }
    }
}
