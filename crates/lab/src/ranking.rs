//! Which server is ahead, by what, and how sure that is. All sentences about it are made here.
//!
//! Servers are ranked by the rate of their peaks, or by the processor time of a request if the load engine
//! limited some rates or the suite gives all rates. A difference is claimed only where the interval over all
//! loads shows it ([`crate::compare`]) and each load was run more than once. The outcome of a single run is
//! called indicative.

use crate::arrivals::is_open;
use crate::compare::{self, Side};
use crate::figures::{list, percent, significant};
use crate::loads::{representatives, same_load};
use crate::peaks::{EQUAL_BAND, peak, rate_is_the_servers};
use crate::result::{Compared, Figure, MixResult, ResultFile, RunStatus, SystemResult};
use crate::statistics::paired::{Comparison, Conclusion};

/// A server and the mix that it is compared by.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// The server.
    pub system: &'a SystemResult,
    /// Its peak.
    pub peak: &'a MixResult,
}

/// What a comparison of two servers shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOutcome {
    /// The first is ahead: the interval of several runs is outside the band.
    Ahead,
    /// The first seems to be ahead; there are too few runs to show it.
    Indicative,
    /// No difference.
    NoDifference,
}

/// How far a server is behind the first.
#[derive(Debug, Clone)]
pub struct GapToFirst<'a> {
    /// The server behind.
    pub server: Server<'a>,
    /// How many times better the first is at the peaks.
    pub times: f64,
    /// How many times better it is over all loads, with the interval; absent where no load is common to both.
    pub over_loads: Option<Comparison>,
    /// Runs of each peak, of the server that has fewer.
    pub runs: usize,
    /// What that shows.
    pub shown: ComparisonOutcome,
}

/// The servers of a result, the best first.
#[derive(Debug, Clone)]
pub struct Ranking<'a> {
    /// The servers.
    pub servers: Vec<Server<'a>>,
    /// How far each other one is behind the first, in the same order.
    pub distances: Vec<GapToFirst<'a>>,
    /// The measure of the ranking.
    pub figure: Figure,
    /// Whether the load engine set some of the rates.
    pub some_are_lower_bounds: bool,
    is_complete: bool,
    is_open: bool,
}

impl<'a> Ranking<'a> {
    /// By their first interface. Accelerated systems are ranked only if there is no server without an
    /// accelerator. Of an incomplete run, only the mixes that all servers completed are used: the others
    /// would compare different loads.
    pub fn of(result: &'a ResultFile) -> Ranking<'a> {
        let servers = |accelerated: bool| -> Vec<&'a SystemResult> {
            let rivals = result.systems.iter().filter(|system| !system.is_limit && peak(system).is_some());
            rivals.filter(|system| system.origin.is_some() == accelerated).collect()
        };
        let alone = servers(false);
        let rivals = if alone.is_empty() { servers(true) } else { alone };
        let is_complete = matches!(result.status, RunStatus::Complete);
        let chosen = |system| match is_open(result) {
            true => highest_carried_by_all(system, &rivals).or_else(|| peak(system)),
            false if is_complete => peak(system),
            false => peak_in_all(system, &rivals),
        };
        let mut servers: Vec<Server<'a>> =
            rivals.iter().filter_map(|&system| Some(Server { system, peak: chosen(system)? })).collect();
        if servers.is_empty() {
            servers = rivals
                .iter()
                .filter_map(|&system| Some(Server { system, peak: peak(system)? }))
                .take(1)
                .collect();
        }
        Ranking::of_servers(result, servers, is_complete)
    }

