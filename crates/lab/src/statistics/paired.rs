//! Whether two systems differ: pairs of alternating runs, compared with the noise of a system against itself.
//!
//! Each pair gives a ratio; its logarithm is used, so that "twice" and "half" have the same weight. The
//! verdict is "different" only if the whole interval of the median ratio is outside the band of differences
//! that do not matter, and outside the band in which the same system differed from itself (an A/A
//! comparison). Otherwise it is "no difference shown", which is not the same as "equal".

use super::Interval;
use super::bootstrap;
use super::quantile::normal_quantile;
use serde::{Deserialize, Serialize};

/// A smaller difference does not matter.
pub const PRACTICAL_BAND: f64 = 0.01;
/// The fewest pairs that allow a conclusion: with five, all of one sign, chance has 1 in 16.
pub const FEWEST_PAIRS: usize = 5;
/// Up to this many pairs the signed-rank test is exact.
const EXACT_PAIRS_MAX: usize = 25;

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// The first is higher.
    FirstHigher,
    /// The second is higher.
    SecondHigher,
    /// The interval touches the band: no difference is shown.
    NoDifferenceShown,
    /// Too few pairs for a verdict.
    TooFewPairs,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Pairs of runs.
    pub pairs: usize,
    /// The median of first / second, with its interval.
    pub ratio: Interval,
    /// Ratios within 1 +- this are not distinguished: the practical band, or the noise floor if it is wider.
    pub band: f64,
    /// The noise floor of an A/A comparison, if one was made.
    pub noise_floor: Option<f64>,
    /// The verdict.
    pub conclusion: Conclusion,
    /// The probability of pairs this lopsided if there were no difference (Wilcoxon's signed ranks,
    /// two-sided).
    pub signed_rank_p: f64,
    /// Cohen's d of the logarithms of the ratios: their mean over their standard deviation; absent when they
    /// do not vary.
    pub cohens_d: Option<f64>,
    /// Spearman's correlation of the ratios with their order: a drift shows as a figure far from 0.
    pub drift: f64,
}

/// Compares pairs (first, second) in the order in which they were run. `None` if a figure is not positive.
pub fn compare(pairs: &[(f64, f64)], noise_floor: Option<f64>, seed: u64) -> Option<Comparison> {
    let good = |pair: &(f64, f64)| pair.0 > 0.0 && pair.1 > 0.0 && (pair.0 / pair.1).is_finite();
    if pairs.is_empty() || !pairs.iter().all(good) {
        return None;
    }
    let logarithms: Vec<f64> = pairs.iter().map(|(first, second)| (first / second).ln()).collect();
    let of_logarithms = bootstrap::of_median(&logarithms, seed)?;
    let ratio = Interval {
        low: of_logarithms.low.exp(),
        estimate: of_logarithms.estimate.exp(),
        high: of_logarithms.high.exp(),
    };
    let band = noise_floor.unwrap_or(0.0).max(PRACTICAL_BAND);
    Some(Comparison {
        pairs: pairs.len(),
        ratio,
        band,
        noise_floor,
        conclusion: conclusion(pairs.len(), &ratio, band),
        signed_rank_p: signed_rank_p(&logarithms),
        cohens_d: cohens_d(&logarithms),
        drift: spearman(&(0..logarithms.len()).map(|index| index as f64).collect::<Vec<_>>(), &logarithms),
    })
}

/// The noise floor of an A/A comparison: how far the interval of a system's ratio to itself extends from 1.
pub fn noise_floor(pairs: &[(f64, f64)], seed: u64) -> Option<f64> {
    let ratio = compare(pairs, None, seed)?.ratio;
    Some((1.0 / ratio.low - 1.0).max(ratio.high - 1.0).max(0.0))
}

fn conclusion(pairs: usize, ratio: &Interval, band: f64) -> Conclusion {
    if pairs < FEWEST_PAIRS {
        Conclusion::TooFewPairs
    } else if ratio.low > 1.0 + band {
        Conclusion::FirstHigher
    } else if ratio.high < 1.0 / (1.0 + band) {
        Conclusion::SecondHigher
    } else {
        Conclusion::NoDifferenceShown
    }
}

