//! The counts of plug-ins in this process, for its metrics.

use std::sync::atomic::{AtomicU64, Ordering};

pub(super) static FUNCTIONS_ABANDONED: AtomicU64 = AtomicU64::new(0);

/// Functions that have hung for longer than `function_timeout`.
pub fn functions_abandoned() -> u64 {
    FUNCTIONS_ABANDONED.load(Ordering::Relaxed)
}
