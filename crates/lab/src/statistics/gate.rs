//! The gate of continuous integration: whether a figure became worse, with few false alarms on a noisy
//! machine, from a handful of interleaved runs.
//!
//! Each run is a block: within it both sides ran every mix, one after the other, so that a disturbance of a
//! run affects both. The mean of the logarithms of its ratios is one value; the values of different runs are
//! independent. The alarm is raised if the lower end of the one-sided interval of their mean (Student's t) is
//! above no change, and the mean is above the tolerance. With a confidence of 99.5 % there is a false alarm
//! once in 200 comparisons.

use super::Interval;
use serde::{Deserialize, Serialize};

/// The confidence of the one-sided interval.
pub const CONFIDENCE: f64 = 0.995;
/// The fewest runs that allow a conclusion.
pub const FEWEST_RUNS: usize = 3;

/// The outcome of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Runs that both sides completed.
    pub runs: usize,
    /// The ratio of the new side to the old one: its mean (geometric), and the one-sided ends at
    /// [`CONFIDENCE`].
    pub ratio: Interval,
    /// A smaller change for the worse is tolerated, as a share.
    pub tolerated: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It became worse by more than is tolerated.
    Worse,
    /// It became better.
    Better,
    /// No change is shown.
    NoChangeShown,
    /// Too few runs for a verdict.
    TooFewRuns,
}

impl Gate {
    /// The outcome, in a sentence.
    pub fn sentence(&self, new: &str, old: &str) -> String {
        let change = (self.ratio.estimate - 1.0) * 100.0;
        let figures = format!(
            "{change:+.1} % processor time a request ({:.3} to {:.3}, {} runs)",
            self.ratio.low, self.ratio.high, self.runs
        );
        match self.verdict {
            Verdict::Worse => format!(
                "{new} is worse than {old}: {figures}; at most {:.1} % is tolerated.",
                self.tolerated * 100.0
            ),
            Verdict::Better => format!("{new} is better than {old}: {figures}."),
            Verdict::NoChangeShown => {
                format!("{new} against {old}: no change for the worse is shown: {figures}.")
            }
            Verdict::TooFewRuns => format!(
                "{new} against {old}: {} runs are too few for a verdict; bench with --runs 5.",
                self.runs
            ),
        }
    }
}

/// The verdict on runs, each with the ratios (new / old) of its mixes, of a figure of which less is better.
pub fn verdict(runs: &[Vec<f64>], tolerated: f64) -> Option<Gate> {
    let good = |ratio: &f64| *ratio > 0.0 && ratio.is_finite();
    if runs.iter().any(|ratios| ratios.is_empty() || !ratios.iter().all(good)) {
        return None;
    }
    let values: Vec<f64> = runs
        .iter()
        .map(|ratios| ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64)
        .collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        let ratio = Interval { low: 0.0, estimate: mean.exp(), high: f64::MAX };
        return (!values.is_empty()).then_some(Gate {
            runs: values.len(),
            ratio,
            tolerated,
            verdict: Verdict::TooFewRuns,
        });
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = t_quantile(CONFIDENCE, values.len() - 1) * (variance / count).sqrt();
    let verdict = if values.len() < FEWEST_RUNS {
        Verdict::TooFewRuns
    } else if mean - half > 0.0 && mean.exp() > 1.0 + tolerated {
        Verdict::Worse
    } else if mean + half < 0.0 {
        Verdict::Better
    } else {
        Verdict::NoChangeShown
    };
    let ratio = Interval { low: (mean - half).exp(), estimate: mean.exp(), high: (mean + half).exp() };
    Some(Gate { runs: values.len(), ratio, tolerated, verdict })
}

