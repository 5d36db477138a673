//! The progress reports of a run, and its early end.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::recent_latency::RecentLatency;
use crate::threshold::ThreadFigures;

/// Live counters of a run, and the flag that ends it early.
#[derive(Debug, Default)]
pub struct Progress {
    /// Valid answers so far, ramps included.
    pub requests: AtomicU64,
    /// Errors so far, ramps included.
    pub errors: AtomicU64,
    /// Bytes received so far, ramps included.
    pub bytes: AtomicU64,
    /// The latencies of the last one or two seconds.
    pub recent: RecentLatency,
    /// All figures so far, if the caller requests them.
    pub live_figures: ThreadFigures,
    /// Set by the caller to end the run. The outcome contains the figures so far and is marked as
    /// interrupted.
    pub stop: AtomicBool,
}
