//! A run in progress: its state as one [`State`], kept by an [`Observer`] and shown on a terminal
//! ([`screen`]) and as a page of this machine ([`web`]).
//!
//! The views run on the load engine's processors, as the bench thread does, and never on those of the system
//! under test: an update costs well below a millisecond, four times a second.

#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod screen;
pub mod web;

use crate::bench::{self, Event, Observer, Tick, Turn};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use touchstone_lab::result::MixResult;

/// The ticks that are kept for drawing: a minute of four a second.
const HISTORY: usize = 240;
/// The mixes that are kept for the list, the latest.
const FINISHED_MAX: usize = 200;
/// The notes that are kept, the latest.
const NOTES_MAX: usize = 20;
/// The phase of load that is not counted.
const NOT_COUNTED: &str = "not counted";

/// The state of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    /// The suite's name.
    pub suite: String,
    /// The current activity, in words.
    pub doing: String,
    /// Whether the run is over.
    pub ended: bool,
    /// The mix that runs.
    pub mix: Option<Mix>,
    /// Its figures; absent until the first are there.
    pub now: Option<CurrentFigures>,
    /// The machines that send load, one row each.
    pub load_machines: Vec<LoadMachine>,
    /// Of a fleet, the number of machines in each state.
    pub fleet: String,
    /// The last minute, the oldest first.
    pub history: VecDeque<Point>,
    /// The mixes that are done, the latest last.
    pub finished: VecDeque<FinishedMix>,
    /// How many are done in all.
    pub finished_count: usize,
    /// What was left out, and why.
    pub notes: VecDeque<String>,
    /// Seconds until the end of the whole run.
    pub seconds_left: Option<f64>,
}

/// The mix that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Mix {
    /// The system, with the interface where there are several.
    pub system: String,
    /// The mix's name.
    pub name: String,
    /// Virtual clients.
    pub clients: u64,
    /// Its load in words: `8 clients`, or of an open load `2,000 arrivals/s`.
    pub load: String,
    /// Its place in the whole run, from 1.
    pub number: usize,
    /// All mixes of the run, each of each system counted.
    pub of: usize,
    /// Seconds since its beginning.
    pub elapsed_s: f64,
    /// Its whole length, seconds; 0 until it is known.
    pub length_s: f64,
    /// `ramp up`, `counted`, `ramp down`; `not counted` before the mixes.
    pub phase: &'static str,
}

/// The current figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CurrentFigures {
    /// Valid answers a second, over about the last second.
    pub requests_per_second: f64,
    /// Bytes received a second.
    pub bytes_per_second: f64,
    /// Errors of this mix so far.
    pub errors: u64,
    /// Median latency of the last second or two, microseconds.
    pub p50_us: Option<f64>,
    /// 95th percentile.
    pub p95_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Processors that the system under test uses; absent when it is not watched.
    pub server_cpus: Option<f64>,
    /// Its resident memory, bytes.
    pub server_resident_bytes: Option<u64>,
    /// The whole machine's processor use, 0 to 1.
    pub machine_share: Option<f64>,
}

/// A machine that sends load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LoadMachine {
    /// Its name.
    pub name: String,
    /// Valid answers a second.
    pub requests_per_second: f64,
    /// Errors so far.
    pub errors: u64,
    /// Processors that its load engine uses; absent for a fleet's agent, which reports the load of its
    /// machine.
    pub cpus: Option<f64>,
    /// What a fleet's agent does, in a word or two.
    pub state: Option<String>,
    /// How busy the agent's machine is, 0 to 1.
    pub busy: Option<f64>,
    /// How far the agent's clock is ahead of this machine's, microseconds.
    pub clock_offset_us: Option<f64>,
    /// How exactly that is known, microseconds.
    pub clock_bound_us: Option<f64>,
    /// It should take part, but sends no messages.
    pub missing: bool,
    /// It makes as much load as its processors can: its figures are partly its own.
    pub saturated: bool,
}

