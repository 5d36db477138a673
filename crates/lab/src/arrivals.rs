//! Mixes of an open load: the name of their load, whether the server served it, and which requests were lost.

use crate::figures::{clients, count, list, percent, rate};
use crate::result::{ArrivalFigures, MixResult, ResultFile};

/// The share of the due requests that must be answered for a rate to be served.
pub const CARRIED_SHARE: f64 = 0.99;

impl ArrivalFigures {
    /// The tolerance of the number of due requests in a window: one, and for arrivals at random five standard
    /// deviations.
    pub fn tolerance(&self, window_s: f64) -> f64 {
        let expected = self.per_second * window_s;
        let chance = if self.at_random { 5.0 * expected.max(0.0).sqrt() } else { 0.0 };
        // The counted window begins and ends between two arrivals of each engine thread.
        64.0 + chance + expected * 0.001
    }
}

impl MixResult {
    /// The measure of its load, which rises from mix to mix: arrivals a second of an open load, and virtual
    /// clients otherwise.
    pub fn load(&self) -> u64 {
        self.arrivals.as_ref().map_or(self.clients, |arrivals| arrivals.per_second.round() as u64)
    }

    /// Its load in words: `16 clients`, `2,000 arrivals/s`.
    pub fn load_in_words(&self) -> String {
        match &self.arrivals {
            Some(arrivals) => format!("{} arrivals/s", rate(arrivals.per_second)),
            None => clients(self.clients),
        }
    }

    /// The share of what was due that was answered validly, where the load is open: those that are missing
    /// were never started, failed, or were still waited for when the run was over.
    pub fn answered_share(&self) -> Option<f64> {
        let due = self.arrivals.as_ref()?.due;
        (due > 0).then(|| self.latency.count as f64 / due as f64)
    }

    /// Whether the server carried the rate of an open load.
    pub fn carried(&self) -> bool {
        self.answered_share().is_some_and(|share| share >= CARRIED_SHARE)
    }
}

/// Whether the loads of a result are open.
pub fn is_open(result: &ResultFile) -> bool {
    result.systems.iter().flat_map(|system| &system.mixes).any(|mix| mix.arrivals.is_some())
}

/// The due requests that were not answered.
pub fn lost(mix: &MixResult) -> String {
    let Some(arrivals) = &mix.arrivals else { return String::new() };
    let share = percent(1.0 - mix.answered_share().unwrap_or(0.0));
    let unsent = arrivals.due - arrivals.started.min(arrivals.due);
    let mut parts = vec![format!("{share} of {} due requests had no valid answer", count(arrivals.due))];
    if unsent > 0 {
        parts.push(format!(
            "{} were never started, as all {} clients waited",
            count(unsent),
            count(mix.clients)
        ));
    }
    if mix.errors.total() > 0 {
        parts.push(format!("{} failed", count(mix.errors.total())));
    }
    list(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn loads_are_told_by_their_rate() {
        let result = sample::open();
        assert!(is_open(&result) && !is_open(&sample::result()));
        let mix = &result.systems[0].mixes[1];
        assert_eq!((mix.load(), mix.load_in_words().as_str()), (2_000, "2,000 arrivals/s"));
        assert_eq!(sample::mix(16, 100.0).load_in_words(), "16 clients");
        assert_eq!(sample::mix(16, 100.0).answered_share(), None);
    }

    #[test]
    fn arrivals_at_random_may_be_more_or_fewer() {
        let result = sample::open();
        let mut arrivals = result.systems[0].mixes[0].arrivals.clone().unwrap();
        let equal = arrivals.tolerance(5.0);
        arrivals.at_random = true;
        assert!(arrivals.tolerance(5.0) > equal + 300.0, "five standard deviations of 5,000");
    }
}
