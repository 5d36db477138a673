//! What is counted of WebAssembly components in this process, for its metrics. It is here, because builds
//! without components have the metrics too.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count of this process.
pub struct Count(AtomicU64);

/// Instances that were made.
pub static INSTANCES: Count = Count(AtomicU64::new(0));

/// Requests that a trap or a limit has ended.
pub static FAILURES: Count = Count(AtomicU64::new(0));

/// Computations that have gone on beside their core.
pub static MOVED: Count = Count(AtomicU64::new(0));

impl Count {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
