//! Every figure that a report derived from others, computed again from the printed ones.

use super::cells::{Cell, stated};
use super::{PrintedNumber, Range};
use serde::Serialize;

const IPLANET: &str = "iplanet-2000";
const IPLANET_1999: &str = "iplanet-1999";
const FASTTRACK: &str = "fasttrack-1996";
const COMPAQ: &str = "compaq-1997";
const BORDERMANAGER: &str = "bordermanager-1997";

/// A printed figure and the one computed from its inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DerivedFigure {
    /// The report.
    pub report: &'static str,
    /// Where it is printed: table and row, or the text.
    pub place: String,
    /// What it is.
    pub what: String,
    /// As it was printed.
    pub printed: String,
    /// The sum, with its figures.
    pub sum: String,
    /// The computed figure.
    pub computed: f64,
    /// The least that the roundings of the inputs allow.
    pub least: f64,
    /// The most that they allow.
    pub most: f64,
    /// Whether the printed figure is within the rounding errors.
    pub agrees: bool,
}

/// All of them, in the order of the reports.
pub fn derived() -> Vec<DerivedFigure> {
    let mut all = Vec::new();
    all.extend(fasttrack());
    all.extend(compaq());
    all.extend(bordermanager());
    all.extend(iplanet_factors());
    all.extend(iplanet_efficiencies());
    all.extend(iplanet_statements());
    all
}

/// A derived figure of known place, from the range and the value computed from its inputs.
fn figure(
    at: Cell,
    printed: PrintedNumber,
    what: &str,
    sum: String,
    computed: f64,
    range: Range,
) -> DerivedFigure {
    DerivedFigure {
        report: at.0,
        place: at.place(),
        what: what.to_owned(),
        agrees: printed.range().touches(range),
        printed: printed.text,
        sum,
        computed,
        least: range.low,
        most: range.high,
    }
}

/// `above / below`, times `scale` (100 for per cent).
fn quotient(
    at: Cell,
    printed: PrintedNumber,
    what: &str,
    above: Cell,
    below: Cell,
    scale: f64,
) -> DerivedFigure {
    let (top, bottom) = (above.printed(), below.printed());
    let sum = format!("{} / {}", top.text, bottom.text);
    let range = above.range() / below.range() * Range::exactly(scale);
    figure(at, printed, what, sum, above.value() / below.value() * scale, range)
}

/// By how many per cent `above` is more than `below`.
fn gain(at: Cell, printed: PrintedNumber, what: &str, above: Cell, below: Cell) -> DerivedFigure {
    let (top, bottom) = (above.printed(), below.printed());
    let sum = format!("{} / {} - 1", top.text, bottom.text);
    let hundred = Range::exactly(100.0);
    let range = (above.range() / below.range()) * hundred - hundred;
    figure(at, printed, what, sum, (above.value() / below.value() - 1.0) * 100.0, range)
}

/// The highest connection rate of a WebStone table.
pub(super) fn webstone_peak(table: &'static str) -> Cell {
    let rows = super::report(FASTTRACK).and_then(|report| report.table(table)).map(|table| &table.rows);
    let rate = |row: &&Vec<String>| row.get(1).and_then(|cell| cell.parse::<f64>().ok()).unwrap_or(0.0);
    let best = rows.and_then(|rows| rows.iter().max_by(|left, right| rate(left).total_cmp(&rate(right))));
    Cell(
        FASTTRACK,
        table,
        best.and_then(|row| row.first()).map_or("", String::as_str),
        "Connections per second",
    )
}

fn fasttrack() -> Vec<DerivedFigure> {
    let peaks = [
        ("HTML, 1 processor, connections/s", "html-1p"),
        ("CGI, 1 processor, connections/s", "cgi-1p"),
        ("NSAPI as shipped, 1 processor, connections/s", "nsapi-webstone-1p"),
        ("NSAPI modified, 1 processor, connections/s", "nsapi-c-1p"),
    ];
    let of_peak = |(row, table): (&'static str, &'static str)| {
        let (at, peak) = (stated(FASTTRACK, row), webstone_peak(table));
        let sum = format!("highest rate of the table, {}", peak.printed().text);
        figure(
            at,
            at.printed(),
            "peak that the abstract names",
            sum,
            peak.value(),
            Range::exactly(peak.value()),
        )
    };
    let speedups = [
        ("HTML gain by a second processor", "html-2p", "html-1p"),
        ("CGI gain by a second processor", "cgi-2p", "cgi-1p"),
        ("NSAPI gain by a second processor, least", "nsapi-webstone-2p", "nsapi-webstone-1p"),
        ("NSAPI gain by a second processor, most", "nsapi-c-2p", "nsapi-c-1p"),
    ];
    let of_speedup = |(row, two, one): (&'static str, &'static str, &'static str)| {
        let at = stated(FASTTRACK, row);
        gain(at, at.printed(), "speedup of two processors", webstone_peak(two), webstone_peak(one))
    };
    peaks.into_iter().map(of_peak).chain(speedups.into_iter().map(of_speedup)).collect()
}