impl From<&bench::LoadMachine> for LoadMachine {
    fn from(machine: &bench::LoadMachine) -> LoadMachine {
        LoadMachine {
            name: machine.name.clone(),
            requests_per_second: machine.requests_per_second,
            errors: machine.errors,
            cpus: None,
            state: Some(machine.state.clone()),
            busy: Some(machine.cpu_share),
            clock_offset_us: machine.clock_offset_us,
            clock_bound_us: machine.clock_bound_us,
            missing: NOT_THERE.contains(&machine.state.as_str()),
            saturated: machine.cpu_share > SATURATED,
        }
    }
}

/// The states of agents that send no messages.
const NOT_THERE: [&str; 4] = ["lost", "gone", "not there", "no broker"];
/// A machine that is busier than this also measures itself.
const SATURATED: f64 = 0.9;

/// How many machines there are in each state, in words; empty if only this machine sends load.
pub fn fleet_summary(machines: &[LoadMachine]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for state in machines.iter().filter_map(|machine| machine.state.as_deref()) {
        *counts.entry(state).or_default() += 1;
    }
    let words: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    words.join(", ")
}

impl LoadMachine {
    /// Its name, with its state if that is known.
    pub fn title(&self) -> String {
        match &self.state {
            Some(state) => format!("{} ({state})", self.name),
            None => self.name.clone(),
        }
    }
}

/// One tick of the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Point {
    /// Valid answers a second.
    pub requests_per_second: f64,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: Option<f64>,
}

/// A mix that is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FinishedMix {
    /// The system, with the interface where there are several.
    pub system: String,
    /// Virtual clients.
    pub clients: u64,
    /// Its load in words.
    pub load: String,
    /// Valid answers a second.
    pub requests_per_second: f64,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: f64,
    /// Errors.
    pub errors: u64,
    /// Processor time of a request, microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// False when it was cut short.
    pub complete: bool,
}

impl State {
    /// A run that has not begun. `machine` is the name of the one that sends load.
    pub fn new(suite: &str, machine: &str) -> State {
        State {
            suite: suite.to_owned(),
            doing: "looking at what is needed".to_owned(),
            load_machines: vec![LoadMachine { name: machine.to_owned(), ..LoadMachine::default() }],
            ..State::default()
        }
    }

    /// Takes in an event.
    pub fn apply(&mut self, event: &Event<'_>) {
        match event {
            Event::Starting { system } => self.doing = format!("starting {system}"),
            Event::Ready { system } => self.doing = format!("{system} is ready"),
            Event::Skipped { reason } => push(&mut self.notes, (*reason).to_owned(), NOTES_MAX),
            Event::Conformance { system, done, of } => {
                self.doing = format!("rules of HTTP on {system}: {done} of {of} cases");
            }
            Event::MixStarted(turn) => self.begin(turn),
            Event::Tick(tick) => self.tick(tick),
            Event::LoadMachines(machines) => {
                self.load_machines = machines.iter().map(LoadMachine::from).collect();
                // Missing machines are listed first, so that they are easy to find among many.
                self.load_machines.sort_by_key(|machine| !machine.missing);
                self.fleet = fleet_summary(&self.load_machines);
            }
            Event::MixFinished { system, result } => self.finish(system, result),
        }
    }

    /// The run is over: `words` state how.
    pub fn end(&mut self, words: &str) {
        self.ended = true;
        self.seconds_left = Some(0.0);
        words.clone_into(&mut self.doing);
    }

    fn begin(&mut self, turn: &Turn<'_>) {
        self.doing = format!("measuring {}", turn.system);
        self.mix = Some(Mix {
            system: turn.system.to_owned(),
            name: turn.mix.to_owned(),
            clients: turn.clients as u64,
            load: turn.load_in_words(),
            number: turn.number,
            of: turn.of,
            phase: if turn.is_counted { "ramp up" } else { NOT_COUNTED },
            ..Mix::default()
        });
        self.now = None;
    }

