//! From a histogram of latencies to its record in the result file.

use crate::result::LatencyRecord;
use hdrhistogram::{Counter, Histogram};

/// Points of a latency curve for every power of ten that the share of slower answers falls by.
const CURVE_POINTS_A_DECADE: u32 = 18;
/// The most points of a latency curve.
const CURVE_POINTS_MAX: usize = 100;

/// The figures of a histogram.
pub fn latency_record<T: Counter>(nanoseconds: &Histogram<T>) -> LatencyRecord {
    let quantile_us = |quantile| nanoseconds.value_at_quantile(quantile) as f64 / 1000.0;
    let empty = nanoseconds.is_empty();
    LatencyRecord {
        count: nanoseconds.len(),
        mean_us: mean_us(nanoseconds),
        stddev_us: if empty { 0.0 } else { nanoseconds.stdev() / 1000.0 },
        min_us: if empty { 0.0 } else { nanoseconds.min() as f64 / 1000.0 },
        p50_us: quantile_us(0.5),
        p90_us: quantile_us(0.9),
        p95_us: quantile_us(0.95),
        p99_us: quantile_us(0.99),
        p999_us: quantile_us(0.999),
        max_us: nanoseconds.max() as f64 / 1000.0,
        curve: curve(nanoseconds),
    }
}

/// The percentile curve with its points evenly spread on the scale of nines (0, ..., 90, ..., 99, ..., 99.9
/// ...), as long as there are enough values to separate them; the last is the largest value.
fn curve<T: Counter>(nanoseconds: &Histogram<T>) -> Vec<(f64, f64)> {
    if nanoseconds.is_empty() {
        return Vec::new();
    }
    let count = nanoseconds.len() as f64;
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(CURVE_POINTS_MAX);
    for step in 0..CURVE_POINTS_MAX as u32 - 1 {
        let slower = 10f64.powf(-f64::from(step) / f64::from(CURVE_POINTS_A_DECADE));
        if slower * count < 1.0 {
            break;
        }
        let quantile = 1.0 - slower;
        points.push((quantile * 100.0, nanoseconds.value_at_quantile(quantile) as f64 / 1000.0));
    }
    points.push((100.0, nanoseconds.max() as f64 / 1000.0));
    points
}

/// The mean in microseconds; 0 without values.
pub fn mean_us<T: Counter>(nanoseconds: &Histogram<T>) -> f64 {
    if nanoseconds.is_empty() { 0.0 } else { nanoseconds.mean() / 1000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values.into_iter().for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn the_curve_rises_ends_at_the_largest_and_is_short() {
        let record = latency_record(&histogram((1..=200_000).map(|value| value * 1000)));
        assert!(record.curve.len() <= CURVE_POINTS_MAX && record.curve.len() > 80);
        assert!(record.curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(record.curve[0].0, 0.0);
        assert_eq!(*record.curve.last().unwrap(), (100.0, record.max_us));
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
        assert!(
            close(record.mean_us, 100_000.5) && close(record.p99_us, 198_000.0) && record.count == 200_000
        );
    }

    #[test]
    fn an_empty_histogram_gives_finite_zeros() {
        let record = latency_record(&histogram([]));
        assert_eq!((record.count, record.mean_us, record.stddev_us, record.min_us), (0, 0.0, 0.0, 0.0));
        assert!(record.curve.is_empty());
        let one = latency_record(&histogram([5000]));
        assert_eq!(one.curve.len(), 2);
    }
}
