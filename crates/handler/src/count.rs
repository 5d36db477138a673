//! A number that all cores may change, for counts that are not on the path of each request.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that all cores may change.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the number.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Subtracts what was added before.
    pub fn take(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
