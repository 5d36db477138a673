//! A bench run: a suite on one or more systems under test, on one machine.
//!
//! Everything that can be refused is refused before anything starts ([`prepare`]): names, packages, ports,
//! descriptors, the place for the result. Then all systems are started, checked and warmed, and the mixes run
//! in blocks, one for each run of the suite; within a block, for each mix, the systems take turns, with each
//! interface of the suite, in an order that rotates, so that noise affects all equally. The end of a system,
//! or an interrupt, ends the run; the measurements until then are kept, and the result is marked.

mod ask;
mod at_once;
mod certificate;
mod conformance;
mod event;
mod generator;
mod interrupt;
mod measure;
mod origin;
mod port;
mod prepare;
mod record;
mod running_system;
mod search;
mod system_selection;
mod warm_up;
mod warnings;

pub use event::{Event, Observer, Tick, Turn};
pub use generator::{GeneratedLoad, LoadGenerator, LoadMachine, OneMachine, PreparedLoad};
pub use interrupt::interrupt_on_signals;
pub use prepare::{PreparedBench, prepare};
pub use system_selection::{PartState, SelectedSystem, SystemKind};
pub use warnings::from_result as warnings_of;

use crate::placement::{self, PlacementOptions};
use measure::{MeasuredMix, Measurement, MixEnding};
use running_system::RunningSystem;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use touchstone_conformance::record::Conformance;
use touchstone_lab::derived;
use touchstone_lab::memory::Size;
use touchstone_lab::output::{LoggedHistogram, ResultDirectory};
use touchstone_lab::raw::{RawLabels, RawMix, RawPlace};
use touchstone_lab::result::{Disclosure, MixResult, ResultFile, RunStatus, SCHEMA_VERSION, SystemResult};
use touchstone_lab::spice;
use touchstone_lab::suite::Mix;
use touchstone_load::{Plan, Threshold};

/// What to run, as the command line states it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A built-in suite's name or a suite file's path.
    pub suite: String,
    /// Systems by name, path of a definition, or URL; empty: `touchstone`.
    pub systems: Vec<String>,
    /// The short form.
    pub quick: bool,
    /// How often each mix is run on each system; absent: three times, once in the short form.
    pub runs: Option<u64>,
    /// The time within which 95 of 100 answers must arrive for a load to be useful.
    pub p95: Option<Duration>,
    /// Whether the loads are searched for instead of taken from the suite.
    pub search: bool,
    /// Whether all systems have each mix at the same time, and not in turns.
    pub at_once: bool,
    /// Whether all systems are restarted before each run of the mixes except the first.
    pub restart: bool,
    /// The command that reaches other machines, with its options.
    pub ssh: Vec<String>,
    /// Each system is measured on each of these numbers of processors; empty: once, on those of `placement`.
    pub processors: Vec<usize>,
    /// Each system is measured with each of these sizes of memory; empty: with those of the suite.
    pub memory: Vec<Size>,
    /// The directory for the result; absent: one below `results/`, named by the time and the suite.
    pub output: Option<PathBuf>,
    /// These numbers of clients instead of the suite's mixes.
    pub clients: Option<Vec<usize>>,
    /// Mixes of an open load with these rates instead of the suite's.
    pub rates: Vec<f64>,
    /// Another length for all mixes.
    pub length: Option<Duration>,
    /// Another ramp up for all mixes.
    pub ramp_up: Option<Duration>,
    /// Another ramp down for all mixes.
    pub ramp_down: Option<Duration>,
    /// Another time for which each system is loaded before its first mix.
    pub warm_up: Option<Duration>,
    /// Which processors the load engine and the systems get.
    pub placement: PlacementOptions,
    /// The port of the first system that is started, the next ones follow; absent: any that are free.
    pub port: Option<u16>,
    /// The process of the system that is named by a URL of this machine, so that it can be watched.
    pub pid: Option<u32>,
    /// Where the metrics of the systems' machine are read from, where it is not this one.
    pub exporter: Option<String>,
    /// The statements of the person who measures.
    pub disclosure: Disclosure,
    /// Thresholds beside those of the suite.
    pub fail_if: Vec<Threshold>,
    /// Thresholds that end a mix, and the run, as soon as they are missed, beside those of the suite.
    pub abort_if: Vec<Threshold>,
    /// Seed of the choice of requests.
    pub seed: u64,
    /// Writes the report; absent: none is written.
    pub report: Option<WriteReport>,
    /// The words of the command line, for the record.
    pub command_line: Vec<String>,
}

