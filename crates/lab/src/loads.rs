//! The runs of a load taken together: medians with their intervals, and from them the peak and the useful
//! peak.
//!
//! A load is a mix of one interface on one system, and was run once or several times. Medians are of the
//! runs, never of the best; the run with the median rate represents the load wherever a single run's figures
//! are shown, so that figures shown together were measured together. All of it is computed only from the
//! mixes of the result.

use crate::arrivals::lost;
use crate::figures::milliseconds;
use crate::result::{LoadResult, MixResult, PeakLoad, PeakResult, RunsFigure};
use crate::saturation::engine_limit;
use crate::statistics::useful_peak::{self, Criteria, Load, Run};
use crate::statistics::{bootstrap, fairness, taint};

/// Intervals are seeded: the same runs always give the same intervals.
const SEED: u64 = 1;
/// Fewer seconds of one run do not show whether it was in a steady state.
const SECONDS_MIN: usize = 5;

/// The mixes of one load, with their places among the system's.
#[derive(Debug, Clone)]
struct Runs<'a> {
    rows: Vec<(usize, &'a MixResult)>,
}

/// The loads of a system's mixes, in the order of their first runs.
fn grouped(mixes: &[MixResult]) -> Vec<Runs<'_>> {
    let mut groups: Vec<Runs<'_>> = Vec::new();
    for (row, mix) in mixes.iter().enumerate() {
        let same = |runs: &&mut Runs<'_>| same_load(runs.rows[0].1, mix);
        match groups.iter_mut().find(same) {
            Some(runs) => runs.rows.push((row, mix)),
            None => groups.push(Runs { rows: vec![(row, mix)] }),
        }
    }
    groups
}

/// Whether two mixes are runs of one load.
pub fn same_load(left: &MixResult, right: &MixResult) -> bool {
    left.name == right.name && left.interface == right.interface && left.clients == right.clients
}

/// The mix that represents each load: the run with the median rate.
pub fn representatives(mixes: &[MixResult]) -> Vec<&MixResult> {
    grouped(mixes).iter().map(|runs| runs.median_run().1).collect()
}

impl<'a> Runs<'a> {
    /// The runs that count: those measured whole, or all where none was.
    fn counted(&self) -> Vec<(usize, &'a MixResult)> {
        let whole: Vec<_> =
            self.rows.iter().copied().filter(|(_, mix)| mix.complete && mix.requests > 0).collect();
        if whole.is_empty() { self.rows.clone() } else { whole }
    }

    /// The run with the median rate; of an even number, the lower of the two in the middle.
    fn median_run(&self) -> (usize, &'a MixResult) {
        let mut counted = self.counted();
        counted.sort_by(|left, right| left.1.requests_per_second.total_cmp(&right.1.requests_per_second));
        counted[(counted.len() - 1) / 2]
    }

    fn load(&self, pinned: &[usize], complaints: Vec<String>) -> LoadResult {
        let (median_row, first) = self.median_run();
        let counted: Vec<&MixResult> = self.counted().into_iter().map(|(_, mix)| mix).collect();
        let figure =
            |of: fn(&MixResult) -> f64| of_runs(&counted.iter().map(|mix| of(mix)).collect::<Vec<_>>());
        let runs: Vec<Run> = counted.iter().map(|mix| run_of(mix, pinned)).collect();
        let cpu: Vec<f64> =
            counted.iter().filter_map(|mix| Some(mix.server.as_ref()?.cpu_us_per_request)).collect();
        let fair = || counted.iter().filter_map(|mix| fairness_of(mix));
        LoadResult {
            mix: first.name.clone(),
            interface: first.interface.clone(),
            clients: first.clients,
            arrivals_per_second: first.arrivals.as_ref().map(|arrivals| arrivals.per_second),
            runs: counted.iter().filter(|mix| mix.complete).count() as u64,
            median_row: median_row as u64,
            requests_per_second: match counted[..] {
                [one] => within_run(one),
                // The rate of the run whose other figures are shown beside it.
                _ => {
                    RunsFigure { median: first.requests_per_second, ..figure(|mix| mix.requests_per_second) }
                }
            },
            bytes_per_second: figure(|mix| mix.bytes_per_second),
            mean_us: figure(|mix| mix.latency.mean_us),
            p50_us: figure(|mix| mix.latency.p50_us),
            p95_us: figure(|mix| mix.latency.p95_us),
            p99_us: figure(|mix| mix.latency.p99_us),
            cpu_us_per_request: (cpu.len() == counted.len()).then(|| of_runs(&cpu)),
            errors_share: runs.iter().map(|run| run.errors).fold(0.0, f64::max),
            jain: fair().map(|fair| fair.jain).reduce(f64::min),
            slowest_over_median: fair().filter_map(|fair| fair.slowest_over_median).reduce(f64::max),
            tainted_runs: runs.iter().filter(|run| run.tainted.is_some()).count() as u64,
            complaints,
        }
    }
}