fn cohens_d(differences: &[f64]) -> Option<f64> {
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let square = differences.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let deviation = (square / (count - 1.0)).sqrt();
    // Equal differences have no effect size, only rounding.
    (deviation > 1e-12 * mean.abs().max(1e-300)).then(|| mean / deviation)
}

/// The ranks of values, from 1; equal ones share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| values[*left].total_cmp(&values[*right]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        // Ranks start + 1 to end.
        let shared = (start + 1 + end) as f64 / 2.0;
        order[start..end].iter().for_each(|index| ranks[*index] = shared);
        start = end;
    }
    ranks
}

/// Spearman's rank correlation; 0 if one of the two does not vary.
pub fn spearman(left: &[f64], right: &[f64]) -> f64 {
    let (left, right) = (ranks(left), ranks(right));
    let mean = (left.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let scale = (product(&left, &left) * product(&right, &right)).sqrt();
    if scale > 0.0 { (product(&left, &right) / scale).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Wilcoxon's signed-rank test, two-sided: exact for few pairs without ties, otherwise normal with
/// corrections.
pub fn signed_rank_p(differences: &[f64]) -> f64 {
    let moved: Vec<f64> = differences.iter().copied().filter(|value| *value != 0.0).collect();
    if moved.is_empty() {
        return 1.0;
    }
    let ranks = ranks(&moved.iter().map(|value| value.abs()).collect::<Vec<_>>());
    let positive: f64 =
        ranks.iter().zip(&moved).filter(|(_, value)| **value > 0.0).map(|(rank, _)| rank).sum();
    let tied = ranks.iter().any(|rank| rank.fract() != 0.0) || has_repeats(&ranks);
    if moved.len() <= EXACT_PAIRS_MAX && !tied {
        exact_p(moved.len(), positive as usize)
    } else {
        normal_p(&ranks, positive)
    }
}

fn has_repeats(ranks: &[f64]) -> bool {
    let mut sorted = ranks.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Counts how many of the 2^n ways to sign the ranks result in each sum, and computes from it the probability
/// of the observed sum or a more extreme one.
fn exact_p(count: usize, sum: usize) -> f64 {
    let most = count * (count + 1) / 2;
    let mut ways = vec![0.0f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=count {
        for total in (rank..=most).rev() {
            ways[total] += ways[total - rank];
        }
    }
    let all = 2f64.powi(count as i32);
    let extreme = sum.min(most - sum);
    let tail: f64 = ways[..=extreme].iter().sum::<f64>() / all;
    (2.0 * tail).min(1.0)
}

fn normal_p(ranks: &[f64], positive: f64) -> f64 {
    let mean = ranks.iter().sum::<f64>() / 2.0;
    let deviation = (ranks.iter().map(|rank| rank * rank).sum::<f64>() / 4.0).sqrt();
    let distance = ((positive - mean).abs() - 0.5).max(0.0) / deviation;
    (2.0 * upper_tail(distance)).min(1.0)
}

/// The probability that a standard normal value is above `z`, by bisection of its quantile.
fn upper_tail(z: f64) -> f64 {
    let (mut low, mut high) = (1e-15, 0.5);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if -normal_quantile(middle) > z { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::split_mix::SplitMix;

    /// Pairs whose true ratio is `ratio`, each value with noise of `noise` both ways.
    fn pairs(count: usize, ratio: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut generator = SplitMix(seed);
        let mut noisy = |level: f64| level * (1.0 + noise * (generator.below(10_001) as f64 / 5_000.0 - 1.0));
        (0..count).map(|_| (noisy(1000.0 * ratio), noisy(1000.0))).collect()
    }

    #[test]
    fn a_difference_is_shown_and_its_interval_holds_the_truth() {
        let mut held = 0;
        for seed in 0..20 {
            let found = compare(&pairs(15, 1.2, 0.03, seed), None, 1).unwrap();
            assert_eq!(found.conclusion, Conclusion::FirstHigher, "{found:?}");
            assert!(found.signed_rank_p < 0.001 && found.cohens_d.unwrap() > 1.0);
            held += usize::from(found.ratio.holds(1.2));
        }
        assert!(held >= 19, "{held}");
        let other = compare(&pairs(15, 1.0 / 1.2, 0.03, 5), None, 1).unwrap();
        assert_eq!(other.conclusion, Conclusion::SecondHigher);
    }

    #[test]
    fn the_same_system_twice_shows_no_difference() {
        for seed in 0..20 {
            let same = pairs(10, 1.0, 0.02, seed);
            let floor = noise_floor(&same, 1).unwrap();
            let found = compare(&pairs(10, 1.0, 0.02, seed + 100), Some(floor), 1).unwrap();
            assert_eq!(found.conclusion, Conclusion::NoDifferenceShown, "{found:?}");
        }
    }

    #[test]
    fn a_difference_within_the_noise_floor_is_not_shown() {
        let small = pairs(15, 1.03, 0.001, 2);
        assert_eq!(compare(&small, None, 1).unwrap().conclusion, Conclusion::FirstHigher);
        assert_eq!(compare(&small, Some(0.05), 1).unwrap().conclusion, Conclusion::NoDifferenceShown);
        assert_eq!(compare(&small[..4], None, 1).unwrap().conclusion, Conclusion::TooFewPairs);
        assert_eq!(compare(&[(1.0, 0.0)], None, 1), None);
        assert_eq!(compare(&[], None, 1), None);
    }

    #[test]
    fn signed_ranks_are_those_of_the_tables() {
        // All of one sign: 2 / 2^n.
        assert_eq!(signed_rank_p(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.0625);
        assert_eq!(signed_rank_p(&[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]), 0.03125);
        // wilcox.test(c(1.83,0.50,1.62,2.48,1.68,1.88,1.55,3.06,1.30),
        // c(0.878,0.647,0.598,2.05,1.06,1.29,1.06,3.14,1.29), paired = TRUE):
        // V = 40, p = 0.03906 (Hollander and Wolfe, depression data).
        let first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        // In hundredths: clippy takes 3.14 for an approximation of pi.
        let second = [87.8, 64.7, 59.8, 205.0, 106.0, 129.0, 106.0, 314.0, 129.0].map(|value| value / 100.0);
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        assert!((signed_rank_p(&differences) - 0.039_062_5).abs() < 1e-12);
        assert_eq!(signed_rank_p(&[0.0, 0.0]), 1.0);
        // Normal: 30 pairs that are balanced.
        let balanced: Vec<f64> =
            (1..=30).map(|n| if n % 2 == 0 { f64::from(n) } else { -f64::from(n) }).collect();
        assert!(signed_rank_p(&balanced) > 0.5);
        assert!((upper_tail(1.959_963_985) - 0.025).abs() < 1e-9);
    }

    #[test]
    fn a_drift_is_seen() {
        let drifting: Vec<(f64, f64)> = (0..12).map(|n| (1000.0 + 5.0 * f64::from(n), 1000.0)).collect();
        assert!((compare(&drifting, None, 1).unwrap().drift - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[4.0, 3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(spearman(&[1.0, 2.0], &[5.0, 5.0]), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn exchanging_the_two_turns_the_conclusion_round(
            pairs in proptest::collection::vec((10.0f64..1000.0, 10.0f64..1000.0), 5..12), seed: u64
        ) {
            let turned: Vec<(f64, f64)> = pairs.iter().map(|(first, second)| (*second, *first)).collect();
            let (one, other) = (compare(&pairs, None, seed).unwrap(), compare(&turned, None, seed).unwrap());
            prop_assert!((one.ratio.low * other.ratio.high - 1.0).abs() < 1e-9);
            let expected = match one.conclusion {
                Conclusion::FirstHigher => Conclusion::SecondHigher,
                Conclusion::SecondHigher => Conclusion::FirstHigher,
                same => same,
            };
            prop_assert_eq!(other.conclusion, expected);
            prop_assert!((one.signed_rank_p - other.signed_rank_p).abs() < 1e-9);
        }
    }
}
