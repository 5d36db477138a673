//! The limit: the best that this machine's kernel can do, so that every report can state a server's distance
//! from it.
//!
//! [`requests`] holds a server that does the minimum of a server's work, and [`spawn`] the minimum of a CGI
//! handler's. [`measure`] runs both and reports their cost. The load engine sends the requests from another
//! processor; the server is this program again, in another process, so that its processor time is counted
//! separately.

mod process;
pub mod requests;
pub mod spawn;

pub use process::READY;
pub use requests::LimitServer;

use crate::placement::{self, Placement, PlacementOptions};
use process::ServerProcess;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use touchstone_load::{ConnectionUse, Plan, Progress, Target};

/// The default page: 6,250 bytes, the mean page of the reports of 1999.
pub const DEFAULT_PAGE_BYTES: usize = 6_250;
/// Virtual clients: enough that the server never waits for a request.
const CLIENTS: usize = 64;
/// The part of each measurement that is not counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub struct LimitOptions {
    /// This program: it is started as the server.
    pub executable: PathBuf,
    /// The body of every answer.
    pub page_bytes: usize,
    /// How long each of the three measurements runs in each round.
    pub length: Duration,
    /// How often everything is measured; the medians are reported.
    pub rounds: usize,
    /// The program that represents a CGI program.
    pub program: PathBuf,
}

impl LimitOptions {
    /// The usual measurement, with `executable` as the server.
    pub fn new(executable: PathBuf) -> LimitOptions {
        LimitOptions {
            executable,
            page_bytes: DEFAULT_PAGE_BYTES,
            length: Duration::from_secs(2),
            rounds: 3,
            program: PathBuf::from("/bin/true"),
        }
    }
}

/// The best that this machine can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitReport {
    /// The body of every answer.
    pub page_bytes: u64,
    /// The processor of the server and of the programs.
    pub server_core: usize,
    /// The processor of the load engine.
    pub load_core: usize,
    /// Rounds measured; figures are their medians.
    pub rounds: usize,
    /// How long each measurement ran in each round, seconds.
    pub length_s: f64,
    /// Requests on kept connections.
    pub kept: RequestLimit,
    /// A new connection for every request.
    pub new: RequestLimit,
    /// A program started for every request.
    pub spawn: SpawnLimit,
    /// The facts that a reader needs before trusting the figures, a sentence each.
    pub warnings: Vec<String>,
}

/// The limit of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestLimit {
    /// Processor time of the server for each request, microseconds.
    pub cpu_us_per_request: f64,
    /// The rate that was reached, with the load engine on `load_core`.
    pub requests_per_second: f64,
    /// Requests answered in all rounds.
    pub requests: u64,
    /// The load engine was busier than 90 % in a round: the server could do more than `requests_per_second`.
    pub load_engine_saturated: bool,
}

/// The limit of programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpawnLimit {
    /// The program.
    pub program: String,
    /// Microseconds to start it, read its output to the end and reap it, all on one processor.
    pub us_per_spawn: f64,
    /// How often it was started in all rounds.
    pub spawns: u64,
}

/// Why the limit could not be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitError {
    /// It could not start.
    Refused(String),
    /// It failed during the measurement.
    Failed(String),
    /// The caller ended it.
    Interrupted,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Refused(text) | LimitError::Failed(text) => f.write_str(text),
            LimitError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for LimitError {}

/// Measures. Calls `started` with what begins (a line for the user); `interrupt` ends the measurement.
pub fn measure(
    options: &LimitOptions,
    interrupt: &AtomicBool,
    mut started: impl FnMut(&str),
) -> Result<LimitReport, LimitError> {
    check(options)?;
    let (server_core, load_core) = cores()?;
    let server = on_core(server_core, || ServerProcess::start(&options.executable, options.page_bytes))
        .map_err(|error| LimitError::Refused(format!("the server cannot be started: {error}")))?;
    let (mut kept, mut new, mut spawns) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        for (connections, name, rounds) in
            [(ConnectionUse::Kept, "kept", &mut kept), (ConnectionUse::New, "new", &mut new)]
        {
            started(&format!("round {round} of {}: requests on {name} connections", options.rounds));
            rounds.push(measure_requests(options, &server, connections, load_core, interrupt)?);
        }
        started(&format!("round {round} of {}: programs", options.rounds));
        spawns.push(measure_spawns(options, server_core)?);
        if interrupt.load(Ordering::Relaxed) {
            return Err(LimitError::Interrupted);
        }
    }
    let spawn = SpawnLimit {
        program: options.program.display().to_string(),
        us_per_spawn: median(spawns.iter().map(|time| time.us_per_spawn)),
        spawns: spawns.iter().map(|time| time.spawns).sum(),
    };
    let mut report = LimitReport {
        page_bytes: options.page_bytes as u64,
        server_core,
        load_core,
        rounds: options.rounds,
        length_s: options.length.as_secs_f64(),
        kept: summary(&kept),
        new: summary(&new),
        spawn,
        warnings: Vec::new(),
    };
    report.warnings = warnings(&report);
    Ok(report)
}

fn check(options: &LimitOptions) -> Result<(), LimitError> {
    let refuse = |text: &str| Err(LimitError::Refused(text.to_string()));
    if options.rounds == 0 {
        return refuse("there must be at least one round");
    }
    if options.length < Duration::from_millis(10) || options.length > Duration::from_secs(3600) {
        return refuse("each measurement must last from 10 ms to an hour");
    }
    if options.page_bytes > requests::MAXIMUM_BODY_BYTES {
        return refuse(&format!("a page may have at most {} bytes", requests::MAXIMUM_BODY_BYTES));
    }
    Ok(())
}

