//! The audit: every report is checked by arithmetic that must hold for any measurement, and prints the
//! outcomes. A reader can compute the same sums from the tables.

use maud::{Markup, html};

use super::number;
use super::table::{Part, Row, Table};
use super::view::{SystemView, View};
use super::words;
use crate::audit::{Finding, MIX_CHECKS, little_clients, workload};
use touchstone_lab::result::{MixResult, SuiteRecord};

/// The section of the audit.
pub(super) fn section(view: &View) -> Markup {
    let suite = &view.result.suite;
    html! {
        section aria-labelledby="audit" {
            h2 id="audit" { "Audit" }
            p class="lead" {
                "Sums that must be right if the figures are true. They can be computed again from the \
                 tables above."
            }
            (summary(view, suite).write())
            @if view.systems.iter().any(|system| !system.mixes.is_empty()) {
                details class="numbers" {
                    summary { "Every mix, check by check" }
                    (every_mix(view, suite).write())
                }
            }
        }
    }
}

/// A row for each check, over all mixes.
fn summary(view: &View, suite: &SuiteRecord) -> Table {
    let mut rows: Vec<Row> = workload(suite)
        .into_iter()
        .map(|(name, rule, finding)| Row::new(name, vec![rule.to_owned(), verdict(&finding), finding.sum]))
        .collect();
    for (name, rule, check) in MIX_CHECKS {
        let findings: Vec<(String, Finding)> = mixes(view)
            .map(|(system, mix)| (format!("{}, {}", system.label, words::load(mix)), check(suite, mix)))
            .collect();
        rows.push(Row::new(name, vec![rule.to_owned(), overall(&findings), worst(&findings)]));
    }
    Table::new(
        "What was checked, and the outcome",
        &["Check", "What must hold", "Outcome", "Farthest off, of all mixes"],
        rows,
    )
    .with_words(&[0, 1, 2, 3])
}

fn mixes<'v>(view: &'v View) -> impl Iterator<Item = (&'v SystemView<'v>, &'v MixResult)> {
    view.systems.iter().flat_map(|system| system.runs.iter().flatten().map(move |mix| (system, *mix)))
}

fn overall(findings: &[(String, Finding)]) -> String {
    let measured = findings.iter().filter(|(_, finding)| finding.holds.is_some()).count();
    let failed = findings.iter().filter(|(_, finding)| finding.holds == Some(false)).count();
    match (measured, failed) {
        (0, _) => number::NOT_MEASURED.to_owned(),
        (_, 0) => format!("ok\u{a0}({measured}\u{a0}of\u{a0}{measured})"),
        _ => format!("not\u{a0}ok\u{a0}({failed}\u{a0}of\u{a0}{measured})"),
    }
}

fn worst(findings: &[(String, Finding)]) -> String {
    findings
        .iter()
        .filter(|(_, finding)| finding.holds.is_some())
        // Of several equally far off, the first.
        .reduce(|worst, other| if other.1.off_by > worst.1.off_by { other } else { worst })
        .map_or_else(String::new, |(subject, finding)| {
            if finding.off_by < 1e-9 {
                "no difference".to_owned()
            } else {
                format!("{subject}: {}", finding.sum)
            }
        })
}

fn verdict(finding: &Finding) -> String {
    match finding.holds {
        Some(true) => "ok".to_owned(),
        Some(false) => "not ok".to_owned(),
        None => number::NOT_MEASURED.to_owned(),
    }
}

/// Every check of every mix, with Little's law in figures.
fn every_mix(view: &View, suite: &SuiteRecord) -> Table {
    let mut columns =
        vec!["Mix".to_owned(), view.clients.head().to_owned(), "Clients by Little\u{2019}s law".to_owned()];
    columns.extend(MIX_CHECKS.iter().map(|(name, _, _)| (*name).to_owned()));
    let row = |mix: &MixResult| {
        let mut cells = vec![number::count(mix.load()), number::grouped(little_clients(suite, mix), 2)];
        cells.extend(MIX_CHECKS.iter().map(|(_, _, check)| verdict(&check(suite, mix))));
        Row::new(words::line(&mix.name, 40), cells)
    };
    let part = |system: &SystemView| Part {
        heading: Some(system.label.clone()),
        rows: system.runs.iter().flatten().map(|mix| row(mix)).collect(),
    };
    Table {
        caption: "The audit of every mix".to_owned(),
        columns,
        words: (3..3 + MIX_CHECKS.len()).chain([0]).collect(),
        parts: view.systems.iter().map(part).collect(),
        ..Table::default()
    }
}
