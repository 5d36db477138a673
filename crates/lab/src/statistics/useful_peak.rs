//! The useful peak: the highest load with acceptable latency and errors (the report of 2000 names it; these
//! are its criteria made exact).
//!
//! It is the largest load at which, over at least three runs in their steady windows, at most one request of
//! a thousand fails, 95 % of the answers arrive within the agreed time, no lighter load has the same rate
//! with a much shorter wait, all clients are served equally, and the load engine was below its limit. If it
//! is lower than the peak, the reason is given.

use super::fairness::Fairness;
use super::quantile::measured_median;
use crate::figures::{clients, milliseconds, percent};
use serde::{Deserialize, Serialize};

/// The criteria for a useful load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// The fewest runs.
    pub runs_min: usize,
    /// Failed requests, at most, as a share.
    pub errors_max: f64,
    /// 95 % of the answers arrive within this time, microseconds; absent: no time was agreed.
    pub p95_max_us: Option<f64>,
    /// Of loads whose rates are level, a heavier one may have this many times the wait of a lighter one, by
    /// the 95th percentile; absent (as in older results): no limit applies.
    #[serde(default)]
    pub level_wait_max: Option<f64>,
    /// Jain's index, at least.
    pub jain_min: f64,
    /// The slowest client's mean latency over the median client's, at most.
    pub slowest_over_median_max: f64,
}

impl Default for Criteria {
    fn default() -> Criteria {
        Criteria {
            runs_min: 3,
            errors_max: 0.001,
            p95_max_us: None,
            level_wait_max: Some(LEVEL_WAIT_MAX),
            jain_min: 0.95,
            slowest_over_median_max: 1.5,
        }
    }
}

/// Rates that differ by less are level, as in every comparison of peaks.
const LEVEL_RATES: f64 = 0.03;
/// The factor by which the wait may grow without a higher rate. In a closed loop beyond saturation the wait
/// grows with the clients while the rate does not: 50 % more clients are too many.
const LEVEL_WAIT_MAX: f64 = 4.0 / 3.0;

/// One run at a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Virtual clients, or the arrival rate.
    pub load: f64,
    /// Valid answers a second.
    pub rate: f64,
    /// Failed requests, as a share of all.
    pub errors: f64,
    /// 95th percentile of the latency, microseconds.
    pub p95_us: f64,
    /// How equally the clients were served; absent if it was not measured.
    pub fairness: Option<Fairness>,
    /// Why the load engine and not the server limited the figures; absent: the server did.
    pub tainted: Option<&'static str>,
}

/// A load with all its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Virtual clients, or the arrival rate.
    pub load: f64,
    /// The median rate of its runs; of an even number, the lower of the two in the middle.
    pub rate: f64,
    /// The 95th percentile of the latency in its slowest run, microseconds.
    pub p95_us: f64,
    /// Why it is not useful, a reason each; empty: it is.
    pub reasons: Vec<String>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsefulPeak {
    /// The load with the highest rate, independent of the criteria.
    pub peak: Load,
    /// The largest load that is useful; absent where none is.
    pub useful: Option<Load>,
    /// Why the two differ, in a sentence; absent where they are one.
    pub difference: Option<String>,
    /// Every load, in rising order.
    pub loads: Vec<Load>,
}

/// Finds the useful peak. `None`: there are no runs.
pub fn find(runs: &[Run], criteria: &Criteria) -> Option<UsefulPeak> {
    let mut at: Vec<f64> = runs.iter().map(|run| run.load).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let mut loads: Vec<Load> = at
        .into_iter()
        .map(|load| {
            check_criteria(load, &runs.iter().filter(|run| run.load == load).collect::<Vec<_>>(), criteria)
        })
        .collect();
    if let Some(most) = criteria.level_wait_max {
        for place in 1..loads.len() {
            let waits = needless_wait(&loads[..place], &loads[place], most);
            loads[place].reasons.extend(waits);
        }
    }
    // The first of equals: the lightest load that reaches the rate.
    let peak = loads.iter().reduce(|best, load| if load.rate > best.rate { load } else { best })?.clone();
    let useful = loads.iter().rfind(|load| load.reasons.is_empty()).cloned();
    let difference = difference(&peak, useful.as_ref(), &loads);
    Some(UsefulPeak { peak, useful, difference, loads })
}

