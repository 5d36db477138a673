//! The progress reports of a run, and its early end.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::recent_latency::RecentLatency;
use crate::threshold::ThreadFigures;

/// Live counters of a run, for the caller to show; and the way to end it early.
#[derive(Debug, Default)]
pub struct Progress {
    /// Valid answers so far, ramps included.
    pub requests: AtomicU64,
    /// Errors so far, ramps included.
    pub errors: AtomicU64,
    /// Bytes received so far, ramps included.
    pub bytes: AtomicU64,
    /// The latencies of the last second or two.
    pub recent: RecentLatency,
    /// All figures so far, where the caller wants them.
    pub live_figures: ThreadFigures,
    /// Set by the caller to end the run: what was measured is kept and marked interrupted.
    pub stop: AtomicBool,
}
