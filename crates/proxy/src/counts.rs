//! The counts of an origin, for metrics and status.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::failure::FailureLabel;

/// The upper bounds of the buckets of times, in seconds.
pub const TIME_BOUNDS_S: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The counts of one origin in one group, over all cores.
#[derive(Debug, Default)]
pub struct OriginCounts {
    /// Attempts of requests.
    pub attempts: AtomicU64,
    /// Attempts that were not the first of their request.
    pub retries: AtomicU64,
    /// Answers by status class, from 1xx.
    pub classes: [AtomicU64; 5],
    /// Failed attempts, by [`FailureLabel`].
    pub failures: [AtomicU64; FailureLabel::LABELS.len()],
    /// Answers with an incomplete body.
    pub broken_bodies: AtomicU64,
    /// Connections that were opened.
    pub opened: AtomicU64,
    /// The number of ejections.
    pub ejections: AtomicU64,
    /// Times from the beginning of an attempt to the head of the answer, by bucket; the last bucket is
    /// unbounded.
    times: [AtomicU64; TIME_BOUNDS_S.len() + 1],
    times_sum_us: AtomicU64,
}

impl OriginCounts {
    /// Counts an answer when its head has arrived.
    pub fn record_answer(&self, status: u16, after: Duration) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.classes[class].fetch_add(1, Relaxed);
        let seconds = after.as_secs_f64();
        let bucket = TIME_BOUNDS_S.iter().position(|bound| seconds <= *bound).unwrap_or(TIME_BOUNDS_S.len());
        self.times[bucket].fetch_add(1, Relaxed);
        self.times_sum_us.fetch_add(u64::try_from(after.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The number of answers up to each of [`TIME_BOUNDS_S`], the number of all answers, and the sum of their
    /// times in seconds.
    pub fn times(&self) -> (Vec<u64>, u64, f64) {
        let mut sum = 0;
        let mut cumulative: Vec<u64> = self
            .times
            .iter()
            .map(|count| {
                sum += count.load(Relaxed);
                sum
            })
            .collect();
        cumulative.pop();
        (cumulative, sum, self.times_sum_us.load(Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_buckets() {
        let counts = OriginCounts::default();
        for (status, ms) in [(200, 1), (204, 3), (503, 20_000), (999, 1)] {
            counts.record_answer(status, Duration::from_millis(ms));
        }
        let (cumulative, count, sum) = counts.times();
        assert_eq!((&cumulative[..4], cumulative[13], count), (&[0, 2, 2, 3][..], 3, 4));
        assert!((sum - 20.005).abs() < 1e-9);
        assert_eq!(counts.classes.each_ref().map(|count| count.load(Relaxed)), [0, 2, 0, 0, 2]);
    }
}
