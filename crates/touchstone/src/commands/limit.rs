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
use touchstone_lab::figures::{count, rate, significant};
use touchstone_lab_run::bench::interrupt_on_signals;
use touchstone_lab_run::limit::{
    DEFAULT_PAGE_BYTES, LimitError, LimitOptions, LimitReport, LimitServer, READY, RequestLimit, measure,
};

/// The help after the options.
pub const AFTER_HELP: &str = "The measured server does the minimum: it receives, and sends one fixed \
    answer. The load engine drives it from another processor, on kept connections and with a new connection \
    for every request. The cost of starting a program for each request, as CGI does, is measured too.";

/// The arguments of `touchstone limit`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Size of the page in bytes
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PAGE_BYTES)]
    bytes: usize,

    /// How long each of the three measurements lasts in each round
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
}

/// Measures, or serves.
pub fn run(arguments: Arguments) -> Exit {
    match arguments.serve {
        Some(address) => serve(address, arguments.bytes, arguments.until_input_ends),
        None => measure_and_print(arguments),
    }
}

fn serve(address: SocketAddr, body_bytes: usize, until_input_ends: bool) -> Exit {
    let server = match LimitServer::bind(address, body_bytes) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("touchstone limit: {address} cannot be served: {error}");
            return Exit::Usage;
        }
    };
    print(&format!("{READY}{}", server.address()));
    let input = std::io::stdin();
    match server.run(until_input_ends.then(|| input.as_fd())) {
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
    let measured = measure(&options, &interrupt, |line| {
        if terminal {
            eprint!("\r\x1b[2K{line}");
        } else {
            eprintln!("{line}");
        }
    });
    if terminal {
        eprint!("\r\x1b[2K");
    }
    match measured {
        Ok(report) if arguments.json => {
            print(&format!("{:#}", serde_json::json!(report)));
            Exit::Done
        }
        Ok(report) => {
            print_for_reading(&text(&report));
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
        "The least that any server could spend on this machine: receive a request, send {} bytes, nothing \
         else.\n\
         Medians of {}, the server on processor {}, the load engine on processor {}.\n\n",
        count(report.page_bytes),
        if report.rounds == 1 { "1 round".to_string() } else { format!("{} rounds", report.rounds) },
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
}
