//! Counts the open connections of all cores together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The open connections of all cores together. A core counts a connection when it first waits; a connection
/// that is answered and closed at once is not counted.
#[derive(Default)]
pub struct ConnectionCount {
    open: AtomicUsize,
    /// Set by a core that has no room for another connection: the others end idle ones at their next tick.
    wanted: AtomicUsize,
}

impl ConnectionCount {
    /// How many are open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
    /// Updates the count of a core's connections from `before` to `now`.
    #[inline]
    pub fn change(&self, before: usize, now: usize) {
        match now.cmp(&before) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => _ = self.open.fetch_add(now - before, Ordering::Relaxed),
            std::cmp::Ordering::Less => _ = self.open.fetch_sub(before - now, Ordering::Relaxed),
        }
    }

    /// Called by a core without room: each other core ends this number of idle connections.
    pub fn want(&self, connections: usize) {
        self.wanted.store(connections, Ordering::Relaxed);
    }

    /// Whether a core needs capacity.
    pub fn is_room_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// How many connections are needed; resets the number.
    pub fn take_wanted(&self) -> usize {
        self.wanted.swap(0, Ordering::Relaxed)
    }
}
