//! The run report of WebStone 2.0: its lines, its formulas, its units.
//!
//! With T the test time, C the connections, E the errors, B the bytes with their heads and R the sum of the
//! response times (WebStone 2.0.1, `webmaster.c` and `bench.c`):
//!
//! | line | formula |
//! |---|---|
//! | Server connection rate | C / T |
//! | Server error rate | E / T |
//! | Server thruput | 8 B / (T x 2^20), so a Mbit has 1,048,576 bits |
//! | Little's Load Factor | R in whole seconds / T |
//! | Average response time | 1000 R / C |
//! | Error Level | 100 E / C |
//! | Average client thruput | 8 (B / R) / 2^20 |
//!
//! WebStone makes a connection for each file; where connections were kept, C is the number of answers, and
//! the report states so. The blocks of the pages of a mix are before its results, as with `-v`: a class of
//! the suite is a page.

use std::fmt::Write as _;
use touchstone_lab::result::{
    ClassFigures, ClassRecord, LatencyRecord, MixResult, ResultFile, SuiteRecord, Values,
};

/// Bits of WebStone's Mbit.
const MEGABIT: f64 = 1_048_576.0;

/// The data of the lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WebStone {
    /// Clients.
    pub clients: u64,
    /// T, seconds.
    pub test_time_s: f64,
    /// C.
    pub connections: u64,
    /// E.
    pub errors: u64,
    /// B, heads included.
    pub bytes: f64,
    /// Of them, bodies.
    pub body_bytes: f64,
    /// R, seconds.
    pub response_time_s: f64,
    /// Pages; where a result does not count them, connections.
    pub pages: u64,
}

impl WebStone {
    /// The figures of a mix.
    pub fn of(mix: &MixResult) -> WebStone {
        WebStone {
            clients: mix.clients,
            test_time_s: mix.window_s,
            connections: mix.requests,
            errors: mix.errors.total(),
            bytes: mix.bytes_per_second * mix.window_s,
            body_bytes: mix.mean_body_bytes * mix.requests as f64,
            response_time_s: mix.latency.mean_us / 1e6 * mix.latency.count as f64,
            pages: match mix.classes.is_empty() {
                true => mix.requests,
                false => mix.classes.iter().map(|class| class.pages).sum(),
            },
        }
    }

    /// Connections a second.
    pub fn connection_rate(&self) -> f64 {
        self.connections as f64 / self.test_time_s
    }

    /// Errors a second.
    pub fn error_rate(&self) -> f64 {
        self.errors as f64 / self.test_time_s
    }

    /// The throughput in Mbit a second.
    pub fn throughput(&self) -> f64 {
        8.0 * self.bytes / (self.test_time_s * MEGABIT)
    }

    /// The mean number of connections in the server.
    pub fn littles_load_factor(&self) -> f64 {
        self.response_time_s.floor() / self.test_time_s
    }

    /// The average response time in milliseconds.
    pub fn average_response_time(&self) -> f64 {
        1000.0 * self.response_time_s / self.connections as f64
    }

    /// The share of errors in per cent.
    pub fn error_level(&self) -> f64 {
        100.0 * self.errors as f64 / self.connections as f64
    }

    /// Mbit a second of a client while it waits.
    pub fn average_client_throughput(&self) -> f64 {
        8.0 * (self.bytes / self.response_time_s) / MEGABIT
    }
}

/// The report of every mix of every system.
pub fn webstone(result: &ResultFile) -> String {
    let mut text = format!(
        "{}\nmeasured by touchstone {}, {}, in the form of WebStone 2.0\n",
        result.suite.title, result.tool.version, result.started_at
    );
    text.push_str(comparable(&result.suite));
    for series in touchstone_lab::series::from_result(result) {
        for mix in &series.mixes {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n===== {}, {} =====", series.title, mix.name);
            let _ = write_pages(&mut text, &result.suite, mix).and_then(|()| write_mix(&mut text, mix));
        }
    }
    text
}

