//! SPICE: the cost of each interface of each system compared with a static file, in three forms, with the
//! measurements of the reports of 1996 to 2000. It is on the first screen, in the verdict.

use maud::{Markup, html};

use super::number::{self, NOT_MEASURED};
use super::view::View;
use super::words;
use touchstone_lab::result::{InterfaceRecord, ReportFigures, SpiceEfficiency, SpiceRow};
use touchstone_lab::spice::{report_efficiencies, rows};

/// The most characters of an outside text in a cell, and in a citation.
const CELL_LIMIT: usize = 60;
const CITATION_LIMIT: usize = 300;
/// The most reasons why an interface was not measured that are shown in one sentence; more open on demand.
const REASONS_MAX: usize = 3;

/// The table with its notes; empty if the suite compares no interfaces.
pub(super) fn section(view: &View) -> Markup {
    if view.result.suite.interfaces.is_empty() {
        return html! {};
    }
    let rows = rows(view.result);
    html! {
        div class="spice" {
            (table(view, &rows))
            (not_measured(view))
            (notes(view))
        }
    }
}

const CAPTION: &str = "SPICE: each interface at its peak, and what is left of the static file\u{2019}s \
                       figures (100\u{a0}% is as good as a static file)";

/// An interface and its figures from the reports are shown once, beside all its systems.
fn table(view: &View, rows: &[SpiceRow]) -> Markup {
    let load = rows.iter().filter_map(|row| row.at_equal_load.as_ref()).map(|equal| equal.clients).max();
    let equal = load
        .map_or("At equal load".to_owned(), |clients| format!("At equal load ({})", words::clients(clients)));
    html! {
        div class="scroll" role="region" tabindex="0" aria-label={ "Table: " (CAPTION) } {
            table {
                caption { span { (CAPTION) } }
                thead {
                    tr class="groups" {
                        td colspan="2" {}
                        th class="begins" scope="colgroup" colspan="2" { "SPICE peak" }
                        th class="begins" scope="colgroup" colspan="2" { "At own peaks" }
                        th class="begins" scope="colgroup" colspan="2" { (equal) }
                        th class="begins" scope="colgroup" colspan="2" { "Processor time" }
                        th class="begins words" scope="colgroup" { "1996 to 2000" }
                    }
                    tr {
                        th scope="col" class="words" { "Interface" }
                        th scope="col" class="words" { "System" }
                        @for (index, column) in COLUMNS.iter().enumerate() {
                            th scope="col" class=[(index % 2 == 0).then_some("begins")] { (column) }
                        }
                        th scope="col" class="begins words" { "Rate, at own peaks" }
                    }
                }
                @for interface in &view.result.suite.interfaces { (group(view, interface, rows)) }
            }
        }
    }
}

const COLUMNS: [&str; 8] =
    ["requests/s", "latency, ms", "rate", "latency", "rate", "latency", "µs/request", "efficiency"];

/// The systems of one interface.
fn group(view: &View, interface: &InterfaceRecord, rows: &[SpiceRow]) -> Markup {
    let own: Vec<&SpiceRow> = rows.iter().filter(|row| row.interface == interface.name).collect();
    html! {
        @if !own.is_empty() {
            tbody {
                @for (index, row) in own.iter().enumerate() {
                    tr {
                        @if index == 0 {
                            th scope="rowgroup" rowspan=(own.len()) class="words" {
                                (words::line(&interface.title, CELL_LIMIT))
                            }
                        }
                        th scope="row" class="words system" {
                            (words::line(view.system_label(&row.system), CELL_LIMIT))
                        }
                        @for (index, cell) in cells(view, row).iter().enumerate() {
                            td class=[(index % 2 == 0).then_some("begins")] { (cell) }
                        }
                        @if index == 0 {
                            td rowspan=(own.len()) class="begins words" { (in_the_reports(view, interface)) }
                        }
                    }
                }
            }
        }
    }
}

