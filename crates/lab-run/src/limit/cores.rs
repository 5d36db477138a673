//! The limit on one processor, on two, and so on: how much the kernel and the machine themselves lose when
//! more processors serve.
//!
//! The threads of the limit server share nothing but the kernel. So a request that costs more processor time
//! on more processors costs more for every server, and the rest of a server's growth is its own.

use super::round::{
    LimitError, LimitOptions, RequestLimit, RequestRound, check, measure_requests, start_server, summary,
};
use crate::placement::{self, Placement, PlacementOptions};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use touchstone_load::ConnectionUse;

/// Up to this number of processors each number is measured, above it only each power of two and all.
const EACH_UP_TO: usize = 8;
/// Processor time per request that is this much higher on more processors is mentioned.
const GROWTH: f64 = 1.1;

/// The limit by the number of the server's processors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoresReport {
    /// The body of every answer.
    pub page_bytes: u64,
    /// The processors that this process may use.
    pub processors: Vec<usize>,
    /// Rounds measured; figures are their medians.
    pub rounds: usize,
    /// How long each measurement ran in each round, seconds.
    pub length_s: f64,
    /// One for each number of processors, the fewest first.
    pub rows: Vec<CoresRow>,
    /// The facts that a reader needs before trusting the figures, a sentence each.
    pub warnings: Vec<String>,
}

/// The limit on one number of processors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoresRow {
    /// The number of the server's processors.
    pub cores: usize,
    /// The server's processors, each with one thread.
    pub server_cores: Vec<usize>,
    /// The processors of the load engine.
    pub load_cores: Vec<usize>,
    /// Both have a processor in common: the rate is that of both together.
    pub shared: bool,
    /// Requests on kept connections.
    pub kept: CoresFigures,
    /// A new connection for every request.
    pub new: CoresFigures,
}

/// The figures of one number of processors, beside those of the fewest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoresFigures {
    /// What was measured.
    #[serde(flatten)]
    pub limit: RequestLimit,
    /// The processor time per request over that on the fewest processors: 1 if nothing is shared.
    pub cpu_ratio: f64,
    /// The rate over that on the fewest processors.
    pub speedup: f64,
    /// The speedup over the ratio of the processors: 1 if every processor does as much as the first.
    pub efficiency: f64,
}

/// What is measured on one number of processors.
struct Number {
    cores: usize,
    placement: Placement,
    kept: Vec<RequestRound>,
    new: Vec<RequestRound>,
}

/// Measures on these numbers of processors (none: from one to all). Calls `started` with what begins (a line
/// for the user); `interrupt` ends the measurement.
pub fn measure_cores(
    options: &LimitOptions,
    wanted: &[usize],
    interrupt: &AtomicBool,
    mut started: impl FnMut(&str),
) -> Result<CoresReport, LimitError> {
    check(options)?;
    let processors = placement::allowed()
        .map_err(|error| LimitError::Refused(format!("the processors cannot be read: {error}")))?;
    let mut numbers = numbers(processors.len(), wanted).map_err(LimitError::Refused)?;
    for round in 1..=options.rounds {
        for number in &mut numbers {
            let server = start_server(options, &number.placement.system)?;
            for (connections, name, rounds) in [
                (ConnectionUse::Kept, "kept", &mut number.kept),
                (ConnectionUse::New, "new", &mut number.new),
            ] {
                started(&format!(
                    "round {round} of {}: {}, requests on {name} connections",
                    options.rounds,
                    in_words(number.cores)
                ));
                let load = &number.placement.load;
                rounds.push(measure_requests(options, &server, connections, load, interrupt)?);
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(LimitError::Interrupted);
            }
        }
    }
    let rows = rows(&numbers);
    Ok(CoresReport {
        page_bytes: options.page_bytes as u64,
        processors,
        rounds: options.rounds,
        length_s: options.length.as_secs_f64(),
        warnings: warnings(&rows),
        rows,
    })
}

/// `1 processor`, `2 processors`.
fn in_words(cores: usize) -> String {
    if cores == 1 { "1 processor".to_string() } else { format!("{cores} processors") }
}

/// The numbers of processors to measure, each with the processors of the server and of the load engine.
fn numbers(processors: usize, wanted: &[usize]) -> Result<Vec<Number>, String> {
    let mut all = match wanted {
        [] => {
            (1..=processors).filter(|n| *n <= EACH_UP_TO || n.is_power_of_two() || *n == processors).collect()
        }
        wanted => wanted.to_vec(),
    };
    all.sort_unstable();
    all.dedup();
    let number = |cores: usize| {
        let placement =
            placement::place(&PlacementOptions { cores: Some(cores), ..PlacementOptions::default() })?;
        Ok(Number { cores, placement, kept: Vec::new(), new: Vec::new() })
    };
    all.into_iter().map(number).collect()
}

fn rows(numbers: &[Number]) -> Vec<CoresRow> {
    let Some(fewest) = numbers.first() else { return Vec::new() };
    let row = |number: &Number| {
        let ratio = number.cores as f64 / fewest.cores as f64;
        let figures = |rounds: fn(&Number) -> &Vec<RequestRound>| {
            compared(summary(rounds(number)), &summary(rounds(fewest)), ratio)
        };
        let Placement { system, load } = &number.placement;
        CoresRow {
            cores: number.cores,
            server_cores: system.clone(),
            load_cores: load.clone(),
            shared: system.iter().any(|core| load.contains(core)),
            kept: figures(|number| &number.kept),
            new: figures(|number| &number.new),
        }
    };
    numbers.iter().map(row).collect()
}

