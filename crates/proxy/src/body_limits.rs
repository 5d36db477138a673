//! The limits of buffered response bodies, for all versions of HTTP.

use std::time::Duration;

/// The most bytes of a response that wait for the client.
pub const PIPE_BYTES: usize = 128 * 1024;

/// A body of a declared length up to this is received completely before the answer begins, so that the
/// client gets an error if the body is incomplete.
pub const BUFFERED_BYTES: u64 = 64 * 1024;

/// The longest wait for such a body: the response of a slow origin is streamed.
pub const BUFFERING_TIME: Duration = Duration::from_millis(50);

/// The flow-control window of each stream of HTTP/2 and HTTP/3.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// The flow-control window of each connection of HTTP/2 and HTTP/3.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The most interim responses before the final one.
pub const MOST_INTERIM: usize = 32;