/// The reason that a lighter load has the same rate with a shorter wait.
fn needless_wait(lighter: &[Load], load: &Load, most: f64) -> Option<String> {
    let is_better = |other: &&Load| {
        other.rate >= load.rate * (1.0 - LEVEL_RATES)
            && other.p95_us > 0.0
            && load.p95_us > most * other.p95_us
    };
    let best = lighter.iter().find(is_better)?;
    Some(format!(
        "5 % waited longer than {} ms, where {} had {} of the rate within {} ms",
        milliseconds(load.p95_us),
        clients(best.load as u64),
        percent(best.rate / load.rate),
        milliseconds(best.p95_us)
    ))
}

fn check_criteria(load: f64, runs: &[&Run], criteria: &Criteria) -> Load {
    let worst = |figure: fn(&Run) -> f64| runs.iter().map(|run| figure(run)).fold(0.0, f64::max);
    let mut reasons = Vec::new();
    if runs.len() < criteria.runs_min {
        let times = if runs.len() == 1 { "once".to_owned() } else { format!("{} times", runs.len()) };
        reasons.push(format!("it was run only {times}, and {} runs are needed", criteria.runs_min));
    }
    let errors = worst(|run| run.errors);
    if errors > criteria.errors_max {
        reasons.push(format!("{:.3} % of the requests failed", errors * 100.0));
    }
    if let Some(limit) = criteria.p95_max_us {
        let p95 = worst(|run| run.p95_us);
        if p95 > limit {
            reasons.push(format!(
                "5 % waited longer than {} ms ({} ms)",
                milliseconds(limit),
                milliseconds(p95)
            ));
        }
    }
    let fairness = runs.iter().filter_map(|run| run.fairness);
    let jain = fairness.clone().map(|fairness| fairness.jain).fold(1.0, f64::min);
    if jain < criteria.jain_min {
        reasons.push(format!("the clients got unequal shares (Jain\u{2019}s index {jain:.3})"));
    }
    let slowest = fairness.filter_map(|fairness| fairness.slowest_over_median).fold(0.0, f64::max);
    if slowest > criteria.slowest_over_median_max {
        reasons.push(format!("the slowest client waited {slowest:.2} times as long as the median one"));
    }
    let tainted: Vec<&str> = runs.iter().filter_map(|run| run.tainted).collect();
    if let Some(why) = tainted.first() {
        let only = format!(" in {} of its {} runs", tainted.len(), runs.len());
        let only = if tainted.len() < runs.len() { only } else { String::new() };
        reasons.push(format!("{why}{only}"));
    }
    let rates: Vec<f64> = runs.iter().map(|run| run.rate).collect();
    Load { load, rate: measured_median(&rates).unwrap_or(0.0), p95_us: worst(|run| run.p95_us), reasons }
}

