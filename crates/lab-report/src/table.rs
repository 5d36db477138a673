//! The summary as plain text for a terminal (WebBench: Summary Report): one block a system, one row a mix.

use touchstone_lab::figures::{count, milliseconds, percent, rate, significant};
use touchstone_lab::result::{MixResult, ReportFigures, ResultFile, SpiceEfficiency, SpiceRow, SystemResult};
use touchstone_lab::saturation::engine_limit;
use touchstone_lab::series::{self, Series};
use touchstone_lab::spice::{self, report_efficiencies};

const COLUMNS: [&str; 8] =
    ["clients", "requests/s", "Mbit/s", "mean ms", "p99 ms", "CPU µs/request", "server CPU", "errors"];

const SPICE_COLUMNS: [&str; 7] =
    ["system", "requests/s", "mean ms", "own peak", "equal load", "by CPU", "CPU µs/request"];

/// The whole summary, ready to be printed.
pub fn summary(result: &ResultFile) -> String {
    let mut text = String::new();
    for series in series::from_result(result) {
        let peak_name = series.peak().map(|mix| mix.name.as_str());
        let rows: Vec<[String; 8]> = series.mixes.iter().map(|mix| row(mix)).collect();
        let marks: Vec<String> = series.mixes.iter().map(|mix| mark(&series, mix, peak_name)).collect();
        text.push_str(&series.title);
        text.push('\n');
        if rows.is_empty() {
            text.push_str(&nothing(series.system));
            continue;
        }
        let mut columns = COLUMNS;
        if series.mixes.iter().any(|mix| mix.arrivals.is_some()) {
            columns[0] = "arrivals/s";
            columns[1] = "answers/s";
        }
        text.push_str(&block(&columns, &rows, &marks));
        text.push('\n');
    }
    text
}

/// Why a system has no figures.
fn nothing(system: &SystemResult) -> String {
    match system.skipped.first() {
        Some(skipped) => format!("  not measured: {}\n\n", skipped.reason),
        None => "  nothing was measured\n\n".to_string(),
    }
}

/// The SPICE measures, ready to be printed: a block for each interface, a row for each system, and the
/// figures of the reports. Efficiencies by rate and by latency are in one cell. Empty where the suite
/// compares no interfaces.
pub fn spice(result: &ResultFile) -> String {
    let rows = spice::rows(result);
    let mut text = String::new();
    for interface in &result.suite.interfaces {
        let of_interface: Vec<&SpiceRow> =
            rows.iter().filter(|row| row.interface == interface.name).collect();
        text.push_str(&interface.title);
        text.push('\n');
        if !of_interface.is_empty() {
            let cells: Vec<[String; 7]> = of_interface.iter().map(|row| spice_row(result, row)).collect();
            text.push_str(&block(&SPICE_COLUMNS, &cells, &vec![String::new(); cells.len()]));
        }
        let skipped = result.systems.iter().flat_map(|system| &system.skipped);
        let reasons: Vec<&str> = skipped
            .filter(|skipped| skipped.interface == interface.name)
            .map(|skipped| skipped.reason.as_str())
            .collect();
        if !reasons.is_empty() {
            text.push_str(&format!("  not measured: {}\n", reasons.join("; ")));
        }
        for figures in &interface.reports {
            text.push_str(&format!("  {}\n", report_line(figures)));
        }
        text.push('\n');
    }
    text
}

fn spice_row(result: &ResultFile, row: &SpiceRow) -> [String; 7] {
    let title = result
        .systems
        .iter()
        .find(|system| system.name == row.system)
        .map_or(row.system.clone(), |system| system.title.clone());
    let both = |efficiency: Option<&SpiceEfficiency>| {
        efficiency.map_or("-".to_string(), |of| {
            format!("{} / {}", percent(of.request_efficiency), percent(of.latency_efficiency))
        })
    };
    let cost = row.processor_cost.as_ref();
    [
        title,
        rate(row.requests_per_second),
        milliseconds(row.latency_us),
        both(row.at_own_peak.as_ref()),
        both(row.at_equal_load.as_ref()),
        cost.map_or("-".to_string(), |cost| percent(cost.efficiency)),
        cost.map_or("-".to_string(), |cost| significant(cost.cpu_us_per_request)),
    ]
}

/// `iWS 4.0 on 4 processors had 493 requests/s in 40.2 ms: 18 % of its static rate (report, table)`.
fn report_line(figures: &ReportFigures) -> String {
    let (of_rate, _) = report_efficiencies(figures);
    let share = of_rate.map(|share| format!(": {} of its static rate", percent(share)));
    let figure = |value: Option<f64>, unit: &str| value.map(|value| format!("{} {unit}", rate(value)));
    let measured: Vec<String> =
        [figure(figures.requests_per_second, "requests/s"), figure(figures.latency_ms, "ms")]
            .into_iter()
            .flatten()
            .collect();
    let processors = match figures.processors {
        1 => "1 processor".to_string(),
        number => format!("{number} processors"),
    };
    format!(
        "{} on {processors} had {}{} ({})",
        figures.server,
        measured.join(" in "),
        share.unwrap_or_default(),
        figures.source
    )
}