/// The quantile of Student's t with these degrees of freedom, for a probability above one half.
pub fn t_quantile(probability: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_probability(high, freedom) < probability && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if t_probability(middle, freedom) < probability { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability that Student's t is at most `t`, which is not negative: the closed sums for whole degrees
/// of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn t_probability(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    // The sum of the products 1, 1/2, 1*3/(2*4), ... or, for odd numbers, 1, 2/3, 2*4/(3*5), ... with powers
    // of the cosine.
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut number = if is_odd { 1 } else { 0 };
    while number + 2 <= freedom {
        sum += term;
        term *= cosine * cosine * (number + 1) as f64 / (number + 2) as f64;
        number += 2;
    }
    let within = if is_odd {
        2.0 / std::f64::consts::PI * (angle + if freedom > 1 { sine * sum } else { 0.0 })
    } else {
        sine * sum
    };
    0.5 + within / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::split_mix::SplitMix;

    /// A value of the standard normal distribution (Box and Muller).
    fn normal(generator: &mut SplitMix) -> f64 {
        let mut unit = || (generator.below(1 << 30) as f64 + 1.0) / (1u64 << 30) as f64;
        let (first, second) = (unit(), unit());
        (-2.0 * first.ln()).sqrt() * (2.0 * std::f64::consts::PI * second).cos()
    }

    /// Runs of three mixes whose true ratio is `ratio`: each run has a disturbance that affects one side
    /// more, and each mix another one; now and then one of them is hit hard.
    fn runs(count: usize, ratio: f64, noise: f64, generator: &mut SplitMix) -> Vec<Vec<f64>> {
        let mut run = |_: usize| {
            let of_run = noise * normal(generator);
            let mut mix = |_: usize| {
                let spike = if generator.below(50) == 0 { 4.0 } else { 1.0 };
                ratio * (of_run + noise * spike * normal(generator)).exp()
            };
            (0..3).map(&mut mix).collect::<Vec<f64>>()
        };
        (0..count).map(&mut run).collect()
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, freedom, expected) in [
            (0.995, 1, 63.657),
            (0.995, 2, 9.925),
            (0.995, 4, 4.604),
            (0.99, 4, 3.747),
            (0.975, 9, 2.262),
            (0.95, 30, 1.697),
        ] {
            let found = t_quantile(probability, freedom);
            assert!((found - expected).abs() < 0.001, "{probability} {freedom}: {found}");
        }
    }

    /// 2,000 comparisons of simulated runs each, with the noise that interleaved runs of one program have in
    /// processor time a request (0.5 % from run to run and from mix to mix).
    #[test]
    fn false_alarms_are_rare_and_three_percent_are_found_in_five_runs() {
        let mut generator = SplitMix(21);
        let mut alarms = |ratio: f64, noise: f64| {
            let is_worse = |gate: Option<Gate>| gate.is_some_and(|gate| gate.verdict == Verdict::Worse);
            (0..2000).filter(|_| is_worse(verdict(&runs(5, ratio, noise, &mut generator), 0.01))).count()
        };
        for noise in [0.002, 0.005, 0.02, 0.05] {
            let false_alarms = alarms(1.0, noise);
            assert!(false_alarms <= 20, "{false_alarms} of 2,000 with noise {noise}");
        }
        let found = alarms(1.03, 0.005);
        assert!(found >= 1980, "{found} of 2,000");
    }

    #[test]
    fn few_runs_and_bad_figures_say_nothing() {
        let gate = |runs: &[Vec<f64>]| verdict(runs, 0.01).map(|gate| gate.verdict);
        assert_eq!(gate(&[vec![1.5], vec![1.5]]), Some(Verdict::TooFewRuns));
        assert_eq!(gate(&[vec![1.5]]), Some(Verdict::TooFewRuns));
        assert_eq!(gate(&[]), None);
        assert_eq!(gate(&[vec![0.0], vec![1.0], vec![1.0]]), None);
        assert_eq!(gate(&[vec![1.1], vec![1.1], vec![1.1]]), Some(Verdict::Worse));
        assert_eq!(gate(&[vec![0.9], vec![0.91], vec![0.9]]), Some(Verdict::Better));
        assert_eq!(gate(&[vec![1.005], vec![1.005], vec![1.005]]), Some(Verdict::NoChangeShown));
    }
}