fn compaq() -> Vec<DerivedFigure> {
    let peak = |row, column| Cell(COMPAQ, "table-5", row, column);
    // The words are "a 30% advantage" (1.307), "about 39%", "about 70%" and "approximately 50%".
    let speedups = [
        ("ProLiant 5000 static, gain by a second processor", "ProLiant 5000", "Static HTML", 1.0),
        ("ProLiant 800 static, gain by a second processor", "ProLiant 800", "Static HTML", 0.5),
        ("ProLiant 5000 light CGI, gain by a second processor", "ProLiant 5000", "Light CGI", 5.0),
        ("ProLiant 800 light CGI, gain by a second processor", "ProLiant 800", "Light CGI", 5.0),
    ];
    let of_speedup = |(row, server, column, about): (&'static str, &str, &'static str, f64)| {
        let at = stated(COMPAQ, row);
        let (two, one) = match server {
            "ProLiant 5000" => ("ProLiant 5000 2P", "ProLiant 5000 1P"),
            _ => ("ProLiant 800 2P", "ProLiant 800 1P"),
        };
        gain(at, at.printed().about(about), "speedup of two processors", peak(two, column), peak(one, column))
    };
    let mut all: Vec<DerivedFigure> = speedups.into_iter().map(of_speedup).collect();
    all.extend(compaq_users());
    all.extend(compaq_workload());
    all
}

/// From 1,330 requests a second to "near 16,000 users".
fn compaq_users() -> Vec<DerivedFigure> {
    let compaq_stated = |row| stated(COMPAQ, row);
    let (rate, users, a_minute) = (
        compaq_stated("Static, 2P, 120 clients, requests/second"),
        compaq_stated("Users"),
        compaq_stated("A user's requests a minute"),
    );
    let (in_ten_minutes, in_a_day) = (
        compaq_stated("Static, 2P, requests in 10 minutes"),
        compaq_stated("A user's requests in 8 business hours"),
    );
    let exact = |at: Cell, printed: PrintedNumber, what: &str, sum: &str, value: f64| {
        figure(at, printed, what, sum.to_owned(), value, Range::exactly(value))
    };
    let day = a_minute.value() * 60.0 * 8.0;
    let population = in_ten_minutes.value() / (a_minute.value() * 10.0);
    vec![
        exact(
            in_ten_minutes,
            in_ten_minutes.printed(),
            "requests in 10 minutes",
            "1330 x 600",
            rate.value() * 600.0,
        ),
        exact(in_a_day, in_a_day.printed(), "requests of a user's day", "5 x 60 x 8", day),
        // "near 16,000 users"
        exact(users, users.printed().about(500.0), "users", "798,000 / (5 x 10)", population),
    ]
}

/// The classes of the static workload: size in bytes and weight in per cent (Appendix A).
pub fn static_classes() -> Vec<(f64, f64)> {
    let rows = super::report(COMPAQ).and_then(|report| report.table("appendix-a")).map(|table| &table.rows);
    let weight = |row: &Vec<String>| row.get(1).and_then(|cell| cell.parse::<f64>().ok());
    let classes = rows.into_iter().flatten().enumerate();
    // The sizes begin at 256 bytes and double (BorderManager report, Test Procedures).
    classes.filter_map(|(index, row)| Some((256.0 * 2f64.powi(index as i32), weight(row)?))).collect()
}

fn compaq_workload() -> Vec<DerivedFigure> {
    let classes = static_classes();
    let mean = classes.iter().map(|(bytes, weight)| bytes * weight / 100.0).sum::<f64>();
    let small: f64 =
        classes.iter().filter(|(bytes, _)| *bytes < 32.0 * 1024.0).map(|(_, weight)| weight).sum();
    let files = Range::exactly(classes.iter().map(|(bytes, _)| bytes * 10.0).sum::<f64>() / (1 << 20) as f64);
    let exact = |at: Cell, what: &str, sum: &str, value: f64| {
        figure(at, at.printed(), what, sum.to_owned(), value, Range::exactly(value))
    };
    let compaq_stated = |row| stated(COMPAQ, row);
    let other = |row| stated(BORDERMANAGER, row);
    let together = other("Files together, MB");
    vec![
        exact(
            compaq_stated("Average file size, KB"),
            "mean of the workload",
            "sum of weight x size / 1024",
            mean / 1024.0,
        ),
        exact(compaq_stated("Files less than 32 KB"), "share of small files", "7+7+10+26+17+13+12", small),
        exact(
            other("ZD_STATIC_V11.WL, weighted average file size, bytes"),
            "mean of the workload",
            "sum of weight x size, 256 bytes to 128 KB",
            mean,
        ),
        figure(
            together,
            together.printed(),
            "size of the tree",
            "10 x (256 + 512 + ... + 131,072) bytes".to_owned(),
            files.low,
            files,
        ),
    ]
}

