//! Conformance beside speed: for each system its rate, its processor time and how many of the rules of each
//! document it keeps; then every case in which systems differ or one breaks a rule, with its answer.

use maud::{Markup, html};
use touchstone_conformance::record::{CaseRecord, Conformance, OutcomeRecord};
use touchstone_conformance::{Document, Level, Verdict};

use super::table::{Part, Row, Table};
use super::view::View;
use crate::number;
use crate::words;

/// The longest text of a received answer.
const SEEN_MAX: usize = 60;

/// The section; empty if the rules were not tested.
pub(super) fn section(view: &View) -> Markup {
    let Some(conformance) = &view.result.conformance else { return html! {} };
    let cases = conformance.cases.len() as u64;
    let broken: Vec<&CaseRecord> = conformance.cases.iter().filter(|case| is_broken(case)).collect();
    html! {
        section aria-labelledby="conformance" {
            h2 id="conformance" { "Conformance beside speed" }
            p class="lead" {
                (number::count(cases)) " rules of RFC 9110, 9111, 9112, 9113 and 9114, tried byte by byte \
                 and frame by frame. A figure is how many of the rules that could be tried a system keeps. \
                 MUST counts what the documents demand, SHOULD what they advise; what a server can do and \
                 need not (MAY) is listed below and counts nowhere. A case is for servers of files, for \
                 caches or for all; a system is tried with those for its kind and for the versions of \
                 HTTP that it speaks."
            }
            (overview(view, conformance).write())
            details {
                summary {
                    "Rules that a system does not keep: " (number::count(broken.len() as u64)) " of "
                    (number::count(cases))
                }
                (cases_table(view, conformance, &broken).write())
                (notes(&broken))
            }
            details {
                summary { "Every rule, and what each system did" }
                (cases_table(view, conformance, &conformance.cases.iter().collect::<Vec<_>>()).write())
            }
        }
    }
}

/// Whether a system does what a document demands or advises against.
fn is_broken(case: &CaseRecord) -> bool {
    case.level != Level::May && case.outcomes.iter().flatten().any(|one| one.verdict == Verdict::Broken)
}

/// The documents with a rule that was tested on some system.
fn tried(conformance: &Conformance) -> Vec<Document> {
    let systems = 0..conformance.systems.len();
    let is_tried = |document: &Document| {
        let any = |level| systems.clone().any(|system| conformance.kept(system, *document, level).1 > 0);
        any(Level::Must) || any(Level::Should)
    };
    Document::ALL.into_iter().filter(is_tried).collect()
}

fn overview(view: &View, conformance: &Conformance) -> Table {
    let documents = tried(conformance);
    let mut columns = vec!["System".to_owned(), "requests/s".to_owned(), "µs a request".to_owned()];
    let mut groups = vec![(String::new(), 1), ("At the peak".to_owned(), 2)];
    for document in &documents {
        groups.push((document.name().to_owned(), 2));
        columns.extend(["MUST".to_owned(), "SHOULD".to_owned()]);
    }
    let row = |(number, name): (usize, &String)| {
        let mut cells = speed(view, name);
        for document in &documents {
            for level in [Level::Must, Level::Should] {
                let (kept, tried) = conformance.kept(number, *document, level);
                cells.push(match tried {
                    0 => "–".to_owned(),
                    _ => format!("{kept} of {tried}"),
                });
            }
        }
        Row::new(words::line(view.system_label(name), 80), cells)
    };
    let rows = conformance.systems.iter().enumerate().map(row).collect();
    let caption = "Rules kept, beside the speed of one page".to_owned();
    Table { caption, groups, columns, words: vec![0], parts: vec![Part { heading: None, rows }] }
}

/// The rate and the processor time of a request at a system's peak.
fn speed(view: &View, name: &str) -> Vec<String> {
    let system = view.each_system().find(|system| system.system.name == *name);
    let peak = system.and_then(|system| system.peak);
    let rate = peak.map(|mix| number::rate(mix.requests_per_second));
    let cpu =
        peak.and_then(|mix| mix.server.as_ref()).map(|server| number::grouped(server.cpu_us_per_request, 1));
    [rate, cpu].into_iter().map(|figure| figure.unwrap_or_else(|| "–".to_owned())).collect()
}

/// A part for each document, a row for each case. The rule is last, so that a small screen shows the answers.
fn cases_table(view: &View, conformance: &Conformance, cases: &[&CaseRecord]) -> Table {
    let mut columns = vec!["Section".to_owned()];
    columns.extend(conformance.systems.iter().map(|name| words::line(view.system_label(name), 80)));
    columns.push("Rule".to_owned());
    let part = |document: Document| Part {
        heading: Some(format!("{}, {}", document.name(), document.title())),
        rows: cases.iter().filter(|case| case.document == document).map(|case| row(case)).collect(),
    };
    let all: Vec<usize> = (0..columns.len()).collect();
    Table {
        caption: "Rules and what came back".to_owned(),
        parts: Document::ALL.into_iter().map(part).filter(|part| !part.rows.is_empty()).collect(),
        columns,
        ..Table::default()
    }
    .with_words(&all)
}

fn row(case: &CaseRecord) -> Row {
    let outcome = |outcome: &Option<OutcomeRecord>| match outcome {
        None => "–".to_owned(),
        Some(outcome) => {
            let mark = match outcome.verdict {
                Verdict::Kept => "yes",
                Verdict::Broken => "no",
                Verdict::NotTried => "not tried",
            };
            format!("{mark}: {}", words::line(&outcome.seen, SEEN_MAX))
        }
    };
    let mut cells: Vec<String> = case.outcomes.iter().map(outcome).collect();
    cells.push(words::line(&case.rule, 240));
    Row::new(format!("{} {}", case.section, case.level.name()), cells)
}

/// Why servers differ, if a case has an explanation.
fn notes(cases: &[&CaseRecord]) -> Markup {
    let mut noted: Vec<(&str, String)> = Vec::new();
    for case in cases {
        let Some(note) = &case.note else { continue };
        let place = format!("{} {}", case.document.name(), case.section);
        if !noted.iter().any(|(other, _)| other == note) {
            noted.push((note, place));
        }
    }
    html! {
        @if !noted.is_empty() {
            h3 { "Why servers differ" }
            ul {
                @for (note, place) in &noted { li { (place) ": " (words::line(note, 600)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_system_has_its_speed_beside_the_rules_that_it_keeps() {
        let mut result = touchstone_lab::sample::result();
        result.conformance = Some(touchstone_lab::sample::conformance());
        let page = super::super::html(&result, None);
        let from = page.find("id=\"conformance\"").unwrap();
        let section = &page[from..from + page[from..].find("</section>").unwrap()];
        assert!(section.contains("3 rules of RFC 9110"), "{section}");
        // 60,000 requests/s, one MUST of one, one SHOULD of one; nginx does not keep the SHOULD.
        assert!(section.contains("60,000") && section.contains("1 of 1"), "{section}");
        assert!(section.contains("0 of 1") && section.contains("no: 200"), "{section}");
        assert!(section.contains("It is older than the rule."), "{section}");
    }

    #[test]
    fn without_the_rules_there_is_no_section() {
        let page = super::super::html(&touchstone_lab::sample::result(), None);
        assert!(!page.contains("id=\"conformance\""));
    }
}
