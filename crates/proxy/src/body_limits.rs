//! How much of a response's body is buffered, in all versions of HTTP.

use std::time::Duration;

/// How many bytes of a response may wait for the client.
pub const PIPE_BYTES: usize = 128 * 1024;

/// A body of a known length up to this is received before the answer begins, so that the client gets an error
/// if it breaks off.
pub const GATHERED_BYTES: u64 = 64 * 1024;

/// The longest wait for a complete answer: the answer of a slow origin is passed on as it arrives.
pub const GATHERING_TIME: Duration = Duration::from_millis(50);

/// How many bytes of each response's body may be in transit on a connection of HTTP/2 or HTTP/3.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// How many bytes of all bodies together.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The most interim responses before the final one.
pub const MOST_INTERIM: usize = 32;