fn bordermanager() -> Vec<DerivedFigure> {
    let alone = Cell(BORDERMANAGER, "summary", "Sun Ultra Enterprise 3000 stand-alone", "Peak Performance");
    let compaq = Cell(
        BORDERMANAGER,
        "summary",
        "Sun Ultra Enterprise 3000 accelerated by a Compaq ProLiant 6000 with BorderManager FastCache",
        "Peak Performance",
    );
    let intel = Cell(
        BORDERMANAGER,
        "summary",
        "Ultra Enterprise 3000 accelerated by an Intel MB440LX DP with BorderManager FastCache",
        "Peak Performance",
    );
    let factor = |row, column| Cell(BORDERMANAGER, "table-5", row, column);
    let acceleration_factor = |at: Cell, above: Cell, below: Cell| {
        quotient(at, at.printed(), "acceleration factor", above, below, 1.0)
    };
    vec![
        acceleration_factor(factor("Requests/Second, Static Data", "Compaq"), compaq, alone),
        acceleration_factor(factor("Requests/Second, Static Data", "Intel"), intel, alone),
        acceleration_factor(
            factor("Requests/Second, Mixed Data", "Compaq"),
            stated(BORDERMANAGER, "Mixed data, accelerated, requests/second"),
            stated(BORDERMANAGER, "Mixed data, stand-alone, requests/second"),
        ),
    ]
}

/// "Times iWS is faster": rates as iWS over Stronghold, latencies the other way round.
fn iplanet_factors() -> Vec<DerivedFigure> {
    let mut all = Vec::new();
    for table in ["table-1", "table-2", "table-3", "table-4", "table-7", "table-8"] {
        let rows = super::report(IPLANET).and_then(|report| report.table(table)).map(|table| &table.rows);
        for row in rows.into_iter().flatten().filter_map(|row| row.first()) {
            let cell = |column| Cell(IPLANET, table, row, column);
            let (at, iws, stronghold) = (cell("Times iWS Is Faster"), cell("iWS"), cell("Stronghold"));
            if at.printed().value.is_nan() {
                continue;
            }
            let (above, below) = if row.contains("Latency") { (stronghold, iws) } else { (iws, stronghold) };
            all.push(quotient(at, at.printed(), "times faster", above, below, 1.0));
        }
    }
    all
}

/// One row of the tables of SPICE efficiency: the table and row that state it, the processors, and the places
/// of the rate and the latency of the interface.
struct Efficiency {
    table: &'static str,
    row: &'static str,
    four_processors: bool,
    server: &'static str,
    of: &'static str,
    rate: &'static str,
    latency: &'static str,
}

/// (table of efficiencies, server, table of four processors, table of one, [(row's end, rate, latency)])
type Group =
    (&'static str, &'static str, [&'static str; 2], [(&'static str, &'static str, &'static str); 2], usize);

const SERVLET_CGI: [(&str, &str, &str); 2] = [
    ("100% Java Servlet", "SPICE Java Servlet requests/second", "SPICE Java Servlet Latency (ms)"),
    ("100% CGI", "SPICE C CGI requests/second", "SPICE C CGI Latency (ms)"),
];
const JSP_SHTML: [(&str, &str, &str); 2] = [
    ("100% SHTML", "SPICE SHTML requests/second", "SPICE SHTML Latency (ms)"),
    ("100% JSP", "SPICE JSP requests/second", "SPICE JSP Latency (ms)"),
];
const GROUPS: [Group; 4] = [
    ("table-5", "iWS", ["table-4", "table-3"], SERVLET_CGI, 2),
    ("table-6", "Stronghold", ["table-4", "table-3"], SERVLET_CGI, 2),
    ("table-9", "iWS", ["table-8", "table-7"], JSP_SHTML, 2),
    ("table-10", "Stronghold", ["table-8", "table-7"], JSP_SHTML, 1),
];
const E_COMMERCE: [(&str, &str, &str); 2] = [
    (
        "E-commerce (Servlet)",
        "SPICE e-commerce Java servlet requests/second",
        "SPICE e-commerce Java servlet Latency (ms)",
    ),
    ("E-commerce (CGI)", "SPICE e-commerce CGI requests/second", "SPICE e-commerce CGI Latency (ms)"),
];

