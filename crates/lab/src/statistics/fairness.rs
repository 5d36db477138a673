//! Whether all clients were served equally. A server can reach a high rate by serving some clients and
//! starving others; the report of 2000 does not call such a peak useful.

use super::quantile::median;
use serde::{Deserialize, Serialize};

/// How equally the clients of one run were served.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Jain's index of the clients' answers: 1: all equal; 1/n: one client had them all.
    pub jain: f64,
    /// The slowest client's mean latency over the median client's; absent where no latency is known.
    pub slowest_over_median: Option<f64>,
}

/// Jain's fairness index (Jain, Chiu and Hawe, 1984): the square of the sum over n times the sum of squares.
/// `None` if there are no clients, or no client got an answer.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0 && squares.is_finite() && shares.iter().all(|share| *share >= 0.0))
        .then(|| (sum * sum / (shares.len() as f64 * squares)).min(1.0))
}

/// The fairness of a run, from each client's answers and mean latency (only clients that were answered have
/// one).
pub fn of_clients(answers: &[f64], mean_latencies_us: &[f64]) -> Option<Fairness> {
    let slowest = mean_latencies_us.iter().copied().fold(f64::NAN, f64::max);
    let middle = median(mean_latencies_us).filter(|middle| *middle > 0.0);
    Some(Fairness { jain: jain(answers)?, slowest_over_median: middle.map(|middle| slowest / middle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_index_is_one_when_all_are_alike_and_one_nth_when_one_has_all() {
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain(&[3.0, 1.0]).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!((jain(&[]), jain(&[0.0, 0.0]), jain(&[f64::NAN])), (None, None, None));
        let found = of_clients(&[10.0, 10.0, 5.0], &[100.0, 110.0, 220.0]).unwrap();
        assert_eq!(found.slowest_over_median, Some(2.0));
        assert_eq!(of_clients(&[1.0], &[]).unwrap().slowest_over_median, None);
    }

    proptest! {
        #[test]
        fn the_index_lies_between_one_nth_and_one_whatever_the_unit(
            shares in proptest::collection::vec(0.1f64..1e6, 1..100), unit in 0.001f64..1000.0
        ) {
            let index = jain(&shares).unwrap();
            prop_assert!(index <= 1.0 && index >= 1.0 / shares.len() as f64 - 1e-12);
            let scaled: Vec<f64> = shares.iter().map(|share| share * unit).collect();
            prop_assert!((jain(&scaled).unwrap() - index).abs() < 1e-9);
        }
    }
}
