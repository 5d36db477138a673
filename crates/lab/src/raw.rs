//! The raw data of a run: the counts of the load engine and the readings of the monitor, before any figure is
//! computed.
//!
//! `raw.jsonl` in the result directory has a line for each mix: counts, histograms in HdrHistogram's V2 form
//! (deflated, base64), every client, every second, and every snapshot of the monitor. Each figure of
//! `result.json` can be computed again from it, and `touchstone verify` does that.

pub use crate::raw_histogram::RawHistogram;
pub use crate::raw_streams::{RawArrivals, RawMessages, RawWebSockets};
use crate::recording::Recording;
use crate::regular_file;
use crate::result::{ClassFigures, FleetUse, HandshakeRecord, MixResult, Values};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
pub use touchstone_load::ValueSummary;
use touchstone_load::{ClassOutcome, Outcome};

/// The name of the file in the result directory.
pub const FILE_NAME: &str = "raw.jsonl";
/// The version of its lines; a reader refuses a higher one.
///
/// Version 2 has the labels of the mix as well ([`RawLabels`]), so that they cannot be swapped between mixes
/// unseen.
pub const VERSION: u32 = 2;
/// The longest line that is read, bytes: a mix of ten thousand clients has about 20 MB.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The most lines that are read.
const LINES_MAX: usize = 10_000;

/// One mix on one system, as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawMix {
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// The system's name.
    pub system: String,
    /// The mix's place among the system's mixes in `result.json`, from 0.
    pub row: usize,
    /// The mix's name.
    pub mix: String,
    /// The settings of the mix; absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<RawLabels>,
    /// Processors of the load engine.
    pub load_cpus: Vec<usize>,
    /// Processors of the system under test; empty: not pinned.
    pub cpus: Vec<usize>,
    /// The counted window, seconds.
    pub window_s: f64,
    /// Valid answers in the window.
    pub requests: u64,
    /// Valid answers of the whole mix.
    pub total_requests: u64,
    /// Errors in the window by kind.
    pub errors: BTreeMap<String, u64>,
    /// Bytes received in the window, heads included.
    pub bytes: u64,
    /// Bytes of the bodies.
    pub body_bytes: u64,
    /// Connections made in the window.
    pub connections: u64,
    /// TLS handshakes of the whole mix; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_handshakes: Option<HandshakeRecord>,
    /// Latency of every valid answer in the window, nanoseconds.
    pub latency: RawHistogram,
    /// Connect times in the window, nanoseconds.
    pub connect: RawHistogram,
    /// What became of the arrivals of an open load; absent of a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<RawArrivals>,
    /// The messages, where answers are streams of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<RawMessages>,
    /// Every class of requests; absent in raw data of before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<RawClass>,
    /// Every client.
    pub clients: Vec<RawClient>,
    /// Every second, ramps included.
    pub intervals: Vec<RawInterval>,
    /// The load engine's processor time.
    pub engine: RawEngine,
    /// The sign that the load engine was at its limit.
    pub generator_saturated: Option<String>,
    /// The load machines, if there were several, with each one's own report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetUse>,
    /// The monitor's recording.
    pub recording: Recording,
}

/// The settings of a mix, under the names that `result.json` has for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawLabels {
    /// The interface that it measured; empty where the suite has one workload for all.
    pub interface: String,
    /// Which run of the mix it was, from 1.
    pub run: u64,
    /// Virtual clients.
    pub clients: u64,
    /// Ramp up, seconds.
    pub ramp_up_s: f64,
    /// Whole length with ramps, seconds.
    pub length_s: f64,
    /// Ramp down, seconds.
    pub ramp_down_s: f64,
    /// Random start delay, at most, seconds.
    pub delay_s: f64,
    /// Think time, seconds.
    pub think_time_s: f64,
    /// False when the mix was cut short.
    pub complete: bool,
}