fn efficiencies() -> Vec<Efficiency> {
    let mut all = Vec::new();
    for (table, server, [one, four], interfaces, count) in GROUPS {
        for (four_processors, of) in [(false, one), (true, four)] {
            for (name, rate, latency) in interfaces.into_iter().take(count) {
                let row = row_named(table, four_processors, name);
                all.push(Efficiency { table, row, four_processors, server, of, rate, latency });
            }
        }
    }
    for four_processors in [false, true] {
        for (name, rate, latency) in E_COMMERCE {
            let table = "table-9-e-commerce";
            let row = row_named(table, four_processors, name);
            let (rate, latency) = (
                row_named("table-11", four_processors, rate),
                row_named("table-11", four_processors, latency),
            );
            all.push(Efficiency {
                table,
                row,
                four_processors,
                server: "iWS",
                of: "table-11",
                rate,
                latency,
            });
        }
    }
    all
}

/// The row `Uniprocessor, NAME` or `Four-Processor, NAME` of a table.
fn row_named(table: &str, four_processors: bool, name: &str) -> &'static str {
    let group = if four_processors { "Four-Processor" } else { "Uniprocessor" };
    let wanted = format!("{group}, {name}");
    let rows = super::report(IPLANET).and_then(|report| report.table(table)).map(|table| &table.rows);
    let mut names = rows.into_iter().flatten().filter_map(|row| row.first());
    names.find(|name| **name == wanted).map_or("", String::as_str)
}

/// SPICE request efficiency = dynamic rate / static rate; latency efficiency = static latency / dynamic
/// latency.
fn iplanet_efficiencies() -> Vec<DerivedFigure> {
    let mut all = Vec::new();
    for it in efficiencies() {
        let table = if it.four_processors { "table-1" } else { "table-2" };
        let of_static = |row| Cell(IPLANET, table, row, it.server);
        let of_interface = |row| Cell(IPLANET, it.of, row, it.server);
        let at = Cell(IPLANET, it.table, it.row, "SPICE Request Rate Efficiency");
        let (above, below) = (of_interface(it.rate), of_static("Static requests/second"));
        all.push(quotient(at, at.printed(), "SPICE request efficiency", above, below, 100.0));
        let at = Cell(IPLANET, it.table, it.row, "SPICE Latency Efficiency");
        let (above, below) = (of_static("Static Latency (ms)"), of_interface(it.latency));
        all.push(quotient(at, at.printed(), "SPICE latency efficiency", above, below, 100.0));
    }
    all
}

