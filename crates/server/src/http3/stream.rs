//! What both directions of a stream need: why it ends, and how it is read and waited for.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use quinn::VarInt;
use touchstone_http::h3::{Error, ErrorCode};

/// Received at a time from a stream.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// Why a stream ends before its time.
#[derive(Debug)]
pub enum Failure {
    /// The client broke the protocol.
    Protocol(Error),
    /// The client gave the request up, or is gone.
    Gone,
    /// The client takes the answer too slowly.
    Slow,
    /// The answer broke off on our side.
    Broken(io::Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Protocol(error.into())
    }
}

/// A code as QUIC carries it; ours are all far below its limit.
pub fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// What comes of a future at once.
pub async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
