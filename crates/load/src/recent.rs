//! The latencies of the last second or two, for whoever shows a run while it goes on.
//!
//! Each thread hands over its own a few times a second, whole histograms and not every answer, so that
//! watching costs the measurement next to nothing.

use crate::record::{Record, add, small_histogram};
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// How often a thread hands its latencies over.
pub(crate) const HAND_OVER_NS: u64 = 250_000_000;

/// What the threads handed over last.
#[derive(Debug, Default)]
pub struct RecentLatency {
    threads: Mutex<Vec<Histogram<u32>>>,
}

impl RecentLatency {
    /// The latencies of all threads in the interval that goes on and the one before it, nanoseconds; `None`
    /// before the first answers.
    pub fn histogram(&self) -> Option<Histogram<u32>> {
        let mut all = small_histogram();
        // Only whole histograms are put in, so one that a thread left in a panic is as good as any.
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().for_each(|own| add(&mut all, own));
        (!all.is_empty()).then_some(all)
    }

    /// A thread's own, in the place of what it handed over before.
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
