//! `touchstone limit`: measures the limits of this machine's kernel; for that and for the bench, it is also
//! the smallest possible server.

use super::bench::duration;
use super::print::{print, print_for_reading};
use crate::exit::Exit;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;
use touchstone_lab::figures::{count, percent, rate, significant};
use touchstone_lab_run::bench::interrupt_on_signals;
use touchstone_lab_run::limit::{
    CoresFigures, CoresReport, CoresRow, DEFAULT_PAGE_BYTES, LimitError, LimitOptions, LimitReport,
    LimitServer, READY, RequestLimit, measure, measure_cores,
};

/// The help after the options.
pub const AFTER_HELP: &str = "The measured server does the minimum: it receives, and sends one fixed \
    answer. The load engine drives it from another processor, on kept connections and with a new connection \
    for every request. The cost of starting a program for each request, as CGI does, is measured too.\n\n  \
    touchstone limit --cores            on 1, 2, ... all processors\n  \
    touchstone limit --cores 1,4,16";

/// The arguments of `touchstone limit`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Size of the page in bytes
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PAGE_BYTES)]
    bytes: usize,

    /// Measure the requests with the server on these numbers of processors, for the speed-up; without numbers
    /// from 1 to all (above 8 only powers of two)
    #[arg(long, value_name = "N,...", num_args = 0..=1, value_delimiter = ',')]
    cores: Option<Vec<usize>>,

    /// How long each measurement lasts in each round
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    seconds: Duration,

    /// The number of rounds; the medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// The program to start for each request
    #[arg(long, value_name = "PROGRAM", default_value = "/bin/true")]
    program: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Only serve, on this address, until a signal arrives
    #[arg(long, value_name = "ADDR:PORT", hide = true)]
    serve: Option<SocketAddr>,

    /// With --serve: end when standard input does
    #[arg(long, hide = true, requires = "serve")]
    until_input_ends: bool,

    /// With --serve: the number of threads, each on a processor of its own
    #[arg(long, value_name = "N", default_value_t = 1, hide = true, requires = "serve")]
    threads: usize,
}

/// Measures, or serves.
pub fn run(arguments: Arguments) -> Exit {
    match arguments.serve {
        Some(address) => serve(address, &arguments),
        None => measure_and_print(arguments),
    }
}

fn serve(address: SocketAddr, arguments: &Arguments) -> Exit {
    let server = match LimitServer::bind(address, arguments.bytes, arguments.threads) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("touchstone limit: {address} cannot be served: {error}");
            return Exit::Usage;
        }
    };
    print(&format!("{READY}{}", server.address()));
    let input = std::io::stdin();
    match server.run(arguments.until_input_ends.then(|| input.as_fd())) {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("touchstone limit: {error}");
            Exit::Failed
        }
    }
}

fn measure_and_print(arguments: Arguments) -> Exit {
    let prepared = std::env::current_exe().and_then(|executable| Ok((executable, interrupt_on_signals()?)));
    let (executable, interrupt) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("touchstone limit: {error}");
            return Exit::Usage;
        }
    };
    let options = LimitOptions {
        page_bytes: arguments.bytes,
        length: arguments.seconds,
        rounds: arguments.rounds,
        program: arguments.program,
        ..LimitOptions::new(executable)
    };
    let terminal = std::io::stderr().is_terminal();
    let started = |line: &str| {
        if terminal {
            eprint!("\r\x1b[2K{line}");
        } else {
            eprintln!("{line}");
        }
    };
    // What was measured, as JSON and as text.
    let measured = match &arguments.cores {
        Some(numbers) => measure_cores(&options, numbers, &interrupt, started)
            .map(|report| (serde_json::json!(report), text_of_cores(&report))),
        None => {
            measure(&options, &interrupt, started).map(|report| (serde_json::json!(report), text(&report)))
        }
    };
    if terminal {
        eprint!("\r\x1b[2K");
    }
    match measured {
        Ok((json, _)) if arguments.json => {
            print(&format!("{json:#}"));
            Exit::Done
        }
        Ok((_, text)) => {
            print_for_reading(&text);
            Exit::Done
        }
        Err(error) => {
            eprintln!("touchstone limit: {error}");
            if matches!(error, LimitError::Refused(_)) { Exit::Usage } else { Exit::Failed }
        }
    }
}

fn text(report: &LimitReport) -> String {
    let spawn_rate = 1e6 / report.spawn.us_per_spawn;
    let mut text = format!(
        "{}Medians of {}, the server on processor {}, the load engine on processor {}.\n\n",
        what_is_measured(report.page_bytes),
        rounds(report.rounds),
        report.server_core,
        report.load_core
    );
    text += &format!("{:34}{:>18}{:>20}\n", "", "us of processor", "most a second");
    text += &format!("{:34}{:>18}{:>20}\n", "", "for each", "on one processor");
    text += &requests_row("requests on kept connections", &report.kept);
    text += &requests_row("requests on new connections", &report.new);
    let spawn_us = significant(report.spawn.us_per_spawn);
    text += &format!("{:34}{spawn_us:>18}{:>20}\n", "programs started and read (CGI)", rate(spawn_rate));
    text += &format!(
        "\nReached with the load engine: {} requests a second on kept connections, {} on new ones.\n",
        rate(report.kept.requests_per_second),
        rate(report.new.requests_per_second)
    );
    for warning in &report.warnings {
        text += &format!("{warning}\n");
    }
    text
}

