//! How much of a response's body is buffered, in both versions of HTTP.

use std::time::Duration;

/// How many bytes of a response may wait for the client.
pub const PIPE_BYTES: usize = 128 * 1024;

/// A body of a known length up to this is received before the answer begins, so that the client gets an error
/// if it breaks off.
pub const GATHERED_BYTES: u64 = 64 * 1024;

/// The longest wait for a complete answer: the answer of a slow origin is passed on as it arrives.
pub const GATHERING_TIME: Duration = Duration::from_millis(50);
