//! The verdict: the outcome of a result, in words. Pure functions of a [`ResultFile`]; every sentence follows
//! from figures in it.
//!
//! The order is that of a reader's questions: did the run end well, which system is ahead, how far did each
//! one get, how far is it from the kernel's limit, what limited it, and can the figures be trusted.

use crate::acceleration;
use crate::arrivals::is_open;
use crate::bottleneck::{self, Bottleneck};
use crate::figures::{clients, count, list, milliseconds, percent, rate, significant};
use crate::loads::representatives;
use crate::memory;
use crate::open_load;
use crate::peaks::{peak, rate_is_the_servers};
use crate::ranking::{Ranking, Server};
use crate::raw::RawMix;
use crate::result::{MixResult, ResultFile, RunStatus, SystemResult};
use crate::saturation::processors_were_full;
use crate::series::{self, Series};
use crate::speedup;
use crate::spice;
use crate::warnings;

/// The bottleneck of a system at its peak.
#[derive(Debug, Clone)]
pub struct PeakBottleneck {
    /// The system's title, and the interface's where there are several.
    pub title: String,
    /// The bottleneck.
    pub bottleneck: Bottleneck,
}

/// The bottleneck of each system that is not the limit; none for open loads, which have a given rate and do
/// not search for the highest. `raw` may be empty.
pub fn held_back(result: &ResultFile, raw: &[RawMix]) -> Vec<PeakBottleneck> {
    if is_open(result) {
        return Vec::new();
    }
    let peak_bottleneck = |series: &Series<'_>| {
        let (bottleneck, _) = bottleneck::of_series(series, raw)?;
        Some(PeakBottleneck { title: series.title.clone(), bottleneck })
    };
    series::from_result(result)
        .iter()
        .filter(|series| !series.system.is_limit)
        .filter_map(peak_bottleneck)
        .collect()
}

/// The verdict, a sentence each, most important first. `raw` is its raw data; without it (empty), less is
/// known of the bottlenecks.
pub fn sentences(result: &ResultFile, raw: &[RawMix]) -> Vec<String> {
    sentences_with(result, &held_back(result, raw))
}

/// The same if the bottleneck of each system is already known.
pub fn sentences_with(result: &ResultFile, held_back: &[PeakBottleneck]) -> Vec<String> {
    let mut sentences = Vec::new();
    if let RunStatus::Incomplete(reason) = &result.status {
        sentences.push(format!("The run is incomplete: {}.", reason.trim_end_matches('.')));
    }
    let rivals: Vec<&SystemResult> = result.systems.iter().filter(|system| !system.is_limit).collect();
    if !result.suite.interfaces.is_empty() {
        sentences.extend(spice::sentences(result));
        sentences.extend(of_bottlenecks(held_back));
        sentences.extend(rivals.iter().filter_map(|system| errors(system)));
        sentences.push(validity(result));
        return sentences;
    }
    if is_open(result) {
        let ranking = Ranking::of(result);
        sentences.extend(ranking.sentence());
        sentences.extend(processor_time(&ranking.servers));
        sentences.extend(rivals.iter().flat_map(|system| open_load::sentences(system)));
        sentences.extend(rivals.iter().filter_map(|system| errors(system)));
        sentences.push(validity(result));
        return sentences;
    }
    sentences.extend(acceleration::sentences(result));
    sentences.extend(speedup::sentences(result));
    sentences.extend(memory::sentences(result));
    let ranking = Ranking::of(result);
    sentences.extend(ranking.sentence());
    sentences.extend(processor_time(&ranking.servers));
    sentences.extend(rivals.iter().map(|system| peak_sentence(system)));
    sentences.extend(rivals.iter().filter_map(|system| useful_peak_sentence(system)));
    sentences
        .extend(rivals.iter().filter_map(|system| distance_from_limit(system, limit_of(result, system)?)));
    sentences.extend(of_bottlenecks(held_back));
    sentences.extend(rivals.iter().filter_map(|system| errors(system)));
    sentences.push(validity(result));
    sentences
}

