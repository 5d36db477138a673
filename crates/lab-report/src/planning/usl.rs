//! Gunther's Universal Scalability Law: X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)).
//!
//! gamma is the rate of a single client, alpha the loss by contention, beta the loss by coherency
//! (crosstalk). Three parameters fit nearly any curve, so a fit is accepted only if the data identifies the
//! parameters: enough loads, light ones among them, and small errors of the parameters.

use super::least_squares::{Fit, fit};
use serde::Serialize;

/// The fewest different loads.
pub const LOADS_MIN: usize = 6;
/// The lightest load may have this many clients at most: gamma is the rate of one client.
pub const LIGHTEST_MAX: f64 = 2.0;
/// A parameter's standard error may be this share of it.
pub const ERROR_MAX: f64 = 0.25;
/// The law must explain this share of the rates' variance.
pub const EXPLAINED_MIN: f64 = 0.90;
/// A factor for the standard error: an interval of 95 %.
const TWO_SIDED_95: f64 = 1.96;

/// A parameter with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    /// The estimate.
    pub estimate: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Parameter {
    /// Whether an interval of 95 % leaves out zero.
    pub fn differs_from_zero(&self) -> bool {
        self.estimate - TWO_SIDED_95 * self.standard_error > 0.0
    }
}

/// The law with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usl {
    /// Rate of one client.
    pub gamma: Parameter,
    /// Contention.
    pub alpha: Parameter,
    /// Crosstalk.
    pub beta: Parameter,
    /// The share of the rates' variance that the law explains.
    pub explained: f64,
}

/// The outcome of a fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Outcome {
    /// The data identifies the parameters.
    Identified(Usl),
    /// It does not; with the reasons, and the fit for readers who want it in any case.
    NotIdentified {
        /// Why not, a sentence each.
        reasons: Vec<String>,
        /// The least-squares parameters.
        fit: Option<Usl>,
    },
}

impl Usl {
    /// The rate at a load.
    pub fn rate(&self, load: f64) -> f64 {
        curve(load, &[self.gamma.estimate, self.alpha.estimate, self.beta.estimate])
    }

    /// The load of the highest rate: sqrt((1 - alpha) / beta). Absent if the crosstalk is not significantly
    /// different from zero, because then no peak is known.
    pub fn peak_load(&self) -> Option<f64> {
        let (alpha, beta) = (self.alpha.estimate, self.beta.estimate);
        (self.beta.differs_from_zero() && alpha < 1.0).then(|| ((1.0 - alpha) / beta).sqrt())
    }

    /// The upper bound of the rate at any load, by contention alone: gamma / alpha. Absent if there is no
    /// contention.
    pub fn ceiling(&self) -> Option<f64> {
        self.alpha.differs_from_zero().then(|| self.gamma.estimate / self.alpha.estimate)
    }
}

fn curve(load: f64, parameters: &[f64; 3]) -> f64 {
    let [gamma, alpha, beta] = *parameters;
    gamma * load / (1.0 + alpha * (load - 1.0) + beta * load * (load - 1.0))
}

/// The derivatives of the curve by gamma, alpha and beta.
fn slopes(load: f64, parameters: &[f64; 3]) -> [f64; 3] {
    let [gamma, alpha, beta] = *parameters;
    let below = 1.0 + alpha * (load - 1.0) + beta * load * (load - 1.0);
    let factor = -gamma * load / (below * below);
    [load / below, factor * (load - 1.0), factor * load * (load - 1.0)]
}

/// Fits the law to (load, rate).
pub fn identify(points: &[(f64, f64)]) -> Outcome {
    let good: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(load, rate)| *load > 0.0 && *rate > 0.0 && load.is_finite() && rate.is_finite())
        .collect();
    let mut loads: Vec<f64> = good.iter().map(|point| point.0).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let mut reasons = Vec::new();
    if loads.len() < LOADS_MIN {
        reasons.push(format!(
            "{} loads were measured, and {LOADS_MIN} are needed for three parameters",
            loads.len()
        ));
    }
    if let Some(lightest) = loads.first().filter(|lightest| **lightest > LIGHTEST_MAX) {
        reasons.push(format!(
            "gamma is not identified: the lightest load was {lightest} clients; measure with 1 or 2"
        ));
    }
    let fit = (loads.len() >= 3).then(|| start(&good)).and_then(|start| {
        let found = fit(&good, start, curve, slopes)?;
        Some(usl(&found))
    });
    match &fit {
        None => reasons.push("least squares finds no curve".to_owned()),
        Some(usl) => reasons.extend(doubts(usl)),
    }
    match fit {
        Some(usl) if reasons.is_empty() => Outcome::Identified(usl),
        fit => Outcome::NotIdentified { reasons, fit },
    }
}

fn doubts(usl: &Usl) -> Vec<String> {
    let mut doubts = Vec::new();
    let share = usl.gamma.standard_error / usl.gamma.estimate;
    if !share.is_finite() {
        // As many loads as parameters: the curve passes through all of them, so that no data remains to judge
        // it.
        doubts.push("gamma is not identified: too few loads for a standard error".to_owned());
    } else if share > ERROR_MAX {
        doubts.push(format!(
            "gamma is not identified: its standard error is {:.0} % of it (at most {:.0} %)",
            share * 100.0,
            ERROR_MAX * 100.0
        ));
    }
    if !usl.explained.is_finite() {
        doubts.push("how much of the variance the law explains is not known".to_owned());
    } else if usl.explained < EXPLAINED_MIN {
        doubts.push(format!(
            "the law explains {:.0} % of the variance (at least {:.0} %): another shape limits this system",
            usl.explained * 100.0,
            EXPLAINED_MIN * 100.0
        ));
    }
    doubts
}

