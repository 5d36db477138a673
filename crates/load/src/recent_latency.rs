//! The latencies of the last one or two seconds, for the progress display of callers.
//!
//! Each thread publishes whole histograms a few times per second, and not every single answer, so that the
//! live figures hardly affect the measurement.

use crate::record::{Record, add, small_histogram};
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// The interval at which a thread publishes its latencies.
pub(crate) const PUBLISH_INTERVAL_NS: u64 = 250_000_000;

/// The latest histograms of the threads.
#[derive(Debug, Default)]
pub struct RecentLatency {
    threads: Mutex<Vec<Histogram<u32>>>,
}

impl RecentLatency {
    /// The latencies of all threads in the current and the previous interval, in nanoseconds; `None` before
    /// the first answers.
    pub fn histogram(&self) -> Option<Histogram<u32>> {
        let mut all = small_histogram();
        // Only complete histograms are stored, so that the data is valid after a panic of a thread.
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().for_each(|own| add(&mut all, own));
        (!all.is_empty()).then_some(all)
    }

    /// Replaces the latencies of a thread.
    pub(crate) fn publish(&self, thread: usize, record: &Record) {
        let mut own = small_histogram();
        record.intervals.iter().rev().take(2).for_each(|interval| add(&mut own, &interval.latency_ns));
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() <= thread {
            threads.resize_with(thread + 1, small_histogram);
        }
        threads[thread] = own;
    }
}
