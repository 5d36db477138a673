//! The run rules: what a result must fulfil to be certified, and what makes it invalid. `docs/run-rules.md`
//! explains them; each is here once, with the reason for the reader.

mod assessment;
pub mod recompute;

pub use assessment::Assessment;

use crate::audit::AuditOutcome;
use recompute::Recomputation;
use serde::Serialize;
use touchstone_lab::figures::{count, significant};
use touchstone_lab::result::{MixResult, ResultFile, RunStatus, SystemResult};
use touchstone_lab::saturation::{EngineLimit, engine_limit};
use touchstone_lab::statistics::warm_up;

/// How far a result can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It must not be quoted.
    Invalid,
    /// Ratios within the run may be quoted, absolute figures not.
    Indicative,
    /// It may be quoted, with its disclosure.
    Certified,
}

impl Class {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::Invalid => "invalid",
            Class::Indicative => "indicative",
            Class::Certified => "certified",
        }
    }
}

/// The outcome of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is fulfilled.
    Held,
    /// It is not, and the result is indicative at best.
    Indicative,
    /// It is not, and the result is invalid.
    Broken,
}

/// A rule and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name, for machines.
    pub name: &'static str,
    /// Its requirement.
    pub rule: &'static str,
    /// Its outcome.
    pub outcome: Outcome,
    /// What was found.
    pub finding: String,
}

/// Failed requests, at most, as a share of all.
pub const ERRORS_MAX: f64 = 0.001;
/// The fewest runs of each mix.
pub const RUNS_MIN: usize = 3;
/// A counted window of this length needs no proof that it was settled, seconds.
pub const WINDOW_MIN_S: f64 = 600.0;

/// The data of the rules.
pub struct Evidence<'a> {
    /// The result.
    pub result: &'a ResultFile,
    /// Its figures computed again; absent where there is no raw data.
    pub recomputed: Option<&'a Recomputation>,
    /// The audit.
    pub audit: &'a [AuditOutcome],
}

/// All rules, in the order in which they are shown.
pub fn rules(evidence: &Evidence<'_>) -> Vec<Rule> {
    let result = evidence.result;
    vec![
        complete(result),
        answers(result),
        errors(result),
        audit(evidence.audit),
        recomputed(evidence.recomputed),
        full_form(result),
        separate_hosts(result),
        runs(result),
        settled(result),
        generator(result),
        disclosed(result),
    ]
}

/// The class that follows: the worst outcome decides.
pub fn class(rules: &[Rule]) -> Class {
    let worst = |outcome| rules.iter().any(|rule| rule.outcome == outcome);
    if worst(Outcome::Broken) {
        Class::Invalid
    } else if worst(Outcome::Indicative) {
        Class::Indicative
    } else {
        Class::Certified
    }
}

/// The rules that decide the class: those whose outcome is the worst. None where all are fulfilled.
pub fn deciding(rules: &[Rule]) -> impl Iterator<Item = &Rule> {
    let worst = match class(rules) {
        Class::Certified => None,
        Class::Indicative => Some(Outcome::Indicative),
        Class::Invalid => Some(Outcome::Broken),
    };
    rules.iter().filter(move |rule| Some(rule.outcome) == worst)
}

fn rule(name: &'static str, rule: &'static str, held: bool, otherwise: Outcome, finding: String) -> Rule {
    Rule { name, rule, outcome: if held { Outcome::Held } else { otherwise }, finding }
}

fn mixes(result: &ResultFile) -> impl Iterator<Item = (&str, &MixResult)> {
    result.systems.iter().flat_map(|system| system.mixes.iter().map(move |mix| (system.title.as_str(), mix)))
}

/// How many runs of mixes the result has.
fn runs_of_mixes(result: &ResultFile) -> usize {
    result.systems.iter().map(|system| system.mixes.len()).sum()
}

/// A run of a mix by its names: the system, what ran the request where the suite compares interfaces, the
/// mix.
fn named((system, mix): (&str, &MixResult)) -> String {
    match mix.interface.as_str() {
        "" => format!("{system}, {}", mix.name),
        interface => format!("{system}, {interface}, {}", mix.name),
    }
}

/// The subjects of a violation: all by name where they are few, otherwise the first ones. Runs of one mix are
/// named once.
fn examples(complaints: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut different: Vec<&str> = Vec::new();
    for complaint in complaints {
        if !different.contains(&complaint.as_str()) {
            different.push(complaint);
        }
    }
    let shown = different.iter().take(SHOWN).copied().collect::<Vec<_>>().join("; ");
    if different.len() > SHOWN { format!("{shown}; ...") } else { shown }
}

