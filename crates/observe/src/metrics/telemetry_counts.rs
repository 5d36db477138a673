//! The counts of traces and metrics that are sent to a collector.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The counts of one process.
#[derive(Debug, Default)]
pub struct TelemetryCounts {
    /// A collector is or was configured.
    is_used: AtomicBool,
    /// Spans that the collector has accepted.
    pub spans_sent: AtomicU64,
    /// Spans that were dropped because the queue was full.
    pub spans_dropped: AtomicU64,
    /// Spans that the collector refused, or that were abandoned.
    pub spans_failed: AtomicU64,
    /// Requests to the collector that it accepted.
    pub exports_done: AtomicU64,
    /// Requests to the collector that failed.
    pub exports_failed: AtomicU64,
}

impl TelemetryCounts {
    /// A collector is configured.
    pub fn set_used(&self) {
        self.is_used.store(true, Relaxed);
    }

    /// The values, if a collector is or was configured.
    pub fn totals(&self) -> Option<TelemetryTotals> {
        let value = |count: &AtomicU64| count.load(Relaxed);
        self.is_used.load(Relaxed).then(|| TelemetryTotals {
            spans: [
                ("sent", value(&self.spans_sent)),
                ("dropped", value(&self.spans_dropped)),
                ("failed", value(&self.spans_failed)),
            ],
            exports: [("accepted", value(&self.exports_done)), ("failed", value(&self.exports_failed))],
        })
    }
}

/// The values of the counts, each with its label.
#[derive(Debug, Clone, Copy, Default)]
pub struct TelemetryTotals {
    /// Spans, by their result.
    pub spans: [(&'static str, u64); 3],
    /// Requests to the collector, by their result.
    pub exports: [(&'static str, u64); 2],
}
