//! The verdict: what a result says, in words. Pure functions of a [`ResultFile`]; every sentence follows from figures
//! that stand in it.
//!
//! The order is that in which a reader asks: did the run end well, which system is ahead, how far did each one come,
//! how far is it from the kernel's limit, what held it back, and can the figures be trusted.

use crate::acceleration;
use crate::figures::{clients, count, list, milliseconds, percent, rate, significant};
use crate::loads;
use crate::peaks::{
    EQUAL_BAND, OTHER_WORK_CPUS, PROCESSORS_FULL, other_work_cpus, peak, processors_were_full,
    rate_is_the_servers,
};
use crate::result::{MixResult, ResultFile, RunStatus, SystemResult};
use crate::speedup;
use crate::spice;

/// A rate that rose by more than this to the last mix has not come to its peak.
const STILL_RISING: f64 = 0.05;

/// What the result says, a sentence each, most important first.
pub fn sentences(result: &ResultFile) -> Vec<String> {
    let mut sentences = Vec::new();
    if let RunStatus::Incomplete(reason) = &result.status {
        sentences.push(format!("The run is incomplete: {}.", reason.trim_end_matches('.')));
    }
    let rivals: Vec<&SystemResult> = result.systems.iter().filter(|system| !system.is_limit).collect();
    if !result.suite.interfaces.is_empty() {
        sentences.extend(spice::sentences(result));
        sentences.extend(rivals.iter().filter_map(|system| errors(system)));
        sentences.push(validity(result));
        return sentences;
    }
    sentences.extend(acceleration::sentences(result));
    sentences.extend(speedup::sentences(result));
    let ranked = by_rate(&rivals, &result.status);
    sentences.extend(comparison(&ranked, &result.status));
    sentences.extend(processor_time(&ranked));
    sentences.extend(rivals.iter().map(|system| peak_sentence(system)));
    sentences.extend(rivals.iter().filter_map(|system| useful_peak_sentence(system)));
    if let Some(limit) = result.systems.iter().find(|system| system.is_limit) {
        sentences.extend(rivals.iter().filter_map(|system| distance_from_limit(system, limit)));
    }
    sentences.extend(rivals.iter().filter_map(|system| bottleneck(system)));
    sentences.extend(rivals.iter().filter_map(|system| errors(system)));
    sentences.push(validity(result));
    sentences
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
        None => format!("{} gave no valid answer that counted.", system.title),
    }
}

/// The useful peak, where it is not the peak, with the reason.
fn useful_peak_sentence(system: &SystemResult) -> Option<String> {
    let found = system.peaks.first()?;
    let why = found.difference.as_ref()?;
    // Where the engine was at its limit in every load, that is told of the peak.
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

/// A rival and the mix that it is compared by.
type Ranked<'a> = (&'a SystemResult, &'a MixResult);

/// The rivals with their peaks, the fastest first. Where the run did not come to its end, only the mixes that all
/// rivals completed are looked at: the others would compare different loads.
fn by_rate<'a>(rivals: &[&'a SystemResult], status: &RunStatus) -> Vec<Ranked<'a>> {
    let whole = matches!(status, RunStatus::Complete);
    let in_all = |mix: &MixResult| rivals.iter().all(|rival| at_clients(rival, mix.clients).is_some());
    let peak_in_all = |system: &'a SystemResult| {
        let standing = loads::representatives(&system.mixes);
        let common = standing.into_iter().filter(|mix| mix.complete && in_all(mix));
        common.reduce(|best, mix| if mix.requests_per_second > best.requests_per_second { mix } else { best })
    };
    let chosen = |system| if whole { peak(system) } else { peak_in_all(system) };
    let mut ranked: Vec<_> = rivals.iter().filter_map(|system| Some((*system, chosen(system)?))).collect();
    ranked.sort_by(|left, right| right.1.requests_per_second.total_cmp(&left.1.requests_per_second));
    ranked
}