/// Whether the suite's requests were those of WebStone, in a line.
fn comparable(suite: &SuiteRecord) -> &'static str {
    if suite.keep_alive {
        "Connections were kept, which WebStone never does: \"connections\" are answers here, and figures \
         are not comparable with those of WebStone.\n"
    } else if suite.http_version != "HTTP/1.0" || suite.tls.is_some() {
        "The requests were not of HTTP/1.0 without TLS, as those of WebStone are: figures are not \
         comparable with those of WebStone.\n"
    } else {
        "A new connection was made for each answer, as WebStone does: figures are comparable with those of \
         WebStone with the same list.\n"
    }
}

/// The classes of a mix with their figures, where there are any.
fn pages<'a>(suite: &'a SuiteRecord, mix: &'a MixResult) -> Vec<(&'a ClassRecord, &'a ClassFigures)> {
    match mix.classes.len() == suite.classes.len() {
        true => suite.classes.iter().zip(&mix.classes).collect(),
        false => Vec::new(),
    }
}

const RULE: &str = "===============================================================================";

fn write_pages(text: &mut String, suite: &SuiteRecord, mix: &MixResult) -> std::fmt::Result {
    for (number, (class, figures)) in pages(suite, mix).into_iter().enumerate() {
        let connections = figures.response_us.count;
        if figures.pages == 0 && connections == 0 {
            continue;
        }
        writeln!(text, "{RULE}")?;
        writeln!(text, "Page # {number} ({})", class.name)?;
        writeln!(text)?;
        writeln!(text, "Total number of times page was hit {}", figures.pages)?;
        writeln!(text, "{connections} connection(s) to server, {} errors", figures.errors)?;
        writeln!(text)?;
        write_table(text, of_us(figures.connect_us), of_us(figures.response_us), &of_sizes([figures]))?;
        let page_bytes = figures.body_bytes.mean * class.page_requests as f64;
        writeln!(text, "Page size {page_bytes:.0}")?;
        writeln!(text, "{RULE}")?;
        writeln!(text)?;
    }
    Ok(())
}

/// Average, standard deviation, minimum and maximum.
type Line = Option<[f64; 4]>;

fn of_us(values: Values) -> Line {
    let seconds = [values.mean, values.stddev, values.min, values.max].map(|us| us / 1e6);
    (values.count > 0).then_some(seconds)
}

/// The sizes of answers and of their bodies, of one class or several.
fn of_sizes<'a>(classes: impl IntoIterator<Item = &'a ClassFigures> + Clone) -> [Line; 2] {
    let line = |of: fn(&ClassFigures) -> Values| {
        let all = Values::together(classes.clone().into_iter().map(of))?;
        Some([all.mean, all.stddev, all.min, all.max])
    };
    [line(|class| class.answer_bytes), line(|class| class.body_bytes)]
}

fn write_table(text: &mut String, connect: Line, response: Line, sizes: &[Line; 2]) -> std::fmt::Result {
    writeln!(text, "{:24}{:>12}{:>12}{:>12}{:>12}", "", "Average", "Std Dev", "Minimum", "Maximum")?;
    for (name, line, digits) in [
        ("Connect time (sec)", connect, 6),
        ("Response time (sec)", response, 6),
        ("Response size (bytes)", sizes[0], 0),
        ("Body size (bytes)", sizes[1], 0),
    ] {
        let Some([mean, stddev, min, max]) = line else {
            writeln!(text, "{name:24}{:>12}", "not measured")?;
            continue;
        };
        writeln!(text, "{name:24}{mean:>12.digits$}{stddev:>12.digits$}{min:>12.digits$}{max:>12.digits$}")?;
    }
    Ok(())
}