fn complete(result: &ResultFile) -> Rule {
    let cut: Vec<String> = mixes(result).filter(|(_, mix)| !mix.complete).map(named).collect();
    let finding = match &result.status {
        RunStatus::Incomplete(reason) => {
            format!("the run did not come to its end ({})", reason.trim_end_matches('.'))
        }
        RunStatus::Complete if cut.is_empty() && result.systems.iter().all(|it| it.skipped.is_empty()) => {
            "every mix was measured".to_owned()
        }
        RunStatus::Complete if cut.is_empty() => {
            "every mix was measured of the systems and interfaces that can serve it".to_owned()
        }
        RunStatus::Complete => {
            format!("{} of {} runs were cut short ({})", cut.len(), runs_of_mixes(result), examples(&cut))
        }
    };
    let held = result.status == RunStatus::Complete && cut.is_empty();
    rule(
        "complete",
        "The run came to its end, and every mix was measured in its whole length.",
        held,
        Outcome::Broken,
        finding,
    )
}

fn answers(result: &ResultFile) -> Rule {
    let measured: Vec<&SystemResult> =
        result.systems.iter().filter(|system| !system.was_not_measured()).collect();
    let nothing = measured.iter().filter(|system| system.mixes.iter().all(|mix| mix.requests == 0));
    let nothing: Vec<String> = nothing.map(|system| system.title.clone()).collect();
    let finding = match (measured.len(), nothing.len()) {
        (0, _) => "no system was measured".to_owned(),
        (all, 0) if all < result.systems.len() => {
            format!("every system that was measured answered ({all} of {})", result.systems.len())
        }
        (_, 0) => "every system answered".to_owned(),
        (all, silent) => format!("{silent} of {all} systems gave no valid answer ({})", examples(&nothing)),
    };
    let held = nothing.is_empty() && !measured.is_empty();
    rule("answers", "Every system that was measured gave valid answers.", held, Outcome::Broken, finding)
}

fn errors(result: &ResultFile) -> Rule {
    let share = |mix: &MixResult| {
        let failed = mix.errors.total() as f64;
        failed / (failed + mix.requests as f64).max(1.0)
    };
    let worst = mixes(result).map(|(_, mix)| share(mix)).fold(0.0, f64::max);
    let finding = if worst > 0.0 {
        format!("in the worst run {} % of the requests failed", significant(worst * 100.0))
    } else {
        "no request failed".to_owned()
    };
    rule(
        "errors",
        "At most one request of a thousand failed in any mix.",
        worst <= ERRORS_MAX,
        Outcome::Broken,
        finding,
    )
}

fn audit(outcomes: &[AuditOutcome]) -> Rule {
    let failed: Vec<String> = outcomes
        .iter()
        .filter(|it| it.holds == Some(false))
        .map(|it| format!("{} ({}): {}", it.check, it.subject, it.sum))
        .collect();
    let finding = if failed.is_empty() {
        format!("{} sums came out right", count(outcomes.len() as u64))
    } else {
        format!("{} of {} sums do not come out right ({})", failed.len(), outcomes.len(), examples(&failed))
    };
    rule("audit", "Every sum of the audit comes out right.", failed.is_empty(), Outcome::Broken, finding)
}

fn recomputed(found: Option<&Recomputation>) -> Rule {
    const RULE: &str = "Every figure follows from the raw data.";
    match found {
        None => rule("raw_data", RULE, false, Outcome::Indicative, "there is no raw data".to_owned()),
        Some(found) => {
            let finding = if found.differences.is_empty() {
                format!("{} figures computed again, all the same", count(found.figures as u64))
            } else {
                format!("not every figure follows from the raw data ({})", examples(&found.differences))
            };
            rule("raw_data", RULE, found.differences.is_empty(), Outcome::Broken, finding)
        }
    }
}

fn full_form(result: &ResultFile) -> Rule {
    let finding = if result.suite.quick { "the short form was run" } else { "the whole suite was run" };
    rule(
        "full_form",
        "The suite was run in its whole form.",
        !result.suite.quick,
        Outcome::Indicative,
        finding.to_owned(),
    )
}

fn separate_hosts(result: &ResultFile) -> Rule {
    let held = !result.machine.same_host;
    let finding =
        if held { "load and server had machines of their own" } else { "load and server shared one machine" };
    rule(
        "separate_hosts",
        "Load and server ran on separate machines.",
        held,
        Outcome::Indicative,
        finding.to_owned(),
    )
}

