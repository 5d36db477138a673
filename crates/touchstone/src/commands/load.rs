//! `touchstone load`: drives one URL with virtual clients and prints the figures.

#![allow(clippy::print_stderr)]

mod json;
mod progress;
mod text;

use super::bench::duration;
use super::print::print;
use crate::exit::Exit;
use std::time::Duration;
use touchstone_lab::bench::interrupt_on_signals;
use touchstone_lab::placement::parse_list;
use touchstone_load::{
    ConnectionUse, DEFAULT_RECEIVE_BUFFER_BYTES, HttpUrl, HttpVersion, Outcome, Plan, Progress,
    allowed_cores, run as run_plan,
};

/// Drive one URL with virtual clients and print the figures.
///
/// Each virtual client has one request under way at a time, and sends the next when the last was answered. With --rate
/// the requests start on a fixed schedule instead, and latencies count from the intended start. Ctrl-C ends a run
/// early: what was measured is printed.
///
/// Exit code 0 when there was an answer, 1 when there was none, 2 when the load could not start.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to load: http://HOST[:PORT][/PATH]
    #[arg(value_name = "URL")]
    url: String,

    /// Virtual clients
    #[arg(long, short = 'c', value_name = "N", default_value_t = 16)]
    clients: usize,

    /// How long, ramps included, for example 10s, 500ms or 2m
    #[arg(long, short = 'd', value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,

    /// Engine threads, each pinned to a processor, the last ones first [default: one thread, not pinned]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,

    /// Exactly these processors for the engine threads, for example 1 or 0,2-3
    #[arg(long, value_name = "LIST", conflicts_with = "cores")]
    pin: Option<String>,

    /// A new connection for every request
    #[arg(long)]
    new_connections: bool,

    /// Requests a second over all clients, started on a fixed schedule
    #[arg(long, value_name = "R", conflicts_with_all = ["think_time", "delay"])]
    rate: Option<f64>,

    /// Time at the beginning that is not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    ramp_up: Duration,

    /// Time at the end that is not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    ramp_down: Duration,

    /// Each client waits this long between an answer and its next request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    think_time: Duration,

    /// Each client starts after a random wait of at most this
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    delay: Duration,

    /// A request without a complete answer after this is an error
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,

    /// Send HTTP/1.0 requests
    #[arg(long = "http1.0")]
    http10: bool,

    /// Add a header field to every request; repeat for more
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// Bytes asked for in one receive call, for example 4096 or 64k
    #[arg(long, value_name = "BYTES", default_value_t = ByteCount(DEFAULT_RECEIVE_BUFFER_BYTES), value_parser = byte_count)]
    receive_buffer: ByteCount,

    /// Seed of the delays
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print a row for each client
    #[arg(long)]
    per_client: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A run that is over, with what is needed to tell of it.
struct Finished {
    url: HttpUrl,
    plan: Plan,
    outcome: Outcome,
    per_client: bool,
}

/// Loads the URL and prints the figures.
pub fn run(arguments: Arguments) -> Exit {
    let (as_json, per_client) = (arguments.json, arguments.per_client);
    let (url, plan) = match plan(arguments) {
        Ok(planned) => planned,
        Err(message) => return refuse(&message),
    };
    let interrupt = match interrupt_on_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => return refuse(&format!("signals cannot be handled: {error}")),
    };
    let progress = Progress::default();
    let outcome = progress::shown_while(&plan, &progress, &interrupt, || run_plan(&plan, &progress));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return refuse(&error.0),
    };
    let answered = outcome.total_requests > 0;
    let finished = Finished { url, plan, outcome, per_client };
    print(&if as_json { format!("{:#}", json::of(&finished)) } else { text::of(&finished) });
    if answered { Exit::Done } else { Exit::Failed }
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone load: {message}");
    Exit::Usage
}

fn plan(arguments: Arguments) -> Result<(HttpUrl, Plan), String> {
    let url = HttpUrl::parse(&arguments.url).map_err(|error| error.0)?;
    let cores = cores(arguments.cores, arguments.pin.as_deref())?;
    let target = url.resolve().map_err(|error| error.0)?;
    let plan = Plan {
        headers: arguments.headers,
        clients: arguments.clients,
        cores,
        connections: if arguments.new_connections { ConnectionUse::New } else { ConnectionUse::Kept },
        version: if arguments.http10 { HttpVersion::Http10 } else { HttpVersion::Http11 },
        receive_buffer_bytes: arguments.receive_buffer.0,
        delay: arguments.delay,
        think_time: arguments.think_time,
        timeout: arguments.timeout,
        ramp_up: arguments.ramp_up,
        length: arguments.duration,
        ramp_down: arguments.ramp_down,
        rate: arguments.rate,
        seed: arguments.seed,
        ..Plan::of_one(target, &url.path)
    };
    // What cannot work is said before the progress line begins.
    plan.check().map_err(|error| error.0)?;
    Ok((url, plan))
}

/// The processors of the engine threads. Servers are mostly pinned to the first ones, so a number takes the last.
fn cores(number: Option<usize>, list: Option<&str>) -> Result<Vec<usize>, String> {
    if let Some(list) = list {
        return parse_list(list).map_err(|error| format!("--pin: {error}"));
    }
    let Some(number) = number else { return Ok(Vec::new()) };
    let allowed = allowed_cores();
    if !(1..=allowed.len()).contains(&number) {
        return Err(format!("--cores {number}: this process may use {} processors", allowed.len()));
    }
    Ok(allowed[allowed.len() - number..].to_vec())
}

/// A number of bytes on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ByteCount(usize);

impl std::fmt::Display for ByteCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_multiple_of(1024) { write!(f, "{}k", self.0 / 1024) } else { write!(f, "{}", self.0) }
    }
}

/// Reads `4096`, `64k` or `1m`.
fn byte_count(text: &str) -> Result<ByteCount, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1024,
        "m" => 1024 * 1024,
        _ => return Err("write a number of bytes such as 4096, 64k or 1m".to_string()),
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    number.map(ByteCount).ok_or_else(|| "write a number of bytes such as 4096, 64k or 1m".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_are_read_with_their_units() {
        for (text, bytes) in [("1", 1), ("4096", 4096), ("64k", 65_536), ("64K", 65_536), ("1m", 1_048_576)] {
            assert_eq!(byte_count(text), Ok(ByteCount(bytes)));
        }
        for bad in ["", "k", "-1", "1.5k", "1g", "1 k", "99999999999999999999", "18446744073709551615k"] {
            assert!(byte_count(bad).is_err(), "{bad}");
        }
        assert_eq!(ByteCount(65_536).to_string(), "64k");
        assert_eq!(ByteCount(1000).to_string(), "1000");
    }

    #[test]
    fn a_number_of_cores_takes_the_last_ones() {
        let allowed = allowed_cores();
        assert_eq!(cores(None, None), Ok(vec![]));
        assert_eq!(cores(Some(1), None), Ok(vec![allowed[allowed.len() - 1]]));
        assert_eq!(cores(Some(allowed.len()), None), Ok(allowed.clone()));
        assert!(cores(Some(0), None).is_err());
        assert!(cores(Some(allowed.len() + 1), None).is_err());
        assert_eq!(cores(None, Some("0,2-3")), Ok(vec![0, 2, 3]));
        assert!(cores(None, Some("x")).is_err());
    }
}
