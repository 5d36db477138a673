//! The tables of a WebBench workbook: the Summary Report, the Client Data Report and the mixes as they were
//! defined, and the errors by kind.

use maud::{Markup, html};

use super::number::{self, NOT_MEASURED};
use super::table::{Part, Row, Table};
use super::thresholds;
use super::view::{SystemView, View};
use super::words;
use touchstone_lab::result::{ClientRow, ErrorRecord, MixResult};
use touchstone_lab::saturation::engine_limit;
use touchstone_lab::warnings::without_figures;

/// The most clients of a mix that the Client Data Report shows: half of them the quietest, half the busiest.
const CLIENT_ROWS_MAX: usize = 1000;

/// The kinds of errors with the words for them.
type ErrorKind = (&'static str, fn(&ErrorRecord) -> u64);
const ERROR_KINDS: [ErrorKind; 12] = [
    ("No connection", |errors| errors.connect),
    ("Reset or broken", |errors| errors.reset),
    ("Timed out", |errors| errors.timeout),
    ("Wrong length", |errors| errors.short_body),
    ("Bad status", |errors| errors.bad_status),
    ("Not HTTP", |errors| errors.malformed),
    ("TLS", |errors| errors.tls),
    ("Wrong body", |errors| errors.wrong_body),
    ("Value missing", |errors| errors.extraction),
    ("Assertion", |errors| errors.assertion),
    ("Wrong frame", |errors| errors.wrong_frame),
    ("Closed", |errors| errors.closed),
];

/// The Summary Report.
pub(super) fn summary_report(view: &View) -> Markup {
    let remarks = Remarks::of(view);
    let remarked = !remarks.0.is_empty();
    let several = view.most_runs() > 1;
    let parts = view
        .systems
        .iter()
        .map(|system| Part {
            heading: Some(system.label.clone()),
            rows: system.mixes.iter().map(|mix| summary_row(system, mix, several, &remarks)).collect(),
        })
        .collect();
    let mut columns = [
        "Mix",
        view.clients.head(),
        "Requests per second",
        "Throughput, bytes per second",
        "Throughput, Mbit/s",
        "Mean latency, ms",
        "p95, ms",
        "p99, ms",
        "Errors",
        "Server CPU, µs a request",
    ]
    .map(str::to_owned)
    .to_vec();
    columns.extend(several.then(|| "Runs".to_owned()));
    columns.extend(several.then(|| "Requests per second, lowest to highest run".to_owned()));
    columns.extend(remarked.then(|| "Remark".to_owned()));
    let runs = if several { ", the run of the median rate of each" } else { "" };
    let table = Table {
        caption: format!("Summary Report: every mix of every system{runs}; the peak of each system in bold"),
        words: vec![0],
        columns,
        parts,
        ..Table::default()
    };
    html! {
        section aria-labelledby="summary-report" {
            h2 id="summary-report" { "Summary Report" }
            p class="lead" {
                "The two scores of WebBench, requests per second and throughput, for every mix, with the \
                 latency of its clients beside them."
            }
            div class="summary-table" { (table.write()) }
            @if remarked {
                p { "Remarks:" }
                ol class="remarks" { @for remark in &remarks.0 { li { (remark) } } }
            }
        }
    }
}

/// The different remarks on rows of the Summary Report: each is shown once below the table, and a row has its
/// number.
struct Remarks(Vec<String>);

impl Remarks {
    fn of(view: &View) -> Remarks {
        let mut all: Vec<String> = Vec::new();
        for system in &view.systems {
            for remark in system.mixes.iter().flat_map(|mix| remarks_on(system, mix)) {
                if !all.iter().any(|other| same_kind(other, &remark)) {
                    all.push(remark);
                }
            }
        }
        Remarks(all)
    }

    /// The numbers of the remarks on a row.
    fn numbers(&self, system: &SystemView, mix: &MixResult) -> String {
        let own = remarks_on(system, mix);
        let is_own = |remark: &String| own.iter().any(|other| same_kind(other, remark));
        let numbers = (1..).zip(&self.0).filter(|(_, remark)| is_own(remark));
        numbers.map(|(number, _): (u32, _)| number.to_string()).collect::<Vec<_>>().join(", ")
    }
}

fn summary_row(system: &SystemView, mix: &MixResult, several: bool, remarks: &Remarks) -> Row {
    let latency = &mix.latency;
    let mut cells = vec![
        number::count(mix.load()),
        number::rate(mix.requests_per_second),
        number::grouped(mix.bytes_per_second, 0),
        number::grouped(mix.megabits_per_second, 2),
        number::milliseconds(latency.mean_us),
        number::milliseconds(latency.p95_us),
        number::milliseconds(latency.p99_us),
        number::count(errors_total(&mix.errors)),
        number::optional(mix.server.as_ref(), |server| number::grouped(server.cpu_us_per_request, 2)),
    ];
    if several {
        let runs = system.runs_of(mix);
        let rates = || runs.iter().map(|run| run.requests_per_second);
        let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        cells.push(number::count(runs.len() as u64));
        cells.push(format!("{} to {}", number::rate(low), number::rate(high)));
    }
    cells.extend((!remarks.0.is_empty()).then(|| remarks.numbers(system, mix)));
    Row::new(words::line(&mix.name, 40), cells).strong(system.is_peak(mix))
}

/// Whether two remarks differ only in their figures.
fn same_kind(one: &str, other: &str) -> bool {
    without_figures(one) == without_figures(other)
}

/// Remarks on a row. A sign of the load engine has different figures in each mix.
fn remarks_on(system: &SystemView, mix: &MixResult) -> Vec<String> {
    let cut = (!mix.complete).then(|| "The mix was cut short.".to_owned());
    let bound = engine_limit(&system.system.cpus, mix).map(|(limit, reason)| {
        format!(
            "{}: {} (in the first such mix {}).",
            if mix.arrivals.is_some() { "Partly the engine\u{2019}s own" } else { "A lower bound" },
            limit.description(),
            words::line(reason.trim_end_matches('.'), 160)
        )
    });
    cut.into_iter().chain(bound).collect()
}

/// The mixes as they were defined.
pub(super) fn mixes(view: &View) -> Markup {
    let all = || view.systems.iter().flat_map(|system| &system.mixes);
    let decimals: Vec<usize> =
        (0..6).map(|column| all().map(|mix| decimals_of(seconds(mix)[column])).max().unwrap_or(0)).collect();
    let handshakes = all().any(|mix| mix.tls_handshakes.is_some());
    let rows = |system: &SystemView| {
        system
            .mixes
            .iter()
            .map(|mix| {
                let mut cells = vec![number::count(mix.clients)];
                cells.extend(
                    seconds(mix)
                        .iter()
                        .zip(&decimals)
                        .map(|(&value, &decimals)| number::grouped(value, decimals)),
                );
                cells.push(number::count(mix.requests));
                cells.push(number::count(mix.total_requests));
                cells.push(number::count(mix.connections));
                if handshakes {
                    let counts = mix.tls_handshakes.map_or([0, 0], |counts| [counts.full, counts.resumed]);
                    cells.extend(counts.map(number::count));
                }
                cells.push(processors(&mix.load_cpus));
                Row::new(words::line(&mix.name, 40), cells)
            })
            .collect()
    };
    let table = Table {
        caption: "The mixes, in seconds; only the window is counted".to_owned(),
        columns: [
            "Mix",
            "Clients",
            "Length",
            "Ramp up",
            "Ramp down",
            "Delay",
            "Think time",
            "Window",
            "Requests in the window",
            "Requests in all",
            "Connections made",
        ]
        .into_iter()
        .chain(handshakes.then_some(["Full TLS handshakes in all", "Resumed in all"]).into_iter().flatten())
        .chain(["Load engine\u{2019}s processors"])
        .map(str::to_owned)
        .collect(),
        words: vec![0],
        parts: view
            .systems
            .iter()
            .map(|system| Part { heading: Some(system.label.clone()), rows: rows(system) })
            .collect(),
        ..Table::default()
    };
    html! {
        section aria-labelledby="mixes" {
            h2 id="mixes" { "Mixes" }
            (table.write())
        }
    }
}

/// The times of a mix, seconds, in the order of the table.
fn seconds(mix: &MixResult) -> [f64; 6] {
    [mix.length_s, mix.ramp_up_s, mix.ramp_down_s, mix.delay_s, mix.think_time_s, mix.window_s]
}

/// Decimals that a time needs, to the millisecond.
fn decimals_of(seconds: f64) -> usize {
    (0..3).find(|&decimals| (seconds * 10f64.powi(decimals)).fract().abs() < 1e-9).unwrap_or(3) as usize
}

/// Numbers of processors: `0, 1`, or the meaning of their absence.
pub(super) fn processors(cpus: &[usize]) -> String {
    if cpus.is_empty() {
        return "not pinned".to_owned();
    }
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The errors by kind.
pub(super) fn errors(view: &View) -> Markup {
    let runs = view.systems.iter().flat_map(|system| system.runs.iter().flatten());
    let total: u64 = runs.map(|mix| errors_total(&mix.errors)).fold(0, u64::saturating_add);
    html! {
        section aria-labelledby="errors" {
            h2 id="errors" { "Errors" }
            @if view.systems.iter().all(|system| system.mixes.is_empty()) {
                p { (NOT_MEASURED) }
            } @else if total == 0 {
                p { "No request failed in any counted window: each answer was HTTP, had a status of 200 to \
                     399 and as many bytes as it stated." }
            } @else {
                (errors_table(view).write())
                (thresholds::reasons(view))
            }
            (thresholds::thresholds(view))
        }
    }
}

/// All kinds together. The figures may be from a damaged file, so the sum must not overflow.
fn errors_total(errors: &ErrorRecord) -> u64 {
    ERROR_KINDS.iter().map(|(_, kind)| kind(errors)).fold(0, u64::saturating_add)
}

fn errors_table(view: &View) -> Table {
    let mut columns = vec!["Mix".to_owned()];
    columns.extend(ERROR_KINDS.iter().map(|(name, _)| (*name).to_owned()));
    columns.extend(["All", "Of all requests"].map(str::to_owned));
    let parts = view
        .systems
        .iter()
        .map(|system| Part {
            heading: Some(system.label.clone()),
            rows: system.runs.iter().map(|runs| errors_row(runs)).collect(),
        })
        .collect();
    let runs_words = if view.most_runs() > 1 { " of all runs" } else { "" };
    Table {
        caption: format!("Failed requests in the counted windows{runs_words}, by kind"),
        columns,
        words: vec![0],
        parts,
        ..Table::default()
    }
}

/// All runs of a mix together.
fn errors_row(runs: &[&MixResult]) -> Row {
    let sum =
        |figure: &dyn Fn(&MixResult) -> u64| runs.iter().map(|mix| figure(mix)).fold(0, u64::saturating_add);
    let total = sum(&|mix| errors_total(&mix.errors));
    let mut cells: Vec<String> =
        ERROR_KINDS.iter().map(|(_, kind)| number::count(sum(&|mix| kind(&mix.errors)))).collect();
    cells.push(number::count(total));
    let share = total as f64 / total.saturating_add(sum(&|mix| mix.requests)).max(1) as f64;
    cells.push(format!("{}\u{a0}%", number::grouped(share * 100.0, 3)));
    Row::new(words::line(runs.first().map_or("", |mix| &mix.name), 40), cells)
}

/// The Client Data Report, a mix behind each line.
pub(super) fn client_data_report(view: &View) -> Markup {
    html! {
        section aria-labelledby="client-data-report" {
            h2 id="client-data-report" { "Client Data Report" }
            p class="lead" {
                "Every virtual client of every mix. Open a line to see the clients of that mix."
            }
            @for system in &view.systems {
                h3 { (system.label) }
                @if system.mixes.is_empty() { p { (NOT_MEASURED) } }
                @for mix in &system.mixes {
                    details {
                        summary {
                            (words::load(mix))
                            span class="faint" { " · " (words::line(&mix.name, 60)) }
                            span class="unseen" { ", " (system.label) }
                        }
                        @if mix.client_rows.is_empty() {
                            p { (NOT_MEASURED) }
                        } @else {
                            (client_table(system, mix).write())
                        }
                    }
                }
            }
        }
    }
}

fn client_table(system: &SystemView, mix: &MixResult) -> Table {
    let rows = shown_clients(&mix.client_rows)
        .into_iter()
        .map(|row| {
            Row::new(
                number::count(row.client),
                vec![
                    number::count(row.requests),
                    number::count(row.errors),
                    number::count(row.bytes),
                    number::milliseconds(row.mean_us),
                    number::milliseconds(row.p95_us),
                    number::milliseconds(row.max_us),
                ],
            )
        })
        .collect();
    Table::new(
        format!("Client Data Report: {}, {}{}", system.label, words::load(mix), left_out(&mix.client_rows)),
        &["Client", "Requests", "Errors", "Bytes", "Mean latency, ms", "p95, ms", "Largest, ms"],
        rows,
    )
}

/// The clients that a table shows: all, or of very many the quietest and the busiest.
pub(super) fn shown_clients(rows: &[ClientRow]) -> Vec<&ClientRow> {
    let mut shown: Vec<&ClientRow> = rows.iter().collect();
    if shown.len() > CLIENT_ROWS_MAX {
        shown.sort_by_key(|row| row.requests);
        shown.drain(CLIENT_ROWS_MAX / 2..rows.len() - CLIENT_ROWS_MAX / 2);
        shown.sort_by_key(|row| row.client);
    }
    shown
}

/// Says so where a table does not show all clients.
pub(super) fn left_out(rows: &[ClientRow]) -> String {
    if rows.len() <= CLIENT_ROWS_MAX {
        return String::new();
    }
    format!(
        " (the {0} with the fewest and the {0} with the most requests of {1}; all are in result.json)",
        CLIENT_ROWS_MAX / 2,
        number::count(rows.len() as u64)
    )
}
