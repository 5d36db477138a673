//! SPICE: what each interface of each system costs beyond a static file, in three forms, and beside it what the reports of 1996 to
//! 2000 measured. It stands on the first screen, in the verdict.

use maud::{Markup, html};

use super::number::{self, NOT_MEASURED};
use super::table::{Part, Row, Table};
use super::view::View;
use super::words;
use crate::result::{InterfaceRecord, ReportFigures, SpiceEfficiency, SpiceRow};
use crate::spice::{report_efficiencies, rows};

/// The most characters of an outside text in a cell, and in a citation.
const CELL_LIMIT: usize = 60;
const CITATION_LIMIT: usize = 300;

/// The table with its notes; nothing where the suite compares no interfaces.
pub(super) fn section(view: &View) -> Markup {
    if view.result.suite.interfaces.is_empty() {
        return html! {};
    }
    let rows = rows(view.result);
    html! {
        div class="spice" {
            (table(view, &rows).write())
            (not_measured(view))
            (notes(view))
        }
    }
}

fn table(view: &View, rows: &[SpiceRow]) -> Table {
    let load = rows.iter().filter_map(|row| row.at_equal_load.as_ref()).map(|equal| equal.clients).max();
    let equal = load.map_or("At equal load".to_owned(), |clients| {
        format!("At equal load, {}", words::clients(clients))
    });
    let has_reports = view.result.suite.interfaces.iter().any(|interface| !interface.reports.is_empty());
    let mut groups: Vec<(String, usize)> = vec![
        (String::new(), 2),
        ("SPICE".to_owned(), 2),
        ("At own peaks".to_owned(), 2),
        (equal, 2),
        ("Processor time".to_owned(), 2),
    ];
    let mut columns: Vec<String> = [
        "Interface",
        "System",
        "Requests/s",
        "Latency, ms",
        "Rate",
        "Latency",
        "Rate",
        "Latency",
        "µs a request",
        "Efficiency",
    ]
    .map(str::to_owned)
    .to_vec();
    if has_reports {
        groups.push(("1996 to 2000".to_owned(), 1));
        columns.push("Rate in the reports".to_owned());
    }
    Table {
        caption: "SPICE: each interface\u{2019}s rate and latency at its peak, and what is left of the static file\u{2019}s: \
                  100\u{a0}% is as good as the static file"
            .to_owned(),
        groups,
        columns,
        words: vec![0, 1, 10],
        parts: view
            .result
            .suite
            .interfaces
            .iter()
            .map(|interface| part(view, interface, rows, has_reports))
            .filter(|part| !part.rows.is_empty())
            .collect(),
    }
}

/// The systems of one interface.
fn part(view: &View, interface: &InterfaceRecord, rows: &[SpiceRow], has_reports: bool) -> Part {
    let of_interface = rows.iter().filter(|row| row.interface == interface.name);
    let write = |(index, row): (usize, &SpiceRow)| {
        let cost = row.processor_cost.as_ref();
        let mut cells = vec![
            words::line(view.system_label(&row.system), CELL_LIMIT),
            number::rate(row.requests_per_second),
            number::milliseconds(row.latency_us),
        ];
        cells.extend(efficiencies(row.at_own_peak.as_ref()));
        cells.extend(efficiencies(row.at_equal_load.as_ref()));
        cells.push(cost_of(view, row));
        cells.push(cost.map_or_else(String::new, |cost| number::percent(cost.efficiency)));
        if has_reports {
            // Said once an interface: it is the same for every system.
            cells.push(if index == 0 { in_the_reports(view, interface) } else { String::new() });
        }
        Row::new(words::line(&interface.title, CELL_LIMIT), cells)
    };
    Part { heading: None, rows: of_interface.enumerate().map(write).collect() }
}

/// The rate's and the latency's, empty for what the others are held against.
fn efficiencies(efficiency: Option<&SpiceEfficiency>) -> [String; 2] {
    efficiency.map_or([String::new(), String::new()], |of| {
        [number::percent(of.request_efficiency), number::percent(of.latency_efficiency)]
    })
}

/// The processor time of a request: beside the static file's with as many clients, or at the peak of the static file.
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

/// The efficiencies of the rate that the reports' figures give, with a mark for each citation.
fn in_the_reports(view: &View, interface: &InterfaceRecord) -> String {
    let texts: Vec<String> = interface
        .reports
        .iter()
        .map(|figures| {
            let (of_rate, _) = report_efficiencies(figures);
            let rate = figures.requests_per_second.map_or_else(
                || NOT_MEASURED.to_owned(),
                |rate| format!("{}\u{a0}requests/s", number::grouped(rate, 0)),
            );
            let shown = of_rate.map_or(rate, number::percent);
            format!("{shown} {} [{}]", words::line(&figures.server, CELL_LIMIT), citation(view, figures))
        })
        .collect();
    if texts.is_empty() { "not in the reports".to_owned() } else { texts.join("; ") }
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

/// What was left out, with the reason.
fn not_measured(view: &View) -> Markup {
    let mut reasons: Vec<String> = Vec::new();
    for skipped in view.result.systems.iter().flat_map(|system| &system.skipped) {
        let reason = words::line(&skipped.reason, words::SENTENCE_LIMIT);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    html! {
        @if !reasons.is_empty() {
            p class="faint" { "Not measured: " (reasons.join("; ")) "." }
        }
    }
}

/// How to read the table, and where the figures of the reports come from.
fn notes(view: &View) -> Markup {
    let citations = citations(view);
    html! {
        details {
            summary { "How the forms differ, and the reports\u{2019} sources" }
            p {
                "The rate\u{2019}s efficiency is the interface\u{2019}s rate divided by the static file\u{2019}s, the latency\u{2019}s is the \
                 static file\u{2019}s mean latency divided by the interface\u{2019}s. At own peaks, as the report of 2000 has them, the \
                 two may have been asked by different numbers of clients, so a latency may look better than the static \
                 file\u{2019}s; at equal load they cannot. The processor time needs no peak: it is what a request costs."
            }
            p {
                "The figures of 1996 to 2000 were measured on other machines, with HTTP/1.0 and a new connection for each \
                 request. Their efficiencies are computed here from the rates that they print."
            }
            @if !citations.is_empty() {
                ol class="citations" { @for source in citations { li { (words::line(source, CITATION_LIMIT)) } } }
            }
        }
    }
}
