//! Code for both directions of a stream: why it ends, and how it is read and awaited.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use quinn::VarInt;
use tokio::time::sleep;
use touchstone_http::h3::{Error, ErrorCode};

/// How many bytes are received from a stream at a time.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// Why a stream ends early.
#[derive(Debug)]
pub enum Failure {
    /// The client broke the protocol.
    Protocol(Error),
    /// The client has cancelled the request, or disconnected.
    Gone,
    /// The client reads the answer too slowly.
    Slow,
    /// The answer broke off on the server's side.
    Broken(io::Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Protocol(error.into())
    }
}

/// A code in QUIC's form; all codes are far below its limit.
pub fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// The result of a future if it is ready at once.
pub async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The result of a future, and how long it took; `None`: it was not ready within `limit`. Unlike tokio's
/// `timeout`, this needs neither a clock nor a timer if the future is ready at once, as it is for most
/// requests.
pub async fn within<F: Future>(limit: Duration, future: F) -> (Option<F::Output>, Duration) {
    let mut future = pin!(future);
    if let Some(output) = poll_once(future.as_mut()).await {
        return (Some(output), Duration::ZERO);
    }
    let began = Instant::now();
    let mut timer = pin!(sleep(limit));
    // The future has just been polled: at first only the timer is registered.
    let mut is_polled = true;
    let output = poll_fn(|context| {
        if !std::mem::take(&mut is_polled)
            && let Poll::Ready(output) = future.as_mut().poll(context)
        {
            return Poll::Ready(Some(output));
        }
        timer.as_mut().poll(context).map(|()| None)
    });
    (output.await, began.elapsed())
}