/// Writes the report of a result into its directory and returns its path. This crate does not depend on that
/// of the reports.
pub type WriteReport = fn(&ResultFile, &Path) -> std::io::Result<PathBuf>;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchError {
    /// It could not start: bad arguments, configuration or environment.
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
pub struct BenchOutcome {
    /// What was measured.
    pub result: ResultFile,
    /// The result directory.
    pub directory: PathBuf,
    /// The report, where one was written.
    pub report: Option<PathBuf>,
    /// A threshold has ended it.
    pub aborted: bool,
}

/// Runs a suite from its options to its report, with the load of this machine. `interrupt` ends it early when
/// it becomes true.
pub fn run(
    options: Options,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<BenchOutcome, BenchError> {
    run_with(&OneMachine, options, observer, interrupt)
}

/// The same with the load of another generator.
pub fn run_with(
    generator: &dyn LoadGenerator,
    options: Options,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<BenchOutcome, BenchError> {
    let prepared = prepare(options).map_err(BenchError::Refused)?;
    let directory = prepared.directory.clone();
    // From here on this thread, and all programs that it starts except the servers, use only the load
    // engine's processors.
    let pin = PinnedThread::to(&prepared.placement.load);
    let finished = Run::start(prepared, generator, observer, interrupt).and_then(|run| run.carry_out());
    drop(pin);
    if finished.is_err() {
        directory.remove_if_empty();
    }
    finished
}

/// A run in progress.
struct Run<'a> {
    prepared: PreparedBench,
    running: Vec<RunningSystem>,
    systems: Vec<SystemResult>,
    histograms: Vec<LoggedHistogram>,
    conformance: Option<Conformance>,
    warnings: Vec<String>,
    /// A threshold has ended the run.
    aborted: bool,
    started_at: OffsetDateTime,
    generator: &'a dyn LoadGenerator,
    observer: &'a mut dyn Observer,
    interrupt: &'a AtomicBool,
}

impl<'a> Run<'a> {
    /// Starts, checks and warms every system.
    fn start(
        mut prepared: PreparedBench,
        generator: &'a dyn LoadGenerator,
        observer: &'a mut dyn Observer,
        interrupt: &'a AtomicBool,
    ) -> Result<Run<'a>, BenchError> {
        let started_at = OffsetDateTime::now_utc();
        let selected = std::mem::take(&mut prepared.selected);
        let mut systems: Vec<SystemResult> =
            selected.iter().map(|system| running_system::not_measured(system, &prepared.suite)).collect();
        let mut running = Vec::with_capacity(selected.len());
        for (place, system) in selected.into_iter().enumerate() {
            if system.runs() {
                observer.event(Event::Starting { system: &system.title });
                prepared.release_port(&system);
                let started = RunningSystem::start(system, place, &prepared, interrupt)?;
                observer.event(Event::Ready { system: &started.system.title });
                systems[place] = started.empty_result(&prepared.suite);
                running.push(started);
            }
            for skipped in &systems[place].skipped {
                observer.event(Event::Skipped { reason: &skipped.reason });
            }
        }
        let warnings = std::mem::take(&mut prepared.warnings);
        let histograms = Vec::new();
        Ok(Run {
            prepared,
            running,
            systems,
            histograms,
            conformance: None,
            warnings,
            aborted: false,
            started_at,
            generator,
            observer,
            interrupt,
        })
    }

    fn carry_out(mut self) -> Result<BenchOutcome, BenchError> {
        let launched = self
            .try_cases()
            .and_then(|()| self.warm_up())
            .and_then(|()| if self.prepared.search { self.search() } else { Ok(()) });
        let status = match launched {
            Ok(()) => self.run_mixes(),
            Err(reason) => RunStatus::Incomplete(reason),
        };
        self.stop_systems();
        let mut result = self.result(status);
        derived::make(&mut result);
        let directory = &self.prepared.directory;
        directory
            .write(&result, &self.histograms)
            .map_err(|error| BenchError::Failed(unwritable(directory, &error)))?;
        let written = self.prepared.report.map(|write| write(&result, directory.path())).transpose();
        let report = written.map_err(|error| BenchError::Failed(unwritable(directory, &error)))?;
        let directory = directory.path().to_path_buf();
        Ok(BenchOutcome { result, directory, report, aborted: self.aborted })
    }

    /// One load on a part of a system that is not one of the mixes; its `place` is its number and their
    /// count. An error is the reason why the run ends here.
    fn load_apart(
        &mut self,
        (running, part): (usize, usize),
        mix: &Mix,
        title: &str,
        (number, of): (usize, usize),
        after: Duration,
    ) -> Result<MeasuredMix, String> {
        let prepared = &self.prepared;
        let running = &mut self.running[running];
        let run_parameters = running.run_parameters(&prepared.placement.load, prepared.seed);
        let measurement = Measurement {
            plan: prepared.suite.plan(&prepared.suite.parts[part], mix, &run_parameters),
            abort_if: Vec::new(),
            thresholds: Vec::new(),
            pids: running.pids(),
            period: Duration::from_millis(500),
            exporter: prepared.exporter.clone(),
            session: running.session(),
            turn: event::Turn {
                system: title,
                mix: &mix.name,
                clients: mix.clients,
                rate: mix.rate,
                is_counted: false,
                number,
                of,
            },
            seconds_after: after.as_secs_f64(),
        };
        let measured = measurement.take(self.generator, running, self.observer, self.interrupt)?;
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(format!("it was interrupted in the {title}"));
        }
        match measured.ending {
            MixEnding::SystemDied(end) => Err(format!("it ended in the {title} ({end})")),
            MixEnding::LoadFailed(reason) => Err(format!("the load of the {title} failed: {reason}")),
            MixEnding::Whole | MixEnding::Interrupted | MixEnding::Aborted(_) => Ok(measured),
        }
    }

    /// Runs every mix on every system in turns; returns how it ended.
    fn run_mixes(&mut self) -> RunStatus {
        let turns = self.turns();
        let mut number = 0;
        while number < turns.len() {
            let begins_run = number > 0 && turns[number].run != turns[number - 1].run;
            if begins_run
                && self.prepared.method.restarts
                && let Err(reason) = self.restart_systems()
            {
                return RunStatus::Incomplete(reason);
            }
            let count = if self.prepared.method.at_once { at_once::count(&turns[number..]) } else { 1 };
            if let Err(reason) = self.run_turns(&turns, number, count) {
                return RunStatus::Incomplete(reason);
            }
            number += count;
            // Written to disk after each step, so that the finished mixes remain if this process is killed.
            let so_far = self.result(RunStatus::Incomplete("the run was still going on".to_string()));
            if let Err(error) = self.prepared.directory.write(&so_far, &self.histograms) {
                return RunStatus::Incomplete(unwritable(&self.prepared.directory, &error));
            }
        }
        RunStatus::Complete
    }

    /// What is measured when. Each run is a block. In it, within a mix each part has its turn, and within a
    /// part each system; the order rotates, so that each is first, second and last equally often.
    fn turns(&self) -> Vec<PlannedTurn> {
        let (parts, count) = (self.prepared.suite.parts.len(), self.running.len());
        let mut turns = Vec::new();
        for run in 0..self.prepared.method.runs as usize {
            for mix in 0..self.prepared.mixes.len() {
                for offset in 0..parts {
                    let part = (run + mix + offset) % parts;
                    for place in 0..count {
                        let running = (run + mix + offset + place) % count;
                        if self.running[running].runs(part) {
                            turns.push(PlannedTurn { run, mix, part, running });
                        }
                    }
                }
            }
        }
        turns
    }

    /// The choice of requests: the same for every system, another one for every mix and run.
    fn seed(&self, run: usize, mix: usize) -> u64 {
        self.prepared.seed.wrapping_add((run * self.prepared.mixes.len() + mix) as u64)
    }

    /// One mix of one part on one system, or on `count` systems at once. An error is the reason why the run
    /// ends here.
    fn run_turns(&mut self, turns: &[PlannedTurn], number: usize, count: usize) -> Result<(), String> {
        let chosen = &turns[number..number + count];
        let titles: Vec<String> = chosen.iter().map(|turn| self.title(turn.running, turn.part)).collect();
        let mix = self.prepared.mixes[chosen[0].mix].clone();
        let mut measurements = Vec::with_capacity(count);
        for (place, title) in titles.iter().enumerate() {
            measurements.push(self.measurement(turns, number + place, title, &mix)?);
        }
        for turn in chosen {
            self.running[turn.running].begin_mix();
        }
        let measured = match &measurements[..] {
            [one] => {
                let running = &mut self.running[chosen[0].running];
                vec![one.take(self.generator, running, self.observer, self.interrupt)]
            }
            several => {
                let running = at_once::chosen(&mut self.running, chosen);
                at_once::take(several, running, self.generator, self.observer, self.interrupt)
            }
        };
        let mut ended = Ok(());
        for ((turn, measurement), measured) in chosen.iter().zip(&measurements).zip(measured) {
            let measured = measured?;
            let running = &mut self.running[turn.running];
            let run = turn.run as u64 + 1;
            running.end_mix(&self.prepared, turn.part, (&mix, run), measured.outcome.total_requests);
            ended = ended.and(self.keep(*turn, measurement, &mix, measured));
        }
        ended
    }

    /// What is to be measured in a turn. An error is the reason why the run ends here.
    fn measurement<'b>(
        &mut self,
        turns: &[PlannedTurn],
        number: usize,
        title: &'b str,
        mix: &'b Mix,
    ) -> Result<Measurement<'b>, String> {
        let turn = turns[number];
        let seed = self.seed(turn.run, turn.mix);
        let running = &mut self.running[turn.running];
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(format!("it was interrupted before the mix {} on {title}", mix.name));
        }
        if let Some(end) = running.has_ended() {
            return Err(format!("{title} ended before the mix {} ({end})", mix.name));
        }
        let prepared = &self.prepared;
        let run_parameters = running.run_parameters(&prepared.placement.load, seed);
        let later = turns[number + 1..].iter();
        let plan = prepared.suite.plan(&prepared.suite.parts[turn.part], mix, &run_parameters);
        Ok(Measurement {
            abort_if: bound(&prepared.abort_if, &plan)?,
            thresholds: bound(&prepared.thresholds, &plan)?,
            plan,
            pids: running.pids(),
            period: if prepared.quick { Duration::from_millis(500) } else { Duration::from_secs(1) },
            exporter: prepared.exporter.clone(),
            session: running.session(),
            turn: event::Turn {
                system: title,
                mix: &mix.name,
                clients: mix.clients,
                rate: mix.rate,
                is_counted: true,
                number: number + 1,
                of: turns.len(),
            },
            seconds_after: later.map(|turn| prepared.mixes[turn.mix].length_s).sum(),
        })
    }

    /// The name for people of a part of the suite on a system.
    fn title(&self, running: usize, part: usize) -> String {
        let system = &self.running[running].system.title;
        match &self.prepared.suite.parts[part].interface {
            Some(interface) => format!("{system}, {}", interface.title),
            None => system.clone(),
        }
    }

    /// Keeps what a turn measured; an error is the reason why the run ends here.
    fn keep(
        &mut self,
        turn: PlannedTurn,
        measurement: &Measurement<'_>,
        mix: &Mix,
        measured: MeasuredMix,
    ) -> Result<(), String> {
        let title = measurement.turn.system;
        let running = &self.running[turn.running];
        let part = &self.prepared.suite.parts[turn.part];
        // Where other machines made the load, this one's processors had no part in it.
        let load_cpus = match measured.fleet {
            None => &self.prepared.placement.load[..],
            Some(_) => &[],
        };
        let place = record::Place {
            interface: part.name(),
            run: turn.run as u64 + 1,
            load_cpus,
            cpus: running.cpus(),
            thresholds: &measurement.thresholds,
            uncounted: running.does_not_count(&part.needs()),
        };
        let result = record::mix_result(mix, &place, &measured);
        for warning in &measured.outcome.warnings {
            // Warnings that apply to any system were given before the first mix.
            if !self.warnings.contains(warning) {
                warnings::add(&mut self.warnings, warnings::of_the_engine(title, mix, warning));
            }
        }
        // The raw data, from which every figure can be computed again (`touchstone verify`).
        let place = RawPlace {
            system: &running.system.name,
            labels: RawLabels::of(&result),
            row: self.systems[running.place].mixes.len(),
            mix: &mix.name,
            load_cpus,
            cpus: running.cpus(),
            fleet: measured.fleet.as_ref(),
            arrivals: record::arrivals(mix, &measured.outcome),
        };
        let raw = RawMix::of(&place, &measured.outcome, &measured.recording);
        let kept = self.prepared.directory.append_raw(&raw);
        kept.map_err(|error| unwritable(&self.prepared.directory, &error))?;
        let run = if turn.run == 0 { String::new() } else { format!("run{}", turn.run + 1) };
        let names = [&running.system.name, part.name(), &mix.name, &run];
        let tag: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        self.histograms.push(LoggedHistogram {
            tag: tag.join("/"),
            window_start: measured.window_start,
            window: measured.outcome.window,
            latency_ns: measured.outcome.latency_ns,
        });
        self.observer.event(Event::MixFinished { system: title, result: &result });
        let unanswered = nothing_answered(&result);
        let system = &mut self.systems[running.place];
        system.mixes.push(result);
        system.origin = running.origin();
        match measured.ending {
            MixEnding::SystemDied(end) => {
                system.last_words = running.last_output();
                Err(format!("{title} ended in the mix {} ({end})", mix.name))
            }
            MixEnding::Interrupted => Err(format!("it was interrupted in the mix {} on {title}", mix.name)),
            MixEnding::Aborted(verdict) => {
                self.aborted = true;
                Err(format!("the mix {} on {title} was ended by --abort-if {verdict}", mix.name))
            }
            MixEnding::LoadFailed(reason) => {
                Err(format!("the mix {} on {title} is not valid: {reason}", mix.name))
            }
            MixEnding::Whole if unanswered => {
                system.last_words = running.last_output();
                Err(format!("{title} gave no valid answer in the mix {}", mix.name))
            }
            MixEnding::Whole => Ok(()),
        }
    }

    /// Restarts all systems and warms them up. An error is the reason why the run ends.
    fn restart_systems(&mut self) -> Result<(), String> {
        for running in &mut self.running {
            self.observer.event(Event::Starting { system: &running.system.title });
            running.restart(&self.prepared, self.interrupt)?;
            self.observer.event(Event::Ready { system: &running.system.title });
        }
        self.warm_up()
    }

    /// Ends all systems: first sends a signal to each, then waits for each.
    fn stop_systems(&mut self) {
        self.running.iter().for_each(RunningSystem::request_end);
        self.running.iter_mut().for_each(RunningSystem::stop);
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
            method: prepared.method,
            machine: prepared.machine.clone(),
            disclosure: prepared.disclosure.clone(),
            systems: self.systems.clone(),
            spice: Vec::new(),
            comparisons: Vec::new(),
            speedups: Vec::new(),
            conformance: self.conformance.clone(),
            warnings: self.warnings.clone(),
        };
        result.spice = spice::rows(&result);
        for warning in warnings::from_result(&result) {
            warnings::add(&mut result.warnings, warning);
        }
        result
    }
}

/// One run of one mix of one part of the suite on one system, by their places.
#[derive(Debug, Clone, Copy)]
struct PlannedTurn {
    run: usize,
    mix: usize,
    part: usize,
    running: usize,
}

/// The thresholds with their URLs found in the plan.
fn bound(thresholds: &[Threshold], plan: &Plan) -> Result<Vec<Threshold>, String> {
    thresholds.iter().map(|threshold| threshold.clone().bind(plan)).collect()
}

/// The calling thread on some processors, and back where it was when this is dropped.
struct PinnedThread {
    before: Option<Vec<usize>>,
}

impl PinnedThread {
    fn to(cpus: &[usize]) -> PinnedThread {
        let before = placement::allowed().ok();
        // If it cannot be pinned the run continues: the engine's threads pin themselves, or report why they
        // cannot.
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