/// How many times faster the fastest is than each other.
fn comparison(ranked: &[Ranked<'_>], status: &RunStatus) -> Option<String> {
    let ((fastest, best), others) = ranked.split_first()?;
    if others.is_empty() {
        return None;
    }
    let ratio = |mix: &MixResult| best.requests_per_second / mix.requests_per_second;
    let (equal, slower): (Vec<_>, Vec<_>) = others.iter().partition(|(_, mix)| ratio(mix) - 1.0 < EQUAL_BAND);
    let mut parts = Vec::new();
    if !slower.is_empty() {
        let times: Vec<String> = slower
            .iter()
            .map(|(system, mix)| format!("{} times {}", significant(ratio(mix)), system.title))
            .collect();
        parts.push(format!("{} is ahead: its peak rate is {}", fastest.title, list(&times)));
    }
    if !equal.is_empty() {
        let names: Vec<String> = equal.iter().map(|(system, _)| system.title.clone()).collect();
        parts.push(format!(
            "between {} and {} this run shows no difference in rate (less than {})",
            fastest.title,
            list(&names),
            percent(EQUAL_BAND)
        ));
    }
    if ranked.iter().any(|(_, mix)| !rate_is_the_servers(mix)) {
        parts.push(
            "but the load engine, not the servers, set some of these rates: compare the processor time a request"
                .to_string(),
        );
    }
    Some(match status {
        RunStatus::Complete => capitalised(&format!("{}.", parts.join("; "))),
        RunStatus::Incomplete(_) => format!("In the mixes that all of them completed, {}.", parts.join("; ")),
    })
}

/// The processor time of a request, at equal numbers of clients where both were measured with them.
fn processor_time(ranked: &[Ranked<'_>]) -> Option<String> {
    let ((fastest, best), others) = ranked.split_first()?;
    let own = cpu_us(best)?;
    let times: Vec<String> = others
        .iter()
        .filter_map(|(system, _)| {
            let other = cpu_us(at_clients(system, best.clients)?)?;
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
            clients(best.clients),
            fastest.title,
            significant(own),
            list(&times)
        )
    })
}

/// How far a system is from the kernel's limit with as many clients. Rates are compared only where both are the
/// servers' own, and on one processor: the limit is a single thread. A limit whose processor was not full was held up
/// by something else, and bounds nothing.
fn distance_from_limit(system: &SystemResult, limit: &SystemResult) -> Option<String> {
    let own = peak(system)?;
    let bound = at_clients(limit, own.clients)?;
    let name = &system.title;
    let comparable = system.cpus.len() <= 1 && rate_is_the_servers(own) && processors_were_full(bound);
    let of_rate = comparable.then(|| {
        let share = percent(own.requests_per_second / bound.requests_per_second);
        format!("carried {share} of the rate of the kernel's limit")
    });
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

/// What held the system back at its peak, as far as it is evident.
fn bottleneck(system: &SystemResult) -> Option<String> {
    let mix = peak(system)?;
    let name = &system.title;
    let saturated = mix.generator_saturated.as_ref().map(|sign| sign.trim_end_matches('.'));
    let share = mix.server.as_ref().map(|server| server.cpu_share);
    let full = share.filter(|share| *share >= PROCESSORS_FULL);
    let other_work = other_work_cpus(mix).filter(|cpus| *cpus >= OTHER_WORK_CPUS);
    Some(match (full, saturated) {
        (Some(share), None) => {
            format!(
                "At its peak {name} kept its processors {} busy: they were the bottleneck.",
                percent(share.min(1.0))
            )
        }
        (Some(share), Some(sign)) => format!(
            "At its peak {name} kept its processors {} busy: they were the bottleneck. The load engine was near its \
             own limit, too ({sign}), so latencies may hold some of its own.",
            percent(share.min(1.0))
        ),
        (None, Some(sign)) => format!(
            "At the peak of {name} the load engine was the bottleneck ({sign}): the figures of {name} are a lower bound."
        ),
        (None, None) if other_work.is_some() => format!(
            "At the peak of {name} other work used {} processors of this machine: the figures of {name} are a lower \
             bound.",
            significant(other_work.unwrap_or_default())
        ),
        (None, None) if still_rising(system, mix) => format!(
            "The rate of {name} was still rising at {}, the most that were tried: its peak may lie higher.",
            clients(mix.clients)
        ),
        (None, None) => {
            let used = share.map(|share| format!(" (it used {} of its processors)", percent(share)));
            format!("What held {name} back at its peak is not evident{}.", used.unwrap_or_default())
        }
    })
}

fn still_rising(system: &SystemResult, peak: &MixResult) -> bool {
    let complete = || system.mixes.iter().filter(|mix| mix.complete);
    let before = complete().filter(|mix| mix.clients < peak.clients).max_by_key(|mix| mix.clients);
    let last = complete().all(|mix| mix.clients <= peak.clients);
    last && before
        .is_some_and(|mix| peak.requests_per_second > mix.requests_per_second * (1.0 + STILL_RISING))
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
            "Load and server shared one machine{short}: ratios between systems measured side by side hold better than \
             absolute rates."
        );
    }
    "Load and server ran on separate machines.".to_string()
}