/// What held each system back; of many with the same cause, once with all that it concerns.
fn of_bottlenecks(held_back: &[PeakBottleneck]) -> Vec<String> {
    const EACH: usize = 6;
    let all: Vec<String> = held_back.iter().map(PeakBottleneck::sentence).collect();
    if all.len() > EACH { warnings::each_once(&all) } else { all }
}

fn peak_sentence(system: &SystemResult) -> String {
    match peak(system) {
        Some(mix) => format!(
            "{} peaked at {} requests/s ({} Mbit/s) with {}: mean latency {} ms, 99 % within {} ms.",
            system.title,
            rate(mix.requests_per_second),
            rate(mix.megabits_per_second),
            clients(mix.clients),
            milliseconds(mix.latency.mean_us),
            milliseconds(mix.latency.p99_us),
        ),
        None => match system.skipped.first().filter(|_| system.was_not_measured()) {
            Some(skipped) => format!("Not measured: {}.", skipped.reason.trim_end_matches('.')),
            None => format!("{} gave no valid answer that counted.", system.title),
        },
    }
}

/// The useful peak, if it is not the peak, with the reason.
fn useful_peak_sentence(system: &SystemResult) -> Option<String> {
    let found = system.peaks.first()?;
    let why = found.difference.as_ref()?;
    // If the engine was at its limit in every load, the sentence on the peak states that.
    if found.useful.is_none() && system.loads.iter().all(|load| load.tainted_runs > 0) {
        return None;
    }
    Some(match &found.useful {
        Some(useful) => format!(
            "The useful peak of {} is {} requests/s, with {}: {why}.",
            system.title,
            rate(useful.requests_per_second.median),
            clients(useful.clients)
        ),
        None => format!("{} has no useful peak: {why}.", system.title),
    })
}

/// The processor time of a request, at equal loads if both were measured with them.
fn processor_time(servers: &[Server<'_>]) -> Option<String> {
    let (Server { system: fastest, peak: best }, others) = servers.split_first()?;
    let own = cpu_us(best)?;
    let times: Vec<String> = others
        .iter()
        .filter_map(|Server { system, .. }| {
            let other = cpu_us(at_load(system, best.load())?)?;
            Some(format!(
                "{} times that of {} ({} µs)",
                significant(own / other),
                system.title,
                significant(other)
            ))
        })
        .collect();
    (!times.is_empty()).then(|| {
        format!(
            "With {}, {} spent {} µs of processor time a request: {}.",
            best.load_in_words(),
            fastest.title,
            significant(own),
            list(&times)
        )
    })
}

/// The kernel's limit for a system: the one that was measured on as many processors, or else the first.
pub fn limit_of<'r>(result: &'r ResultFile, system: &SystemResult) -> Option<&'r SystemResult> {
    let mut limits = result.systems.iter().filter(|limit| limit.is_limit && peak(limit).is_some());
    let first = limits.clone().next();
    limits.find(|limit| has_as_many_processors(system, limit)).or(first)
}

/// Whether two systems had the same number of processors. One that was not pinned counts as one processor, as
/// its server may be a single thread.
fn has_as_many_processors(system: &SystemResult, other: &SystemResult) -> bool {
    system.cpus.len().max(1) == other.cpus.len().max(1)
}

/// How far a system is from the kernel's limit with as many clients. Rates are compared only if both are the
/// servers' own, and on as many processors. A limit whose processors were not full was limited by another
/// resource, and is not a bound.
fn distance_from_limit(system: &SystemResult, limit: &SystemResult) -> Option<String> {
    let own = peak(system)?;
    let bound = at_load(limit, own.load())?;
    let name = &system.title;
    let of_rate = share_of_limit(system, limit)
        .map(|share| format!("carried {} of the rate of the kernel's limit", percent(share)));
    let of_time = cpu_us(own).zip(cpu_us(bound)).map(|(own_us, bound_us)| {
        format!(
            "spent {} µs of processor time a request where the kernel's limit is {} µs ({} times)",
            significant(own_us),
            significant(bound_us),
            significant(own_us / bound_us)
        )
    });
    let parts: Vec<String> = of_rate.into_iter().chain(of_time).collect();
    (!parts.is_empty()).then(|| format!("With {}, {name} {}.", clients(own.clients), list(&parts)))
}

