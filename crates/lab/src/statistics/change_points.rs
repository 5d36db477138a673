//! Where a history of figures changed its level: the points between which the figures are of one level each.
//!
//! The history is split where the difference of the two means is largest against the noise, if chance alone
//! would rarely cause such a split (a test by permutation); each part is then split in the same way (binary
//! segmentation). The generator is seeded: the same history gives the same points.

use touchstone_http::split_mix::SplitMix;

/// The fewest figures on each side of a change.
const FEWEST: usize = 3;
/// How often the figures are put into another order.
const PERMUTATIONS: usize = 500;
/// The probability of a change by chance.
const CHANCE_MAX: f64 = 0.01;

/// The places at which a new level begins, in order.
pub fn change_points(values: &[f64], seed: u64) -> Vec<usize> {
    let mut found = Vec::new();
    split(values, 0, &mut SplitMix(seed), &mut found);
    found.sort_unstable();
    found
}

fn split(values: &[f64], offset: usize, generator: &mut SplitMix, found: &mut Vec<usize>) {
    let Some((at, gain)) = best(values) else { return };
    let mut shuffled = values.to_vec();
    let mut as_large = 1usize;
    for _ in 0..PERMUTATIONS {
        for place in (1..shuffled.len()).rev() {
            shuffled.swap(place, generator.below(place + 1));
        }
        as_large += usize::from(best(&shuffled).is_some_and(|(_, other)| other >= gain));
        if as_large as f64 / (PERMUTATIONS + 1) as f64 > CHANCE_MAX {
            return;
        }
    }
    found.push(offset + at);
    split(&values[..at], offset, generator, found);
    split(&values[at..], offset + at, generator, found);
}

/// The split that explains most of the figures' squares, and how much.
fn best(values: &[f64]) -> Option<(usize, f64)> {
    let count = values.len();
    if count < 2 * FEWEST {
        return None;
    }
    let total: f64 = values.iter().sum();
    let mut before: f64 = values[..FEWEST].iter().sum();
    let mut best = (FEWEST, f64::MIN);
    for (at, value) in values.iter().enumerate().take(count - FEWEST + 1).skip(FEWEST) {
        let (left, right) = (at as f64, (count - at) as f64);
        let difference = before / left - (total - before) / right;
        let gain = difference * difference * left * right / count as f64;
        if gain > best.1 {
            best = (at, gain);
        }
        before += value;
    }
    // Rounding is not a change.
    let scale = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    (best.1 > (1e-9 * scale).powi(2)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut generator = SplitMix(seed);
        let mut value = |level: f64| level * (1.0 + 0.01 * (generator.below(1001) as f64 / 500.0 - 1.0));
        levels.iter().flat_map(|(count, level)| vec![*level; *count]).map(&mut value).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let points = change_points(&noisy(&[(20, 10.0), (15, 10.5)], 1), 1);
        assert_eq!(points, [20]);
        let points = change_points(&noisy(&[(12, 10.0), (12, 10.6), (12, 9.8)], 2), 1);
        assert_eq!(points, [12, 24]);
    }

    #[test]
    fn noise_alone_seldom_has_a_change() {
        let found =
            (0..100).filter(|seed| !change_points(&noisy(&[(30, 10.0)], *seed), 1).is_empty()).count();
        assert!(found <= 3, "{found} of 100");
        assert_eq!(change_points(&[1.0; 30], 1), Vec::<usize>::new());
        assert_eq!(change_points(&[1.0, 2.0, 3.0], 1), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn points_are_in_order_and_apart(values in proptest::collection::vec(0.1..10.0f64, 0..40)) {
            let points = change_points(&values, 3);
            let ends = std::iter::once(0).chain(points.iter().copied()).chain([values.len()]);
            let ends: Vec<usize> = ends.collect();
            prop_assert!(points.is_empty() || ends.windows(2).all(|pair| pair[1] - pair[0] >= FEWEST));
        }
    }
}
