//! `touchstone plan`: what limited a system, what to expect of it, and what to change first.

use super::bench::duration;
use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use touchstone_lab::arrivals::is_open;
use touchstone_lab::raw::{self, RawError};
use touchstone_lab::read_result;
use touchstone_lab_report::planning::{self, Assumptions};

/// The arguments of `touchstone plan`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  touchstone plan results/2026-11-20 --p95 50ms --requests-per-page 40")]
pub struct Arguments {
    /// The result directory
    #[arg(value_name = "RESULT")]
    result: PathBuf,

    /// The time within which 95 of 100 answers must arrive, for the useful peak
    #[arg(long, value_name = "TIME", value_parser = duration)]
    p95: Option<Duration>,

    /// Requests of a page: 77 is the median home page of 2025
    #[arg(long, value_name = "N", default_value_t = 77.0, value_parser = positive)]
    requests_per_page: f64,

    /// Percent of a page's requests that go to this server and not to others
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percent)]
    first_party: f64,

    /// Processor time that the accelerator spends on an answer from its cache, microseconds [default: what
    /// touchstone spends in this result]
    #[arg(long, value_name = "MICROSECONDS", value_parser = positive)]
    accelerator_us: Option<f64>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1e9 => Ok(number),
        _ => Err("write a number above 0".to_owned()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    positive(text).and_then(|number| {
        if number <= 100.0 { Ok(number) } else { Err("write a number of at most 100".to_owned()) }
    })
}

/// Plans, and prints the outcome.
pub fn run(arguments: Arguments) -> Exit {
    let (result, directory) = match read_result::read(&arguments.result) {
        Ok(read) => read,
        Err(error) => return refuse(&error.to_string()),
    };
    let raw = match raw::read(&directory) {
        Ok(raw) => raw,
        // An older result has none: what was not measured is then reported as not measured.
        Err(RawError::Missing(_)) => Vec::new(),
        Err(error) => return refuse(&error.to_string()),
    };
    let assumed = Assumptions {
        requests_per_page: arguments.requests_per_page,
        first_party_share: arguments.first_party / 100.0,
        p95_max_us: arguments.p95.map(|time| time.as_secs_f64() * 1e6),
        accelerator_us: arguments.accelerator_us,
    };
    let plans = planning::plan(&result, &raw, &assumed);
    if arguments.json {
        print(&format!("{:#}", json!({ "suite": result.suite.name, "assumed": assumed, "plans": plans })));
    } else if is_open(&result) {
        print(
            "The rates of this result are stated and not searched for: there is no peak to plan from. \
             Measure with closed loops, a suite without rates.",
        );
    } else if plans.is_empty() {
        print("No system gave a valid answer: a plan is not possible.");
    } else {
        print_for_reading(&format!("{}\n\n{}", result.suite.title, planning::text(&plans, &assumed)));
    }
    if plans.is_empty() { Exit::Failed } else { Exit::Done }
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone plan: {message}");
    Exit::Usage
}