/// The median of several runs, with its interval; one run alone has none.
fn of_runs(values: &[f64]) -> RunsFigure {
    let interval = bootstrap::of_median(values, SEED);
    let several = values.len() > 1;
    RunsFigure {
        median: interval.map_or(0.0, |interval| interval.estimate),
        low: interval.filter(|_| several).map(|interval| interval.low),
        high: interval.filter(|_| several).map(|interval| interval.high),
    }
}

/// The rate of one run, with the interval of its seconds: the block bootstrap of their mean.
fn within_run(mix: &MixResult) -> RunsFigure {
    let (from_s, to_s) = (mix.ramp_up_s, mix.length_s - mix.ramp_down_s);
    let seconds: Vec<f64> = mix
        .timeline
        .iter()
        .filter(|row| row.at_s >= from_s - 1e-6 && row.at_s + 1.0 <= to_s + 1e-6)
        .map(|row| row.requests_per_second)
        .collect();
    let rate = mix.requests_per_second;
    let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    let interval = (seconds.len() >= SECONDS_MIN && mean > 0.0)
        .then(|| bootstrap::of_series_mean(&seconds, SEED))
        .flatten();
    // The window may begin in the middle of a second: the interval shows their spread.
    RunsFigure {
        median: rate,
        low: interval.map(|interval| rate * interval.low / mean),
        high: interval.map(|interval| rate * interval.high / mean),
    }
}

/// How equally the clients of a mix were served. Absent for an open load, in which an arrival uses any free
/// client.
pub fn fairness_of(mix: &MixResult) -> Option<fairness::Fairness> {
    if mix.arrivals.is_some() {
        return None;
    }
    let answered: Vec<f64> = mix.client_rows.iter().map(|client| client.requests as f64).collect();
    let waited: Vec<f64> =
        mix.client_rows.iter().filter(|client| client.requests > 0).map(|client| client.mean_us).collect();
    fairness::of_clients(&answered, &waited)
}

/// A run, with the data for the useful peak.
fn run_of(mix: &MixResult, pinned: &[usize]) -> Run {
    let failed = mix.errors.total() as f64;
    let stood_still = mix.taint.iter().any(|sign| sign.what == taint::STOOD_STILL);
    Run {
        load: mix.load() as f64,
        rate: mix.requests_per_second,
        errors: failed / (failed + mix.requests as f64).max(1.0),
        p95_us: mix.latency.p95_us,
        fairness: fairness_of(mix),
        tainted: match engine_limit(pinned, mix) {
            Some((limit, _)) => Some(limit.description()),
            None => stood_still.then_some("the load engine stood still"),
        },
    }
}

/// The useful peak of some mixes of one interface of a system on the `pinned` processors; `None` where none
/// was measured whole.
pub fn useful_peak<'a>(
    mixes: impl Iterator<Item = &'a MixResult>,
    pinned: &[usize],
    criteria: &Criteria,
) -> Option<useful_peak::UsefulPeak> {
    let runs: Vec<Run> =
        mixes.filter(|mix| mix.complete && mix.requests > 0).map(|mix| run_of(mix, pinned)).collect();
    useful_peak::find(&runs, criteria)
}

