//! Several results of the same suite as one report: the systems of all of them side by side.

use std::fmt;

use super::{Source, disclosure, page, words};
use crate::planning::{self, Assumptions};
use touchstone_lab::raw::RawMix;
use touchstone_lab::result::{ResultFile, RunStatus, SuiteRecord};

/// Two results cannot be shown side by side, because they are of different suites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuitesDiffer {
    /// The label of the first result.
    pub first: String,
    /// The label of the one that differs from it.
    pub second: String,
    /// The difference, with both values.
    pub difference: String,
}

impl fmt::Display for SuitesDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} and {} cannot stand side by side: their suites differ in {}",
            self.first, self.second, self.difference
        )
    }
}

impl std::error::Error for SuitesDiffer {}

/// One of several results.
#[derive(Debug, Clone)]
pub struct Side {
    /// The label that distinguishes it from the others.
    pub label: String,
    /// The result.
    pub result: ResultFile,
    /// Its raw data, if it is there.
    pub raw: Option<Vec<RawMix>>,
}

/// One report of several results. The label of the result is added to systems of the same name.
pub fn side_by_side(sides: &[Side]) -> Result<String, SuitesDiffer> {
    let Some((first, others)) = sides.split_first() else {
        return Ok(String::new());
    };
    for other in others {
        if let Some(difference) = difference(&first.result.suite, &other.result.suite) {
            return Err(SuitesDiffer { first: first.label.clone(), second: other.label.clone(), difference });
        }
    }
    if others.is_empty() {
        return Ok(super::html(&first.result, first.raw.as_deref()));
    }
    let sources: Vec<Source> =
        sides.iter().map(|side| Source::of(&side.label, &side.result, side.raw.as_deref())).collect();
    let (whole, raw) = merged(sides, &first.result);
    let plans = planning::plan(&whole, &raw, &Assumptions::default());
    Ok(page::page(&whole, &sources, &plans, &[]))
}

/// The results as one, with a unique name for every system, in the raw data as well.
fn merged(sides: &[Side], first: &ResultFile) -> (ResultFile, Vec<RawMix>) {
    let all = || sides.iter().flat_map(|side| &side.result.systems);
    let mut whole = ResultFile { systems: Vec::new(), warnings: Vec::new(), ..first.clone() };
    let mut all_raw = Vec::new();
    let mut reasons = Vec::new();
    for Side { label, result, raw } in sides {
        for system in &result.systems {
            let mut system = system.clone();
            if all().filter(|other| other.title == system.title).count() > 1 {
                system.title = format!("{} ({label})", system.title);
            }
            let own_name = system.name.clone();
            if all().filter(|other| other.name == system.name).count() > 1 {
                system.name = format!("{} ({label})", system.name);
            }
            let own = raw.iter().flatten().filter(|raw| raw.system == own_name);
            all_raw.extend(own.map(|raw| RawMix { system: system.name.clone(), ..raw.clone() }));
            whole.systems.push(system);
        }
        whole.warnings.extend(result.warnings.iter().map(|warning| format!("{label}: {warning}")));
        if let RunStatus::Incomplete(reason) = &result.status {
            reasons.push(format!("{label}: {reason}"));
        }
    }
    if !reasons.is_empty() {
        whole.status = RunStatus::Incomplete(reasons.join("; "));
    }
    whole.machine.same_host = sides.iter().any(|side| side.result.machine.same_host);
    whole.warnings.extend(machines_differ(sides));
    (whole, all_raw)
}

/// A warning where the results are not of one machine.
fn machines_differ(sides: &[Side]) -> Option<String> {
    let place = |result: &ResultFile| {
        let machine = &result.machine;
        (machine.host.clone(), machine.kernel.clone(), machine.cpu_model.clone(), machine.cpus)
    };
    let first = place(&sides.first()?.result);
    sides.iter().any(|side| place(&side.result) != first).then(|| {
        "The results are from different machines or kernels: a difference between systems may be one between \
         machines."
            .to_owned()
    })
}

/// The differences of two suites, without the seed, which only chooses among the same requests.
fn difference(a: &SuiteRecord, b: &SuiteRecord) -> Option<String> {
    let differ = |what: &str, a: &str, b: &str| (a != b).then(|| format!("{what} ({a} against {b})"));
    let form = |suite: &SuiteRecord| if suite.quick { "quick" } else { "whole" };
    let connections = |suite: &SuiteRecord| if suite.keep_alive { "kept" } else { "new" };
    differ("name", &a.name, &b.name)
        .or_else(|| differ("form", form(a), form(b)))
        .or_else(|| differ("connections", connections(a), connections(b)))
        .or_else(|| differ("HTTP version", &a.http_version, &b.http_version))
        .or_else(|| differ("TLS", &tls(a), &tls(b)))
        .or_else(|| (a.classes != b.classes).then(|| "the classes of the workload".to_owned()))
        .or_else(|| differ("the interfaces", &interfaces(a), &interfaces(b)))
}

/// The versions and ciphers that were offered in TLS handshakes.
fn tls(suite: &SuiteRecord) -> String {
    suite.tls.as_ref().map_or_else(|| "none".to_owned(), disclosure::tls)
}

fn interfaces(suite: &SuiteRecord) -> String {
    let names: Vec<String> = suite.interfaces.iter().map(|interface| interface.name.clone()).collect();
    if names.is_empty() { "none".to_owned() } else { words::list(&names) }
}
