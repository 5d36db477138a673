//! The search for the loads that are worth measuring: short trials with twice as many clients each time until
//! the rate no longer rises, then between the best and its neighbours. The loads that it finds are measured
//! afterwards like the mixes of a suite: found by search, confirmed by runs.
//!
//! The structure is that of Nighthawk's adaptive load controller (exponential, then bisection, then a stage
//! that tests what was found) and of MLRsearch: short trials early, full length for the reported figures.

use super::Run;
use std::time::Duration;
use touchstone_lab::result::SearchTrial;
use touchstone_lab::statistics::useful_peak::Criteria;
use touchstone_lab::suite::{Mix, RATE_MAX};

/// The most clients of a trial.
pub(super) const CLIENTS_MAX: usize = 1024;
/// A rate that rises by less than this with twice the clients counts as constant.
const RISES: f64 = 0.03;
/// Whole length of a trial and its ramps, seconds; a suite whose mixes are shorter sets a shorter one.
const TRIAL_S: f64 = 3.0;
const TRIAL_RAMP_S: f64 = 0.5;

/// One mix for each number of clients, with the times of the suite's first.
pub(super) fn mixes_with(numbers: &[usize], first: &Mix) -> Result<Vec<Mix>, String> {
    let mut mixes: Vec<Mix> = Vec::with_capacity(numbers.len());
    for &clients in numbers {
        if mixes.iter().any(|mix| mix.clients == clients) {
            return Err(format!("--clients names {clients} twice"));
        }
        mixes.push(Mix { name: Mix::name_for(clients), clients, ..first.clone() });
    }
    if mixes.is_empty() { Err("--clients names no number".to_string()) } else { Ok(mixes) }
}

/// One mix for each rate, with the times and the clients of the suite's first; `clients` in the place of
/// those.
pub(super) fn mixes_at(rates: &[f64], clients: Option<&[usize]>, first: &Mix) -> Result<Vec<Mix>, String> {
    let clients = match clients {
        None => first.clients,
        Some([one]) => *one,
        Some(_) => {
            return Err(
                "with --rate, --clients is one number: how many requests are active at most".to_string()
            );
        }
    };
    let mut mixes: Vec<Mix> = Vec::with_capacity(rates.len());
    for &rate in rates {
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(format!("--rate {rate}: a rate is above 0 and at most {RATE_MAX}"));
        }
        if mixes.iter().any(|mix| mix.rate == Some(rate)) {
            return Err(format!("--rate names {rate} twice"));
        }
        let name = Mix::name_for_rate(rate);
        // A rate determines when each request is due.
        mixes.push(Mix { name, clients, rate: Some(rate), think_time_s: 0.0, delay_s: 0.0, ..first.clone() });
    }
    if mixes.is_empty() { Err("--rate names no rate".to_string()) } else { Ok(mixes) }
}

/// What to try next, by the trials so far (clients and rate, in the order of the trials); `None`: enough is
/// known.
fn next_trial(trials: &[(usize, f64)]) -> Option<usize> {
    if trials.is_empty() {
        return Some(1);
    }
    let doubled = || trials.iter().filter(|trial| trial.0.is_power_of_two());
    let best = doubled().reduce(|best, trial| if trial.1 > best.1 { trial } else { best })?;
    let largest = doubled().map(|trial| trial.0).max()?;
    // Two doublings without a higher rate: one alone may be noise.
    let of_largest = |clients: usize| trials.iter().find(|trial| trial.0 == clients).map(|trial| trial.1);
    let rises = |clients: usize| {
        let before = of_largest(clients / 2)?;
        Some(of_largest(clients)? > before * (1.0 + RISES))
    };
    let stalled = largest >= 4 && rises(largest) == Some(false) && rises(largest / 2) == Some(false);
    if !stalled && largest < CLIENTS_MAX {
        return Some(largest * 2);
    }
    // Between the best of them and its neighbours on both sides, once each.
    let middle = |low: usize, high: usize| ((low as f64 * high as f64).sqrt().round()) as usize;
    [middle(best.0 / 2, best.0), middle(best.0, best.0 * 2)]
        .into_iter()
        .filter(|clients| (1..=CLIENTS_MAX).contains(clients))
        .find(|clients| trials.iter().all(|trial| trial.0 != *clients))
}

/// The loads to measure, by what was found on one system: one client, the load of the best rate, half and
/// twice as many, and the heaviest that met the criterion of time.
fn loads(trials: &[SearchTrial], criteria: &Criteria) -> Vec<usize> {
    let best =
        trials.iter().reduce(
            |best, trial| {
                if trial.requests_per_second > best.requests_per_second { trial } else { best }
            },
        );
    let Some(best) = best else { return Vec::new() };
    let best = best.clients as usize;
    let within = |trial: &&SearchTrial| {
        trial.errors_share <= criteria.errors_max
            && criteria.p95_max_us.is_none_or(|limit| trial.p95_us <= limit)
    };
    let useful = trials.iter().filter(within).map(|trial| trial.clients as usize).max();
    let mut loads = vec![1, best.div_ceil(2), best, (best * 2).min(CLIENTS_MAX)];
    loads.extend(useful);
    loads
}