/// How often a mix was run: rows of one name (and interface, where there are several) on one system.
fn runs(result: &ResultFile) -> Rule {
    let times = |system: &SystemResult, mix: &MixResult| {
        let alike = |other: &&MixResult| mix.name == other.name && mix.interface == other.interface;
        system.mixes.iter().filter(alike).count()
    };
    let mut counts = Vec::new();
    for system in &result.systems {
        counts.extend(system.mixes.iter().map(|mix| times(system, mix)));
    }
    let fewest = counts.iter().copied().min().unwrap_or(0);
    let of_whom =
        if counts.iter().all(|count| *count == fewest) { "every mix was" } else { "some mixes were" };
    let finding = match fewest {
        0 => "no mix was run".to_owned(),
        1 => format!("{of_whom} run only once"),
        fewest if fewest < RUNS_MIN => format!("{of_whom} run only {fewest} times"),
        fewest => format!("every mix was run {fewest} times or more"),
    };
    rule("runs", "Every mix was run at least three times.", fewest >= RUNS_MIN, Outcome::Indicative, finding)
}

/// The window is long, or the time before it contains the whole warm-up by MSER-5.
fn settled(result: &ResultFile) -> Rule {
    let unsettled: Vec<String> =
        mixes(result).filter(|(_, mix)| mix.window_s < WINDOW_MIN_S && !is_settled(mix)).map(named).collect();
    let held = unsettled.is_empty();
    let finding = if held {
        "in every run the warm-up was over when counting began".to_owned()
    } else {
        format!(
            "in {} of {} runs nothing shows that the warm-up was over when counting began ({})",
            unsettled.len(),
            runs_of_mixes(result),
            examples(&unsettled)
        )
    };
    let text = "Every counted window lasted ten minutes, or MSER-5 finds no warm-up in it.";
    rule("settled", text, held, Outcome::Indicative, finding)
}

fn is_settled(mix: &MixResult) -> bool {
    let end_s = mix.length_s - mix.ramp_down_s;
    let window = mix.timeline.iter().filter(|row| row.at_s >= mix.ramp_up_s - 0.5 && row.at_s < end_s - 0.5);
    let rates: Vec<f64> = window.map(|row| row.requests_per_second).collect();
    // One batch may be chance: the cut of a flat series with noise is often not 0.
    warm_up::cut(&rates).is_some_and(|found| found.settled && found.cut <= warm_up::BATCH)
}

/// The runs in which the load engine decided the rate for this reason, by name, with its sign.
fn limited(result: &ResultFile, kind: EngineLimit) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for system in &result.systems {
        for mix in &system.mixes {
            match engine_limit(&system.cpus, mix) {
                Some((limit, sign)) if limit == kind => found.push((named((&system.title, mix)), sign)),
                _ => {}
            }
        }
    }
    found
}

fn generator(result: &ResultFile) -> Rule {
    let limit_words = |kind: EngineLimit| {
        let runs = limited(result, kind);
        let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
        // The reason is stated once: it is mostly the same for all.
        let (_, sign) = runs.first()?;
        Some(format!(
            "in {} of {} runs {} ({}); in the first, {sign}",
            names.len(),
            runs_of_mixes(result),
            kind.description(),
            examples(&names),
        ))
    };
    let findings: Vec<String> =
        [EngineLimit::Own, EngineLimit::Disturbed].into_iter().filter_map(limit_words).collect();
    let held = findings.is_empty();
    let finding = match held {
        true => "the load engine had room in every run, or the server had none".to_owned(),
        false => findings.join("; "),
    };
    let text = "The load engine was not at its own limit, nor disturbed.";
    rule("generator", text, held, Outcome::Indicative, finding)
}

