//! One measurement of the limit server: the load engine sends requests from its processors, and the server's
//! processor time is read before and after.

use super::process::ServerProcess;
use super::requests;
use crate::placement;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use touchstone_lab::statistics::quantile::median;
use touchstone_load::{ConnectionUse, Plan, Progress, Target};

/// The default page: 6,250 bytes, the mean page of the reports of 1999.
pub const DEFAULT_PAGE_BYTES: usize = 6_250;
/// Virtual clients for each processor of the server: enough that the server never waits for a request.
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

/// The limit of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestLimit {
    /// Processor time of the server for each request, microseconds.
    pub cpu_us_per_request: f64,
    /// The rate that was reached with the load engine on its processors.
    pub requests_per_second: f64,
    /// Requests answered in all rounds.
    pub requests: u64,
    /// The load engine was busier than 90 % in a round: the server could do more than `requests_per_second`.
    pub load_engine_saturated: bool,
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

pub(super) fn check(options: &LimitOptions) -> Result<(), LimitError> {
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

/// Runs the work on a thread that is pinned to the processors, as every process that it starts.
pub(super) fn on_cores<T: Send>(
    cores: &[usize],
    work: impl FnOnce() -> std::io::Result<T> + Send,
) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            placement::pin_this_thread(cores)?;
            work()
        });
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a measuring thread ended in a panic")))
    })
}

/// Starts the server with a thread on each of the processors.
pub(super) fn start_server(options: &LimitOptions, cores: &[usize]) -> Result<ServerProcess, LimitError> {
    on_cores(cores, || ServerProcess::start(&options.executable, options.page_bytes, cores.len()))
        .map_err(|error| LimitError::Refused(format!("the server cannot be started: {error}")))
}

/// One round of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RequestRound {
    pub(super) requests: u64,
    pub(super) cpu_us_per_request: f64,
    pub(super) requests_per_second: f64,
    pub(super) saturated: bool,
}

/// Loads the server from these processors.
pub(super) fn measure_requests(
    options: &LimitOptions,
    server: &ServerProcess,
    connections: ConnectionUse,
    load_cores: &[usize],
    interrupt: &AtomicBool,
) -> Result<RequestRound, LimitError> {
    let failed = |error: String| LimitError::Failed(error);
    let target = Target::plain(server.address(), &server.address().to_string());
    let mut plan = Plan::of_one(target, "/");
    plan.connections = connections;
    plan.clients = CLIENTS * server.threads();
    plan.cores = load_cores.to_vec();
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

/// The medians of the rounds.
pub(super) fn summary(rounds: &[RequestRound]) -> RequestLimit {
    RequestLimit {
        cpu_us_per_request: median_of(rounds.iter().map(|round| round.cpu_us_per_request)),
        requests_per_second: median_of(rounds.iter().map(|round| round.requests_per_second)),
        requests: rounds.iter().map(|round| round.requests).sum(),
        load_engine_saturated: rounds.iter().any(|round| round.saturated),
    }
}

/// The median of the rounds; 0 if there are none.
pub(super) fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).unwrap_or(0.0)
}