/// The server's processor and the load engine's: the same one only if there is no other.
fn cores() -> Result<(usize, usize), LimitError> {
    let Placement { system, load } =
        placement::place(&PlacementOptions::default()).map_err(LimitError::Refused)?;
    match (system.first(), load.last()) {
        (Some(&server), Some(&load)) => Ok((server, load)),
        _ => Err(LimitError::Refused("this process may not use any processor".to_string())),
    }
}

/// Runs the work on a thread that is pinned to the processor, as every process that it starts.
fn on_core<T: Send>(core: usize, work: impl FnOnce() -> std::io::Result<T> + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            placement::pin_this_thread(&[core])?;
            work()
        });
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a measuring thread ended in a panic")))
    })
}

/// One round of requests.
struct RequestRound {
    requests: u64,
    cpu_us_per_request: f64,
    requests_per_second: f64,
    saturated: bool,
}

fn measure_requests(
    options: &LimitOptions,
    server: &ServerProcess,
    connections: ConnectionUse,
    load_core: usize,
    interrupt: &AtomicBool,
) -> Result<RequestRound, LimitError> {
    let failed = |error: String| LimitError::Failed(error);
    let target = Target::plain(server.address(), &server.address().to_string());
    let mut plan = Plan::of_one(target, "/");
    plan.connections = connections;
    plan.clients = CLIENTS;
    plan.cores = vec![load_core];
    plan.ramp_up = WARM_UP;
    plan.length = options.length + WARM_UP;
    plan.requests[0].expected_body_bytes = Some(options.page_bytes as u64);
    let before_us = server.used_us().map_err(|error| failed(error.to_string()))?;
    let outcome = run_until(&plan, interrupt)?;
    let after_us = server.used_us().map_err(|error| failed(error.to_string()))?;
    if outcome.total_errors == 0 && outcome.requests == 0 {
        return Err(failed(format!(
            "no request was counted within {} ms: the machine is too busy, or the time too short (--seconds)",
            options.length.as_millis()
        )));
    }
    if outcome.total_errors > 0 {
        return Err(failed(format!(
            "{} of {} requests failed: {:?}",
            outcome.total_errors,
            outcome.total_errors + outcome.total_requests,
            outcome.total_errors_by_kind
        )));
    }
    Ok(RequestRound {
        requests: outcome.total_requests,
        cpu_us_per_request: (after_us - before_us) / outcome.total_requests as f64,
        requests_per_second: outcome.requests_per_second(),
        saturated: !outcome.saturation.is_clear(),
    })
}

/// Runs the plan, and ends it when the caller interrupts.
fn run_until(plan: &Plan, interrupt: &AtomicBool) -> Result<touchstone_load::Outcome, LimitError> {
    let progress = Progress::default();
    let finished = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !finished.load(Ordering::Relaxed) {
                if interrupt.load(Ordering::Relaxed) {
                    progress.stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let outcome = touchstone_load::run(plan, &progress);
        finished.store(true, Ordering::Relaxed);
        outcome
    })
    .map_err(|error| LimitError::Refused(error.0))?;
    if outcome.interrupted { Err(LimitError::Interrupted) } else { Ok(outcome) }
}

fn measure_spawns(options: &LimitOptions, core: usize) -> Result<spawn::SpawnTime, LimitError> {
    on_core(core, || spawn::time_spawns(&options.program, options.length))
        .map_err(|error| LimitError::Failed(format!("the program cannot be run: {error}")))
}

fn summary(rounds: &[RequestRound]) -> RequestLimit {
    RequestLimit {
        cpu_us_per_request: median(rounds.iter().map(|round| round.cpu_us_per_request)),
        requests_per_second: median(rounds.iter().map(|round| round.requests_per_second)),
        requests: rounds.iter().map(|round| round.requests).sum(),
        load_engine_saturated: rounds.iter().any(|round| round.saturated),
    }
}

/// The middle value, or the mean of the two in the middle; 0 if there are no values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

fn warnings(report: &LimitReport) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.server_core == report.load_core {
        warnings.push(format!(
            "Server and load engine share processor {}, the only one there is: rates are those of both \
             together; the processor time of each request is the server's own.",
            report.server_core
        ));
    } else if report.kept.load_engine_saturated || report.new.load_engine_saturated {
        warnings.push(
            "The load engine was busier than 90 %: the server could answer more requests a second than it \
             was asked; the processor time of each request is not affected."
                .to_string(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let options = LimitOptions::new(PathBuf::from("/bin/true"));
        let never = AtomicBool::new(false);
        for options in [
            LimitOptions { rounds: 0, ..options.clone() },
            LimitOptions { length: Duration::ZERO, ..options.clone() },
            LimitOptions { page_bytes: requests::MAXIMUM_BODY_BYTES + 1, ..options.clone() },
            LimitOptions { executable: PathBuf::from("/nowhere/program"), ..options },
        ] {
            let refused = measure(&options, &never, |_| ());
            assert!(matches!(refused, Err(LimitError::Refused(_))), "{refused:?}");
        }
    }

    #[test]
    fn a_shared_processor_is_told() {
        let requests = RequestLimit {
            cpu_us_per_request: 4.5,
            requests_per_second: 1e5,
            requests: 1,
            load_engine_saturated: true,
        };
        let spawn = SpawnLimit { program: "/bin/true".to_string(), us_per_spawn: 850.0, spawns: 1 };
        let mut report = LimitReport {
            page_bytes: 6250,
            server_core: 0,
            load_core: 0,
            rounds: 1,
            length_s: 1.0,
            kept: requests.clone(),
            new: requests,
            spawn,
            warnings: Vec::new(),
        };
        assert!(warnings(&report)[0].contains("share processor 0"));
        report.load_core = 1;
        assert!(warnings(&report)[0].contains("busier than 90 %"));
    }
}
