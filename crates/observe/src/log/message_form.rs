//! What destinations of messages have in common: the mark before a field behind a line, how long a message
//! may wait, and what is said of messages that are lost.

use std::io;
use std::time::Duration;

/// What stands before each field behind a line. No line contains it, because control bytes are escaped there.
pub(super) const FIELD: u8 = 0x1F;

/// How long a message may wait for a local receiver or for TCP.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// How many lines were lost, and why.
pub(super) type Lost = (u64, io::Error);