/// The start of the least-squares search: the rate of a client at the lightest load, and the loss of the
/// heaviest.
fn start(points: &[(f64, f64)]) -> [f64; 3] {
    let lightest = points.iter().copied().fold((f64::INFINITY, 0.0), |a, b| if b.0 < a.0 { b } else { a });
    let heaviest = points.iter().copied().fold((0.0, 1.0), |a, b| if b.0 > a.0 { b } else { a });
    let gamma = lightest.1 / lightest.0;
    let lost = (gamma * heaviest.0 / heaviest.1 - 1.0) / (heaviest.0 - 1.0).max(1.0);
    let lost = lost.clamp(1e-6, 1.0);
    [gamma, lost * 0.9, lost * 0.1 / heaviest.0.max(1.0)]
}

fn usl(found: &Fit) -> Usl {
    let parameter = |index: usize| Parameter {
        estimate: found.parameters[index],
        standard_error: found.standard_errors[index],
    };
    Usl { gamma: parameter(0), alpha: parameter(1), beta: parameter(2), explained: found.explained }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SPEC SDM91 on a SPARCcenter 2000 (data set of the R package `usl`).
    const SPECSDM91: [(f64, f64); 7] = [
        (1.0, 64.9),
        (18.0, 995.9),
        (36.0, 1652.4),
        (72.0, 1853.2),
        (108.0, 1828.9),
        (144.0, 1775.0),
        (216.0, 1702.2),
    ];

    #[test]
    fn the_golden_values_of_specsdm91_come_out() {
        let Outcome::Identified(usl) = identify(&SPECSDM91) else { panic!("{:?}", identify(&SPECSDM91)) };
        assert!((usl.alpha.estimate - 0.027_728_5).abs() < 5e-7, "{usl:?}");
        assert!((usl.beta.estimate - 0.000_104_4).abs() < 5e-8, "{usl:?}");
        assert!((usl.gamma.estimate - 89.995).abs() < 5e-3, "{usl:?}");
        // The peak is near 96.5 clients and 1,884 a second.
        let peak = usl.peak_load().unwrap();
        assert!((peak - 96.5).abs() < 0.1 && (usl.rate(peak) - 1884.0).abs() < 1.0, "{peak}");
    }

    fn webstone(table: &str) -> Vec<(f64, f64)> {
        let table =
            touchstone_lab::reference::report("fasttrack-1996").unwrap().table(table).unwrap().clone();
        let number = |cell: &str| touchstone_lab::reference::PrintedNumber::parse(cell).unwrap().value;
        table.rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
    }

    #[test]
    fn the_curves_of_1996_and_1997_are_not_identified_and_say_why() {
        // All points of one processor lie beyond saturation: gamma would be larger than that of two.
        for table in ["html-1p", "html-2p"] {
            let Outcome::NotIdentified { reasons, fit } = identify(&webstone(table)) else {
                panic!("{table}")
            };
            assert!(reasons[0].contains("gamma is not identified: the lightest load was 16"), "{reasons:?}");
            assert!(fit.is_some());
        }
        let four = [(12.0, 366.0), (24.0, 706.0), (48.0, 988.0), (96.0, 1072.0)];
        let Outcome::NotIdentified { reasons, .. } = identify(&four) else { panic!() };
        assert!(reasons[0].contains("4 loads were measured, and 6 are needed"));
        assert!(matches!(identify(&[]), Outcome::NotIdentified { fit: None, .. }));
    }

    #[test]
    fn a_curve_without_crosstalk_has_no_peak_and_one_without_either_no_ceiling() {
        let curve_of = |alpha: f64, beta: f64| -> Vec<(f64, f64)> {
            [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
                .map(|load| (load, curve(load, &[100.0, alpha, beta])))
                .to_vec()
        };
        // A little noise, so that errors are not zero.
        let noisy = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            points
                .iter()
                .enumerate()
                .map(|(i, (n, x))| (*n, x * if i % 2 == 0 { 1.01 } else { 0.99 }))
                .collect()
        };
        let Outcome::Identified(usl) = identify(&noisy(curve_of(0.05, 0.0))) else { panic!() };
        assert!(usl.peak_load().is_none() && (usl.ceiling().unwrap() - 2000.0).abs() < 200.0, "{usl:?}");
        let Outcome::Identified(usl) = identify(&noisy(curve_of(0.0, 0.0))) else { panic!() };
        assert!(usl.ceiling().is_none() && usl.peak_load().is_none(), "{usl:?}");
    }

    #[test]
    fn a_shape_that_is_not_the_laws_is_not_believed() {
        let saw = [(1.0, 100.0), (2.0, 20.0), (4.0, 300.0), (8.0, 30.0), (16.0, 500.0), (32.0, 10.0)];
        assert!(matches!(identify(&saw), Outcome::NotIdentified { .. }));
    }

    proptest! {
        #[test]
        fn parameters_are_found_again(
            gamma in 10.0f64..10_000.0,
            alpha in 0.001f64..0.3,
            beta in 0.000_01f64..0.005,
        ) {
            let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
                .map(|load| (load, curve(load, &[gamma, alpha, beta])))
                .to_vec();
            let Outcome::Identified(usl) = identify(&points) else { panic!("{:?}", identify(&points)) };
            prop_assert!((usl.gamma.estimate / gamma - 1.0).abs() < 1e-4, "{:?}", usl);
            prop_assert!((usl.alpha.estimate / alpha - 1.0).abs() < 1e-2, "{:?}", usl);
            prop_assert!((usl.beta.estimate / beta - 1.0).abs() < 1e-2, "{:?}", usl);
        }

        #[test]
        fn no_data_panics(points in proptest::collection::vec((-1e6f64..1e6, -1e6f64..1e6), 0..12)) {
            let _ = identify(&points);
        }
    }
}
