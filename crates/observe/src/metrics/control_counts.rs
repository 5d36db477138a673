//! The counts of changes by the control API.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlResult {
    /// It was applied.
    Applied,
    /// It was invalid.
    Refused,
    /// Another client has changed the configuration before, or the request did not name the version that it
    /// was based on.
    Conflict,
    /// The client has no permission.
    Denied,
}

impl ControlResult {
    /// The label of each.
    pub const LABELS: [&'static str; 4] = ["applied", "refused", "conflict", "denied"];
}

/// The counts of one process.
#[derive(Debug, Default)]
pub struct ControlCounts {
    /// There is or was a control API.
    is_used: AtomicBool,
    changes: [AtomicU64; ControlResult::LABELS.len()],
}

impl ControlCounts {
    /// There is a control API.
    pub fn set_used(&self) {
        self.is_used.store(true, Relaxed);
    }

    /// Counts a change.
    pub fn count(&self, result: ControlResult) {
        self.changes[result as usize].fetch_add(1, Relaxed);
    }

    /// The changes by their result, if there is or was a control API.
    pub fn totals(&self) -> Option<[u64; ControlResult::LABELS.len()]> {
        self.is_used.load(Relaxed).then(|| self.changes.each_ref().map(|count| count.load(Relaxed)))
    }
}
