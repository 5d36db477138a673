//! A run beside the reports of 1996 to 2000: its peaks against theirs, its curve against those of WebStone,
//! their derived figures computed again, where they disagree with themselves, and every table as it was
//! printed.
//!
//! It is a separate page, because a reader of a run does not need it. The factors are not only progress of
//! software: the machines differ by thirty years, and the page states that.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::number;
use super::table::{Part, Row, Table};
use super::words;
use touchstone_lab::reference::{self, Kind, Peak, Report};
use touchstone_lab::result::ResultFile;
use touchstone_lab::series::{self, Series};

/// The name of the page in a result directory.
pub const REFERENCE_FILE_NAME: &str = "reference.html";
const STYLE: &str = include_str!("report.css");

/// The page, as HTML.
pub fn reference_html(result: &ResultFile) -> String {
    let title = format!("{} beside the reports of 1996 to 2000", words::line(&result.suite.title, 80));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body id="top" class="reference" {
                a class="skip" href="#content" { "Skip to the tables" }
                header { h1 { (title) } }
                main id="content" tabindex="-1" {
                    p class="lead" {
                        "The reports measured other machines: one to four processors of 133 to 400 MHz, \
                         networks of 10 to "
                        "1,000 Mbit/s, load from many machines. A factor between a rate of theirs and one of \
                         today is that of "
                        "machine, kernel and server together."
                    }
                    (peaks(result))
                    (curves(result))
                    (derived())
                    (disagreements())
                    (tables())
                }
            }
        }
    }
    .into_string()
}

fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (title) }
            (content)
        }
    }
}

fn title_of(report: &str) -> String {
    reference::report(report)
        .map_or_else(|| report.to_owned(), |report| format!("{} ({})", report.title, report.dated))
}

/// The run's peaks, each with those of its kind.
fn peaks(result: &ResultFile) -> Markup {
    let all = reference::peaks();
    let all_series = series::from_result(result);
    let parts: Vec<Part> = all_series
        .iter()
        .filter(|series| !series.system.is_limit)
        .filter_map(|series| beside(series, &result.suite.name, &all))
        .collect();
    let content = if parts.is_empty() {
        html! { p { "No report measured what this suite measures." } }
    } else {
        let table = Table {
            caption: "Peaks of this run, and of the reports for the same kind of work".to_owned(),
            columns: ["System", "requests/s", "mean latency, ms", "this run is", "Report"]
                .map(str::to_owned)
                .to_vec(),
            words: vec![4],
            parts,
            ..Table::default()
        };
        table.write()
    };
    section("peaks", "Peaks", &content)
}

/// A series' own peak, and below it those of the reports.
fn beside(series: &Series<'_>, suite: &str, all: &[Peak]) -> Option<Part> {
    let interface = series.mixes.first().map_or("", |mix| mix.interface.as_str());
    let kind = Kind::of(interface, suite)?;
    let own = series.peak()?;
    let own_row = Row::new(
        words::line(&series.title, 60),
        vec![
            number::rate(own.requests_per_second),
            number::milliseconds(own.latency.mean_us),
            String::new(),
            "this run".to_owned(),
        ],
    )
    .strong(true);
    let row = |peak: &Peak| {
        let factor = own.requests_per_second / peak.rate;
        Row::new(
            peak.system.clone(),
            vec![
                number::rate(peak.rate),
                number::optional(peak.latency_ms, |ms| number::milliseconds(ms * 1000.0)),
                format!("{}\u{a0}times", touchstone_lab::figures::significant(factor)),
                format!("{}, {}", title_of(peak.report), peak.place),
            ],
        )
    };
    let rows: Vec<Row> = all.iter().filter(|peak| peak.kind == kind).map(row).collect();
    (!rows.is_empty())
        .then(|| Part { heading: Some(kind.title().to_owned()), rows: [vec![own_row], rows].concat() })
}

/// The rates at the numbers of clients that WebStone ran with, and the run's at the same or the nearest
/// number.
fn curves(result: &ResultFile) -> Markup {
    let Some(report) = reference::report("fasttrack-1996") else { return html! {} };
    let all = series::from_result(result);
    let tables = report.tables.iter().filter(|table| table.columns.len() == 4);
    let write = |table: &reference::Table| {
        let is_alike = |series: &&Series<'_>| is_of_table(series, &result.suite.name, &table.title);
        let rivals: Vec<&Series<'_>> =
            all.iter().filter(|series| !series.system.is_limit).filter(is_alike).collect();
        if rivals.is_empty() {
            return html! {};
        }
        let mut columns =
            vec!["Clients".to_owned(), "1996: connections/s".to_owned(), "1996: latency, s".to_owned()];
        columns.extend(rivals.iter().map(|series| format!("{}: requests/s", words::line(&series.title, 40))));
        let row = |cells: &Vec<String>| {
            let clients = cells[0].split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            let mut figures = vec![cells[1].clone(), cells[3].clone()];
            figures.extend(rivals.iter().map(|series| at_clients(series, clients)));
            Row::new(cells[0].clone(), figures)
        };
        Table {
            caption: table.title.clone(),
            columns,
            parts: vec![Part { heading: None, rows: table.rows.iter().map(row).collect() }],
            ..Table::default()
        }
        .write()
    };
    let written: Vec<Markup> = tables.map(write).filter(|table| !table.0.is_empty()).collect();
    let content = html! {
        @if written.is_empty() {
            p { "WebStone of 1996 measured none of the kinds of work of this run." }
        } @else {
            p {
                "Each table stands beside what this run measured of the same kind of work. An empty cell: \
                 the run has no mix with as many clients."
            }
            @for table in written { (table) }
        }
    };
    section("curves", "Curves of WebStone 1.1, 1996", &content)
}