fn row(mix: &MixResult) -> [String; 8] {
    // In an open load it is possible that no request that was due in the window was answered.
    let latency = |us: f64| if mix.latency.count == 0 { "-".to_string() } else { milliseconds(us) };
    let server = |figure: fn(f64, f64) -> String| {
        mix.server
            .as_ref()
            .map_or("-".to_string(), |server| figure(server.cpu_us_per_request, server.cpu_share))
    };
    [
        mix.load().to_string(),
        rate(mix.requests_per_second),
        rate(mix.megabits_per_second),
        latency(mix.latency.mean_us),
        latency(mix.latency.p99_us),
        server(|us, _| significant(us)),
        server(|_, share| format!("{:.0} %", share * 100.0)),
        count(mix.errors.total()),
    ]
}

fn mark(series: &Series<'_>, mix: &MixResult, peak_name: Option<&str>) -> String {
    if mix.arrivals.is_some() && mix.complete {
        return if mix.carried() { String::new() } else { "  not carried".to_owned() };
    }
    if !mix.complete {
        return "  cut short".to_owned();
    }
    let peak = (peak_name == Some(mix.name.as_str())).then_some("peak");
    let engine = engine_limit(&series.system.cpus, mix).map(|(limit, _)| limit.remark());
    let remarks: Vec<&str> = peak.into_iter().chain(engine).collect();
    if remarks.is_empty() { String::new() } else { format!("  {}", remarks.join(", ")) }
}

/// Columns set to the right, each as wide as its widest cell.
fn block<const N: usize>(heads: &[&str; N], rows: &[[String; N]], marks: &[String]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([heads[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let line = |cells: &dyn Fn(usize) -> String, mark: &str| {
        let cells: Vec<String> = (0..N).map(|at| format!("{:>w$}", cells(at), w = width(at))).collect();
        format!("  {}{mark}", cells.join("  ")).trim_end().to_string() + "\n"
    };
    let mut text = line(&|at| heads[at].to_string(), "");
    for (row, mark) in rows.iter().zip(marks) {
        text.push_str(&line(&|at| row[at].clone(), mark));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_lab::sample;

    #[test]
    fn columns_stand_under_their_heads() {
        let mut result = sample::result();
        result.systems.truncate(2);
        result.systems[1].mixes.truncate(2);
        result.systems[1].mixes[0].server = None;
        result.systems[1].mixes[0].errors.timeout = 1234;
        result.systems[1].mixes[1].complete = false;
        result.systems[0].mixes[1].generator_saturated = Some("busy".into());
        result.systems[0].mixes[1].server.as_mut().unwrap().cpu_share = 0.6;
        let expected = "\
touchstone 0.1.0
  clients  requests/s  Mbit/s  mean ms  p99 ms  CPU µs/request  server CPU  errors
        1      15,000   1,032   0.0667   0.133            64.0        96 %       0
        4      30,000   2,064    0.133   0.267            32.0        60 %       0  load engine at its limit
       16      60,000   4,128    0.267   0.533            16.0        96 %       0  peak

nginx 1.22.1
  clients  requests/s  Mbit/s  mean ms  p99 ms  CPU µs/request  server CPU  errors
        1      10,000     688    0.100   0.200               -           -   1,234  peak
        4      20,000   1,376    0.200   0.400            48.0        96 %       0  cut short

";
        assert_eq!(summary(&result), expected);
    }

    #[test]
    fn open_loads_stand_under_their_rates() {
        let mut result = sample::open();
        result.systems.remove(0);
        let expected = "\
nginx 1.22.1
  arrivals/s  answers/s  Mbit/s  mean ms  p99 ms  CPU µs/request  server CPU  errors
        1000      1,000    68.8     1.00    2.00            24.0        30 %       0
        2000      2,000     138     1.00    2.00            24.0        30 %       0
        4000      2,800     193     1.00    2.00            24.0        30 %       0  not carried

";
        assert_eq!(summary(&result), expected);
    }

    #[test]
    fn the_spice_table_has_every_form_and_what_the_reports_had() {
        let text = spice(&sample::spice());
        let expected = "\
CGI
            system  requests/s  mean ms       own peak     equal load  by CPU  CPU µs/request
  touchstone 0.1.0       1,200     3.33  2.0 % / 8.0 %  1.7 % / 1.7 %   1.7 %             960
  not measured: nginx 1.22.1 does not run CGI programs
  iWS 4.0 on 4 processors had 493 requests/s in 40.2 ms: 18 % of its static rate (Mindcraft, iPlanet Web \
  Server 4.0 and Stronghold 2.4.2 (2000), Tables 1 and 3)
";
        assert!(text.contains(expected), "{text}");
        assert!(spice_is_first(&text), "{text}");
        assert_eq!(super::spice(&sample::result()), "");
    }

    fn spice_is_first(text: &str) -> bool {
        let at = |title: &str| text.find(&format!("{title}\n"));
        at("static file") < at("SHTML") && at("SHTML") < at("CGI")
    }

    #[test]
    fn a_system_without_mixes_says_so() {
        let mut result = sample::result();
        result.systems.truncate(1);
        result.systems[0].mixes.clear();
        assert_eq!(summary(&result), "touchstone 0.1.0\n  nothing was measured\n\n");
        result.systems[0].skipped = sample::spice().systems[1].skipped.clone();
        let expected = "touchstone 0.1.0\n  not measured: nginx 1.22.1 does not run CGI programs\n\n";
        assert_eq!(summary(&result), expected);
    }
}
