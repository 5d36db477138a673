//! The facts that a reader needs before trusting a figure: signs in the figures themselves, a sentence each.

use touchstone_lab::arrivals;
use touchstone_lab::figures::{clients, count, percent, significant};
use touchstone_lab::peaks;
use touchstone_lab::result::{MixResult, ResultFile, SuiteRecord, SystemResult};
use touchstone_lab::saturation::{self, engine_limit};
use touchstone_lab::series::{self, Series};
use touchstone_lab::statistics::taint::STOOD_STILL;
use touchstone_lab::suite::Mix;

/// The share of a processor's time that the hypervisor may take without a warning.
const STEAL_TOLERANCE: f64 = 0.05;

/// The least share of the processors that is taken to be left beside other work: below it the cost is a
/// guess.
const LEFT_MIN: f64 = 0.05;

/// The warnings that follow from what was measured.
pub fn from_result(result: &ResultFile) -> Vec<String> {
    let mut warnings = Vec::new();
    if result.machine.same_host {
        warnings.push("Load and server shared one machine: the figures are indicative.".to_string());
    }
    for system in &result.systems {
        for series in series::of_system(result, system) {
            warnings.extend(saturation(&series));
            warnings
                .extend(series.mixes.iter().filter_map(|mix| littles_law(&series.title, &result.suite, mix)));
            warnings.extend(series.mixes.iter().filter_map(|mix| not_carried(&series.title, mix)));
            warnings.extend(series.mixes.iter().filter_map(|mix| stood_still(&series.title, mix)));
            warnings.extend(series.mixes.iter().filter_map(|mix| steal(&series.title, mix)));
            warnings.extend(of_processors(&series));
        }
        warnings.extend(other_work(system));
        for series in series::of_system(result, system) {
            warnings.extend(series.mixes.iter().filter_map(|mix| errors(&series.title, mix)));
        }
    }
    warnings
}

/// Adds a warning unless it is there already.
pub(super) fn add(warnings: &mut Vec<String>, warning: String) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

/// A warning of the load engine about a mix.
pub(super) fn of_the_engine(title: &str, mix: &Mix, warning: &str) -> String {
    format!("{title}, {}: {}.", load_of(mix), warning.trim_end_matches('.'))
}

fn load_of(mix: &Mix) -> String {
    match mix.rate {
        Some(rate) => format!("{} arrivals/s", touchstone_lab::figures::rate(rate)),
        None => clients(mix.clients as u64),
    }
}

fn saturation(series: &Series<'_>) -> Option<String> {
    let saturated: Vec<&MixResult> =
        series.mixes.iter().copied().filter(|mix| !peaks::rate_is_the_servers(series.system, mix)).collect();
    let (limit, sign) = engine_limit(&series.system.cpus, saturated.first()?)?;
    let numbers: Vec<String> = saturated.iter().map(|mix| count(mix.load())).collect();
    let noun = match (saturated[0].arrivals.is_some(), &numbers[..]) {
        (true, _) => "arrivals/s",
        (false, [one]) if one == "1" => "client",
        (false, _) => "clients",
    };
    Some(format!(
        "{}: {} with {} {noun} ({sign}); {}.",
        series.title,
        limit.description(),
        touchstone_lab::figures::list(&numbers),
        match saturated[0].arrivals {
            Some(_) => "what it measured is partly its own",
            None => "these rates are a lower bound",
        }
    ))
}

/// In a closed loop, clients = rate x (latency + think time); otherwise the counts are wrong.
fn littles_law(title: &str, suite: &SuiteRecord, mix: &MixResult) -> Option<String> {
    if !mix.complete || mix.requests == 0 || mix.arrivals.is_some() {
        return None;
    }
    let implied = mix.littles_law_clients + mix.requests_per_second * suite.think_s_per_request(mix);
    let off = (implied / mix.clients as f64 - 1.0).abs();
    (off > suite.littles_law_tolerance(mix)).then(|| {
        format!(
            "{}, {}: by Little's law rate and latency imply {} clients ({} off).",
            title,
            mix.load_in_words(),
            significant(implied),
            percent(off)
        )
    })
}

