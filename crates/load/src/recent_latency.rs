//! The latencies of the last second or two, for callers that show a run in progress.
//!
//! Each thread hands over its own a few times a second, as whole histograms and not for every answer, so that
//! live figures cost the measurement almost nothing.

use crate::record::{Record, add, small_histogram};
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// How often a thread hands over its latencies.
pub(crate) const HAND_OVER_NS: u64 = 250_000_000;

/// The last histograms of the threads.
#[derive(Debug, Default)]
pub struct RecentLatency {
    threads: Mutex<Vec<Histogram<u32>>>,
}

impl RecentLatency {
    /// The latencies of all threads in the current interval and the one before it, nanoseconds; `None` before
    /// the first answers.
    pub fn histogram(&self) -> Option<Histogram<u32>> {
        let mut all = small_histogram();
        // Only whole histograms are stored, so one from a thread that panicked is valid.
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().for_each(|own| add(&mut all, own));
        (!all.is_empty()).then_some(all)
    }

    /// Stores a thread's latencies in the place of its previous ones.
    pub(crate) fn hand_over(&self, thread: usize, record: &Record) {
        let mut own = small_histogram();
        record.intervals.iter().rev().take(2).for_each(|interval| add(&mut own, &interval.latency_ns));
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() <= thread {
            threads.resize_with(thread + 1, small_histogram);
        }
        threads[thread] = own;
    }
}
