//! A bench run: a suite on one or more systems under test, on one machine.
//!
//! Everything that can be refused is refused before anything starts ([`prepare`]): names, packages, ports,
//! descriptors, the place for the result. Then all systems are started, checked and warmed, and the mixes run; for
//! each mix the systems take turns, in an order that rotates, so that noise falls on all alike. A system that dies,
//! or an interrupt, ends the run; what was measured until then is kept and marked.

mod contender;
mod event;
mod interrupt;
mod measure;
mod prepare;
mod record;
mod warnings;

pub use event::{Event, Observer, Tick, Turn};
pub use interrupt::interrupt_on_signals;
pub use prepare::{Entrant, EntrantKind, Prepared, prepare};
pub(crate) use record::latency_record;

use crate::output::{LoggedHistogram, ResultDirectory};
use crate::placement::{self, Wishes};
use crate::raw::{RawMix, RawPlace};
use crate::result::{MixResult, ResultFile, RunStatus, SCHEMA_VERSION, SystemResult};
use crate::suite::{Drive, Mix};
use contender::Contender;
use measure::{Ending, Measured, Measurement};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What to run, as the command line says it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A built-in suite's name or a suite file's path.
    pub suite: String,
    /// Systems by name, path of a definition, or URL; empty: `touchstone`.
    pub systems: Vec<String>,
    /// The short form.
    pub quick: bool,
    /// The directory for the result; absent: one below `results/`, named by the time and the suite.
    pub output: Option<PathBuf>,
    /// These numbers of clients instead of the suite's mixes.
    pub clients: Option<Vec<usize>>,
    /// Another length for all mixes.
    pub length: Option<Duration>,
    /// Another ramp up for all mixes.
    pub ramp_up: Option<Duration>,
    /// Another ramp down for all mixes.
    pub ramp_down: Option<Duration>,
    /// Which processors go to whom.
    pub placement: Wishes,
    /// The port of the first system that is started, the next ones follow; absent: any that are free.
    pub port: Option<u16>,
    /// The process of the system that is named by a URL of this machine, so that it can be watched.
    pub pid: Option<u32>,
    /// Where the metrics of the systems' machine are read from, where it is not this one.
    pub exporter: Option<String>,
    /// Seed of the choice of requests.
    pub seed: u64,
    /// Whether the HTML report is written.
    pub report: bool,
    /// The words of the command line, for the record.
    pub command_line: Vec<String>,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchError {
    /// It could not start: bad words, configuration or surroundings.
    Refused(String),
    /// It started, and the result could not be kept, or it was interrupted before anything was measured.
    Failed(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Refused(message) | BenchError::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for BenchError {}

/// A run that left a result.
#[derive(Debug, Clone)]
pub struct Finished {
    /// What was measured.
    pub result: ResultFile,
    /// The result directory.
    pub directory: PathBuf,
    /// The report, where one was written.
    pub report: Option<PathBuf>,
}

/// Runs a suite from its options to its report. `interrupt` ends it early when it becomes true.
pub fn run(
    options: Options,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<Finished, BenchError> {
    let prepared = prepare(options).map_err(BenchError::Refused)?;
    let directory = prepared.directory.clone();
    // From here on this thread, and whatever it starts that is not the server, keeps to the load engine's processors.
    let pin = PinnedThread::to(&prepared.placement.load);
    let finished = Run::start(prepared, observer, interrupt).and_then(|run| run.carry_out());
    drop(pin);
    if finished.is_err() {
        directory.remove_if_empty();
    }
    finished
}

/// A run under way.
struct Run<'a> {
    prepared: Prepared,
    contenders: Vec<Contender>,
    systems: Vec<SystemResult>,
    histograms: Vec<LoggedHistogram>,
    warnings: Vec<String>,
    started_at: OffsetDateTime,
    observer: &'a mut dyn Observer,
    interrupt: &'a AtomicBool,
}

impl<'a> Run<'a> {
    /// Starts, checks and warms every system.
    fn start(
        mut prepared: Prepared,
        observer: &'a mut dyn Observer,
        interrupt: &'a AtomicBool,
    ) -> Result<Run<'a>, BenchError> {
        let started_at = OffsetDateTime::now_utc();
        let mut contenders = Vec::with_capacity(prepared.entrants.len());
        for entrant in std::mem::take(&mut prepared.entrants) {
            observer.event(Event::Starting { system: &entrant.title });
            let contender = Contender::start(entrant, &prepared, interrupt)?;
            observer.event(Event::Ready { system: &contender.entrant.title });
            contenders.push(contender);
        }
        let systems = contenders.iter().map(Contender::empty_result).collect();
        let warnings = std::mem::take(&mut prepared.warnings);
        let histograms = Vec::new();
        Ok(Run { prepared, contenders, systems, histograms, warnings, started_at, observer, interrupt })
    }

    fn carry_out(mut self) -> Result<Finished, BenchError> {
        let status = self.run_mixes();
        self.stop_systems();
        let result = self.result(status);
        let directory = &self.prepared.directory;
        directory
            .write(&result, &self.histograms)
            .map_err(|error| BenchError::Failed(unwritable(directory, &error)))?;
        let report = if self.prepared.report {
            let written = crate::report::write_html(&result, directory.path());
            Some(written.map_err(|error| BenchError::Failed(unwritable(directory, &error)))?)
        } else {
            None
        };
        Ok(Finished { result, directory: directory.path().to_path_buf(), report })
    }

    /// Runs every mix on every system in turns; says how it ended.
    fn run_mixes(&mut self) -> RunStatus {
        let mixes = self.prepared.mixes.clone();
        let count = self.contenders.len();
        let mut turn = 0;
        for (mix_index, mix) in mixes.iter().enumerate() {
            for place in 0..count {
                // The order rotates: each system is first, second and last equally often.
                let contender = (mix_index + place) % count;
                if let Err(reason) = self.run_turn(contender, mix_index, mix, turn) {
                    return RunStatus::Incomplete(reason);
                }
                turn += 1;
                // Kept on disk as far as it is: nothing is lost if this process is killed.
                let so_far = self.result(RunStatus::Incomplete("the run was still going on".to_string()));
                if let Err(error) = self.prepared.directory.write(&so_far, &self.histograms) {
                    return RunStatus::Incomplete(unwritable(&self.prepared.directory, &error));
                }
            }
        }
        RunStatus::Complete
    }

    /// One mix on one system. An error is the reason why the run ends here.
    fn run_turn(&mut self, index: usize, mix_index: usize, mix: &Mix, turn: usize) -> Result<(), String> {
        let contender = &mut self.contenders[index];
        let title = contender.entrant.title.clone();
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(format!("it was interrupted before the mix {} on {title}", mix.name));
        }
        if let Some(end) = contender.has_ended() {
            return Err(format!("{title} ended before the mix {} ({end})", mix.name));
        }
        let prepared = &self.prepared;
        let drive = Drive {
            target: contender.target.clone(),
            path_prefix: contender.path_prefix(),
            cores: &prepared.placement.load,
            // The same choice of requests for every system, another one for every mix.
            seed: prepared.seed.wrapping_add(mix_index as u64),
            check_lengths: !contender.entrant.is_limit,
        };
        let measurement = Measurement {
            plan: prepared.suite.plan(mix, &drive),
            pid: contender.pid(),
            period: if prepared.quick { Duration::from_millis(500) } else { Duration::from_secs(1) },
            exporter: prepared.exporter.clone(),
            turn: event::Turn {
                system: &title,
                mix: &mix.name,
                clients: mix.clients,
                number: turn + 1,
                of: prepared.mixes.len() * self.contenders.len(),
            },
            seconds_after: self.seconds_after(mix_index, turn),
        };
        let contender = &mut self.contenders[index];
        let measured = measurement.take(contender, self.observer, self.interrupt)?;
        self.keep(index, mix, measured)
    }

    /// Keeps what a turn measured; an error is the reason why the run ends here.
    fn keep(&mut self, index: usize, mix: &Mix, measured: Measured) -> Result<(), String> {
        let contender = &self.contenders[index];
        let cpus = if contender.is_pinned() { self.prepared.placement.system.len() } else { 1 };
        let result = record::mix_result(mix, &self.prepared.placement.load, cpus, &measured);
        let title = contender.entrant.title.clone();
        for warning in &measured.outcome.warnings {
            warnings::add(&mut self.warnings, warning.clone());
        }
        // What was measured itself, so that anybody can compute every figure again (`touchstone verify`).
        let place = RawPlace {
            system: &contender.entrant.name,
            row: self.systems[index].mixes.len(),
            mix: &mix.name,
            load_cpus: &self.prepared.placement.load,
            cpus: if contender.is_pinned() { &self.prepared.placement.system } else { &[] },
        };
        let raw = RawMix::of(&place, &measured.outcome, &measured.recording);
        let kept = self.prepared.directory.append_raw(&raw);
        kept.map_err(|error| unwritable(&self.prepared.directory, &error))?;
        self.histograms.push(LoggedHistogram {
            tag: format!("{}/{}", contender.entrant.name, mix.name),
            window_start: measured.window_start,
            window: measured.outcome.window,
            latency_ns: measured.outcome.latency_ns,
        });
        self.observer.event(Event::MixFinished { system: &title, result: &result });
        let unanswered = nothing_answered(&result);
        self.systems[index].mixes.push(result);
        match measured.ending {
            Ending::SystemDied(end) => {
                self.systems[index].last_words = self.contenders[index].last_words();
                Err(format!("{title} ended in the mix {} ({end})", mix.name))
            }
            Ending::Interrupted => Err(format!("it was interrupted in the mix {} on {title}", mix.name)),
            Ending::Whole if unanswered => {
                self.systems[index].last_words = self.contenders[index].last_words();
                Err(format!("{title} gave no valid answer in the mix {}", mix.name))
            }
            Ending::Whole => Ok(()),
        }
    }

    /// The seconds that the turns after this one will take.
    fn seconds_after(&self, mix_index: usize, turn: usize) -> f64 {
        let (mixes, count) = (&self.prepared.mixes, self.contenders.len());
        let this_mix = (count - 1 - turn % count) as f64 * mixes[mix_index].length_s;
        this_mix + mixes[mix_index + 1..].iter().map(|mix| mix.length_s * count as f64).sum::<f64>()
    }

    /// Ends all systems: first all are asked, then each is waited for.
    fn stop_systems(&mut self) {
        self.contenders.iter().for_each(Contender::ask_to_end);
        self.contenders.iter_mut().for_each(Contender::stop);
    }

    fn result(&self, status: RunStatus) -> ResultFile {
        let prepared = &self.prepared;
        let rfc3339 = |time: OffsetDateTime| {
            time.replace_nanosecond(0).unwrap_or(time).format(&Rfc3339).unwrap_or_default()
        };
        let mut result = ResultFile {
            schema_version: SCHEMA_VERSION,
            tool: prepared.tool.clone(),
            started_at: rfc3339(self.started_at),
            finished_at: rfc3339(OffsetDateTime::now_utc()),
            command_line: prepared.command_line.clone(),
            status,
            suite: prepared.suite.record(prepared.quick, prepared.seed),
            machine: prepared.machine.clone(),
            systems: self.systems.clone(),
            warnings: self.warnings.clone(),
        };
        for warning in warnings::of(&result) {
            warnings::add(&mut result.warnings, warning);
        }
        result
    }
}

/// The calling thread on some processors, and back where it was when this is dropped.
struct PinnedThread {
    before: Option<Vec<usize>>,
}

impl PinnedThread {
    fn to(cpus: &[usize]) -> PinnedThread {
        let before = placement::allowed().ok();
        // Where it cannot be pinned the run goes on: the engine's threads pin themselves, or say why they cannot.
        let _ = placement::pin_this_thread(cpus);
        PinnedThread { before }
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = placement::pin_this_thread(before);
        }
    }
}

fn nothing_answered(result: &MixResult) -> bool {
    result.complete && result.requests == 0 && result.errors.total() > 0
}

fn unwritable(directory: &ResultDirectory, error: &std::io::Error) -> String {
    let place: &Path = directory.path();
    format!("the result could not be written to {}: {error}", place.display())
}