fn difference(peak: &Load, useful: Option<&Load>, loads: &[Load]) -> Option<String> {
    let reasons_of = |load: &Load| load.reasons.join("; ");
    match useful {
        None => {
            let least = loads.first()?;
            Some(format!(
                "no load is useful, not even that of {}: {}",
                clients(least.load as u64),
                reasons_of(least)
            ))
        }
        Some(useful) if useful.load == peak.load => None,
        Some(useful) if useful.load > peak.load => Some(format!(
            "beyond the peak the rate is lower, but up to {} every client is served well",
            clients(useful.load as u64)
        )),
        Some(_) => Some(format!("at the peak {}", reasons_of(peak))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(load: f64, rate: f64) -> Run {
        let fairness = Some(Fairness { jain: 0.999, slowest_over_median: Some(1.05) });
        Run { load, rate, errors: 0.0, p95_us: load * 1000.0, fairness, tainted: None }
    }

    /// Three runs at each of 1, 2, 4, 8, 16 clients; the rate peaks at 8.
    fn runs() -> Vec<Run> {
        let rates = [(1.0, 100.0), (2.0, 190.0), (4.0, 350.0), (8.0, 500.0), (16.0, 480.0)];
        rates
            .iter()
            .flat_map(|(load, rate)| [0.99, 1.0, 1.01].map(|noise| run(*load, rate * noise)))
            .collect()
    }

    #[test]
    fn without_complaints_the_largest_load_is_useful() {
        let criteria = Criteria { level_wait_max: None, ..Criteria::default() };
        let found = find(&runs(), &criteria).unwrap();
        assert_eq!((found.peak.load, found.peak.rate), (8.0, 500.0));
        assert_eq!(found.useful.unwrap().load, 16.0);
        assert!(found.difference.unwrap().contains("beyond the peak"));
        // 16 clients wait twice as long as 8, for a lower rate.
        let usual = find(&runs(), &Criteria::default()).unwrap();
        assert_eq!((usual.useful.unwrap().load, usual.difference), (8.0, None));
        assert_eq!(find(&[], &Criteria::default()), None);
    }

    #[test]
    fn a_server_behind_one_lock_is_useful_where_nothing_waits_for_it() {
        // A mutex: one client has all but the whole rate, 64 wait 64 times as long.
        let with = |load: f64, rate: f64, p95_us: f64| Run { p95_us, ..run(load, rate) };
        let runs: Vec<Run> = [(1.0, 819.0, 1_200.0), (8.0, 830.0, 9_600.0), (64.0, 836.0, 76_000.0)]
            .iter()
            .flat_map(|&(load, rate, p95_us)| vec![with(load, rate, p95_us); 3])
            .collect();
        let found = find(&runs, &Criteria::default()).unwrap();
        assert_eq!((found.peak.load, found.useful.unwrap().load), (64.0, 1.0));
        assert_eq!(
            found.difference.unwrap(),
            "at the peak 5 % waited longer than 76.0 ms, where 1 client had 98 % of the rate within 1.20 ms"
        );
        // A rate that grows is worth a wait.
        let growing: Vec<Run> = [(1.0, 100.0, 900.0), (2.0, 150.0, 1_900.0)]
            .map(|(load, rate, p95_us)| with(load, rate, p95_us))
            .to_vec();
        let one_run = Criteria { runs_min: 1, ..Criteria::default() };
        assert_eq!(find(&growing, &one_run).unwrap().useful.unwrap().load, 2.0);
    }

    #[test]
    fn each_criterion_takes_the_peak_away_and_says_so() {
        type Change = fn(&mut Run);
        let changes: [(Change, &str); 5] = [
            (|run| run.errors = 0.002, "0.200 % of the requests failed"),
            (|run| run.p95_us = 99_000.0, "longer than 20.0 ms"),
            (
                |run| run.fairness = Some(Fairness { jain: 0.9, slowest_over_median: Some(1.0) }),
                "unequal shares",
            ),
            (
                |run| run.fairness = Some(Fairness { jain: 1.0, slowest_over_median: Some(2.0) }),
                "2.00 times as long",
            ),
            (|run| run.tainted = Some("the load engine was busy"), "load engine was busy in 1 of its 3 runs"),
        ];
        let criteria = Criteria { p95_max_us: Some(20_000.0), ..Criteria::default() };
        for (change, reason) in changes {
            let mut runs = runs();
            // One of the three runs is enough to spoil a load.
            change(&mut runs[9]);
            runs.truncate(12);
            let found = find(&runs, &criteria).unwrap();
            assert_eq!(found.useful.as_ref().unwrap().load, 4.0, "{reason}");
            assert!(found.difference.as_ref().unwrap().contains(reason), "{found:?}");
        }
        let found = find(&runs()[..2], &criteria).unwrap();
        assert!(
            found.useful.is_none()
                && found.difference.unwrap().contains("run only 2 times, and 3 runs are needed")
        );
    }

    proptest! {
        #[test]
        fn stricter_people_are_content_with_no_more(limit in 100.0f64..20_000.0, stricter in 0.1f64..1.0) {
            let useful_load = |limit: f64| {
                let criteria = Criteria { p95_max_us: Some(limit), ..Criteria::default() };
                find(&runs(), &criteria).unwrap().useful.map_or(0.0, |load| load.load)
            };
            prop_assert!(useful_load(limit * stricter) <= useful_load(limit));
        }
    }
}