fn at_clients(system: &SystemResult, clients: u64) -> Option<&MixResult> {
    system.mixes.iter().find(|mix| mix.clients == clients && mix.complete && mix.requests > 0)
}

fn cpu_us(mix: &MixResult) -> Option<f64> {
    mix.server.as_ref().map(|server| server.cpu_us_per_request).filter(|us| *us > 0.0)
}

fn capitalised(sentence: &str) -> String {
    let mut characters = sentence.chars();
    match characters.next() {
        // A name keeps its own spelling: only "between" can begin a sentence here in lower case.
        Some(first) if sentence.starts_with("between ") => first.to_uppercase().chain(characters).collect(),
        _ => sentence.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_whole_result_is_put_in_words() {
        let sentences = sentences(&sample::result());
        let expected = [
            "touchstone 0.1.0 is ahead: its peak rate is 1.50 times nginx 1.22.1.",
            "With 16 clients, touchstone 0.1.0 spent 16.0 µs of processor time a request: 0.667 times that of nginx \
             1.22.1 (24.0 µs).",
            "touchstone 0.1.0 peaked at 60,000 requests/s (4,128 Mbit/s) with 16 clients: mean latency 0.267 ms, 99 % \
             within 0.533 ms.",
            "nginx 1.22.1 peaked at 40,000 requests/s (2,752 Mbit/s) with 16 clients: mean latency 0.400 ms, 99 % within \
             0.800 ms.",
            "With 16 clients, touchstone 0.1.0 carried 92 % of the rate of the kernel's limit and spent 16.0 µs of \
             processor time a request where the kernel's limit is 14.8 µs (1.08 times).",
            "With 16 clients, nginx 1.22.1 carried 62 % of the rate of the kernel's limit and spent 24.0 µs of processor \
             time a request where the kernel's limit is 14.8 µs (1.62 times).",
            "At its peak touchstone 0.1.0 kept its processors 96 % busy: they were the bottleneck.",
            "At its peak nginx 1.22.1 kept its processors 96 % busy: they were the bottleneck.",
            "Load and server shared one machine, and the quick form's windows are short: ratios between systems measured \
             side by side hold better than absolute rates.",
        ];
        assert_eq!(sentences, expected);
    }

    #[test]
    fn equal_rates_are_not_ranked() {
        let mut result = sample::result();
        let same = result.systems[0].mixes[2].requests_per_second;
        result.systems[1].mixes[2].requests_per_second = same * 0.98;
        let rivals: Vec<&SystemResult> = result.systems.iter().take(2).collect();
        let sentence = comparison(&by_rate(&rivals, &result.status), &result.status).unwrap();
        assert_eq!(
            sentence,
            "Between touchstone 0.1.0 and nginx 1.22.1 this run shows no difference in rate (less than 3.0 %)."
        );
    }

    #[test]
    fn rates_that_the_load_engine_set_are_not_held_against_the_limit() {
        let mut result = sample::result();
        let mix = &mut result.systems[0].mixes[2];
        mix.generator_saturated = Some("a thread was busy".into());
        mix.server.as_mut().unwrap().cpu_share = 0.7;
        let all = sentences(&result);
        let starts = |start: &str| all.iter().any(|sentence| sentence.starts_with(start));
        assert!(
            starts("With 16 clients, touchstone 0.1.0 spent 16.0 µs of processor time a request where"),
            "{all:?}"
        );
        assert!(all[0].ends_with("; but the load engine, not the servers, set some of these rates: compare the processor time a request."));
        result.systems[0].mixes[2].generator_saturated = None;
        result.systems[0].cpus = vec![0, 1];
        let sentence = distance_from_limit(&result.systems[0], &result.systems[2]).unwrap();
        assert!(!sentence.contains("carried"), "{sentence}");
        result.systems[0].mixes[2].server = None;
        assert_eq!(distance_from_limit(&result.systems[0], &result.systems[2]), None);
    }

    #[test]
    fn the_bottleneck_is_named_by_its_signs() {
        let mut result = sample::result();
        let set = |system: &mut SystemResult, share: f64, saturated: Option<&str>| {
            for mix in &mut system.mixes {
                mix.server.as_mut().unwrap().cpu_share = share;
                mix.generator_saturated = saturated.map(str::to_string);
            }
        };
        let system = &mut result.systems[0];
        set(system, 0.5, Some("a thread was 97 % busy"));
        let words = bottleneck(system).unwrap();
        assert!(words.contains("(a thread was 97 % busy)") && words.contains("lower bound"), "{words}");
        set(system, 0.99, Some("a thread was 97 % busy"));
        assert!(bottleneck(system).unwrap().contains("near its own limit, too"));
        set(system, 0.5, None);
        assert!(bottleneck(system).unwrap().contains("still rising at 16 clients"));
        let rate = system.mixes[2].requests_per_second;
        system.mixes[1].requests_per_second = rate * 0.99;
        assert!(bottleneck(system).unwrap().contains("not evident (it used 50 % of its processors)"));
        for mix in &mut system.mixes {
            mix.server = None;
        }
        assert!(bottleneck(system).unwrap().contains("is not evident."));
    }

    #[test]
    fn other_work_is_what_neither_server_nor_load_engine_used() {
        let mut result = sample::result();
        let mix = &mut result.systems[0].mixes[2];
        // Of 1.4 processors busy, the server used 0.96 and the load engine 0.6.
        assert_eq!(other_work_cpus(mix), Some(0.0));
        let server = mix.server.as_mut().unwrap();
        (server.user_s, server.system_s, server.cpu_share) = (0.1, 0.4, 0.1);
        assert!((other_work_cpus(mix).unwrap() - 0.7).abs() < 1e-9);
        assert!(bottleneck(&result.systems[0]).unwrap().contains("other work used 0.700 processors"));
        result.systems[0].mixes[2].server = None;
        assert_eq!(other_work_cpus(&result.systems[0].mixes[2]), None);
    }

    #[test]
    fn incomplete_runs_and_errors_are_said() {
        let mut result = sample::result();
        result.status = RunStatus::Incomplete("nginx ended in mid-mix".to_string());
        result.systems[1].mixes[0].errors.reset = 3;
        let all = sentences(&result);
        assert_eq!(all[0], "The run is incomplete: nginx ended in mid-mix.");
        assert!(
            all.iter().any(|sentence| sentence.starts_with("nginx 1.22.1 failed 3 requests (0.001 %")),
            "{all:?}"
        );
        assert!(all.last().unwrap().starts_with("Valid only as far as it goes"));
        result.systems.clear();
        assert_eq!(sentences(&result).len(), 2);
    }

    #[test]
    fn an_incomplete_run_compares_only_what_all_completed() {
        let mut result = sample::result();
        result.status = RunStatus::Incomplete("nginx died".to_string());
        result.systems[1].mixes.truncate(2);
        let expected = "In the mixes that all of them completed, touchstone 0.1.0 is ahead: its peak rate is 1.50 times nginx 1.22.1.";
        let all = sentences(&result);
        assert!(all.iter().any(|sentence| sentence == expected), "{all:?}");
        assert!(all.iter().any(|sentence| sentence.starts_with("With 4 clients, touchstone")), "{all:?}");
        result.systems[1].mixes.clear();
        assert!(!sentences(&result).iter().any(|sentence| sentence.contains("is ahead")));
    }

    #[test]
    fn separate_machines_are_not_called_indicative() {
        let mut result = sample::result();
        result.machine.same_host = false;
        assert_eq!(sentences(&result).last().unwrap(), "Load and server ran on separate machines.");
    }
}