/// Whether a series is of the kind of work of a table of 1996: files with files, CGI with CGI, each version
/// of the plug-in with the same one.
fn is_of_table(series: &Series<'_>, suite: &str, title: &str) -> bool {
    let interface = series.mixes.first().map_or("", |mix| mix.interface.as_str());
    let kind = Kind::of(interface, suite);
    let (_, work) = title.rsplit_once("100% ").unwrap_or_default();
    match work {
        "HTML" => kind == Some(Kind::Static),
        "CGI" => kind == Some(Kind::Cgi) && !interface.contains("fastcgi"),
        "NSAPI (Version A)" => interface == "nsapi-a",
        "NSAPI (Version B)" => interface == "nsapi-b",
        "NSAPI (Version C)" => interface == "nsapi-c",
        "NSAPI (Webstone 1.1)" => {
            interface == "nsapi-send" || interface.is_empty() && kind == Some(Kind::Nsapi)
        }
        _ => false,
    }
}

fn at_clients(series: &Series<'_>, clients: u64) -> String {
    let found = series.mixes.iter().find(|mix| mix.clients == clients && mix.complete);
    found.map(|mix| number::rate(mix.requests_per_second)).unwrap_or_default()
}

fn derived() -> Markup {
    let rows: Vec<Row> = reference::derived()
        .into_iter()
        .map(|it| {
            let verdict = if it.agrees { "yes" } else { "no" };
            let range = format!("{} to {}", number::grouped(it.least, 2), number::grouped(it.most, 2));
            Row::new(
                it.place,
                vec![
                    it.printed,
                    number::grouped(it.computed, 2),
                    verdict.to_owned(),
                    range,
                    it.what,
                    it.sum,
                    it.report.to_owned(),
                ],
            )
            .strong(!it.agrees)
        })
        .collect();
    let columns =
        ["Where", "Printed", "Computed again", "Agrees", "Allowed by the roundings", "What", "Sum", "Report"];
    let table = Table::new("Every figure that a report derived from others", &columns, rows);
    section("derived", "Derived figures, computed again", &table.with_words(&[0, 3, 4, 5, 6, 7]).write())
}

fn disagreements() -> Markup {
    let rows: Vec<Row> = reference::disagreements()
        .into_iter()
        .map(|it| Row::new(it.statement, vec![it.against, it.report]))
        .collect();
    let table = Table::new("Where a paper disagrees with itself", &["It says", "But", "Report"], rows);
    section(
        "disagreements",
        "Where the papers disagree with themselves",
        &table.with_words(&[0, 1, 2]).write(),
    )
}

/// Whether a column of a printed table has a figure in each of its cells.
fn is_of_figures(table: &reference::Table, column: usize) -> bool {
    let is_figure =
        |cell: &String| cell.starts_with(|first: char| first.is_ascii_digit() || "-<~".contains(first));
    table.rows.iter().filter_map(|cells| cells.get(column)).all(|cell| cell.is_empty() || is_figure(cell))
}

/// Every table as it was printed.
fn tables() -> Markup {
    let one = |table: &reference::Table| {
        let mut columns = vec![String::new()];
        columns.extend(table.columns.clone());
        let number = if table.number.is_empty() { String::new() } else { format!("{}: ", table.number) };
        let rows = table.rows.iter().map(|cells| Row::new(cells[0].clone(), cells[1..].to_vec())).collect();
        Table {
            caption: format!("{number}{} ({})", table.title, table.section),
            words: (1..columns.len()).filter(|&column| !is_of_figures(table, column)).collect(),
            columns,
            parts: vec![Part { heading: None, rows }],
            ..Table::default()
        }
        .write()
    };
    let report = |report: &Report| {
        html! {
            details class="numbers" {
                summary { (report.title) ", " (report.dated) }
                p { (report.authors) ". Measured with " (report.tool) "; " (report.paging) "." }
                @for table in &report.tables { (one(table)) }
            }
        }
    };
    section(
        "tables",
        "Every table as it was printed",
        &html! { @for it in reference::reports() { (report(it)) } },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_stands_beside_the_reports() {
        let page = reference_html(&touchstone_lab::sample::result());
        for words in [
            "Sun Ultra Enterprise 3000 stand-alone",
            "static files",
            "the roundings",
            "120.1%",
            "each sent about 4200 requests",
            "CLASS_128K",
            "1,401",
        ] {
            let found = page.contains(words) || page.contains(&words.replace(',', ""));
            assert!(found, "{words}");
        }
        // 60,000 requests/s against 550.
        assert!(page.contains("109\u{a0}times"), "the factor");
        assert!(!page.contains("<script"), "it needs no script");
    }

    #[test]
    fn each_table_of_1996_stands_beside_the_same_kind_of_work() {
        let page = reference_html(&touchstone_lab::sample::spice());
        let curves = &page[page.find("id=\"curves\"").unwrap()..page.find("id=\"derived\"").unwrap()];
        // Files of two systems, CGI of one, on one and two processors of 1996; no NSAPI was measured.
        assert_eq!(curves.matches("<table>").count(), 4, "{curves}");
        assert!(!curves.contains("NSAPI"), "{curves}");
        let cgi = curves.split("<table>").find(|table| table.contains("100% CGI</span>")).unwrap();
        assert!(cgi.contains("CGI: requests/s") && !cgi.contains("SHTML"), "{cgi}");
        assert!(!cgi.contains("static file"), "{cgi}");
    }

    #[test]
    fn a_suite_that_no_report_knows_says_so() {
        let mut result = touchstone_lab::sample::result();
        result.suite.name = "page-2025".into();
        result.systems[0].title = "<b>".into();
        let page = reference_html(&result);
        assert!(page.contains("No report measured what this suite measures.") && !page.contains("<b>"));
    }
}