fn disclosed(result: &ResultFile) -> Rule {
    let mut lacking = Vec::new();
    if result.tool.binary_sha256.is_none() {
        lacking.push("the hash of the measuring program".to_owned());
    }
    if result.machine.kernel.is_empty() || result.machine.cpu_model.is_empty() {
        lacking.push("the machine".to_owned());
    }
    for system in result.systems.iter().filter(|system| !system.is_limit) {
        // For a system without configuration files the command is a complete description.
        if system.command.is_empty() {
            lacking.push(format!("how {} was started", system.title));
        }
    }
    let held = lacking.is_empty();
    let finding = if held {
        "all is disclosed".to_owned()
    } else {
        format!("it is not disclosed: {}", examples(&lacking))
    };
    let text = "Program, machine, and command and configuration of every system are disclosed.";
    rule("disclosed", text, held, Outcome::Indicative, finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(result: &ResultFile) -> Vec<Rule> {
        let recomputed = Recomputation { figures: 10, differences: Vec::new() };
        rules(&Evidence { result, recomputed: Some(&recomputed), audit: &[] })
    }

    /// A result that fulfils every rule.
    fn good() -> ResultFile {
        let mut result = touchstone_lab::sample::result();
        result.machine.same_host = false;
        result.suite.quick = false;
        for system in &mut result.systems {
            system.mixes.iter_mut().for_each(|mix| mix.window_s = 600.0);
            let once = system.mixes.clone();
            system.mixes.extend(once.iter().cloned().chain(once.clone()));
        }
        result
    }

    #[test]
    fn a_result_that_fulfils_all_is_certified() {
        let rules = found(&good());
        assert_eq!(class(&rules), Class::Certified, "{rules:#?}");
    }

    #[test]
    fn each_rule_can_be_broken_and_decides_the_class() {
        type Change = fn(&mut ResultFile);
        let changes: [(&str, Class, Change); 10] = [
            ("complete", Class::Invalid, |result| result.status = RunStatus::Incomplete("cut".into())),
            ("complete", Class::Invalid, |result| result.systems[0].mixes[0].complete = false),
            ("answers", Class::Invalid, |result| {
                result.systems[0].mixes.iter_mut().for_each(|mix| mix.requests = 0);
            }),
            ("errors", Class::Invalid, |result| result.systems[1].mixes[0].errors.timeout = 1000),
            ("full_form", Class::Indicative, |result| result.suite.quick = true),
            ("separate_hosts", Class::Indicative, |result| result.machine.same_host = true),
            ("runs", Class::Indicative, |result| drop(result.systems[0].mixes.pop())),
            ("settled", Class::Indicative, |result| result.systems[0].mixes[0].window_s = 5.0),
            ("generator", Class::Indicative, |result| {
                result.systems[0].mixes[0].generator_saturated = Some("busy".into());
                result.systems[0].mixes[0].server.as_mut().unwrap().cpu_share = 0.6;
            }),
            ("disclosed", Class::Indicative, |result| result.systems[0].command.clear()),
        ];
        for (name, expected, change) in changes {
            let mut result = good();
            change(&mut result);
            let rules = found(&result);
            let broken: Vec<&str> =
                rules.iter().filter(|rule| rule.outcome != Outcome::Held).map(|rule| rule.name).collect();
            let decide: Vec<&str> = deciding(&rules).map(|rule| rule.name).collect();
            assert_eq!((&broken, class(&rules)), (&vec![name], expected));
            assert_eq!(decide, broken);
        }
    }

    #[test]
    fn a_finding_says_of_how_many_runs_it_speaks_and_names_the_first() {
        let finding = |result: &ResultFile, name: &str| {
            found(result).into_iter().find(|rule| rule.name == name).expect("the rule").finding
        };
        let mut result = good();
        assert_eq!(finding(&result, "settled"), "in every run the warm-up was over when counting began");
        let all = runs_of_mixes(&result);
        for system in &mut result.systems {
            system.mixes.iter_mut().for_each(|mix| mix.window_s = 5.0);
        }
        let title = result.systems[0].title.clone();
        let reason = finding(&result, "settled");
        let begin = format!(
            "in {all} of {all} runs nothing shows that the warm-up was over when counting began ({title}, "
        );
        assert!(reason.starts_with(&begin) && reason.ends_with("; ...)"), "{reason}");
        // Three runs of a mix are named once, with the interface where there are several.
        let mut result = good();
        let name = result.systems[0].mixes[0].name.clone();
        for mix in result.systems[0].mixes.iter_mut().filter(|mix| mix.name == name) {
            mix.interface = "cgi".to_owned();
            mix.complete = false;
        }
        assert_eq!(
            finding(&result, "complete"),
            format!("3 of {all} runs were cut short ({title}, cgi, {name})")
        );
        result.systems[1].mixes[0].errors.timeout = 1;
        let reason = finding(&result, "errors");
        assert!(
            reason.starts_with("in the worst run 0.0") && reason.ends_with(" % of the requests failed"),
            "{reason}"
        );
        assert_eq!(finding(&good(), "errors"), "no request failed");
    }

    #[test]
    fn the_audit_and_the_raw_data_decide_as_well() {
        let result = good();
        let without = rules(&Evidence { result: &result, recomputed: None, audit: &[] });
        assert_eq!(class(&without), Class::Indicative);
        let wrong = Recomputation { figures: 1, differences: vec!["requests".into()] };
        assert_eq!(
            class(&rules(&Evidence { result: &result, recomputed: Some(&wrong), audit: &[] })),
            Class::Invalid
        );
        let audit = AuditOutcome {
            check: "Rate",
            subject: "x".into(),
            holds: Some(false),
            sum: "1 against 2".into(),
        };
        let right = Recomputation { figures: 1, differences: Vec::new() };
        let all = rules(&Evidence { result: &result, recomputed: Some(&right), audit: &[audit] });
        assert_eq!(class(&all), Class::Invalid);
    }
}