/// A limit beside that on the fewest processors; `ratio` is that of the processors.
fn compared(limit: RequestLimit, fewest: &RequestLimit, ratio: f64) -> CoresFigures {
    let over = |dividend: f64, divisor: f64| if divisor > 0.0 { dividend / divisor } else { 0.0 };
    let speedup = over(limit.requests_per_second, fewest.requests_per_second);
    CoresFigures {
        cpu_ratio: over(limit.cpu_us_per_request, fewest.cpu_us_per_request),
        speedup,
        efficiency: speedup / ratio,
        limit,
    }
}

fn warnings(rows: &[CoresRow]) -> Vec<String> {
    let listed = |rows: Vec<&CoresRow>| {
        let last = rows.last().map_or(1, |row| row.cores);
        let numbers = rows.iter().map(|row| row.cores.to_string()).collect::<Vec<_>>().join(", ");
        (!rows.is_empty()).then(|| format!("On {numbers} processor{}", if last == 1 { "" } else { "s" }))
    };
    let mut warnings = Vec::new();
    if let Some(on) = listed(rows.iter().filter(|row| row.shared).collect()) {
        warnings.push(format!(
            "{on} the server and the load engine share processors: the rate is that of both together, and so \
             is the speed-up. Compare the processor time per request there, not the rate."
        ));
    }
    let busy = |row: &&CoresRow| {
        !row.shared && (row.kept.limit.load_engine_saturated || row.new.limit.load_engine_saturated)
    };
    if let Some(on) = listed(rows.iter().filter(busy).collect()) {
        warnings.push(format!(
            "{on} the load engine was busier than 90 %: the server could answer more requests a second than \
             it was asked. Compare the processor time per request there, not the rate."
        ));
    }
    for (name, of) in [("kept", (|row| &row.kept) as fn(&CoresRow) -> &CoresFigures), ("new", |row| &row.new)]
    {
        // Beside the load engine it also costs the change from one to the other.
        if let Some(row) = rows.iter().find(|row| !row.shared && of(row).cpu_ratio >= GROWTH) {
            warnings.push(format!(
                "On {} a request on {name} connections takes {:.2} times the processor time that it takes \
                 on {}. The threads of this server share nothing, so the kernel or the processors share it: \
                 locks and cache lines of the kernel, caches, memory, two threads of one core, the clock.",
                in_words(row.cores),
                of(row).cpu_ratio,
                in_words(rows[0].cores)
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(cores: usize, load: &[usize], cpu_us: f64, rate: f64) -> Number {
        let round = |cpu_us_per_request, saturated| RequestRound {
            requests: 10,
            cpu_us_per_request,
            requests_per_second: rate,
            saturated,
        };
        Number {
            cores,
            placement: Placement { system: (0..cores).collect(), load: load.to_vec() },
            kept: vec![round(cpu_us, false)],
            new: vec![round(10.0, cores == 2)],
        }
    }

    #[test]
    fn each_row_is_compared_with_the_fewest_processors() {
        let rows = rows(&[number(1, &[2, 3], 4.0, 100.0), number(2, &[2, 3], 5.0, 180.0)]);
        let (one, two) = (&rows[0], &rows[1]);
        assert_eq!((one.kept.speedup, one.kept.efficiency, one.kept.cpu_ratio), (1.0, 1.0, 1.0));
        assert_eq!((two.kept.speedup, two.kept.efficiency, two.kept.cpu_ratio), (1.8, 0.9, 1.25));
        assert_eq!((two.server_cores.as_slice(), two.shared), (&[0, 1][..], false));
        // From two to four: the ratio of the processors counts, not their number.
        let rows = self::rows(&[number(2, &[5], 4.0, 100.0), number(4, &[5], 4.0, 150.0)]);
        assert_eq!((rows[1].kept.speedup, rows[1].kept.efficiency), (1.5, 0.75));
    }

    #[test]
    fn what_a_rate_does_not_show_is_told() {
        let rows = rows(&[
            number(1, &[2], 4.0, 100.0),
            number(2, &[2], 4.5, 180.0),
            number(3, &[0, 1, 2], 9.0, 90.0),
        ]);
        let warnings = warnings(&rows);
        let expected = [
            "On 3 processors the server and the load engine share processors: the rate is that of both",
            "On 2 processors the load engine was busier than 90 %",
            "On 2 processors a request on kept connections takes 1.12 times the processor time that it takes \
             on 1 processor.",
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.starts_with(expected), "{warning}");
        }
        assert!(self::warnings(&rows[..1]).is_empty());
    }

    #[test]
    fn one_to_all_are_measured_unless_named() {
        let allowed = placement::allowed().unwrap().len();
        let cores = |numbers: Vec<Number>| numbers.iter().map(|number| number.cores).collect::<Vec<_>>();
        let all = cores(numbers(allowed, &[]).unwrap());
        assert_eq!((all.first(), all.last()), (Some(&1), Some(&allowed)));
        assert_eq!(cores(numbers(allowed, &[1, 1]).unwrap()), [1]);
        for wrong in [0, allowed + 1] {
            let refused = numbers(allowed, &[wrong]).err().unwrap();
            assert!(refused.contains(&format!("from 1 to {allowed}")), "{refused}");
        }
        let shared = numbers(allowed, &[allowed]).unwrap();
        assert_eq!(shared[0].placement.system, shared[0].placement.load);
    }
}