/// The share of the limit's rate that a system carried at its peak, where the two can be compared.
pub fn share_of_limit(system: &SystemResult, limit: &SystemResult) -> Option<f64> {
    let own = peak(system)?;
    let bound = at_load(limit, own.load())?;
    let comparable = has_as_many_processors(system, limit)
        && rate_is_the_servers(system, own)
        && processors_were_full(&limit.cpus, bound);
    comparable.then(|| own.requests_per_second / bound.requests_per_second)
}

impl PeakBottleneck {
    /// The verdict, in a sentence.
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.title, self.bottleneck.clause())
    }
}

fn errors(system: &SystemResult) -> Option<String> {
    let sum = |figure: fn(&MixResult) -> u64| system.mixes.iter().map(figure).fold(0u64, u64::saturating_add);
    let total = sum(|mix| mix.errors.total());
    let answered = sum(|mix| mix.requests);
    (total > 0).then(|| {
        let share = total as f64 / (total as f64 + answered as f64);
        let noun = if total == 1 { "request" } else { "requests" };
        format!("{} failed {} {noun} ({:.3} % of those counted).", system.title, count(total), share * 100.0)
    })
}

fn validity(result: &ResultFile) -> String {
    if !matches!(result.status, RunStatus::Complete) {
        return "Valid only as far as it goes: the run did not come to its end.".to_string();
    }
    if result.machine.same_host {
        let short = if result.suite.quick { ", and the quick form's windows are short" } else { "" };
        return format!(
            "Load and server shared one machine{short}: ratios between systems measured side by side hold \
             better than absolute rates."
        );
    }
    "Load and server ran on separate machines.".to_string()
}

/// Of a load the run that represents it.
fn at_load(system: &SystemResult, load: u64) -> Option<&MixResult> {
    let standing = representatives(&system.mixes);
    standing.into_iter().find(|mix| mix.load() == load && mix.complete && mix.requests > 0)
}

