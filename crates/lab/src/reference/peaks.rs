//! The peaks of the reports: what each server reached with each kind of work. A run is compared with those of
//! the same kind.

use super::cells::{Cell, stated};
use super::derived::webstone_peak;
use serde::Serialize;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Files.
    Static,
    /// CGI programs alone.
    Cgi,
    /// Files with a tenth of CGI.
    LightCgi,
    /// CGI with a tenth of files.
    HeavyCgi,
    /// Files with a fifth of CGI.
    Mixed,
    /// Plug-ins of the server.
    Nsapi,
    /// Java servlets.
    Servlet,
    /// Java server pages.
    Jsp,
    /// Pages with directives.
    Shtml,
    /// Files and programs, some over TLS.
    ECommerce,
}

impl Kind {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Static => "static files",
            Kind::Cgi => "CGI",
            Kind::LightCgi => "light CGI (10 % CGI)",
            Kind::HeavyCgi => "heavy CGI (90 % CGI)",
            Kind::Mixed => "mixed (20 % CGI)",
            Kind::Nsapi => "NSAPI",
            Kind::Servlet => "Java servlets",
            Kind::Jsp => "Java server pages",
            Kind::Shtml => "SHTML",
            Kind::ECommerce => "e-commerce",
        }
    }

    /// The kind of an interface, or of a suite without interfaces, by its name.
    pub fn of(interface: &str, suite: &str) -> Option<Kind> {
        let name = if interface.is_empty() { suite } else { interface };
        let kinds = [
            ("e-commerce", Kind::ECommerce),
            ("heavy", Kind::HeavyCgi),
            ("light", Kind::LightCgi),
            ("mixed", Kind::Mixed),
            ("fastcgi", Kind::Cgi),
            ("cgi", Kind::Cgi),
            ("nsapi", Kind::Nsapi),
            ("dynamic", Kind::Nsapi),
            ("servlet", Kind::Servlet),
            ("jsp", Kind::Jsp),
            ("shtml", Kind::Shtml),
            ("static", Kind::Static),
            ("standard", Kind::Static),
            ("webstone", Kind::Static),
        ];
        kinds.into_iter().find(|(word, _)| name.contains(word)).map(|(_, kind)| kind)
    }
}

/// One peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peak {
    /// The report.
    pub report: &'static str,
    /// What was asked for.
    pub kind: Kind,
    /// The server, with its processors.
    pub system: String,
    /// Requests or connections a second.
    pub rate: f64,
    /// Mean latency, milliseconds; absent where it is not printed.
    pub latency_ms: Option<f64>,
    /// Where it is printed.
    pub place: String,
}

/// Every peak, the oldest report first.
pub fn peaks() -> Vec<Peak> {
    let mut all = fasttrack();
    all.extend(compaq());
    all.extend(bordermanager());
    all.extend(iplanet());
    all
}

fn peak(kind: Kind, system: String, rate: Cell, latency: Option<Cell>) -> Peak {
    Peak {
        report: rate.0,
        kind,
        system,
        rate: rate.value(),
        latency_ms: latency.map(Cell::value).filter(|latency| latency.is_finite()),
        place: rate.place(),
    }
}

fn fasttrack() -> Vec<Peak> {
    let tables = [
        ("html", Kind::Static, "files of Silicon Surf"),
        ("cgi", Kind::Cgi, "CGI"),
        ("nsapi-webstone", Kind::Nsapi, "NSAPI as shipped"),
        ("nsapi-a", Kind::Nsapi, "NSAPI version A"),
        ("nsapi-b", Kind::Nsapi, "NSAPI version B"),
        ("nsapi-c", Kind::Nsapi, "NSAPI version C"),
    ];
    let Some(report) = super::report("fasttrack-1996") else { return Vec::new() };
    let mut all = Vec::new();
    for (id, kind, what) in tables {
        for (processors, words) in [("1p", "1 processor"), ("2p", "2 processors")] {
            let wanted = format!("{id}-{processors}");
            let Some(table) = report.tables.iter().find(|table| table.id == wanted) else { continue };
            let rate = webstone_peak(&table.id);
            let mut found = peak(kind, format!("FastTrack beta 3, {words}, {what}"), rate, None);
            // Its latency is printed in seconds.
            found.latency_ms = Some(Cell(rate.0, rate.1, rate.2, "Latency (seconds)").value() * 1000.0);
            all.push(found);
        }
    }
    all
}

fn compaq() -> Vec<Peak> {
    let columns =
        [("Static HTML", Kind::Static), ("Light CGI", Kind::LightCgi), ("Heavy CGI", Kind::HeavyCgi)];
    let servers = ["ProLiant 5000 1P", "ProLiant 5000 2P", "ProLiant 800 1P", "ProLiant 800 2P"];
    let peaks_of = |(column, kind): (&'static str, Kind)| {
        servers.map(|server| {
            let system = format!("Netscape Enterprise Server 2.01, {server}");
            peak(kind, system, Cell("compaq-1997", "table-5", server, column), None)
        })
    };
    columns.into_iter().flat_map(peaks_of).collect()
}