/// Of an open load: what was due and never answered.
fn not_carried(title: &str, mix: &MixResult) -> Option<String> {
    (mix.arrivals.is_some() && mix.complete && !mix.carried()).then(|| {
        format!("{title}, {}: the rate was not carried: {}.", mix.load_in_words(), arrivals::lost(mix))
    })
}

fn stood_still(title: &str, mix: &MixResult) -> Option<String> {
    let sign = mix.taint.iter().find(|sign| sign.what == STOOD_STILL)?;
    Some(format!(
        "{}, {}: the load engine stood still for {} s; its machine slept, or it had been stopped. \
         Measure this again.",
        title,
        mix.load_in_words(),
        significant(sign.worst)
    ))
}

fn steal(title: &str, mix: &MixResult) -> Option<String> {
    let worst = mix.machine.as_ref()?.cpus.iter().max_by(|left, right| left.steal.total_cmp(&right.steal))?;
    (worst.steal > STEAL_TOLERANCE).then(|| {
        format!(
            "{}, {}: the hypervisor took {} of processor {}'s time.",
            title,
            mix.load_in_words(),
            percent(worst.steal),
            worst.cpu
        )
    })
}

/// Given once for each system and interface.
fn of_processors(series: &Series<'_>) -> Option<String> {
    let counted_so = |mix: &&MixResult| mix.server.as_ref().is_some_and(|server| server.of_processors);
    series.mixes.iter().copied().find(counted_so)?;
    Some(format!(
        "{}: the kernel adds the time of these programs to no process, so the processor time is the time \
         that the system's processors were busy.",
        series.title
    ))
}

/// Given once for each system, with the worst mix, and with what that costs at most: what other work took was
/// missing to load and server together.
fn other_work(system: &SystemResult) -> Option<String> {
    // If programs are counted by the time of their processors, other work on these is included already.
    let counted = |mix: &&MixResult| mix.server.as_ref().is_none_or(|server| !server.of_processors);
    let used = |mix: &MixResult| saturation::other_work_cpus(mix).unwrap_or(0.0);
    let mixes = system.mixes.iter().filter(counted);
    let worst = mixes.max_by(|left, right| used(left).total_cmp(&used(right)))?;
    let processors = worst.machine.as_ref().map_or(1, |machine| machine.cpus.len().max(1));
    // What the processors would do without the other work, over what they did.
    let left = (processors as f64 - used(worst)).max(processors as f64 * LEFT_MIN);
    let cost = processors as f64 / left;
    (used(worst) >= saturation::OTHER_WORK_CPUS).then(|| {
        format!(
            "{}: other work used up to {} of this machine's {} processors while it was measured: without it, \
             rates may be up to {} times as high. Processor time a request and the ratios between systems, \
             which took turns, suffer less.",
            system.title,
            significant(used(worst)),
            count(processors as u64),
            significant(cost)
        )
    })
}