/// Why an open load is not useful, a reason each: what follows from one run of it.
fn open_complaints(mix: &MixResult, pinned: &[usize], criteria: &Criteria) -> Vec<String> {
    let run = run_of(mix, pinned);
    let mut complaints = Vec::new();
    if !mix.carried() {
        complaints.push(format!("it was not carried: {}", lost(mix)));
    }
    if run.errors > criteria.errors_max {
        complaints.push(format!("{:.3} % of the requests failed", run.errors * 100.0));
    }
    if let Some(limit) = criteria.p95_max_us.filter(|limit| run.p95_us > *limit) {
        let (limit, p95) = (milliseconds(limit), milliseconds(run.p95_us));
        complaints.push(format!("5 % waited longer than {limit} ms ({p95} ms)"));
    }
    complaints.extend(run.tainted.map(str::to_owned));
    complaints
}

/// The loads and the peaks of the mixes of a system on the `pinned` processors. Open loads have no peaks:
/// their rates are commanded.
pub fn from_mixes(
    mixes: &[MixResult],
    pinned: &[usize],
    criteria: &Criteria,
) -> (Vec<LoadResult>, Vec<PeakResult>) {
    if mixes.iter().any(|mix| mix.arrivals.is_some()) {
        let load = |runs: &Runs<'_>| {
            let complaints = open_complaints(runs.median_run().1, pinned, criteria);
            runs.load(pinned, complaints)
        };
        return (grouped(mixes).iter().map(load).collect(), Vec::new());
    }
    let mut interfaces: Vec<&str> = Vec::new();
    for mix in mixes {
        if !interfaces.contains(&mix.interface.as_str()) {
            interfaces.push(&mix.interface);
        }
    }
    let found: Vec<(&str, Option<useful_peak::UsefulPeak>)> = interfaces
        .into_iter()
        .map(|name| (name, useful_peak(mixes.iter().filter(|mix| mix.interface == name), pinned, criteria)))
        .collect();
    let complaints = |mix: &MixResult| {
        let of_interface = found.iter().find(|(name, _)| *name == mix.interface)?.1.as_ref()?;
        let load = of_interface.loads.iter().find(|load| load.load == mix.clients as f64)?;
        Some(load.reasons.clone())
    };
    let loads: Vec<LoadResult> = grouped(mixes)
        .iter()
        .map(|runs| {
            runs.load(
                pinned,
                complaints(runs.rows[0].1).unwrap_or_else(|| vec!["it was not measured whole".to_owned()]),
            )
        })
        .collect();
    let peaks = found
        .into_iter()
        .filter_map(|(interface, found)| {
            let found = found?;
            Some(PeakResult {
                interface: interface.to_owned(),
                peak: peak_load(&loads, interface, &found.peak),
                useful: found.useful.as_ref().map(|load| peak_load(&loads, interface, load)),
                difference: found.difference,
            })
        })
        .collect();
    (loads, peaks)
}