impl RawLabels {
    /// The labels of a mix.
    pub fn of(mix: &MixResult) -> RawLabels {
        RawLabels {
            interface: mix.interface.clone(),
            run: mix.run,
            clients: mix.clients,
            ramp_up_s: mix.ramp_up_s,
            length_s: mix.length_s,
            ramp_down_s: mix.ramp_down_s,
            delay_s: mix.delay_s,
            think_time_s: mix.think_time_s,
            complete: mix.complete,
        }
    }
}

/// One class of requests in the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RawClass {
    /// Errors.
    pub errors: u64,
    /// Pages that ended.
    pub pages: u64,
    /// Latency of the valid answers, nanoseconds.
    pub response_ns: ValueSummary,
    /// From connect to connected, nanoseconds.
    pub connect_ns: ValueSummary,
    /// Bytes of a valid answer, head included.
    pub answer_bytes: ValueSummary,
    /// Bytes of a valid answer's body.
    pub body_bytes: ValueSummary,
}

impl RawClass {
    /// The counts of the engine for a class.
    pub fn of(class: &ClassOutcome) -> RawClass {
        let ClassOutcome { errors, pages, response_ns, connect_ns, answer_bytes, body_bytes, .. } = *class;
        RawClass { errors, pages, response_ns, connect_ns, answer_bytes, body_bytes }
    }

    /// Its figures in the result file.
    pub fn figures(&self) -> ClassFigures {
        let values = |summary: &ValueSummary, unit: f64| Values {
            count: summary.count,
            mean: summary.mean() / unit,
            stddev: summary.stddev() / unit,
            min: summary.min as f64 / unit,
            max: summary.max as f64 / unit,
        };
        ClassFigures {
            errors: self.errors,
            pages: self.pages,
            response_us: values(&self.response_ns, 1e3),
            connect_us: values(&self.connect_ns, 1e3),
            answer_bytes: values(&self.answer_bytes, 1.0),
            body_bytes: values(&self.body_bytes, 1.0),
        }
    }
}

/// One virtual client in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawClient {
    /// Valid answers.
    pub requests: u64,
    /// Errors.
    pub errors: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Latency, nanoseconds.
    pub latency: RawHistogram,
}

/// One second of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawInterval {
    /// Its beginning, seconds from the mix's start.
    pub start_s: f64,
    /// Its length, seconds.
    pub length_s: f64,
    /// Valid answers that ended in it.
    pub requests: u64,
    /// Errors in it.
    pub errors: u64,
    /// Bytes received in it.
    pub bytes: u64,
    /// Latency, nanoseconds.
    pub latency: RawHistogram,
}

/// The load engine's own use of the machine in the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RawEngine {
    /// User mode, seconds.
    pub user_s: f64,
    /// System mode, seconds.
    pub system_s: f64,
    /// The busiest thread's share of one processor.
    pub busiest_thread: f64,
    /// The longest share of the time for which a thread could have run while another program had its
    /// processor.
    pub longest_waiting_thread: f64,
}

/// The identity of a mix.
#[derive(Debug, Clone)]
pub struct RawPlace<'a> {
    /// The system's name.
    pub system: &'a str,
    /// The settings of the mix.
    pub labels: RawLabels,
    /// The mix's place among the system's mixes.
    pub row: usize,
    /// The mix's name.
    pub mix: &'a str,
    /// Processors of the load engine.
    pub load_cpus: &'a [usize],
    /// Processors of the system under test.
    pub cpus: &'a [usize],
    /// The load machines, where there were several.
    pub fleet: Option<&'a FleetUse>,
    /// What became of the arrivals of an open load.
    pub arrivals: Option<RawArrivals>,
}

