//! A number that one thread writes and others may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter, or a level that rises and falls, with one writer.
///
/// Writing is a load, an addition and a store: no locked instruction, because no other thread ever writes.
/// Readers get a value that was correct a moment ago.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// Increases it. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets it. Only the owning thread may call this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Its value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// This many counts, all zero.
pub(super) fn zeroed<const COUNT: usize>() -> [Count; COUNT] {
    std::array::from_fn(|_| Count::default())
}
