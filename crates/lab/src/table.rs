//! The summary as plain text for a terminal (WebBench: Summary Report): one block a system, one row a mix.

use crate::figures::{count, milliseconds, rate, significant};
use crate::result::{MixResult, ResultFile};
use crate::verdict::peak;

const COLUMNS: [&str; 8] =
    ["clients", "requests/s", "Mbit/s", "mean ms", "p99 ms", "CPU µs/request", "server CPU", "errors"];

/// The whole summary, ready to be printed.
pub fn summary(result: &ResultFile) -> String {
    let mut text = String::new();
    for system in &result.systems {
        let peak_name = peak(system).map(|mix| mix.name.as_str());
        let rows: Vec<[String; 8]> = system.mixes.iter().map(row).collect();
        let marks: Vec<&str> = system.mixes.iter().map(|mix| mark(mix, peak_name)).collect();
        text.push_str(&system.title);
        text.push('\n');
        if rows.is_empty() {
            text.push_str("  nothing was measured\n\n");
            continue;
        }
        text.push_str(&block(&rows, &marks));
        text.push('\n');
    }
    text
}

fn row(mix: &MixResult) -> [String; 8] {
    let server = |figure: fn(f64, f64) -> String| {
        mix.server
            .as_ref()
            .map_or("-".to_string(), |server| figure(server.cpu_us_per_request, server.cpu_share))
    };
    [
        mix.clients.to_string(),
        rate(mix.requests_per_second),
        rate(mix.megabits_per_second),
        milliseconds(mix.latency.mean_us),
        milliseconds(mix.latency.p99_us),
        server(|us, _| significant(us)),
        server(|_, share| format!("{:.0} %", share * 100.0)),
        count(mix.errors.total()),
    ]
}

fn mark(mix: &MixResult, peak_name: Option<&str>) -> &'static str {
    match (mix.complete, mix.generator_saturated.is_some(), peak_name == Some(mix.name.as_str())) {
        (false, _, _) => "  cut short",
        (_, true, true) => "  peak, load engine at its limit",
        (_, true, false) => "  load engine at its limit",
        (_, false, true) => "  peak",
        (_, false, false) => "",
    }
}

/// Columns set to the right, each as wide as its widest cell.
fn block(rows: &[[String; 8]], marks: &[&str]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([COLUMNS[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let line = |cells: &dyn Fn(usize) -> String, mark: &str| {
        let cells: Vec<String> =
            (0..COLUMNS.len()).map(|at| format!("{:>w$}", cells(at), w = width(at))).collect();
        format!("  {}{mark}", cells.join("  ")).trim_end().to_string() + "\n"
    };
    let mut text = line(&|at| COLUMNS[at].to_string(), "");
    for (row, mark) in rows.iter().zip(marks) {
        text.push_str(&line(&|at| row[at].clone(), mark));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn columns_stand_under_their_heads() {
        let mut result = sample::result();
        result.systems.truncate(2);
        result.systems[1].mixes.truncate(2);
        result.systems[1].mixes[0].server = None;
        result.systems[1].mixes[0].errors.timeout = 1234;
        result.systems[1].mixes[1].complete = false;
        result.systems[0].mixes[1].generator_saturated = Some("busy".into());
        let expected = "\
touchstone 0.1.0
  clients  requests/s  Mbit/s  mean ms  p99 ms  CPU µs/request  server CPU  errors
        1      15,000   1,032   0.0667   0.133            64.0        96 %       0
        4      30,000   2,064    0.133   0.267            32.0        96 %       0  load engine at its limit
       16      60,000   4,128    0.267   0.533            16.0        96 %       0  peak

nginx 1.22.1
  clients  requests/s  Mbit/s  mean ms  p99 ms  CPU µs/request  server CPU  errors
        1      10,000     688    0.100   0.200               -           -   1,234  peak
        4      20,000   1,376    0.200   0.400            48.0        96 %       0  cut short

";
        assert_eq!(summary(&result), expected);
    }

    #[test]
    fn a_system_without_mixes_says_so() {
        let mut result = sample::result();
        result.systems.truncate(1);
        result.systems[0].mixes.clear();
        assert_eq!(summary(&result), "touchstone 0.1.0\n  nothing was measured\n\n");
    }
}
