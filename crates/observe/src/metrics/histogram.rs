//! A histogram of durations with a fixed size and log-linear buckets.
//!
//! Each power of ten from 1 microsecond to 100 seconds is divided into 36 equal steps, so that the width of a
//! bucket is at most a quarter of its value. The usual bounds of monitoring systems (1, 2.5, 5, 10) are
//! bounds of buckets, so the counts below them are exact. A bucket includes its upper bound, as `le` of
//! Prometheus does.

use super::count::Count;

/// Steps of each power of ten.
const STEPS: usize = 36;

/// Powers of ten: from 1 microsecond to 100 seconds.
const DECADES: usize = 8;

/// The upper bound of the first bucket, in nanoseconds.
const LEAST_NS: u64 = 1_000;

/// All buckets: one below, one above.
const BUCKETS: usize = 1 + STEPS * DECADES + 1;

/// The bounds that are shown to monitoring systems, in nanoseconds.
pub const SHOWN_BOUNDS_NS: [u64; 22] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
    100_000_000_000,
];

/// A histogram that one thread writes.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Count; BUCKETS],
    sum_ns: Count,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: super::count::zeroed(), sum_ns: Count::default() }
    }
}

impl Histogram {
    /// Counts a duration as if it had occurred `weight` times.
    pub fn record(&self, took_ns: u64, weight: u64) {
        self.buckets[bucket_of(took_ns)].add(weight);
        self.sum_ns.add(took_ns.saturating_mul(weight));
    }
}

/// The sum of several histograms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    buckets: Box<[u64]>,
    /// The number of durations.
    pub count: u64,
    /// The sum of the durations, in nanoseconds.
    pub sum_ns: u64,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution { buckets: vec![0; BUCKETS].into(), count: 0, sum_ns: 0 }
    }
}

impl Distribution {
    /// Adds the counts of a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            let count = bucket.get();
            *sum += count;
            // The sum is computed from the buckets, so that both agree even while a record is being made.
            self.count += count;
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.get());
    }

    /// How many durations are at most each of [`SHOWN_BOUNDS_NS`].
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut from = 0;
        let mut below = 0;
        SHOWN_BOUNDS_NS.into_iter().map(move |bound| {
            let end = bucket_of(bound) + 1;
            below += self.buckets[from..end].iter().sum::<u64>();
            from = end;
            (bound, below)
        })
    }

    /// The duration that this share (0 to 1) did not exceed, in nanoseconds, as exact as the buckets; `None`
    /// if nothing was counted.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0);
        let mut below = 0.0;
        for (index, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if below + count >= wanted {
                let (low, high) = (lower_bound_ns(index), upper_bound_ns(index));
                return Some(low + ((high - low) as f64 * ((wanted - below) / count)) as u64);
            }
            below += count;
        }
        None
    }
}

fn bucket_of(took_ns: u64) -> usize {
    if took_ns <= LEAST_NS {
        return 0;
    }
    // A bucket includes its upper bound: one less falls into it by division.
    let value = took_ns - 1;
    let decade = (value.ilog10() - LEAST_NS.ilog10()) as usize;
    if decade >= DECADES {
        return BUCKETS - 1;
    }
    let base = LEAST_NS * 10u64.pow(decade as u32);
    let step = (value * 4 / base) as usize - 4;
    1 + decade * STEPS + step
}

fn upper_bound_ns(bucket: usize) -> u64 {
    match bucket {
        0 => LEAST_NS,
        // There is no upper bound: the largest known bound is used.
        _ if bucket == BUCKETS - 1 => lower_bound_ns(bucket),
        _ => {
            let (decade, step) = ((bucket - 1) / STEPS, (bucket - 1) % STEPS);
            LEAST_NS * 10u64.pow(decade as u32) * (5 + step as u64) / 4
        }
    }
}

fn lower_bound_ns(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { upper_bound_ns(bucket - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bounds_that_are_shown_are_bounds_of_buckets() {
        for bound in SHOWN_BOUNDS_NS {
            assert_eq!(upper_bound_ns(bucket_of(bound)), bound);
            assert_eq!(bucket_of(bound + 1), bucket_of(bound) + 1);
        }
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_are_cumulative_and_bounds_belong_to_them() {
        let histogram = Histogram::default();
        for (took_ns, weight) in [(10_000, 1), (10_001, 2), (1_000_000, 3), (u64::MAX, 1)] {
            histogram.record(took_ns, weight);
        }
        let mut distribution = Distribution::default();
        distribution.add(&histogram);
        distribution.add(&histogram);
        let shown: Vec<(u64, u64)> = distribution.cumulative().collect();
        assert_eq!(shown[0], (10_000, 2));
        assert_eq!(shown[1], (25_000, 6));
        assert_eq!(shown[6], (1_000_000, 12));
        assert_eq!(shown[21], (100_000_000_000, 12));
        assert_eq!(distribution.count, 14);
    }

    #[test]
    fn quantiles() {
        assert_eq!(Distribution::default().quantile_ns(0.5), None);
        let histogram = Histogram::default();
        (1..=1000u64).for_each(|millisecond| histogram.record(millisecond * 1_000_000, 1));
        let mut distribution = Distribution::default();
        distribution.add(&histogram);
        for (share, exact_ms) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found_ms = distribution.quantile_ns(share).unwrap() as f64 / 1e6;
            assert!((found_ms - exact_ms).abs() <= exact_ms * 0.03, "{share}: {found_ms}");
        }
    }

    proptest! {
        #[test]
        fn every_time_lies_within_its_bucket(took_ns in 0u64..200_000_000_000) {
            let bucket = bucket_of(took_ns);
            prop_assert!(bucket == BUCKETS - 1 || took_ns <= upper_bound_ns(bucket));
            prop_assert!(bucket == 0 || took_ns > lower_bound_ns(bucket));
            if bucket > 0 && bucket < BUCKETS - 1 {
                let (low, high) = (lower_bound_ns(bucket), upper_bound_ns(bucket));
                prop_assert!(high - low <= low / 4 + 1);
            }
        }
    }
}