fn peak_load(loads: &[LoadResult], interface: &str, load: &Load) -> PeakLoad {
    let same = |it: &&LoadResult| it.interface == interface && it.clients as f64 == load.load;
    PeakLoad {
        clients: load.load as u64,
        requests_per_second: loads
            .iter()
            .find(same)
            .map_or(RunsFigure { median: load.rate, low: None, high: None }, |it| it.requests_per_second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// Three runs of each of three loads, the second run being the fastest by chance.
    fn mixes() -> Vec<MixResult> {
        let run = |run: u64, noise: f64| {
            [(1, 100.0), (4, 390.0), (16, 600.0)]
                .map(|(clients, rate)| MixResult { run, ..sample::mix(clients, rate * noise) })
        };
        [run(1, 1.0), run(2, 1.1), run(3, 0.99)].concat()
    }

    #[test]
    fn the_median_run_stands_for_a_load_and_not_the_best() {
        let mixes = mixes();
        let rates: Vec<f64> = representatives(&mixes).iter().map(|mix| mix.requests_per_second).collect();
        assert_eq!(rates, [100.0, 390.0, 600.0]);
        let (loads, peaks) = from_mixes(&mixes, &[0], &Criteria::default());
        assert_eq!(
            loads.iter().map(|load| (load.runs, load.median_row)).collect::<Vec<_>>(),
            [(3, 0), (3, 1), (3, 2)]
        );
        let rate = loads[2].requests_per_second;
        assert!((rate.median, rate.low, rate.high) == (600.0, Some(594.0), Some(660.0)), "{rate:?}");
        assert_eq!(loads[2].cpu_us_per_request.unwrap().median, 960_000.0 / 600.0);
        assert_eq!((peaks.len(), peaks[0].peak.clients), (1, 16));
        assert_eq!(peaks[0].useful.unwrap().clients, 16);
        assert_eq!(peaks[0].difference, None);
    }

    #[test]
    fn a_run_that_was_cut_short_counts_only_where_no_other_is_there() {
        let mut mixes = mixes();
        mixes[0].complete = false;
        mixes[2].complete = false;
        mixes[5].complete = false;
        mixes[8].complete = false;
        let (loads, peaks) = from_mixes(&mixes, &[0], &Criteria::default());
        assert_eq!(loads.iter().map(|load| load.runs).collect::<Vec<_>>(), [2, 3, 0]);
        // Of two runs the lower represents the load: its rate is shown with its other figures.
        assert_eq!((loads[0].median_row, loads[0].requests_per_second.median), (6, 99.0));
        assert_eq!(
            (peaks[0].peak.clients, &loads[2].complaints[..]),
            (4, &["it was not measured whole".to_owned()][..])
        );
        assert_eq!(from_mixes(&[], &[0], &Criteria::default()), (vec![], vec![]));
    }

    #[test]
    fn one_run_has_the_interval_of_its_seconds() {
        let mut mix = sample::mix(4, 1000.0);
        for (second, row) in mix.timeline.iter_mut().enumerate() {
            row.requests_per_second = 1000.0 + 20.0 * second as f64;
        }
        let (loads, _) = from_mixes(&[mix.clone()], &[0], &Criteria::default());
        let rate = loads[0].requests_per_second;
        assert!(
            rate.median == 1000.0 && rate.low.unwrap() < 1000.0 && rate.high.unwrap() > 1000.0,
            "{rate:?}"
        );
        assert_eq!(loads[0].p99_us.low, None);
        mix.timeline.clear();
        assert_eq!(from_mixes(&[mix], &[0], &Criteria::default()).0[0].requests_per_second.low, None);
    }

    #[test]
    fn a_load_that_is_not_useful_says_why() {
        let mut mixes = mixes();
        mixes[5].taint =
            taint::signs(&[taint::EngineSecond { stood_still_s: Some(2.0), ..Default::default() }]);
        let (loads, peaks) = from_mixes(&mixes, &[0], &Criteria::default());
        assert_eq!((loads[2].tainted_runs, loads[2].complaints.len()), (1, 1));
        assert_eq!((peaks[0].peak.clients, peaks[0].useful.unwrap().clients), (16, 4));
        assert!(peaks[0].difference.as_ref().unwrap().contains("load engine"));
    }

    #[test]
    fn a_busy_engine_beside_a_full_server_takes_no_load_away() {
        let mut mixes = mixes();
        let busy = taint::EngineSecond { busiest_thread: Some(0.99), ..Default::default() };
        for mix in &mut mixes {
            mix.taint = taint::signs(&[busy]);
            mix.generator_saturated = Some("a thread was 99 % busy".into());
        }
        let useful = |mixes: &[MixResult]| from_mixes(mixes, &[0], &Criteria::default()).1[0].useful;
        assert_eq!(useful(&mixes).unwrap().clients, 16);
        mixes.iter_mut().for_each(|mix| mix.server.as_mut().unwrap().cpu_share = 0.6);
        assert_eq!(useful(&mixes), None);
    }
}