    fn tick(&mut self, tick: &Tick<'_>) {
        if let Some(mix) = &mut self.mix {
            mix.elapsed_s = tick.elapsed_s;
            mix.length_s = tick.length_s;
            mix.phase = match tick.elapsed_s {
                _ if !tick.turn.is_counted => NOT_COUNTED,
                at if at < tick.ramp_up_s => "ramp up",
                at if at < tick.length_s - tick.ramp_down_s => "counted",
                _ => "ramp down",
            };
        }
        let quantile_us =
            |quantile| tick.latency_ns.map(|all| all.value_at_quantile(quantile) as f64 / 1000.0);
        self.now = Some(CurrentFigures {
            requests_per_second: tick.requests_per_second,
            bytes_per_second: tick.bytes_per_second,
            errors: tick.errors,
            p50_us: quantile_us(0.5),
            p95_us: quantile_us(0.95),
            p99_us: quantile_us(0.99),
            server_cpus: tick.monitor.server_cpus,
            server_resident_bytes: tick.monitor.server_resident_bytes,
            machine_share: tick.monitor.machine_share,
        });
        // The row of this machine, if it sends the load; events contain the rows of a fleet.
        if let Some(own) = self.load_machines.first_mut().filter(|own| own.state.is_none()) {
            own.requests_per_second = tick.requests_per_second;
            own.errors = tick.errors;
            own.cpus = tick.monitor.load_cpus;
        }
        let point = Point { requests_per_second: tick.requests_per_second, p99_us: quantile_us(0.99) };
        push(&mut self.history, point, HISTORY);
        self.seconds_left = Some(tick.seconds_left.max(0.0));
    }

    fn finish(&mut self, system: &str, result: &MixResult) {
        self.finished_count += 1;
        let finished = FinishedMix {
            system: system.to_owned(),
            clients: result.clients,
            load: result.load_in_words(),
            requests_per_second: result.requests_per_second,
            p99_us: result.latency.p99_us,
            errors: result.errors.total(),
            cpu_us_per_request: result.server.as_ref().map(|server| server.cpu_us_per_request),
            complete: result.complete,
        };
        push(&mut self.finished, finished, FINISHED_MAX);
    }

    /// How far the whole run is, 0 to 1, by mixes and the time of the one that runs.
    pub fn progress(&self) -> f64 {
        let Some(mix) = self.mix.as_ref().filter(|mix| mix.of > 0) else {
            return f64::from(u8::from(self.ended));
        };
        if self.ended {
            return self.finished_count as f64 / mix.of as f64;
        }
        let done = if self.finished_count >= mix.number || mix.length_s <= 0.0 {
            0.0
        } else {
            (mix.elapsed_s / mix.length_s).min(1.0)
        };
        ((self.finished_count as f64 + done) / mix.of as f64).clamp(0.0, 1.0)
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, limit: usize) {
    if queue.len() == limit {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Holds a state for threads that wait for its next change.
#[derive(Debug, Default)]
pub struct Hub {
    kept: Mutex<VersionedState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct VersionedState {
    version: u64,
    state: State,
}

impl Hub {
    /// A hub with a first state.
    pub fn new(state: State) -> Arc<Hub> {
        Arc::new(Hub { kept: Mutex::new(VersionedState { version: 1, state }), changed: Condvar::new() })
    }

    /// Changes the state and wakes all waiting threads.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut kept.state);
        kept.version += 1;
        self.changed.notify_all();
    }

    /// The current state.
    pub fn state(&self) -> State {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).state.clone()
    }

    /// The first version after `seen`, or the same one when the time limit is over.
    pub fn wait(&self, seen: u64, limit: Duration) -> (u64, State) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(kept, limit, |kept| kept.version == seen);
        let kept = waited.unwrap_or_else(PoisonError::into_inner).0;
        (kept.version, kept.state.clone())
    }
}

/// Updates a hub's state from the events of a run.
#[derive(Debug)]
pub struct Live {
    hub: Arc<Hub>,
    page: Option<web::PageListener>,
    serving: Option<web::ServedPage>,
}

impl Live {
    /// Keeps the state of a hub; `page` is served from the first event on, by threads on the processors of
    /// the load engine.
    pub fn new(hub: Arc<Hub>, page: Option<web::PageListener>) -> Live {
        Live { hub, page, serving: None }
    }

