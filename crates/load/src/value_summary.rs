//! Mean, standard deviation, minimum and maximum of values without a histogram.

use serde::{Deserialize, Serialize};

/// The sums of values, and their minimum and maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ValueSummary {
    /// The number of values.
    pub count: u64,
    /// The sum of the values.
    pub sum: f64,
    /// The sum of the squares of the values.
    pub sum_of_squares: f64,
    /// The smallest value; 0 without values.
    pub min: u64,
    /// The largest value; 0 without values.
    pub max: u64,
}

impl ValueSummary {
    /// Records a value.
    pub(crate) fn record(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += value as f64;
        self.sum_of_squares += value as f64 * value as f64;
    }

    /// Adds the values of another summary.
    pub fn merge(&mut self, other: &ValueSummary) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// The mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The standard deviation; 0 without values.
    pub fn stddev(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (self.sum_of_squares / self.count as f64 - self.mean().powi(2)).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> ValueSummary {
        let mut moments = ValueSummary::default();
        values.iter().for_each(|value| moments.record(*value));
        moments
    }

    #[test]
    fn equal_values_have_no_deviation() {
        let moments = of(&[5_248_000; 1000]);
        assert_eq!((moments.mean(), moments.stddev()), (5_248_000.0, 0.0));
        assert_eq!((ValueSummary::default().mean(), ValueSummary::default().stddev()), (0.0, 0.0));
    }

    proptest! {
        #[test]
        fn merged_parts_are_equal_to_the_whole(values: Vec<u32>, at in 0usize..64) {
            let values: Vec<u64> = values.into_iter().map(u64::from).collect();
            let (left, right) = values.split_at(at.min(values.len()));
            let (mut sum, whole) = (of(left), of(&values));
            sum.merge(&of(right));
            prop_assert_eq!((sum.count, sum.min, sum.max), (whole.count, whole.min, whole.max));
            prop_assert!((sum.mean() - whole.mean()).abs() <= whole.mean() * 1e-9);
            let rounding = whole.mean() * 1e-12;
            prop_assert!(whole.min as f64 <= whole.mean() + rounding);
            prop_assert!(whole.mean() <= whole.max as f64 + rounding);
            prop_assert!(whole.stddev() <= (whole.max - whole.min) as f64 / 2.0 + 1e-3 * whole.mean());
        }
    }
}