fn cells(view: &View, row: &SpiceRow) -> [String; 8] {
    let percentages = |efficiency: Option<&SpiceEfficiency>| {
        efficiency.map_or([String::new(), String::new()], |percentages| {
            [number::percent(percentages.request_efficiency), number::percent(percentages.latency_efficiency)]
        })
    };
    let [own_rate, own_latency] = percentages(row.at_own_peak.as_ref());
    let [equal_rate, equal_latency] = percentages(row.at_equal_load.as_ref());
    [
        number::rate(row.requests_per_second),
        number::milliseconds(row.latency_us),
        own_rate,
        own_latency,
        equal_rate,
        equal_latency,
        cost_of(view, row),
        row.processor_cost.as_ref().map_or_else(String::new, |cost| number::percent(cost.efficiency)),
    ]
}

/// The processor time of a request: beside the static file's with as many clients, or at the peak of the
/// static file.
fn cost_of(view: &View, row: &SpiceRow) -> String {
    if let Some(cost) = &row.processor_cost {
        return number::grouped(cost.cpu_us_per_request, 1);
    }
    let series = view.systems.iter().find(|series| {
        series.system.name == row.system && series.interface.is_some_and(|own| own.name == row.interface)
    });
    let server = series.and_then(|series| series.peak).and_then(|peak| peak.server.as_ref());
    number::optional(server, |server| number::grouped(server.cpu_us_per_request, 1))
}

/// The efficiencies of the rate computed from the reports' figures, each with the number of its source.
fn in_the_reports(view: &View, interface: &InterfaceRecord) -> Markup {
    let is_first = view.result.suite.interfaces.first().is_some_and(|first| first.name == interface.name);
    html! {
        @if interface.reports.is_empty() { "not measured then" }
        @for figures in &interface.reports {
            span class="then" {
                @match report_efficiencies(figures).0 {
                    Some(of_rate) => { strong { (number::percent(of_rate)) } },
                    None if is_first => {
                        strong {
                            (number::optional(figures.requests_per_second, |rate| number::grouped(rate, 0)))
                            "/s"
                        }
                    },
                    None => { (NOT_MEASURED) },
                }
                " " (words::line(&figures.server, CELL_LIMIT)) ", "
                (number::count(figures.processors)) "P" sup { (citation(view, figures)) }
            }
        }
    }
}

/// The number of a figure's source among all that are cited.
fn citation(view: &View, figures: &ReportFigures) -> usize {
    1 + citations(view).iter().position(|source| *source == figures.source).unwrap_or(0)
}

fn citations<'a>(view: &View<'a>) -> Vec<&'a str> {
    let mut sources: Vec<&str> = Vec::new();
    for figures in view.result.suite.interfaces.iter().flat_map(|interface| &interface.reports) {
        if !sources.contains(&figures.source.as_str()) {
            sources.push(&figures.source);
        }
    }
    sources
}

/// The interfaces that were left out, with the reason.
fn not_measured(view: &View) -> Markup {
    let mut reasons: Vec<String> = Vec::new();
    for skipped in view.result.systems.iter().flat_map(|system| &system.skipped) {
        let reason = words::line(&skipped.reason, words::SENTENCE_LIMIT);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    html! {
        @if (1..=REASONS_MAX).contains(&reasons.len()) {
            p class="faint" { "Not measured: " (reasons.join("; ")) "." }
        } @else if !reasons.is_empty() {
            details {
                summary { "Not measured: " (number::count(reasons.len() as u64)) " interfaces of systems" }
                ul { @for reason in &reasons { li { (reason) "." } } }
            }
        }
    }
}

/// How to read the table, and the source of the reports' figures.
fn notes(view: &View) -> Markup {
    let citations = citations(view);
    html! {
        details {
            summary { "How the forms differ, and the reports\u{2019} sources" }
            p {
                "The rate\u{2019}s efficiency is the interface\u{2019}s rate divided by the static \
                 file\u{2019}s, the latency\u{2019}s is the static file\u{2019}s mean latency divided by the \
                 interface\u{2019}s. At own peaks, as the report of 2000 has them, the two may have been \
                 asked by different numbers of clients, so a latency may look better than the static \
                 file\u{2019}s; at equal load they cannot. The processor time needs no peak: it is what a \
                 request costs."
            }
            p {
                "The figures of 1996 to 2000 were measured on other machines, with HTTP/1.0 and a new \
                 connection for each request; 4P means four processors. Their efficiencies are computed here \
                 from the rates that they print."
            }
            @if !citations.is_empty() {
                ol class="citations" {
                    @for source in citations { li { (words::line(source, CITATION_LIMIT)) } }
                }
            }
        }
    }
}
