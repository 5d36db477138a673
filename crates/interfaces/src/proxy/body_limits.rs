//! How much of a response's body is gathered or on its way, in both versions of HTTP.

use std::time::Duration;

/// How much of a response waits for its client.
pub const PIPE_BYTES: usize = 128 * 1024;

/// A body of a known length up to this is waited for, so that one that breaks off is no answer at all.
pub const GATHERED_BYTES: u64 = 64 * 1024;

/// But only for so long: an origin that takes its time has its answer passed on as it comes.
pub const GATHERING_TIME: Duration = Duration::from_millis(50);