fn write_mix(text: &mut String, mix: &MixResult) -> std::fmt::Result {
    let it = WebStone::of(mix);
    if it.connections == 0 || it.test_time_s <= 0.0 {
        return writeln!(text, "nothing was answered, {} errors", it.errors);
    }
    writeln!(text, "WEBSTONE 2.0 results:")?;
    writeln!(text, "Total number of clients:        {}", it.clients)?;
    writeln!(text, "Test time:                      {:.0} seconds", it.test_time_s)?;
    writeln!(text, "Server connection rate:         {:3.2} connections/sec", it.connection_rate())?;
    writeln!(text, "Server error rate:              {:4.4} err/sec", it.error_rate())?;
    writeln!(text, "Server thruput:                 {:2.2} Mbit/sec", it.throughput())?;
    writeln!(text, "Little's Load Factor:           {:3.2}", it.littles_load_factor())?;
    writeln!(text, "Average response time:          {:4.4} millisec", it.average_response_time())?;
    writeln!(text, "Error Level:                    {:4.4} %", it.error_level())?;
    writeln!(text, "Average client thruput:         {:4.4} Mbit/sec", it.average_client_throughput())?;
    writeln!(text, "Sum of client response times:   {:.6} sec", it.response_time_s)?;
    writeln!(text, "Total number of pages read:     {}", it.pages)?;
    writeln!(text)?;
    writeln!(text, "{} connection(s) to server, {} errors", it.connections, it.errors)?;
    writeln!(text)?;
    write_table(
        text,
        mix.connect.as_ref().map(of_record),
        Some(of_record(&mix.latency)),
        &of_sizes(&mix.classes),
    )?;
    writeln!(text)?;
    writeln!(
        text,
        "{:.0} body bytes moved + {:.0} header bytes moved = {:.0} total",
        it.body_bytes,
        it.bytes - it.body_bytes,
        it.bytes
    )
}

