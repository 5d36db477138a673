//! Where a run has settled: MSER-5 (White, 1997).
//!
//! The series is averaged in batches of five; the cut is where the rest's standard error would be the least.
//! A cut in the second half means that the run was too short for a steady state. So no cut beyond the middle
//! is tested, and one at the middle is reported as not settled.

use serde::Serialize;

/// Observations in a batch: the 5 of MSER-5.
pub const BATCH: usize = 5;
/// The fewest observations for a result: four batches.
pub const FEWEST: usize = 4 * BATCH;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WarmUp {
    /// How many observations at the beginning belong to the warm-up: a multiple of [`BATCH`].
    pub cut: usize,
    /// Whether the series became steady: the best cut is before the middle.
    pub settled: bool,
}

/// The cut of a series (one-second rates, say). `None` if the series is too short, or a value is not a
/// number.
pub fn cut(series: &[f64]) -> Option<WarmUp> {
    if series.len() < FEWEST || series.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let means: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let last = means.len() / 2;
    let mut best = (0, statistic(&means));
    for cut in 1..=last {
        let value = statistic(&means[cut..]);
        // Ties (a constant series) keep the most observations.
        if value < best.1 {
            best = (cut, value);
        }
    }
    Some(WarmUp { cut: best.0 * BATCH, settled: best.0 < last })
}

/// The sum of squares about the mean, divided by the square of the number.
fn statistic(means: &[f64]) -> f64 {
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count * count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::split_mix::SplitMix;

    /// A rate that rises for `warm` seconds and then remains constant, with some noise.
    fn warming(warm: usize, length: usize, noise: f64) -> Vec<f64> {
        let mut generator = SplitMix(11);
        let level = |second: usize| 1000.0 * ((second + 1) as f64 / (warm + 1) as f64).min(1.0);
        (0..length)
            .map(|second| level(second) + noise * (generator.below(1000) as f64 / 500.0 - 1.0))
            .collect()
    }

    #[test]
    fn a_warm_up_is_cut_where_it_ends() {
        let found = cut(&warming(30, 120, 5.0)).unwrap();
        assert!((25..=35).contains(&found.cut) && found.settled, "{found:?}");
        assert_eq!(cut(&warming(0, 120, 0.0)), Some(WarmUp { cut: 0, settled: true }));
    }

    #[test]
    fn golden_values_computed_by_hand() {
        // Batch means 0, 10, 10, 10: all 75/16 = 4.69; without the first 0.
        let series: Vec<f64> = (0..20).map(|index| if index < 5 { 0.0 } else { 10.0 }).collect();
        assert_eq!(cut(&series), Some(WarmUp { cut: 5, settled: true }));
        assert!((statistic(&[0.0, 10.0, 10.0, 10.0]) - 75.0 / 16.0).abs() < 1e-12);
    }

    #[test]
    fn a_series_that_never_settles_says_so() {
        let climbing: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(cut(&climbing), Some(WarmUp { cut: 50, settled: false }));
        assert_eq!(cut(&[1.0; FEWEST - 1]), None);
        assert_eq!(cut(&[f64::NAN; 40]), None);
    }

    proptest! {
        #[test]
        fn the_cut_is_the_least_of_all(series in proptest::collection::vec(0.0f64..1e5, FEWEST..120)) {
            let found = cut(&series).unwrap();
            prop_assert!(found.cut.is_multiple_of(BATCH) && found.cut <= series.len() / 2);
            let means: Vec<f64> =
                series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
            let best = statistic(&means[found.cut / BATCH..]);
            for other in 0..=means.len() / 2 {
                prop_assert!(best <= statistic(&means[other..]));
            }
        }
    }
}
