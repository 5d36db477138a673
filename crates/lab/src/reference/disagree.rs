//! The inconsistencies of the papers: two statements that cannot both be right, with the sum that shows it.
//!
//! They show what an audit of a report finds, and they check our own sums: each is computed from the tables,
//! so a wrong sum here fails as a wrong table does.

use super::cells::{Cell, stated};
use super::{DerivedFigure, LittleRow, derived, little, reports, static_classes};
use serde::Serialize;
use std::collections::BTreeMap;

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disagreement {
    /// The report (or two, where one quotes the other).
    pub report: String,
    /// The statement, and its place.
    pub statement: String,
    /// The contradiction, with the sum.
    pub against: String,
}

/// The tolerance of Little's law before a row of 2000 is named: the rounding of small latencies explains
/// less.
const LITTLE_TOLERANCE: f64 = 0.08;

/// All of them, in the order in which they are found.
pub fn disagreements() -> Vec<Disagreement> {
    let mut all: Vec<Disagreement> =
        derived().iter().filter(|figure| !figure.agrees).map(of_derived).collect();
    all.extend(little().iter().filter(|row| of_uniprocessor(row)).map(of_little));
    all.extend(numbers_used_twice());
    all.extend(statements());
    all
}

fn of_derived(figure: &DerivedFigure) -> Disagreement {
    Disagreement {
        report: figure.report.to_owned(),
        statement: format!("{} ({}): {}", figure.place, figure.what, figure.printed),
        against: format!(
            "{} = {:.2}; the roundings allow {:.2} to {:.2}",
            figure.sum, figure.computed, figure.least, figure.most
        ),
    }
}

/// Rows without a printed number of clients that imply no multiple of four, of the servlet and CGI tests on
/// one processor.
fn of_uniprocessor(row: &LittleRow) -> bool {
    row.report == "iplanet-2000" && row.place.starts_with("Table 4") && row.off_by() > LITTLE_TOLERANCE
}

fn of_little(row: &LittleRow) -> Disagreement {
    Disagreement {
        report: row.report.to_owned(),
        statement: format!("{}: {} a second at {:.1} ms", row.place, row.rate, row.latency_s * 1000.0),
        against: format!(
            "clients = rate x latency = {:.1}, and the lab's clients came in steps of four (nearest: {})",
            row.clients,
            row.nearest()
        ),
    }
}

/// Table numbers that are used for more than one table.
fn numbers_used_twice() -> Vec<Disagreement> {
    let mut all = Vec::new();
    for report in reports() {
        let mut titles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for table in report.tables.iter().filter(|table| !table.number.is_empty()) {
            titles.entry(&table.number).or_default().push(&table.title);
        }
        for (number, titles) in titles.into_iter().filter(|(_, titles)| titles.len() > 1) {
            all.push(Disagreement {
                report: report.id.clone(),
                statement: format!("{number} is {:?}", titles[0]),
                against: format!("{number} is also {}", titles[1..].join(" and ")),
            });
        }
    }
    all
}

/// Statements of the text that contradict its figures.
fn statements() -> Vec<Disagreement> {
    let all = [
        sysctl(),
        wait(),
        requests_of_a_client(),
        most_frequent_file(),
        clients_at_once("Static, 2P", "120"),
        clients_at_once("Static, 1P", "12"),
        fewest_threads(),
        peak_threads(),
    ];
    all.into_iter().flatten().collect()
}

fn text(cell: Cell) -> String {
    let Cell(in_report, table, row, _) = cell;
    let table = super::report(in_report).and_then(|report| report.table(table));
    let cells = table.and_then(|table| table.rows.iter().find(|cells| cells[0] == row));
    cells.and_then(|cells| cells.get(1)).cloned().unwrap_or_default()
}

fn sysctl() -> Option<Disagreement> {
    let system_line = |report| text(stated(report, "/etc/system line of streams"));
    let (later, earlier) = (system_line("iplanet-2000"), system_line("bordermanager-1997"));
    let name = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
    (name(&later) != name(&earlier)).then(|| Disagreement {
        report: "iplanet-2000 and bordermanager-1997".to_owned(),
        statement: format!("/etc/system has {later}"),
        against: format!("the other report of the same laboratory has {earlier}: one letter differs"),
    })
}

fn wait() -> Option<Disagreement> {
    let stated_value = |row| stated("fasttrack-1996", row).value();
    let (in_text, done) = (
        stated_value("Wait between synchronisations as the text says, microseconds"),
        stated_value("Wait between synchronisations as the source code says, microseconds"),
    );
    (in_text != done).then(|| Disagreement {
        report: "fasttrack-1996".to_owned(),
        statement: format!("Appendix 1: the clients wait for {} milliseconds", in_text / 1000.0),
        against: format!("the code beside it sets tv_usec = {done}, which is {done} microseconds"),
    })
}