fn errors(title: &str, mix: &MixResult) -> Option<String> {
    let errors = &mix.errors;
    let kinds = [
        (errors.connect, "could not connect"),
        (errors.reset, "broke off"),
        (errors.timeout, "came too late"),
        (errors.short_body, "had a body of the wrong length"),
        (errors.bad_status, "had a bad status"),
        (errors.malformed, "were not HTTP"),
        (errors.tls, "failed in TLS"),
        (errors.wrong_body, "had a wrong body"),
        (errors.extraction, "lacked a value that was to be taken from them"),
        (errors.assertion, "were not what the suite asserts"),
        (errors.wrong_frame, "broke the protocol of WebSockets"),
        (errors.closed, "were closed too early by the server"),
    ];
    let named: Vec<String> = kinds
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, kind)| format!("{} {kind}", count(*number)))
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "{}, {}: requests failed: {}.",
            title,
            mix.load_in_words(),
            touchstone_lab::figures::list(&named)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_lab::sample;
    use touchstone_lab::statistics::taint::{EngineSecond, signs};

    #[test]
    fn a_sound_result_has_only_the_warning_of_the_shared_machine() {
        let mut result = sample::result();
        assert_eq!(from_result(&result), ["Load and server shared one machine: the figures are indicative."]);
        result.machine.same_host = false;
        assert!(from_result(&result).is_empty());
    }

    #[test]
    fn every_sign_is_said_with_its_place() {
        let mut result = sample::result();
        result.machine.same_host = false;
        let mixes = &mut result.systems[1].mixes;
        mixes[0].littles_law_clients = 0.9;
        mixes[1].machine.as_mut().unwrap().cpus[1].steal = 0.08;
        (mixes[0].load.user_s, mixes[0].load.system_s) = (0.0, 0.0);
        mixes[1].errors.timeout = 2;
        mixes[1].errors.reset = 1500;
        mixes[1].generator_saturated = Some("a thread was busy.".into());
        mixes[2].generator_saturated = Some("a thread was busy.".into());
        // The idle share that the server left is used by other work here.
        mixes.iter_mut().skip(1).for_each(|mix| mix.server.as_mut().unwrap().cpu_share = 0.6);
        let expected = [
            "nginx 1.22.1: the load engine was at its own limit with 4 and 16 clients (a thread was busy); \
             these rates are a lower bound.",
            "nginx 1.22.1, 1 client: by Little's law rate and latency imply 0.900 clients (10 % off).",
            "nginx 1.22.1, 4 clients: the hypervisor took 8.0 % of processor 1's time.",
            "nginx 1.22.1: other work used up to 0.440 of this machine's 2 processors while it was measured: \
             without it, rates may be up to 1.28 times as high. Processor time a request and the ratios \
             between systems, which took turns, suffer less.",
            "nginx 1.22.1, 4 clients: requests failed: 1,500 broke off and 2 came too late.",
        ];
        assert_eq!(from_result(&result), expected);
    }

    #[test]
    fn a_rate_that_is_not_carried_is_told_and_littles_law_does_not_speak() {
        let mut result = sample::open();
        result.machine.same_host = false;
        let expected = "nginx 1.22.1, 4,000 arrivals/s: the rate was not carried: 30 % of 20,000 due \
                        requests had no valid answer and 6,000 were never started, as all 64 clients waited.";
        assert_eq!(from_result(&result), [expected]);
    }

    #[test]
    fn an_engine_that_stood_still_is_told() {
        let mut result = sample::result();
        let second = EngineSecond { stood_still_s: Some(9.0), ..EngineSecond::default() };
        result.systems[0].mixes[1].taint = signs(&[second]);
        let found = from_result(&result);
        assert!(
            found.iter().any(|warning| warning.contains("4 clients: the load engine stood still for 9.00 s")),
            "{found:?}"
        );
    }

    #[test]
    fn interfaces_are_named_where_there_are_several() {
        let mut result = sample::spice();
        result.machine.same_host = false;
        let cgi = result.systems[0].mixes.iter_mut().filter(|mix| mix.interface == "cgi");
        for mix in cgi {
            mix.server.as_mut().unwrap().of_processors = true;
            mix.errors.bad_status = 1;
        }
        let found = from_result(&result);
        let begins = |text: &str| found.iter().filter(|warning| warning.starts_with(text)).count();
        assert_eq!(begins("touchstone 0.1.0, CGI: the kernel adds the time"), 1);
        assert_eq!(begins("touchstone 0.1.0, CGI, 4 clients: requests failed: 1 had a bad status."), 1);
    }

    #[test]
    fn think_time_belongs_to_littles_law() {
        let mut result = sample::result();
        result.machine.same_host = false;
        let mix = &mut result.systems[0].mixes[1];
        mix.think_time_s = 1.0;
        mix.requests_per_second = 3.9;
        mix.littles_law_clients = 0.1;
        assert!(from_result(&result).is_empty());
        result.systems[0].mixes[1].think_time_s = 0.5;
        assert_eq!(from_result(&result).len(), 1);
        result.systems[0].mixes[1].complete = false;
        assert!(from_result(&result).is_empty());
    }
}