    /// Of servers by the peaks that are given.
    pub fn of_servers(
        result: &'a ResultFile,
        mut servers: Vec<Server<'a>>,
        is_complete: bool,
    ) -> Ranking<'a> {
        let some_are_lower_bounds =
            servers.iter().any(|server| !rate_is_the_servers(server.system, server.peak));
        let all_watched = servers.iter().all(|server| Figure::ProcessorTime.of(server.peak).is_some());
        let by_time = all_watched && (some_are_lower_bounds || is_open(result));
        let figure = if by_time { Figure::ProcessorTime } else { Figure::Rate };
        let score = |server: &Server<'_>| {
            let value = figure.of(server.peak).unwrap_or(0.0);
            if by_time { -value } else { value }
        };
        servers.sort_by(|left, right| score(right).total_cmp(&score(left)));
        let sides = compare::sides("", result);
        let others =
            servers.iter().skip(1).filter_map(|other| distance(result, &sides, figure, servers[0], *other));
        let distances = others.collect();
        Ranking { servers, distances, figure, some_are_lower_bounds, is_complete, is_open: is_open(result) }
    }

    /// The systems of which this is shown.
    pub fn shown(&self, shown: ComparisonOutcome) -> Vec<&GapToFirst<'a>> {
        self.distances.iter().filter(|distance| distance.shown == shown).collect()
    }

    /// Which system is ahead, in a few words; absent if there is none.
    pub fn answer(&self) -> Option<String> {
        let name = self.servers.first()?.system.title.clone();
        let level = self.shown(ComparisonOutcome::NoDifference);
        if !level.is_empty() {
            let others = level.iter().map(|it| it.server.system.title.clone());
            let names: Vec<String> = std::iter::once(name).chain(others).collect();
            return Some(format!("No difference shown between {}", list(&names)));
        }
        let indicative = !self.shown(ComparisonOutcome::Indicative).is_empty();
        Some(if indicative { format!("{name}, indicative") } else { name })
    }

    /// Which system is ahead of which, in a sentence.
    pub fn sentence(&self) -> Option<String> {
        let first = &self.servers.first()?.system.title;
        if self.distances.is_empty() {
            return None;
        }
        let mut parts = Vec::new();
        let what = match self.figure {
            Figure::Rate => "its peak rate",
            Figure::ProcessorTime => "its number of answers for the same processor time",
        };
        let ahead = self.shown(ComparisonOutcome::Ahead);
        if !ahead.is_empty() {
            parts.push(format!("{first} is ahead: {what} is {}", list(&named(&ahead))));
        }
        let indicative = self.shown(ComparisonOutcome::Indicative);
        if let Some(fewest) = indicative.iter().map(|distance| distance.runs).min() {
            let runs = if fewest == 1 { "one run".to_owned() } else { format!("{fewest} runs") };
            parts.push(format!(
                "{first} seems to be ahead (indicative, from {runs}): {what} is {}",
                list(&named(&indicative))
            ));
        }
        let level = self.shown(ComparisonOutcome::NoDifference);
        if !level.is_empty() {
            let names: Vec<String> = level.iter().map(|distance| distance.level()).collect();
            let figure = self.figure.title();
            parts.push(format!("between {first} and {} no difference in {figure} is shown", list(&names)));
        }
        // Rates that are stated are no limit of a server.
        if self.some_are_lower_bounds && !self.is_open {
            parts.push(
                "the load engine, not the servers, set some of these rates: compare the processor time a \
                 request"
                    .to_owned(),
            );
        }
        let text = parts.join("; ");
        Some(match self.is_complete {
            true if text.starts_with("between ") => format!("B{}.", &text[1..]),
            true => format!("{text}."),
            false => format!("In the mixes that all of them completed, {text}."),
        })
    }
}

fn named(distances: &[&GapToFirst<'_>]) -> Vec<String> {
    distances.iter().map(|distance| distance.behind()).collect()
}

impl GapToFirst<'_> {
    /// "1.50 times nginx (over all loads 1.48, 95 %: 1.45 to 1.52, 9 pairs)".
    fn behind(&self) -> String {
        let title = &self.server.system.title;
        let interval = match (&self.over_loads, self.shown) {
            (Some(it), ComparisonOutcome::Ahead) => format!(
                " (over all loads {}, 95 %: {} to {}, {} pairs of {} runs)",
                significant(it.ratio.estimate),
                significant(it.ratio.low),
                significant(it.ratio.high),
                it.pairs,
                self.runs
            ),
            _ => String::new(),
        };
        format!("{} times {title}{interval}", significant(self.times))
    }

    /// "nginx (1.01 times at the peaks; over all loads 0.98 to 1.05 at 95 %)".
    fn level(&self) -> String {
        let title = &self.server.system.title;
        match &self.over_loads {
            Some(it) if it.conclusion != Conclusion::TooFewPairs => format!(
                "{title} ({} times at the peaks; over all loads {} to {} at 95 %)",
                significant(self.times),
                significant(it.ratio.low),
                significant(it.ratio.high)
            ),
            _ => format!("{title} (less than {} at the peaks)", percent(EQUAL_BAND)),
        }
    }
}