fn cpu_us(mix: &MixResult) -> Option<f64> {
    mix.server.as_ref().map(|server| server.cpu_us_per_request).filter(|us| *us > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_whole_result_is_put_in_words() {
        let sentences = sentences(&sample::result(), &[]);
        let expected = [
            "touchstone 0.1.0 seems to be ahead (indicative, from one run): its peak rate is 1.50 times \
             nginx 1.22.1.",
            "With 16 clients, touchstone 0.1.0 spent 16.0 µs of processor time a request: 0.667 times that \
             of nginx 1.22.1 (24.0 µs).",
            "touchstone 0.1.0 peaked at 60,000 requests/s (4,128 Mbit/s) with 16 clients: mean latency 0.267 \
             ms, 99 % within 0.533 ms.",
            "nginx 1.22.1 peaked at 40,000 requests/s (2,752 Mbit/s) with 16 clients: mean latency 0.400 ms, \
             99 % within 0.800 ms.",
            "With 16 clients, touchstone 0.1.0 carried 92 % of the rate of the kernel's limit and spent \
             16.0 µs of processor time a request where the kernel's limit is 14.8 µs (1.08 times).",
            "With 16 clients, nginx 1.22.1 carried 62 % of the rate of the kernel's limit and spent 24.0 µs \
             of processor time a request where the kernel's limit is 14.8 µs (1.62 times).",
            "touchstone 0.1.0: the system’s processors were used up (the system used 96 % of its \
             processors).",
            "nginx 1.22.1: the system’s processors were used up (the system used 96 % of its processors).",
            "Load and server shared one machine, and the quick form's windows are short: ratios between \
             systems measured side by side hold better than absolute rates.",
        ];
        assert_eq!(sentences, expected);
    }

    #[test]
    fn open_loads_are_told_by_what_was_carried_and_what_a_request_cost() {
        let mut result = sample::open();
        crate::derived::make(&mut result);
        assert!(result.systems.iter().all(|system| system.peaks.is_empty() && system.loads.len() == 3));
        assert!(result.systems[1].loads[2].complaints[0].starts_with("it was not carried: 30 %"));
        let found = sentences(&result, &[]);
        assert_eq!(
            found[..2],
            [
                "touchstone 0.1.0 seems to be ahead (indicative, from one run): its number of answers for \
                 the same processor time is 1.50 times nginx 1.22.1.",
                "With 2,000 arrivals/s, touchstone 0.1.0 spent 16.0 µs of processor time a request: 0.667 \
                 times that of nginx 1.22.1 (24.0 µs)."
            ]
        );
        assert!(found[2].starts_with("touchstone 0.1.0 carried 4,000 arrivals/s"), "{found:?}");
        assert!(found[4].starts_with("nginx 1.22.1 did not carry 4,000 arrivals/s"), "{found:?}");
        assert!(!found.iter().any(|line| line.contains("peaked") || line.contains("limit")), "{found:?}");
    }

    #[test]
    fn equal_rates_are_not_ranked() {
        let mut result = sample::result();
        let same = result.systems[0].mixes[2].requests_per_second;
        result.systems[1].mixes[2].requests_per_second = same * 0.98;
        assert_eq!(
            sentences(&result, &[])[0],
            "Between touchstone 0.1.0 and nginx 1.22.1 (less than 3.0 % at the peaks) no difference in \
             requests/s is shown."
        );
    }

    #[test]
    fn a_difference_is_claimed_only_where_the_interval_of_several_runs_shows_it() {
        let mut result = sample::result();
        for (system, factors) in [(0, [1.0, 1.01, 0.99]), (1, [1.0, 0.99, 1.02])] {
            let own = result.systems[system].mixes.clone();
            let run = |(run, factor): (u64, f64)| {
                let repeated = move |mix: &MixResult| MixResult {
                    run,
                    requests_per_second: mix.requests_per_second * factor,
                    ..mix.clone()
                };
                own.iter().map(repeated).collect::<Vec<_>>()
            };
            result.systems[system].mixes = (1..).zip(factors).flat_map(run).collect();
        }
        let first = sentences(&result, &[]).remove(0);
        assert!(
            first.starts_with("touchstone 0.1.0 is ahead: its peak rate is 1.50 times nginx 1.22.1 (over"),
            "{first}"
        );
        assert!(first.ends_with(" 9 pairs of 3 runs)."), "{first}");
        // The second is faster with few clients by the factor by which the first is faster at its peak.
        for mix in result.systems[1].mixes.iter_mut().filter(|mix| mix.clients < 16) {
            mix.requests_per_second *= 3.0;
        }
        let first = sentences(&result, &[]).remove(0);
        assert!(first.contains("no difference in requests/s is shown"), "{first}");
    }

    #[test]
    fn rates_that_the_load_engine_set_are_not_held_against_the_limit() {
        let mut result = sample::result();
        let mix = &mut result.systems[0].mixes[2];
        mix.generator_saturated = Some("a thread was busy".into());
        mix.server.as_mut().unwrap().cpu_share = 0.7;
        let all = sentences(&result, &[]);
        let starts = |start: &str| all.iter().any(|sentence| sentence.starts_with(start));
        assert!(
            starts("With 16 clients, touchstone 0.1.0 spent 16.0 µs of processor time a request where"),
            "{all:?}"
        );
        assert!(all[0].ends_with(
            "; the load engine, not the servers, set some of these rates: compare the \
                                  processor time a request."
        ));
        result.systems[0].mixes[2].generator_saturated = None;
        result.systems[0].cpus = vec![0, 1];
        let sentence = distance_from_limit(&result.systems[0], &result.systems[2]).unwrap();
        assert!(!sentence.contains("carried"), "{sentence}");
        result.systems[0].mixes[2].server = None;
        assert_eq!(distance_from_limit(&result.systems[0], &result.systems[2]), None);
    }

    #[test]
    fn the_limit_has_as_many_processors_as_the_system() {
        let mut result = sample::result();
        let (one, mut two) = (result.systems[2].clone(), result.systems[2].clone());
        two.cpus = vec![0, 2];
        two.mixes.iter_mut().for_each(|mix| mix.requests_per_second *= 2.0);
        result.systems.push(two);
        let on = |cpus: &[usize]| SystemResult { cpus: cpus.to_vec(), ..result.systems[0].clone() };
        let share = |system: &SystemResult| {
            let limit = limit_of(&result, system).unwrap();
            (limit.cpus.len(), share_of_limit(system, limit))
        };
        let (_, single) = share(&on(&[0]));
        assert_eq!((share(&on(&[0])).0, single), (1, share_of_limit(&result.systems[0], &one)));
        assert_eq!(share(&on(&[0, 2])), (2, single.map(|single| single / 2.0)));
        // On three, the processor time is compared with the first limit, and the rate with none.
        assert_eq!(share(&on(&[0, 2, 3])), (1, None));
    }

    #[test]
    fn other_work_is_what_neither_server_nor_load_engine_used() {
        let mut result = sample::result();
        let mix = &mut result.systems[0].mixes[2];
        // Of 1.4 processors busy, the server used 0.96 and the load engine 0.6.
        assert_eq!(crate::saturation::other_work_cpus(mix), Some(0.0));
        let server = mix.server.as_mut().unwrap();
        (server.user_s, server.system_s, server.cpu_share) = (0.1, 0.4, 0.1);
        assert!((crate::saturation::other_work_cpus(mix).unwrap() - 0.7).abs() < 1e-9);
        assert!(held_back(&result, &[])[0].sentence().contains("other work used 0.700 processors"));
        result.systems[0].mixes[2].server = None;
        assert_eq!(crate::saturation::other_work_cpus(&result.systems[0].mixes[2]), None);
    }

    #[test]
    fn incomplete_runs_and_errors_are_said() {
        let mut result = sample::result();
        result.status = RunStatus::Incomplete("nginx ended in mid-mix".to_string());
        result.systems[1].mixes[0].errors.reset = 3;
        let all = sentences(&result, &[]);
        assert_eq!(all[0], "The run is incomplete: nginx ended in mid-mix.");
        assert!(
            all.iter().any(|sentence| sentence.starts_with("nginx 1.22.1 failed 3 requests (0.001 %")),
            "{all:?}"
        );
        assert!(all.last().unwrap().starts_with("Valid only as far as it goes"));
        result.systems.clear();
        assert_eq!(sentences(&result, &[]).len(), 2);
    }

    #[test]
    fn an_incomplete_run_compares_only_what_all_completed() {
        let mut result = sample::result();
        result.status = RunStatus::Incomplete("nginx died".to_string());
        result.systems[1].mixes.truncate(2);
        let expected = "In the mixes that all of them completed, touchstone 0.1.0 seems to be ahead \
                        (indicative, from one run): its peak rate is 1.50 times nginx 1.22.1.";
        let all = sentences(&result, &[]);
        assert!(all.iter().any(|sentence| sentence == expected), "{all:?}");
        assert!(all.iter().any(|sentence| sentence.starts_with("With 4 clients, touchstone")), "{all:?}");
        result.systems[1].mixes.clear();
        assert!(!sentences(&result, &[]).iter().any(|sentence| sentence.contains("ahead")));
    }

    #[test]
    fn separate_machines_are_not_called_indicative() {
        let mut result = sample::result();
        result.machine.same_host = false;
        assert_eq!(sentences(&result, &[]).last().unwrap(), "Load and server ran on separate machines.");
    }
}
