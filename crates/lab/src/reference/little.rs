//! Little's law on the rows of the reports: clients = rate x latency. Where the number of clients is printed
//! it must be that; where it is not, a lab that added clients four at a time must show a multiple of four.

use super::cells::{Cell, stated};
use super::reports;
use serde::Serialize;

/// One row that has a rate and a latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LittleRow {
    /// The report.
    pub report: &'static str,
    /// Table and row.
    pub place: String,
    /// Requests or connections a second.
    pub rate: f64,
    /// Seconds.
    pub latency_s: f64,
    /// rate x latency.
    pub clients: f64,
    /// The number of clients that is printed; absent where none is.
    pub printed_clients: Option<f64>,
}

impl LittleRow {
    /// The number to compare with: the printed one, or the nearest multiple of four.
    pub fn nearest(&self) -> f64 {
        self.printed_clients.unwrap_or_else(|| ((self.clients / 4.0).round() * 4.0).max(4.0))
    }

    /// How far it is off, as a share.
    pub fn off_by(&self) -> f64 {
        (self.clients / self.nearest() - 1.0).abs()
    }
}

/// Every printed row to which Little's law applies.
pub fn little() -> Vec<LittleRow> {
    let mut rows = webstone();
    let compaq = |rate: Cell, latency: Cell, clients: f64| row(rate, latency, Some(clients));
    let points = |row, column| Cell("compaq-1997", "points", row, column);
    rows.push(compaq(
        points("12 virtual clients", "Requests/second"),
        points("12 virtual clients", "Latency (ms)"),
        12.0,
    ));
    rows.push(compaq(
        stated("compaq-1997", "Static, 2P, 120 clients, requests/second"),
        stated("compaq-1997", "Static, 2P, 120 clients, latency (ms)"),
        120.0,
    ));
    rows.extend(spice());
    rows
}

fn row(rate: Cell, latency: Cell, printed_clients: Option<f64>) -> LittleRow {
    let latency_s = latency.value() / 1000.0;
    LittleRow {
        report: rate.0,
        place: format!("{}, {}", rate.place(), rate.3),
        rate: rate.value(),
        latency_s,
        clients: rate.value() * latency_s,
        printed_clients,
    }
}

/// The tables of WebStone: clients, connections per second, latency in seconds.
fn webstone() -> Vec<LittleRow> {
    let mut rows = Vec::new();
    for report in reports().iter().filter(|report| report.tool.starts_with("WebStone")) {
        for table in report.tables.iter().filter(|table| table.columns.len() == 4) {
            for cells in &table.rows {
                let number =
                    |index: usize| cells.get(index).and_then(|cell| super::PrintedNumber::parse(cell));
                let (Some(clients), Some(rate), Some(latency)) = (number(0), number(1), number(3)) else {
                    continue;
                };
                rows.push(LittleRow {
                    report: &report.id,
                    place: format!("{}: {}", table.title, cells[0]),
                    rate: rate.value,
                    latency_s: latency.value,
                    clients: rate.value * latency.value,
                    printed_clients: Some(clients.value),
                });
            }
        }
    }
    rows
}

/// The tables of WebBench 3.0: a row of the rate and a row of the latency in milliseconds for each interface.
fn spice() -> Vec<LittleRow> {
    let mut rows = Vec::new();
    let Some(report) = super::report("iplanet-2000") else { return rows };
    for table in &report.tables {
        for name in table.rows.iter().filter_map(|row| row.first()) {
            let Some(interface) = name.strip_suffix(" requests/second") else { continue };
            let wanted = format!("{interface} Latency (ms)");
            let Some(latency) = table.rows.iter().filter_map(|row| row.first()).find(|row| **row == wanted)
            else {
                continue;
            };
            for column in table.columns.iter().filter(|column| *column != "Times iWS Is Faster") {
                let cell = |row| Cell("iplanet-2000", &table.id, row, column);
                let (rate, latency) = (cell(name), cell(latency));
                if rate.value().is_finite() && latency.value().is_finite() {
                    rows.push(self::row(rate, latency, None));
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_holds_on_every_row_of_webstone() {
        let rows: Vec<LittleRow> =
            little().into_iter().filter(|row| row.report == "fasttrack-1996").collect();
        assert_eq!(rows.len(), 12 * 8);
        for row in &rows {
            // Latencies are printed to a hundredth of a second, rates to a whole: a tenth of the smallest is
            // rounding.
            let rounding = 0.005 / row.latency_s + 0.5 / row.rate;
            assert!(row.off_by() <= 0.02 + rounding, "{row:?}");
        }
    }

    #[test]
    fn the_rows_of_2000_imply_multiples_of_four_but_for_four() {
        let rows: Vec<LittleRow> = little().into_iter().filter(|row| row.report == "iplanet-2000").collect();
        assert_eq!(rows.len(), 4 + 8 + 6 + 4);
        let row_at =
            |place: &str| rows.iter().find(|row| row.place == place).unwrap_or_else(|| panic!("{place}"));
        assert!((row_at("Table 1: Static requests/second, iWS").clients - 22.9).abs() < 0.05);
        // lab.md's four: with the latencies that Tables 5 and 6 imply they become 8, 28, 16 and 56.
        let implied = [
            ("Table 4: SPICE Java Servlet requests/second, iWS", 30.9 / 1.201, 8.0),
            ("Table 4: SPICE C CGI requests/second, iWS", 30.9 / 0.185, 28.0),
            ("Table 4: SPICE Java Servlet requests/second, Stronghold", 55.7 / 0.509, 16.0),
            ("Table 4: SPICE C CGI requests/second, Stronghold", 55.7 / 0.111, 56.0),
        ];
        for (place, latency_ms, clients) in implied {
            let row = row_at(place);
            assert!(row.off_by() > 0.08, "{row:?}");
            assert!((row.rate * latency_ms / 1000.0 / clients - 1.0).abs() < 0.015, "{place}");
        }
        let others = rows.iter().filter(|row| !implied.iter().any(|(place, _, _)| row.place == *place));
        for row in others {
            assert!(row.off_by() < 0.12, "{row:?}");
        }
    }
}