fn what_is_measured(page_bytes: u64) -> String {
    format!(
        "The least that any server could spend on this machine: receive a request, send {} bytes, nothing \
         else.\n",
        count(page_bytes)
    )
}

fn rounds(number: usize) -> String {
    if number == 1 { "1 round".to_string() } else { format!("{number} rounds") }
}

fn text_of_cores(report: &CoresReport) -> String {
    let mut text = format!(
        "{}Medians of {}, the server with a thread on each of its processors.\n",
        what_is_measured(report.page_bytes),
        rounds(report.rounds)
    );
    let kinds = [
        ("Requests on kept connections", (|row| &row.kept) as fn(&CoresRow) -> &CoresFigures),
        ("Requests on new connections", |row| &row.new),
    ];
    for (title, figures) in kinds {
        text += &format!("\n{title}\n");
        text += &cores_line(["cores", "requests/s", "CPU us/request", "to first", "speed-up", "efficiency"]);
        text.push('\n');
        for row in &report.rows {
            let CoresFigures { limit, cpu_ratio, speedup, efficiency } = figures(row);
            text += &cores_line([
                &count(row.cores as u64),
                &rate(limit.requests_per_second),
                &significant(limit.cpu_us_per_request),
                &format!("{cpu_ratio:.2}"),
                &format!("{speedup:.2}"),
                &percent(*efficiency),
            ]);
            text += match (row.shared, limit.load_engine_saturated) {
                (true, _) => "  shared processors\n",
                (false, true) => "  load engine busy\n",
                (false, false) => "\n",
            };
        }
    }
    text.push('\n');
    for warning in &report.warnings {
        text += &format!("{warning}\n");
    }
    text
}

fn cores_line(cells: [&str; 6]) -> String {
    let [cores, rate, cost, ratio, speedup, efficiency] = cells;
    format!("{cores:>5}{rate:>14}{cost:>16}{ratio:>10}{speedup:>10}{efficiency:>12}")
}

fn requests_row(name: &str, limit: &RequestLimit) -> String {
    let us = limit.cpu_us_per_request;
    format!("{name:34}{:>18}{:>20}\n", significant(us), rate(1e6 / us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_lab_run::limit::SpawnLimit;

    #[test]
    fn the_table_is_aligned_and_in_plain_words() {
        let requests = |cpu_us_per_request, requests_per_second| RequestLimit {
            cpu_us_per_request,
            requests_per_second,
            requests: 1000,
            load_engine_saturated: false,
        };
        let report = LimitReport {
            page_bytes: 6250,
            server_core: 0,
            load_core: 1,
            rounds: 3,
            length_s: 2.0,
            kept: requests(4.5, 201_234.0),
            new: requests(10.25, 90_000.0),
            spawn: SpawnLimit { program: "/bin/true".to_string(), us_per_spawn: 850.0, spawns: 3000 },
            warnings: vec!["A warning.".to_string()],
        };
        let text = text(&report);
        for line in [
            "requests on kept connections                    4.50             222,222\n",
            "programs started and read (CGI)                  850               1,176\n",
            "Medians of 3 rounds, the server on processor 0",
            "201,234 requests a second on kept connections, 90,000 on new ones.\nA warning.\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn the_table_of_cores_says_whose_rate_it_is() {
        let figures = |requests_per_second, speedup, saturated| CoresFigures {
            limit: RequestLimit {
                cpu_us_per_request: 4.5,
                requests_per_second,
                requests: 1000,
                load_engine_saturated: saturated,
            },
            cpu_ratio: 1.0,
            speedup,
            efficiency: speedup / 2.0,
        };
        let row = |cores: usize, shared| CoresRow {
            cores,
            server_cores: (0..cores).collect(),
            load_cores: vec![3],
            shared,
            kept: figures(201_234.0, 1.8, false),
            new: figures(90_000.0, 1.5, true),
        };
        let report = CoresReport {
            page_bytes: 6250,
            processors: vec![0, 1, 2, 3],
            rounds: 1,
            length_s: 2.0,
            rows: vec![row(2, false), row(4, true)],
            warnings: vec!["A warning.".to_string()],
        };
        let text = text_of_cores(&report);
        for line in [
            "Medians of 1 round, the server with a thread on each of its processors.\n",
            "cores    requests/s  CPU us/request  to first  speed-up  efficiency\n",
            "    2       201,234            4.50      1.00      1.80        90 %\n",
            "    2        90,000            4.50      1.00      1.50        75 %  load engine busy\n",
            "    4       201,234            4.50      1.00      1.80        90 %  shared processors\n",
            "\nA warning.\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }
}