/// Of an open load the mix of the highest rate that all carried.
fn highest_carried_by_all<'a>(
    system: &'a SystemResult,
    rivals: &[&'a SystemResult],
) -> Option<&'a MixResult> {
    let carries = |rival: &&SystemResult, mix: &MixResult| {
        representatives(&rival.mixes).iter().any(|other| other.load() == mix.load() && other.carried())
    };
    let mixes = representatives(&system.mixes).into_iter();
    mixes.filter(|mix| rivals.iter().all(|rival| carries(rival, mix))).max_by_key(|mix| mix.load())
}

/// The peak among the loads that all completed.
fn peak_in_all<'a>(system: &'a SystemResult, rivals: &[&'a SystemResult]) -> Option<&'a MixResult> {
    let has = |rival: &&SystemResult, mix: &MixResult| {
        let same = |other: &MixResult| other.clients == mix.clients && other.interface == mix.interface;
        rival.mixes.iter().any(|other| same(other) && other.complete && other.requests > 0)
    };
    let first = &system.mixes.first()?.interface;
    let of_loads = representatives(&system.mixes).into_iter().filter(|mix| mix.interface == *first);
    let common = of_loads.filter(|mix| mix.complete && rivals.iter().all(|rival| has(rival, mix)));
    common.reduce(|best, mix| if mix.requests_per_second > best.requests_per_second { mix } else { best })
}

fn distance<'a>(
    result: &ResultFile,
    sides: &[Side<'_>],
    figure: Figure,
    first: Server<'a>,
    other: Server<'a>,
) -> Option<GapToFirst<'a>> {
    let (own, its) = (figure.of(first.peak)?, figure.of(other.peak)?);
    let times = if figure == Figure::Rate { own / its } else { its / own };
    let side = |server: &Server<'_>| {
        sides.iter().find(|side| side.system == server.system.name && side.interface == server.peak.interface)
    };
    let compared = side(&first).zip(side(&other)).and_then(|(left, right)| {
        // Turned about for processor time, of which less is better: above 1 the first is the better one.
        let (left, right) = if figure == Figure::Rate { (left, right) } else { (right, left) };
        let all = compare::compare(left, right, compare::noise_of(sides, left, right), result.suite.seed);
        all.into_iter().find(|it: &Compared| it.figure == figure).map(|it| it.comparison)
    });
    let runs = runs_of(&first).min(runs_of(&other));
    let shown = shown(times, runs, compared.as_ref());
    Some(GapToFirst { server: other, times, over_loads: compared, runs, shown })
}

fn runs_of(server: &Server<'_>) -> usize {
    let own = |mix: &&MixResult| mix.complete && mix.requests > 0 && same_load(mix, server.peak);
    server.system.mixes.iter().filter(own).count().max(1)
}

/// If peaks and loads have opposite outcomes, no difference is shown.
fn shown(times: f64, runs: usize, over_loads: Option<&Comparison>) -> ComparisonOutcome {
    match over_loads.map(|it| it.conclusion) {
        Some(Conclusion::NoDifferenceShown | Conclusion::SecondHigher) => ComparisonOutcome::NoDifference,
        Some(Conclusion::FirstHigher) if runs > 1 => ComparisonOutcome::Ahead,
        Some(Conclusion::FirstHigher | Conclusion::TooFewPairs) | None if times - 1.0 < EQUAL_BAND => {
            ComparisonOutcome::NoDifference
        }
        _ => ComparisonOutcome::Indicative,
    }
}