fn bordermanager() -> Vec<Peak> {
    let Some(summary) = super::report("bordermanager-1997").and_then(|report| report.table("summary")) else {
        return Vec::new();
    };
    let rows = summary.rows.iter().filter_map(|row| row.first());
    let mut all: Vec<Peak> = rows
        .map(|row| {
            let rate = Cell("bordermanager-1997", "summary", row, "Peak Performance");
            peak(Kind::Static, row.clone(), rate, None)
        })
        .collect();
    let mixed =
        |system: &str, row| peak(Kind::Mixed, system.to_owned(), stated("bordermanager-1997", row), None);
    all.push(mixed("Sun Ultra Enterprise 3000 stand-alone", "Mixed data, stand-alone, requests/second"));
    all.push(mixed(
        "Sun Ultra Enterprise 3000 accelerated by a Compaq ProLiant 6000",
        "Mixed data, accelerated, requests/second",
    ));
    all
}

/// (table, processors, row of the rate, row of the latency, kind)
type SpiceRow = (&'static str, u32, &'static str, &'static str, Kind);

const SPICE: [SpiceRow; 10] = [
    ("table-1", 4, "Static requests/second", "Static Latency (ms)", Kind::Static),
    ("table-2", 1, "Static requests/second", "Static Latency (ms)", Kind::Static),
    ("table-3", 4, "SPICE Java Servlet requests/second", "SPICE Java Servlet Latency (ms)", Kind::Servlet),
    ("table-3", 4, "SPICE C CGI requests/second", "SPICE C CGI Latency (ms)", Kind::Cgi),
    ("table-4", 1, "SPICE Java Servlet requests/second", "SPICE Java Servlet Latency (ms)", Kind::Servlet),
    ("table-4", 1, "SPICE C CGI requests/second", "SPICE C CGI Latency (ms)", Kind::Cgi),
    ("table-7", 4, "SPICE JSP requests/second", "SPICE JSP Latency (ms)", Kind::Jsp),
    ("table-7", 4, "SPICE SHTML requests/second", "SPICE SHTML Latency (ms)", Kind::Shtml),
    ("table-8", 1, "SPICE JSP requests/second", "SPICE JSP Latency (ms)", Kind::Jsp),
    ("table-8", 1, "SPICE SHTML requests/second", "SPICE SHTML Latency (ms)", Kind::Shtml),
];

fn iplanet() -> Vec<Peak> {
    let mut all = Vec::new();
    for (table, processors, rate, latency, kind) in SPICE {
        for (column, server) in [("iWS", "iPlanet Web Server 4.0"), ("Stronghold", "Stronghold 2.4.2")] {
            let cell = |row| Cell("iplanet-2000", table, row, column);
            if cell(rate).value().is_finite() {
                let words = if processors == 1 { "1 processor" } else { "4 processors" };
                all.push(peak(kind, format!("{server}, {words}"), cell(rate), Some(cell(latency))));
            }
        }
    }
    for (group, words) in [("Uniprocessor", "1 processor"), ("Four-Processor", "4 processors")] {
        for program in ["Java servlet", "CGI"] {
            let Some(table) = super::report("iplanet-2000").and_then(|report| report.table("table-11"))
            else {
                continue;
            };
            let cell = |end: &str| {
                let wanted = format!("{group}, SPICE e-commerce {program} {end}");
                let row = table.rows.iter().filter_map(|row| row.first()).find(|row| **row == wanted);
                Cell("iplanet-2000", "table-11", row.map_or("", String::as_str), "iWS")
            };
            let system = format!("iPlanet Web Server 4.0, {words}, {program}");
            all.push(peak(Kind::ECommerce, system, cell("requests/second"), Some(cell("Latency (ms)"))));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peak_is_there_with_its_figures() {
        let all = peaks();
        assert_eq!(all.len(), 12 + 12 + 5 + 18 + 4);
        for peak in &all {
            assert!(peak.rate > 0.0 && !peak.place.is_empty(), "{peak:?}");
        }
        let peak_of = |system: &str, kind: Kind| {
            all.iter()
                .find(|peak| peak.system == system && peak.kind == kind)
                .unwrap_or_else(|| panic!("{system}"))
        };
        assert_eq!(peak_of("FastTrack beta 3, 2 processors, NSAPI version C", Kind::Nsapi).rate, 204.0);
        assert_eq!(peak_of("iPlanet Web Server 4.0, 4 processors", Kind::Shtml).latency_ms, Some(10.8));
        assert_eq!(peak_of("Netscape Enterprise Server 2.01, ProLiant 800 2P", Kind::HeavyCgi).rate, 44.0);
        assert_eq!(
            peak_of("iPlanet Web Server 4.0, 4 processors, Java servlet", Kind::ECommerce).rate,
            1420.0
        );
    }

    #[test]
    fn interfaces_and_suites_have_their_kinds() {
        let cases = [
            ("cgi", "spice", Some(Kind::Cgi)),
            ("fastcgi", "spice", Some(Kind::Cgi)),
            ("nsapi-c", "spice", Some(Kind::Nsapi)),
            ("", "webbench-1.1-static", Some(Kind::Static)),
            ("", "webbench-1.0-light-cgi", Some(Kind::LightCgi)),
            ("", "webbench-1.1-mixed", Some(Kind::Mixed)),
            ("", "page-2025", None),
        ];
        for (interface, suite, expected) in cases {
            assert_eq!(Kind::of(interface, suite), expected, "{interface} {suite}");
        }
    }
}
