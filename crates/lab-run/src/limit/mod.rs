//! The limit: the best that this machine's kernel can do, so that every report can state a server's distance
//! from it.
//!
//! [`requests`] holds a server that does the minimum of a server's work, and [`spawn`] the minimum of a CGI
//! handler's. [`measure`] runs both and reports their cost; [`measure_cores`] runs the server on one
//! processor, on two, and so on. The load engine sends the requests from other processors; the server is
//! this program again, in another process, so that its processor time is counted separately.

mod cores;
mod process;
pub mod requests;
mod round;
pub mod spawn;

pub use cores::{CoresFigures, CoresReport, CoresRow, measure_cores};
pub use process::READY;
pub use requests::LimitServer;
pub use round::{DEFAULT_PAGE_BYTES, LimitError, LimitOptions, RequestLimit};

use crate::placement::{self, Placement, PlacementOptions};
use round::{check, measure_requests, median_of, on_cores, start_server, summary};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use touchstone_load::ConnectionUse;

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

/// Measures. Calls `started` with what begins (a line for the user); `interrupt` ends the measurement.
pub fn measure(
    options: &LimitOptions,
    interrupt: &AtomicBool,
    mut started: impl FnMut(&str),
) -> Result<LimitReport, LimitError> {
    check(options)?;
    let (server_core, load_core) = cores()?;
    let server = start_server(options, &[server_core])?;
    let (mut kept, mut new, mut spawns) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        for (connections, name, rounds) in
            [(ConnectionUse::Kept, "kept", &mut kept), (ConnectionUse::New, "new", &mut new)]
        {
            started(&format!("round {round} of {}: requests on {name} connections", options.rounds));
            rounds.push(measure_requests(options, &server, connections, &[load_core], interrupt)?);
        }
        started(&format!("round {round} of {}: programs", options.rounds));
        spawns.push(measure_spawns(options, server_core)?);
        if interrupt.load(Ordering::Relaxed) {
            return Err(LimitError::Interrupted);
        }
    }
    let spawn = SpawnLimit {
        program: options.program.display().to_string(),
        us_per_spawn: median_of(spawns.iter().map(|time| time.us_per_spawn)),
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

/// The server's processor and the load engine's: the same one only if there is no other.
fn cores() -> Result<(usize, usize), LimitError> {
    let Placement { system, load } =
        placement::place(&PlacementOptions::default()).map_err(LimitError::Refused)?;
    match (system.first(), load.last()) {
        (Some(&server), Some(&load)) => Ok((server, load)),
        _ => Err(LimitError::Refused("this process may not use any processor".to_string())),
    }
}

fn measure_spawns(options: &LimitOptions, core: usize) -> Result<spawn::SpawnTime, LimitError> {
    on_cores(&[core], || spawn::time_spawns(&options.program, options.length))
        .map_err(|error| LimitError::Failed(format!("the program cannot be run: {error}")))
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
    use std::path::PathBuf;
    use std::time::Duration;

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
