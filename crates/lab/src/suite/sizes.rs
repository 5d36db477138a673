//! The sizes of a class's files: all equal, or spread over a range by a distribution.
//!
//! Nothing is drawn at random. Of *n* files, number *i* has the size at the quantile (i + ½) / n of its
//! distribution, so that the set has the distribution's shape as closely as this many files can, the same on
//! every machine. The files are then shuffled by the workload's seed, so that popularity does not depend on
//! size.

use crate::definition::{DefinitionError, Table};
use touchstone_http::split_mix::SplitMix;

/// The largest file: 1 GiB.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;
/// The most points of a spread by quantiles.
const POINTS_MAX: usize = 100;

/// How sizes are spread.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// At equal distances.
    Even {
        /// Smallest size, bytes.
        from: f64,
        /// Largest size, bytes.
        to: f64,
    },
    /// In equal proportions: as many from 1 to 10 KB as from 10 to 100 KB.
    Geometric {
        /// Smallest size, bytes.
        from: f64,
        /// Largest size, bytes.
        to: f64,
    },
    /// Log-normal, the body of most measured distributions of files (Barford and Crovella 1998), cut at both
    /// ends.
    LogNormal {
        /// Smallest size, bytes.
        from: f64,
        /// Largest size, bytes.
        to: f64,
        /// Half of the files are smaller, bytes.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Pareto, the tail that the same work found, cut at its upper end.
    Pareto {
        /// Smallest size, bytes.
        from: f64,
        /// Largest size, bytes.
        to: f64,
        /// The tail's index: the smaller, the heavier.
        shape: f64,
    },
    /// Through measured percentiles, in equal proportions between them.
    Quantiles {
        /// Percent of the files, and the bytes that they have at most; both rise, from 0 to 100 percent.
        points: Vec<(f64, f64)>,
    },
}

impl Spread {
    /// Reads the table `sizes`.
    pub(super) fn read(table: &Table<'_>) -> Result<Spread, DefinitionError> {
        let kind = table.required_string("spread")?;
        let bytes = |key| table.number(key, 1.0..=FILE_BYTES_MAX as f64);
        let required = |key| Ok::<_, DefinitionError>(table.required(key, bytes(key)?)?.value);
        let range = || {
            let (from, to) = (required("from_bytes")?, required("to_bytes")?);
            match from <= to {
                true => Ok((from, to)),
                false => {
                    Err(table.error(format!("sizes from {from} to {to} bytes: the first is the smaller")))
                }
            }
        };
        let spread = match kind.value.as_str() {
            "even" => range().map(|(from, to)| Spread::Even { from, to })?,
            "geometric" => range().map(|(from, to)| Spread::Geometric { from, to })?,
            "log-normal" => {
                let (from, to) = range()?;
                let sigma = table.required("sigma", table.number("sigma", 0.01..=10.0)?)?.value;
                Spread::LogNormal { from, to, median: required("median_bytes")?, sigma }
            }
            "pareto" => {
                let (from, to) = range()?;
                let shape = table.required("shape", table.number("shape", 0.1..=10.0)?)?.value;
                Spread::Pareto { from, to, shape }
            }
            "quantiles" => Spread::Quantiles { points: points(table)? },
            other => {
                let message = format!(
                    "there is no spread \"{other}\"; known: even, geometric, log-normal, pareto, quantiles"
                );
                return Err(table.error_at(&kind, message));
            }
        };
        table.finish()?;
        Ok(spread)
    }

    /// The sizes of this many files, in the order of their numbers.
    pub(super) fn sizes(&self, files: u64, seed: u64) -> Vec<u64> {
        let mut sizes: Vec<u64> = (0..files).map(|number| self.size(number, files)).collect();
        // Fisher and Yates's shuffle.
        let mut random = SplitMix(seed);
        for last in (1..sizes.len()).rev() {
            let other = (u128::from(random.draw()) * (last as u128 + 1)) >> 64;
            sizes.swap(last, other as usize);
        }
        sizes
    }

    /// The size of one file out of this many, from the smallest on.
    fn size(&self, number: u64, files: u64) -> u64 {
        // Even and geometric spreads include both ends; in a distribution each file represents its share.
        let along = if files > 1 { number as f64 / (files - 1) as f64 } else { 0.5 };
        let quantile = (number as f64 + 0.5) / files as f64;
        let bytes = match self {
            Spread::Even { from, to } => from + (to - from) * along,
            Spread::Geometric { from, to } => from * (to / from).powf(along),
            Spread::LogNormal { from, to, median, sigma } => {
                (median * (sigma * normal_quantile(quantile)).exp()).clamp(*from, *to)
            }
            Spread::Pareto { from, to, shape } => {
                let cut = 1.0 - (from / to).powf(*shape);
                from * (1.0 - quantile * cut).powf(-1.0 / shape)
            }
            Spread::Quantiles { points } => between(points, quantile * 100.0),
        };
        (bytes.round() as u64).clamp(1, FILE_BYTES_MAX)
    }
}

