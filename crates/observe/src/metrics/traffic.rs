//! The bytes that the sockets of this thread transfer.
//!
//! A core is one thread, and every byte of its connections passes through one small module. So the counts
//! belong to the thread, and cost one addition; the core publishes them with every tick.

use std::cell::Cell;

thread_local! {
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
    static SENT: Cell<u64> = const { Cell::new(0) };
}

/// Counts received bytes.
#[inline]
pub fn received(bytes: usize) {
    RECEIVED.set(RECEIVED.get().wrapping_add(bytes as u64));
}

/// Counts sent bytes.
#[inline]
pub fn sent(bytes: usize) {
    SENT.set(SENT.get().wrapping_add(bytes as u64));
}

/// Bytes received and sent by this thread since it began.
pub fn totals() -> (u64, u64) {
    (RECEIVED.get(), SENT.get())
}