impl Run<'_> {
    /// Searches on every system, and puts what is found in the place of the suite's mixes. An error is the
    /// reason why the run ends here.
    pub(super) fn search(&mut self) -> Result<(), String> {
        let mut clients = Vec::new();
        for running in 0..self.running.len() {
            for part in 0..self.prepared.suite.parts.len() {
                if self.running[running].runs(part) {
                    let trials = self.search_on(running, part)?;
                    clients.extend(loads(&trials, &self.prepared.method.useful));
                    let place = self.running[running].place;
                    self.systems[place].search.extend(trials);
                }
            }
        }
        clients.sort_unstable();
        clients.dedup();
        self.prepared.mixes = mixes_with(&clients, &self.prepared.mixes[0])?;
        Ok(())
    }

    fn search_on(&mut self, running: usize, part: usize) -> Result<Vec<SearchTrial>, String> {
        let mut trials: Vec<SearchTrial> = Vec::new();
        let known = |trials: &[SearchTrial]| -> Vec<(usize, f64)> {
            trials.iter().map(|trial| (trial.clients as usize, trial.requests_per_second)).collect()
        };
        while let Some(clients) = next_trial(&known(&trials)) {
            trials.push(self.try_clients(running, part, clients, trials.len() + 1)?);
        }
        Ok(trials)
    }

    fn try_clients(
        &mut self,
        running: usize,
        part: usize,
        clients: usize,
        number: usize,
    ) -> Result<SearchTrial, String> {
        let title = format!("search on {}", self.title(running, part));
        let mix = trial_mix(&self.prepared.mixes[0], clients);
        let outcome =
            self.load_apart((running, part), &mix, &title, (number, number), Duration::ZERO)?.outcome;
        let failed = outcome.errors.total() as f64;
        Ok(SearchTrial {
            interface: self.prepared.suite.parts[part].name().to_string(),
            clients: clients as u64,
            requests_per_second: outcome.requests_per_second(),
            p95_us: outcome.latency_ns.value_at_quantile(0.95) as f64 / 1000.0,
            errors_share: failed / (failed + outcome.requests as f64).max(1.0),
        })
    }
}

/// A trial with this many clients: as the mixes, and short.
fn trial_mix(mix: &Mix, clients: usize) -> Mix {
    let counted = mix.length_s - mix.ramp_up_s - mix.ramp_down_s;
    let ramp_up_s = mix.ramp_up_s.min(TRIAL_RAMP_S);
    let length_s = ramp_up_s + counted.min(TRIAL_S - TRIAL_RAMP_S);
    let delay_s = mix.delay_s.min(ramp_up_s);
    Mix {
        name: Mix::name_for(clients),
        clients,
        ramp_up_s,
        length_s,
        ramp_down_s: 0.0,
        delay_s,
        ..mix.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trials of a search on a curve.
    fn searched(curve: impl Fn(f64) -> f64) -> Vec<usize> {
        let mut trials = Vec::new();
        while let Some(clients) = next_trial(&trials) {
            assert!(trials.len() < 40, "{trials:?}");
            trials.push((clients, curve(clients as f64)));
        }
        trials.into_iter().map(|trial| trial.0).collect()
    }

    #[test]
    fn the_search_doubles_until_nothing_rises_and_then_looks_between() {
        // Saturated from 10 clients on, falling beyond.
        let found = searched(|clients| clients.min(10.0) * 100.0 - clients);
        assert_eq!(found, [1, 2, 4, 8, 16, 32, 64, 11, 23]);
        assert_eq!(searched(|clients| clients).last(), Some(&724), "up to the most that are tried");
        assert_eq!(searched(|_| 5.0), [1, 2, 4]);
    }

    fn trial(clients: u64, rate: f64, p95_us: f64) -> SearchTrial {
        SearchTrial {
            interface: String::new(),
            clients,
            requests_per_second: rate,
            p95_us,
            errors_share: 0.0,
        }
    }

    #[test]
    fn what_is_measured_stands_around_the_best_and_at_the_limit_of_time() {
        let trials =
            [trial(1, 100.0, 1e3), trial(8, 700.0, 5e3), trial(16, 900.0, 12e3), trial(32, 890.0, 40e3)];
        let mut criteria = Criteria::default();
        assert_eq!(loads(&trials, &criteria), [1, 8, 16, 32, 32]);
        criteria.p95_max_us = Some(6e3);
        assert_eq!(loads(&trials, &criteria), [1, 8, 16, 32, 8]);
        assert_eq!(loads(&[], &criteria), Vec::<usize>::new());
    }

    #[test]
    fn a_trial_is_short_and_counts_something() {
        let mix = touchstone_lab::suite::Suite::find("webbench-1.1-static").unwrap().mixes[0].clone();
        let trial = trial_mix(&mix, 7);
        assert_eq!((trial.clients, trial.ramp_up_s, trial.length_s, trial.problem()), (7, 0.5, 3.0, None));
        let short = Mix { ramp_up_s: 0.1, length_s: 1.0, ramp_down_s: 0.1, ..mix };
        assert!((trial_mix(&short, 7).length_s - 0.9).abs() < 1e-9);
        let slow_to_begin = Mix { delay_s: 20.0, ..short };
        assert_eq!(trial_mix(&slow_to_begin, 7).delay_s, 0.1);
    }
}