fn iplanet_statements() -> Vec<DerivedFigure> {
    let iplanet_stated = |row| stated(IPLANET, row);
    let cell = |table, row, column| Cell(IPLANET, table, row, column);
    let (servlet, cgi) = (SERVLET_CGI[0], SERVLET_CGI[1]);
    let ratio =
        |at: Cell, what: &str, above: Cell, below: Cell| quotient(at, at.printed(), what, above, below, 1.0);
    let rate = "servlet rate over CGI rate";
    let lower = iplanet_stated("Stronghold, 4 CPUs, servlet rate below CGI rate");
    let slower = iplanet_stated("Stronghold, 4 CPUs, servlet slower by latency");
    let less = |at: Cell, above: Cell, below: Cell| {
        let (top, bottom) = (above.printed(), below.printed());
        let hundred = Range::exactly(100.0);
        let range = hundred - above.range() / below.range() * hundred;
        let value = (1.0 - above.value() / below.value()) * 100.0;
        figure(at, at.printed(), "per cent less", format!("1 - {} / {}", top.text, bottom.text), value, range)
    };
    let own_cgi = stated(IPLANET_1999, "iWS, servlet faster than its own CGI, by latency");
    let other_servlet = stated(IPLANET_1999, "iWS servlet faster than Stronghold's, by latency");
    // "1.2 times faster" is said of one and of four processors.
    let e_commerce = iplanet_stated("E-commerce, servlet rate over CGI rate");
    let e_rate = |four| {
        let row_cell = |row| cell("table-11", row_named("table-11", four, row), "iWS");
        ratio(e_commerce, rate, row_cell(E_COMMERCE[0].1), row_cell(E_COMMERCE[1].1))
    };
    vec![
        ratio(
            iplanet_stated("iWS, 4 CPUs, servlet rate over CGI rate"),
            rate,
            cell("table-3", servlet.1, "iWS"),
            cell("table-3", cgi.1, "iWS"),
        ),
        less(lower, cell("table-3", servlet.1, "Stronghold"), cell("table-3", cgi.1, "Stronghold")),
        less(slower, cell("table-3", cgi.2, "Stronghold"), cell("table-3", servlet.2, "Stronghold")),
        ratio(
            iplanet_stated("iWS, 1 CPU, servlet rate over CGI rate"),
            rate,
            cell("table-4", servlet.1, "iWS"),
            cell("table-4", cgi.1, "iWS"),
        ),
        ratio(
            iplanet_stated("Stronghold, 1 CPU, servlet rate over CGI rate"),
            rate,
            cell("table-4", servlet.1, "Stronghold"),
            cell("table-4", cgi.1, "Stronghold"),
        ),
        e_rate(false),
        e_rate(true),
        ratio(
            own_cgi,
            "CGI latency over servlet latency",
            cell("table-3", cgi.2, "iWS"),
            cell("table-3", servlet.2, "iWS"),
        ),
        ratio(
            other_servlet,
            "Stronghold's servlet latency over iWS's",
            cell("table-3", servlet.2, "Stronghold"),
            cell("table-3", servlet.2, "iWS"),
        ),
        gain(
            iplanet_stated("CGI, iWS over Stronghold, said of Figure 7 (1 CPU)"),
            iplanet_stated("CGI, iWS over Stronghold, said of Figure 7 (1 CPU)").printed(),
            "CGI rate, iWS over Stronghold, 1 CPU",
            cell("table-4", cgi.1, "iWS"),
            cell("table-4", cgi.1, "Stronghold"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_derived_figure_is_computed_and_those_that_do_not_agree_are_known() {
        let all = derived();
        assert_eq!(all.len(), 8 + 11 + 3 + 16 + 36 + 10);
        let mut wrong = Vec::new();
        for it in &all {
            assert!(it.computed.is_finite() && it.least <= it.computed && it.computed <= it.most, "{it:?}");
            if !it.agrees {
                wrong.push((
                    it.report,
                    it.place.as_str(),
                    it.printed.as_str(),
                    (it.computed * 100.0).round() / 100.0,
                ));
            }
        }
        let expected = [
            ("fasttrack-1996", "text: NSAPI as shipped, 1 processor, connections/s", "78", 79.0),
            ("compaq-1997", "text: ProLiant 5000 light CGI, gain by a second processor", "70%", 60.0),
            ("iplanet-2000", "Table 5: Uniprocessor, 100% Java Servlet", "120.1%", 309.0),
            ("iplanet-2000", "Table 5: Uniprocessor, 100% CGI", "18.5%", 54.69),
            ("iplanet-2000", "Table 5: Four-Processor, 100% CGI", "17.2%", 20.65),
            ("iplanet-2000", "Table 6: Uniprocessor, 100% Java Servlet", "50.9%", 92.37),
            ("iplanet-2000", "Table 6: Uniprocessor, 100% CGI", "11.1%", 34.17),
            ("iplanet-1999", "text: iWS, servlet faster than its own CGI, by latency", "2.7", 2.22),
            ("iplanet-2000", "text: CGI, iWS over Stronghold, said of Figure 7 (1 CPU)", "43%", 49.11),
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn the_well_known_figures_are_derived() {
        let all = derived();
        let computed = |what: &str, printed: &str| {
            let found = all.iter().find(|it| it.what == what && it.printed == printed);
            found.unwrap_or_else(|| panic!("{what} {printed}")).computed
        };
        assert!((computed("mean of the workload", "8,348") - 8_348.16).abs() < 1e-9);
        assert_eq!(computed("users", "16,000"), 15_960.0);
        assert_eq!(computed("requests in 10 minutes", "798,000"), 798_000.0);
        assert!((computed("size of the tree", "2.5") * 1_048_576.0 - 2_618_880.0).abs() < 1e-6);
        for (printed, value) in [("6.0", 3288.0 / 550.0), ("7.4", 4055.0 / 550.0), ("12.4", 1067.0 / 86.0)] {
            assert_eq!(computed("acceleration factor", printed), value);
        }
        assert!((computed("times faster", "3.22") - 1080.0 / 335.0).abs() < 1e-12);
        assert!((computed("SPICE latency efficiency", "228.7%") - 228.888_888_888_888_9).abs() < 1e-9);
    }
}
