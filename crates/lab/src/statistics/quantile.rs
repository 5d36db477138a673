//! Medians and quantiles of values, the interval of a percentile of one run (the order statistics that bound
//! it), and the quantile of the normal distribution.
//!
//! The number of values below the true quantile is binomial, whatever the distribution, so two ranks bound it
//! without any assumption about its shape.

/// The middle value (of an even number, the mean of the two middle ones); `None` if there are no values or
/// one is not a number.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values)?;
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    })
}

/// The middle value, and of an even number the lower of the two middle ones: one that was measured.
pub fn measured_median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values)?;
    Some(sorted[(sorted.len() - 1) / 2])
}

/// The quantile `share` (0 to 1) by linear interpolation between order statistics (R's type 7).
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values)?, share)
}

/// The same of values in order.
pub(super) fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The values in order; `None` if there are no values or one is not a number.
pub(super) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// From this variance on the binomial is taken as normal; below it is summed up.
const NORMAL_FROM_VARIANCE: f64 = 400.0;

/// The ranks (from 1) of the order statistics that bound the quantile `share` of the true distribution with
/// at least `confidence`, for `count` independent values. `None` if so few values cannot bound it.
pub fn rank_bounds(count: u64, share: f64, confidence: f64) -> Option<(u64, u64)> {
    if count == 0 || !(0.0..1.0).contains(&share) || share <= 0.0 || !(0.0..1.0).contains(&confidence) {
        return None;
    }
    let (mean, variance) = (count as f64 * share, count as f64 * share * (1.0 - share));
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = if variance >= NORMAL_FROM_VARIANCE {
        let half_width = normal_quantile(1.0 - tail) * variance.sqrt();
        ((mean - half_width).floor(), (mean + half_width).ceil() + 1.0)
    } else {
        let (low, high) = binomial_ranks(count, share, tail)?;
        (low as f64, high as f64)
    };
    (low >= 1.0 && high <= count as f64).then_some((low as u64, high as u64))
}

/// The largest rank that is too high with at most `tail`, and the least that is too low with at most `tail`.
fn binomial_ranks(count: u64, share: f64, tail: f64) -> Option<(u64, u64)> {
    // P(B = k) from P(B = k - 1), in logarithms: the first may be too small for a float.
    let mut log_probability = count as f64 * (1.0 - share).ln();
    let odds = (share / (1.0 - share)).ln();
    let (mut below, mut low, mut high) = (0.0, 0, None);
    for successes in 0..=count {
        below += log_probability.exp();
        if below <= tail {
            low = successes + 1;
        }
        if high.is_none() && below >= 1.0 - tail {
            high = Some(successes + 1);
        }
        log_probability += odds + ((count - successes) as f64 / (successes + 1) as f64).ln();
    }
    Some((low, high?))
}

/// The quantile of the standard normal distribution (Acklam's approximation, relative error below 1.2e-9).
pub fn normal_quantile(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    /// Below this share, and above its complement, the tails have a form of their own.
    const TAIL: f64 = 0.02425;
    let polynomial = |factors: &[f64], x: f64| factors.iter().fold(0.0, |sum, factor| sum * x + factor);
    let tail = |q: f64| polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    if share < TAIL {
        tail((-2.0 * share.ln()).sqrt())
    } else if share > 1.0 - TAIL {
        -tail((-2.0 * (1.0 - share).ln()).sqrt())
    } else {
        let q = share - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_and_quantiles_are_those_of_r() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median(&[]), median(&[f64::NAN])), (None, None));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), Some(1.75));
        assert_eq!(quantile(&[7.0], 0.9), Some(7.0));
    }

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (share, expected) in
            [(0.975, 1.959_963_985), (0.5, 0.0), (0.001, -3.090_232_306), (0.995, 2.575_829_304)]
        {
            assert!((normal_quantile(share) - expected).abs() < 1e-8, "{share}");
        }
    }

    #[test]
    fn rank_bounds_are_those_of_the_binomial_tables() {
        // Conover's table of the median's interval: n = 10 gives ranks 2 and 9, n = 20 ranks 6 and 15 at 95
        // %.
        assert_eq!(rank_bounds(10, 0.5, 0.95), Some((2, 9)));
        assert_eq!(rank_bounds(20, 0.5, 0.95), Some((6, 15)));
        // Five values cannot bound their median at 95 %: both would be out with 2 x 1/32.
        assert_eq!(rank_bounds(5, 0.5, 0.95), None);
        assert_eq!(rank_bounds(6, 0.5, 0.95), Some((1, 6)));
        assert_eq!(rank_bounds(0, 0.5, 0.95), None);
        let (low, high) = rank_bounds(1_000_000, 0.99, 0.95).unwrap();
        assert!((989_800..989_810).contains(&low) && (990_190..990_200).contains(&high), "{low} {high}");
    }

    proptest! {
        #[test]
        fn the_ranks_lie_around_the_quantile(count in 1u64..5000, share in 0.01f64..0.999) {
            if let Some((low, high)) = rank_bounds(count, share, 0.95) {
                prop_assert!(1 <= low && low < high && high <= count);
                prop_assert!(low as f64 <= count as f64 * share + 1.0 && high as f64 >= count as f64 * share);
            }
        }

        #[test]
        fn a_median_lies_between_the_extremes(values in proptest::collection::vec(-1e9f64..1e9, 1..50)) {
            let found = median(&values).unwrap();
            let below = values.iter().filter(|value| **value <= found).count();
            let above = values.iter().filter(|value| **value >= found).count();
            prop_assert!(2 * below >= values.len() && 2 * above >= values.len());
        }
    }
}