    /// Notifies all views that the run is over, and waits until they can have shown it.
    pub fn end(&mut self, words: &str) {
        self.hub.update(|state| state.end(words));
        if let Some(serving) = self.serving.take() {
            serving.end();
        }
    }
}

impl Observer for Live {
    fn event(&mut self, event: Event<'_>) {
        // The bench thread is bound to the load engine's processors by now, and so are the threads that it
        // starts.
        if let Some(page) = self.page.take() {
            self.serving = page.serve(Arc::clone(&self.hub)).ok();
        }
        self.hub.update(|state| state.apply(&event));
    }
}

#[cfg(test)]
mod tests {
    use super::sample::state;
    use super::*;

    #[test]
    fn events_become_a_state() {
        let state = state();
        let mix = state.mix.as_ref().unwrap();
        assert_eq!((mix.number, mix.of, mix.clients, mix.phase), (2, 4, 8, "counted"));
        let mut before = State::new("spice", "lab-1");
        let turn = Turn {
            system: "warm-up of a",
            mix: "8_clients",
            clients: 8,
            rate: None,
            is_counted: false,
            number: 1,
            of: 2,
        };
        before.apply(&Event::MixStarted(turn));
        assert_eq!(before.mix.unwrap().phase, NOT_COUNTED);
        let now = state.now.unwrap();
        assert_eq!((now.requests_per_second, now.errors, now.server_cpus), (7200.0, 3, Some(0.97)));
        let close = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 0.02;
        assert!(close(now.p50_us, 500.0) && close(now.p99_us, 990.0), "{now:?}");
        assert_eq!((state.load_machines.len(), state.load_machines[0].cpus), (1, Some(0.42)));
        assert_eq!((state.history.len(), state.finished.len(), state.notes.len()), (6, 1, 1));
        // One of four mixes is done, and half of the second.
        assert!((state.progress() - 0.375).abs() < 1e-9);
    }

    #[test]
    fn the_agents_of_a_fleet_have_a_row_each() {
        let mut state = state();
        let agent = |name: &str, state: &str| bench::LoadMachine {
            name: name.to_string(),
            state: state.to_string(),
            requests_per_second: 500.0,
            errors: 1,
            cpu_share: 0.25,
            clock_offset_us: Some(12.0),
            clock_bound_us: Some(40.0),
        };
        let busy = bench::LoadMachine { cpu_share: 0.95, ..agent("load-4", "running") };
        let agents = [agent("load-1", "running"), agent("load-2", "lost"), agent("load-3", "running"), busy];
        state.apply(&Event::LoadMachines(&agents));
        let titles: Vec<String> = state.load_machines.iter().map(LoadMachine::title).collect();
        // Missing machines are listed first.
        assert_eq!(titles, ["load-2 (lost)", "load-1 (running)", "load-3 (running)", "load-4 (running)"]);
        let signs = state.load_machines.iter().map(|machine| (machine.missing, machine.saturated));
        let signs: Vec<(bool, bool)> = signs.collect();
        assert_eq!(signs, [(true, false), (false, false), (false, false), (false, true)]);
        assert_eq!(state.fleet, "1 lost, 3 running");
        assert_eq!((state.load_machines[0].busy, state.load_machines[0].cpus), (Some(0.25), None));
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut queue = VecDeque::new();
        (0..10).for_each(|number| push(&mut queue, number, 3));
        assert_eq!(queue, [7, 8, 9]);
    }

    #[test]
    fn those_who_wait_get_the_next_change_and_the_end() {
        let hub = Hub::new(State::new("spice", "lab-1"));
        let (first, state) = hub.wait(0, Duration::ZERO);
        assert!(!state.ended);
        let waiting = std::thread::spawn({
            let hub = Arc::clone(&hub);
            move || hub.wait(first, Duration::from_secs(60))
        });
        hub.update(|state| state.end("done"));
        let (next, state) = waiting.join().unwrap();
        assert!(next > first && state.ended && state.doing == "done");
        assert_eq!(hub.wait(next, Duration::ZERO).0, next);
    }
}