/// The points of `percent` and `bytes`.
fn points(table: &Table<'_>) -> Result<Vec<(f64, f64)>, DefinitionError> {
    let list = |key| table.required(key, table.numbers(key, 0.0..=FILE_BYTES_MAX as f64)?);
    let (percents, bytes) = (list("percent")?, list("bytes")?);
    let rises = |list: &[f64]| list.windows(2).all(|pair| pair[0] <= pair[1]);
    let is_whole = percents.value.first() == Some(&0.0) && percents.value.last() == Some(&100.0);
    if percents.value.len() != bytes.value.len() || !(2..=POINTS_MAX).contains(&percents.value.len()) {
        return Err(table.error(format!(
            "`percent` and `bytes` have a number each for the same 2 to {POINTS_MAX} points; they have \
             {} and {}",
            percents.value.len(),
            bytes.value.len()
        )));
    }
    if !(is_whole && rises(&percents.value)) {
        return Err(table.error_at(&percents, "`percent` rises from 0 to 100"));
    }
    if !(bytes.value[0] >= 1.0 && rises(&bytes.value)) {
        return Err(table.error_at(&bytes, "`bytes` rises, from 1 at the least"));
    }
    Ok(percents.value.into_iter().zip(bytes.value).collect())
}

/// The value at a percentile, by equal proportions between the points.
fn between(points: &[(f64, f64)], percent: f64) -> f64 {
    let upper = points.partition_point(|(at, _)| *at < percent).clamp(1, points.len() - 1);
    let ((low_at, low), (high_at, high)) = (points[upper - 1], points[upper]);
    let along = if high_at > low_at { (percent - low_at) / (high_at - low_at) } else { 1.0 };
    low * (high / low).powf(along.clamp(0.0, 1.0))
}

/// The quantile function of the standard normal distribution, by bisection on its distribution function: more
/// exact than that of the statistics, because the sizes of files must not change with an approximation. It is
/// used for a few files, once, so that speed does not matter.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_distribution(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The distribution function of the standard normal distribution: its series around 0, which converges
/// everywhere and is exact to the last digits as far out as a file of a class can be (Abramowitz and Stegun,
/// 26.2.11).
fn normal_distribution(at: f64) -> f64 {
    if at.abs() > 8.0 {
        return if at > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum) = (at, at);
    let mut odd = 1.0;
    while term.abs() > 1e-17 {
        odd += 2.0;
        term *= at * at / odd;
        sum += term;
    }
    0.5 + sum * (-at * at / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (at, probability) in
            [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895), (3.0, 0.998_650_102)]
        {
            assert!((normal_distribution(at) - probability).abs() < 1e-8, "{at}");
            assert!((normal_quantile(probability) - at).abs() < 1e-6, "{at}");
        }
    }

    #[test]
    fn measured_percentiles_come_out_again() {
        let points = vec![(0.0, 100.0), (10.0, 400.0), (50.0, 4600.0), (90.0, 83_500.0), (100.0, 400_000.0)];
        let mut sizes = Spread::Quantiles { points: points.clone() }.sizes(10_000, 1);
        sizes.sort_unstable();
        for (percent, bytes) in &points[1..4] {
            let found = sizes[(percent * 100.0) as usize] as f64;
            assert!((found / bytes - 1.0).abs() < 0.01, "p{percent}: {found} instead of {bytes}");
        }
    }

    #[test]
    fn distributions_have_their_medians_and_tails() {
        let mut sizes = Spread::LogNormal { from: 1.0, to: 1e9, median: 5000.0, sigma: 1.5 }.sizes(9_999, 7);
        sizes.sort_unstable();
        assert_eq!(sizes[4999], 5000);
        // Of a log-normal distribution 84.1 % are within one standard deviation of the logarithm.
        assert!((sizes[8412] as f64 / (5000.0 * 1.5f64.exp()) - 1.0).abs() < 0.01);
        let mut sizes = Spread::Pareto { from: 1000.0, to: 1e9, shape: 1.2 }.sizes(10_000, 7);
        sizes.sort_unstable();
        // A tenth is above from × 10^(1 / shape).
        assert!((sizes[9000] as f64 / (1000.0 * 10f64.powf(1.0 / 1.2)) - 1.0).abs() < 0.01);
    }

    fn spreads() -> impl Strategy<Value = (Spread, f64, f64)> {
        (0usize..5, 1.0f64..1e5, 1.0f64..1e4, 0.1f64..3.0).prop_map(|(kind, from, times, width)| {
            let to = from * times;
            let spread = match kind {
                0 => Spread::Even { from, to },
                1 => Spread::Geometric { from, to },
                2 => Spread::LogNormal { from, to, median: (from * to).sqrt(), sigma: width },
                3 => Spread::Pareto { from, to, shape: width },
                _ => Spread::Quantiles { points: vec![(0.0, from), (30.0, (from * to).sqrt()), (100.0, to)] },
            };
            (spread, from, to)
        })
    }

    proptest! {
        #[test]
        fn sizes_are_within_their_range_and_the_same_again(
            (spread, from, to) in spreads(),
            files in 1u64..300,
            seed: u64,
        ) {
            let sizes = spread.sizes(files, seed);
            prop_assert_eq!(sizes.len() as u64, files);
            prop_assert!(sizes
                .iter()
                .all(|size| (from.round() as u64..=to.round() as u64 + 1).contains(size)));
            prop_assert_eq!(&sizes, &spread.sizes(files, seed));
            let (mut sorted, mut other) = (sizes, spread.sizes(files, seed ^ 1));
            sorted.sort_unstable();
            other.sort_unstable();
            // The seed decides which file has which size, not which sizes there are.
            prop_assert_eq!(&sorted, &other);
            if let (Spread::Even { .. } | Spread::Geometric { .. }, true) = (&spread, files > 1) {
                prop_assert_eq!(sorted[0], from.round() as u64);
                prop_assert!(sorted[sorted.len() - 1].abs_diff(to.round() as u64) <= 1);
            }
        }
    }
}