fn requests_of_a_client() -> Option<Disagreement> {
    let each_client = stated("compaq-1997", "Requests of each of 240 clients in 10 minutes").value();
    let rate = stated("compaq-1997", "Requests/second of the 2P server with 240 clients, at least").value();
    let peak = Cell("compaq-1997", "table-5", "ProLiant 5000 2P", "Static HTML").value();
    let needed = each_client * 240.0 / 600.0;
    (needed > peak).then(|| Disagreement {
        report: "compaq-1997".to_owned(),
        statement: format!("240 clients each sent about {each_client} requests in 10 minutes"),
        against: format!(
            "that is {needed} requests/s, above the peak of {peak}; {rate} requests/s make {} for each, and \
             {each_client} at the peak would fit {:.0} clients",
            rate * 600.0 / 240.0,
            peak * 600.0 / each_client
        ),
    })
}

fn most_frequent_file() -> Option<Disagreement> {
    let stated_kb = stated("compaq-1997", "Most frequently retrieved file, KB").value();
    let classes = static_classes();
    let (bytes, weight) =
        classes.iter().copied().reduce(|best, other| if other.1 > best.1 { other } else { best })?;
    (bytes / 1024.0 != stated_kb).then(|| Disagreement {
        report: "compaq-1997".to_owned(),
        statement: format!("the size of the most frequently retrieved file is {stated_kb} KB"),
        against: format!(
            "by Appendix A the class of {} KB has the most requests, {weight} %",
            bytes / 1024.0
        ),
    })
}

/// Little's law with clients without think time: rate times latency is their number, within the rounding
/// errors.
fn clients_at_once(test: &'static str, with: &'static str) -> Option<Disagreement> {
    let stated_value = |row: String| {
        let report = super::report("compaq-1997").and_then(|report| report.table("stated"));
        let cells = report.and_then(|table| table.rows.iter().find(|cells| cells[0] == row))?;
        cells.get(1)?.parse::<f64>().ok()
    };
    let clients = stated_value(format!("{test}, virtual clients"))?;
    let rate = stated_value(format!("{test}, {with} clients, requests/second"))?;
    let latency_ms = stated_value(format!("{test}, {with} clients, latency (ms)"))?;
    let at_once = |rate: f64, latency_ms: f64| rate * latency_ms / 1000.0;
    let (least, most) = (at_once(rate - 0.5, latency_ms - 0.5), at_once(rate + 0.5, latency_ms + 0.5));
    (!(least..=most).contains(&clients)).then(|| Disagreement {
        report: "compaq-1997".to_owned(),
        statement: format!("{clients} clients made {rate} requests/s at {latency_ms} ms ({test})"),
        against: format!(
            "rate x latency = {:.1} clients; the roundings allow {least:.1} to {most:.1}",
            at_once(rate, latency_ms)
        ),
    })
}

fn fewest_threads() -> Option<Disagreement> {
    let stated_value = |row| stated("bordermanager-1997", row).value();
    let (at, fewest) = (
        stated_value("Mixed data, stand-alone, threads at the peak"),
        stated_value("Mixed data, fewest threads tested"),
    );
    (at < fewest).then(|| Disagreement {
        report: "bordermanager-1997".to_owned(),
        statement: format!("the baseline of mixed data peaked with {at} threads"),
        against: format!("by Test Procedures the fewest threads tested were {fewest}"),
    })
}

fn peak_threads() -> Option<Disagreement> {
    let stated_value = |row| stated("bordermanager-1997", row).value();
    let (first, later) = (
        stated_value("Mixed data, stand-alone, threads at the peak"),
        stated_value("Mixed data, stand-alone, threads at the peak, said later"),
    );
    (first != later).then(|| Disagreement {
        report: "bordermanager-1997".to_owned(),
        statement: format!("the baseline of mixed data peaked with {first} threads"),
        against: format!("by Test Procedures the Sun system reached its peak with {later} threads"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_disagreements_are_flagged_and_no_others() {
        let all = disagreements();
        let count = |report: &str| all.iter().filter(|it| it.report == report).count();
        assert_eq!(count("fasttrack-1996"), 2, "{all:#?}");
        assert_eq!(count("compaq-1997"), 5, "{all:#?}");
        assert_eq!(count("bordermanager-1997"), 2, "{all:#?}");
        assert_eq!(count("iplanet-1999"), 1, "{all:#?}");
        assert_eq!(count("iplanet-2000"), 6 + 4 + 3, "{all:#?}");
        assert_eq!(count("iplanet-2000 and bordermanager-1997"), 1, "{all:#?}");
        assert_eq!(all.len(), 24);
    }

    #[test]
    fn the_sums_are_those_of_the_papers() {
        let all = disagreements();
        let against = |statement: &str| {
            &all.iter()
                .find(|it| it.statement.contains(statement))
                .unwrap_or_else(|| panic!("{statement}"))
                .against
        };
        assert!(against("each sent about 4200").contains("1680 requests/s, above the peak of 1401"));
        assert!(against("each sent about 4200").contains("make 3375 for each"));
        assert!(against("most frequently").contains("2 KB has the most requests, 26 %"));
        assert!(against("120 clients made 1330").contains("122.4 clients; the roundings allow 121.6"));
        assert!(against("12 clients made 366").contains("11.3 clients"));
        assert!(against("Table 11 is").contains("Type A Client"));
        assert!(against("sq_max_size=0").contains("sg_max_size=1024"));
        assert!(against("10 milliseconds").contains("10 microseconds"));
        assert!(against("SPICE Java Servlet requests/second, iWS: 307").contains("= 3.1"));
    }
}
