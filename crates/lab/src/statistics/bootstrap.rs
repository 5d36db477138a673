//! The bootstrap: the confidence interval of a median, without assuming a distribution.
//!
//! Runs are drawn from those measured, with replacement; the interval holds the middle of the medians of many
//! such draws. A time series within one run is drawn in blocks, because neighbouring seconds are similar. The
//! generator is seeded: the same figures always give the same interval.

use super::Interval;
use super::quantile::{median, quantile_of_sorted, rank_bounds, sorted};
use touchstone_http::split_mix::SplitMix;

/// How often is drawn: the ends of a 95 % interval then move by far less than their own uncertainty.
pub const RESAMPLES: usize = 10_000;
/// The confidence of the intervals in reports.
pub const CONFIDENCE: f64 = 0.95;

/// The interval of the median of a few runs.
///
/// For few values the bootstrap's interval of a median is too narrow, so it is widened to the order
/// statistics that bound the median for every distribution (binomial). With fewer than six runs no method can
/// bound a median at 95 %; the interval is then the range of the runs, and a report says how many runs there
/// were.
pub fn of_median(values: &[f64], seed: u64) -> Option<Interval> {
    let sorted = sorted(values)?;
    let Some((low, high)) = rank_bounds(sorted.len() as u64, 0.5, CONFIDENCE) else {
        // The range holds every median that could be drawn.
        return Some(Interval { low: *sorted.first()?, estimate: median(values)?, high: *sorted.last()? });
    };
    let drawn = interval(drawn_medians(values, &sorted, seed), median(values)?)?;
    Some(Interval {
        low: drawn.low.min(sorted[low as usize - 1]),
        estimate: drawn.estimate,
        high: drawn.high.max(sorted[high as usize - 1]),
    })
}

/// The medians of draws from the values. Each draw is counted by the places of its values in order: to sort
/// thousands of draws would take most of the time of a report.
fn drawn_medians(values: &[f64], sorted: &[f64], seed: u64) -> Vec<f64> {
    let place = |value: &f64| sorted.partition_point(|other| other.total_cmp(value).is_lt());
    let places: Vec<usize> = values.iter().map(place).collect();
    let middle = values.len() / 2;
    let mut generator = SplitMix(seed);
    let mut counts = vec![0; values.len()];
    let mut found = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        counts.fill(0);
        for _ in 0..values.len() {
            counts[places[generator.below(values.len())]] += 1;
        }
        // The last place of the lower half, and the first that reaches beyond the middle.
        let (mut lower, mut upper, mut drawn) = (0, 0, 0);
        while drawn <= middle {
            if counts[upper] > 0 {
                lower = if drawn < middle { upper } else { lower };
                drawn += counts[upper];
            }
            upper += 1;
        }
        let upper = sorted[upper - 1];
        found.push(if values.len() % 2 == 1 { upper } else { f64::midpoint(sorted[lower], upper) });
    }
    found
}

/// The interval of the mean of a series whose neighbours are similar (one-second rates of a run): whole
/// blocks are drawn (the moving block bootstrap, Kuensch 1989), each of about the cube root of the length.
pub fn of_series_mean(series: &[f64], seed: u64) -> Option<Interval> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if series.is_empty() || series.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let block = (series.len() as f64).cbrt().ceil() as usize;
    let starts = series.len() - block + 1;
    let mut generator = SplitMix(seed);
    let mut drawn = Vec::with_capacity(series.len() + block);
    let mut found = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.clear();
        while drawn.len() < series.len() {
            let start = generator.below(starts);
            drawn.extend_from_slice(&series[start..start + block]);
        }
        drawn.truncate(series.len());
        found.push(mean(&drawn));
    }
    interval(found, mean(series))
}

/// The middle of what was found.
fn interval(mut found: Vec<f64>, estimate: f64) -> Option<Interval> {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    found.sort_unstable_by(f64::total_cmp);
    let (low, high) = (quantile_of_sorted(&found, tail)?, quantile_of_sorted(&found, 1.0 - tail)?);
    Some(Interval { low, estimate, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_interval_of_a_median_holds_the_truth_as_often_as_it_says() {
        // 200 samples of 15 from a skewed distribution whose median is known: ln 2.
        let mut generator = SplitMix(7);
        let mut held = 0;
        for sample in 0..200 {
            let values: Vec<f64> = (0..15)
                .map(|_| -((generator.draw() >> 11) as f64 / (1u64 << 53) as f64).max(1e-300).ln())
                .collect();
            let interval = of_median(&values, sample).unwrap();
            held += usize::from(interval.holds(std::f64::consts::LN_2));
        }
        assert!((180..=200).contains(&held), "{held} of 200");
    }

    #[test]
    fn the_blocks_of_a_series_keep_its_slow_waves() {
        // A slow wave and the same values shuffled: the wave's mean is less certain.
        let wave: Vec<f64> =
            (0..120).map(|second| 1000.0 + 100.0 * (f64::from(second) / 10.0).sin()).collect();
        let mut shuffled = wave.clone();
        let mut generator = SplitMix(3);
        (1..shuffled.len()).for_each(|index| shuffled.swap(index, generator.below(index + 1)));
        let width =
            |series: &[f64]| of_series_mean(series, 1).map(|interval| interval.high - interval.low).unwrap();
        assert!(width(&wave) > 1.5 * width(&shuffled), "{} {}", width(&wave), width(&shuffled));
        assert_eq!(of_series_mean(&[], 1), None);
        assert_eq!(of_series_mean(&[5.0], 1).unwrap().estimate, 5.0);
    }

    /// The same in the simple way: each draw is sorted.
    fn simple_medians(values: &[f64], seed: u64) -> Vec<f64> {
        let mut generator = SplitMix(seed);
        let mut draw = || values.iter().map(|_| values[generator.below(values.len())]).collect::<Vec<_>>();
        (0..RESAMPLES).map(|_| median(&draw()).unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn draws_that_are_counted_have_the_medians_of_draws_that_are_sorted(
            values in proptest::collection::vec((0u8..9).prop_map(f64::from), 1..12), seed: u64
        ) {
            let in_order = sorted(&values).unwrap();
            prop_assert_eq!(drawn_medians(&values, &in_order, seed), simple_medians(&values, seed));
        }

        #[test]
        fn the_interval_lies_around_its_median_and_within_the_values(
            values in proptest::collection::vec(0.0f64..1e6, 1..12), seed: u64
        ) {
            let interval = of_median(&values, seed).unwrap();
            let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
            prop_assert!(least <= interval.low && interval.high <= most);
            prop_assert!(interval.holds(interval.estimate));
            prop_assert_eq!(of_median(&values, seed), Some(interval));
        }
    }
}