impl RawMix {
    /// The data of the engine and the monitor.
    pub fn of(place: &RawPlace<'_>, outcome: &Outcome, recording: &Recording) -> RawMix {
        let client = |client: &touchstone_load::ClientOutcome| RawClient {
            requests: client.requests,
            errors: client.errors,
            bytes: client.bytes,
            latency: RawHistogram::of(&client.latency_ns),
        };
        let interval = |interval: &touchstone_load::Interval| RawInterval {
            start_s: interval.start_s,
            length_s: interval.length_s,
            requests: interval.requests,
            errors: interval.errors,
            bytes: interval.bytes,
            latency: RawHistogram::of(&interval.latency_ns),
        };
        let engine = &outcome.engine;
        RawMix {
            version: VERSION,
            system: place.system.to_owned(),
            row: place.row,
            mix: place.mix.to_owned(),
            labels: Some(place.labels.clone()),
            load_cpus: place.load_cpus.to_vec(),
            cpus: place.cpus.to_vec(),
            window_s: outcome.window.as_secs_f64(),
            requests: outcome.requests,
            total_requests: outcome.total_requests,
            errors: outcome
                .errors
                .by_kind()
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
            bytes: outcome.bytes,
            body_bytes: outcome.body_bytes,
            connections: outcome.connections,
            tls_handshakes: HandshakeRecord::of(outcome.handshakes),
            latency: RawHistogram::of(&outcome.latency_ns),
            connect: RawHistogram::of(&outcome.connect_ns),
            arrivals: place.arrivals.clone(),
            messages: RawMessages::of(outcome),
            classes: outcome.classes.iter().map(RawClass::of).collect(),
            clients: outcome.clients.iter().map(client).collect(),
            intervals: outcome.intervals.iter().map(interval).collect(),
            engine: RawEngine {
                user_s: engine.user_s,
                system_s: engine.system_s,
                busiest_thread: engine.busiest_thread,
                longest_waiting_thread: engine.longest_waiting_thread,
            },
            generator_saturated: crate::saturation::signs(outcome, recording),
            fleet: place.fleet.cloned(),
            recording: recording.clone(),
        }
    }
}

/// Why the raw data could not be read.
#[derive(Debug)]
pub enum RawError {
    /// There is none: the result is older than the file, or the file was removed.
    Missing(PathBuf),
    /// It could not be opened or read.
    Io(PathBuf, io::Error),
    /// A line is damaged: its number from 1, and the reason.
    Damaged(PathBuf, usize, String),
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawError::Missing(path) => write!(f, "there is no raw data at {}", path.display()),
            RawError::Io(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            RawError::Damaged(path, line, reason) => {
                write!(f, "{}, line {line}: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for RawError {}

/// Reads the raw data of a result directory.
pub fn read(directory: &Path) -> Result<Vec<RawMix>, RawError> {
    let path = directory.join(FILE_NAME);
    let file = regular_file::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RawError::Missing(path.clone()),
        _ => RawError::Io(path.clone(), error),
    })?;
    let mut reader = BufReader::new(file);
    let mut mixes = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| RawError::Io(path.clone(), error))? == 0 {
            break;
        }
        let damaged = |reason: String| RawError::Damaged(path.clone(), number, reason);
        if number > LINES_MAX {
            return Err(damaged(format!("more than {LINES_MAX} lines")));
        }
        mixes.push(parse(&line).map_err(damaged)?);
    }
    Ok(mixes)
}

/// Reads one line; the text of an error states what is wrong with it.
pub fn parse(line: &[u8]) -> Result<RawMix, String> {
    if line.last() != Some(&b'\n') {
        return Err("the line does not end: it was cut, or is too long".to_owned());
    }
    let mix: RawMix = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if mix.version > VERSION {
        return Err(format!("version {}, and this program reads up to {VERSION}", mix.version));
    }
    if mix.version > 1 && mix.labels.is_none() {
        return Err("the labels of the mix are missing, which version 2 has".to_owned());
    }
    Ok(mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_line_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("no raw data at"));
        std::fs::write(directory.path().join(FILE_NAME), "{}\n").unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("line 1: missing field `version`"));
        std::fs::write(directory.path().join(FILE_NAME), "{}").unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("does not end"));
    }
}