fn of_record(times: &LatencyRecord) -> [f64; 4] {
    [times.mean_us, times.stddev_us, times.min_us, times.max_us].map(|us| us / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_lab::reference;

    /// Ten minutes with 32 clients.
    const RUN: WebStone = WebStone {
        clients: 32,
        test_time_s: 600.0,
        connections: 157_800,
        errors: 3,
        bytes: 157_800.0 * 7054.0,
        body_bytes: 157_800.0 * 6810.0,
        response_time_s: 19_198.75,
        pages: 52_600,
    };

    #[test]
    fn every_line_has_webstones_formula() {
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
        assert!(close(RUN.connection_rate(), 263.0));
        assert!(close(RUN.error_rate(), 0.005));
        assert!(close(RUN.throughput(), 8.0 * 157_800.0 * 7054.0 / (600.0 * 1024.0 * 1024.0)));
        assert!(close(RUN.littles_load_factor(), 19_198.0 / 600.0), "whole seconds of R");
        assert!(close(RUN.average_response_time(), 1000.0 * 19_198.75 / 157_800.0));
        assert!(close(RUN.error_level(), 300.0 / 157_800.0));
        assert!(close(RUN.average_client_throughput(), 8.0 * 157_800.0 * 7054.0 / 19_198.75 / 1_048_576.0));
    }

    #[test]
    fn the_tables_of_1996_follow_from_the_formulas() {
        // Each row of the report is a WebStone run of 15 minutes: from its rate, its latency and the mean
        // size that its throughput implies, the same rate, load factor and throughput are computed.
        for table in reference::report("fasttrack-1996")
            .unwrap()
            .tables
            .iter()
            .filter(|table| table.columns.len() == 4)
        {
            for row in &table.rows {
                let number = |index: usize| reference::PrintedNumber::parse(&row[index]).unwrap();
                let (clients, rate, latency, megabits) = (number(0), number(1), number(3), number(4));
                let connections = rate.value * 900.0;
                let run = WebStone {
                    clients: clients.value as u64,
                    test_time_s: 900.0,
                    connections: connections as u64,
                    errors: 0,
                    bytes: megabits.value * 1_048_576.0 / 8.0 * 900.0,
                    body_bytes: 0.0,
                    response_time_s: connections * latency.value,
                    pages: connections as u64,
                };
                assert!((run.connection_rate() - rate.value).abs() < 1.0 / 900.0);
                assert!((run.throughput() / megabits.value - 1.0).abs() < 1e-9);
                assert!((run.average_response_time() / 1000.0 - latency.value).abs() < 1e-9);
                // The load factor is close to the number of clients.
                let rounding = latency.half_unit / latency.value + rate.half_unit / rate.value + 0.02;
                assert!(
                    (run.littles_load_factor() / clients.value - 1.0).abs() < rounding,
                    "{} {row:?}",
                    table.title
                );
            }
        }
    }

    #[test]
    fn only_what_asks_as_webstone_does_is_called_comparable() {
        let mut suite = touchstone_lab::sample::result().suite;
        (suite.keep_alive, suite.http_version, suite.tls) = (false, "HTTP/1.0".to_string(), None);
        assert!(comparable(&suite).contains("are comparable"));
        suite.http_version = "HTTP/1.1".to_string();
        assert!(comparable(&suite).contains("not comparable"));
        suite.keep_alive = true;
        assert!(comparable(&suite).contains("not comparable"));
    }

    #[test]
    fn published_throughputs_are_in_units_of_two_to_the_twentieth() {
        // Mindcraft, November 1996, filelist.standard (mean body 19,773 bytes): 904 connections/s at 132.88
        // Mbit/s.
        let run = WebStone { test_time_s: 1.0, connections: 904, bytes: 132.88 * 1_048_576.0 / 8.0, ..RUN };
        let each = run.bytes / 904.0;
        assert!((19_200.0..19_900.0).contains(&each), "{each}");
        assert!((run.throughput() - 132.88).abs() < 1e-9);
    }

    #[test]
    fn the_text_has_webstones_lines() {
        let mut result = touchstone_lab::sample::result();
        result.systems.truncate(1);
        result.systems[0].mixes.truncate(1);
        let text = webstone(&result);
        for line in [
            "WEBSTONE 2.0 results:",
            "Total number of clients:        1",
            "Test time:                      5 seconds",
            "Server connection rate:         15000.00 connections/sec",
            "Little's Load Factor:           1.00",
            "Average response time:          0.0667 millisec",
            "75000 connection(s) to server, 0 errors",
            "Connect time (sec)      not measured",
            "Body size (bytes)       not measured",
            "Total number of pages read:     75000",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("Page #"), "{text}");
        let classes = result.suite.classes.len() as u64;
        result.systems[0].mixes[0].classes =
            (1..=classes).map(|class| touchstone_lab::sample::class_figures(class * 10)).collect();
        let text = webstone(&result);
        for line in [
            "Page # 1 (",
            "Total number of times page was hit 20",
            "20 connection(s) to server, 1 errors",
            "Connect time (sec)          0.000100    0.000050    0.000050    0.000150",
            "Response size (bytes)           1200         600         600        1800",
            "Page size 1000",
            &format!("Total number of pages read:     {}", classes * (classes + 1) * 5),
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        result.systems[0].mixes[0].requests = 0;
        assert!(webstone(&result).contains("nothing was answered, 0 errors"));
    }

    proptest! {
        #[test]
        fn rate_times_response_time_is_the_load_factor(
            connections in 1u64..1_000_000,
            response in 1.0f64..1e6,
            time in 1.0f64..1e4,
        ) {
            let run = WebStone { connections, response_time_s: response, test_time_s: time, ..RUN };
            let by_law = run.connection_rate() * run.average_response_time() / 1000.0;
            // But for the fraction of a second that WebStone drops.
            prop_assert!(by_law >= run.littles_load_factor() - 1e-9);
            prop_assert!(by_law <= run.littles_load_factor() + 1.0 / time + 1e-9);
        }
    }
}
