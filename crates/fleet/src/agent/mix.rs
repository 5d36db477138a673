//! One mix on an agent, from the assignment to the result in the spool: a separate thread, so that orders and
//! beats never wait for it.

use super::AgentLog;
use crate::allow::AllowList;
use crate::fabric::Fabric;
use crate::message::{AgentState, Report, Subjects};
use crate::mix_results::Part;
use crate::runtime::{Receiver, Sender, Thread, channel, monotonic_ns, now, simulator, since, sleep};
use crate::spool::{ReservedSpace, Spool};
use serde::Serialize;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use touchstone_lab::machine::sha256;
use touchstone_lab_run::monitor::{Monitor, Watch};
use touchstone_load::{HttpVersion, Outcome, Plan, Portion, PreparedRun, Progress};

/// How long a target may take to accept a connection before the mix.
const TARGET_TIME: Duration = Duration::from_millis(1500);
/// The most bytes of a result on the disk: a constant, and a number for each client.
const RESULT_BYTES: u64 = 1024 * 1024;
const CLIENT_RESULT_BYTES: u64 = 2048;
/// How often a probe reads the state of its machine.
const WATCH_PERIOD: Duration = Duration::from_secs(1);
/// How often a waiting mix checks whether it was stopped.
const CHECK_PERIOD: Duration = Duration::from_millis(10);

/// The parts of an agent that all its tasks use.
pub(crate) struct AgentContext {
    pub(crate) fabric: Arc<dyn Fabric>,
    pub(crate) subjects: Subjects,
    pub(crate) name: String,
    pub(crate) cores: Vec<usize>,
    pub(crate) pids: Vec<u32>,
    pub(crate) allow: AllowList,
    pub(crate) spool: Spool,
    pub(crate) notes: AgentLog,
}

/// The work of the mix.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) run: String,
    pub(crate) mix: u64,
    pub(crate) plan_sha256: String,
    /// Of a probe `None`.
    pub(crate) portion: Option<Portion>,
    /// The classes whose figures are reported while it runs.
    pub(crate) watched: Option<Vec<usize>>,
}

/// The agent's main thread's handle of a running mix.
pub(crate) struct MixTask {
    assignment: Assignment,
    shared: Arc<SharedTask>,
    starter: Sender<u64>,
    thread: Thread,
}

/// What the two threads share.
struct SharedTask {
    progress: Progress,
    state: AtomicU8,
    /// Why it was stopped; the first reason counts.
    stopped: Mutex<Option<String>>,
}

const STATES: [AgentState; 4] =
    [AgentState::Preparing, AgentState::Ready, AgentState::Running, AgentState::Reporting];

impl MixTask {
    pub(crate) fn begin(context: Arc<AgentContext>, assignment: Assignment) -> std::io::Result<MixTask> {
        let (starter, start) = channel();
        let shared = Arc::new(SharedTask {
            progress: Progress::default(),
            state: AtomicU8::new(0),
            stopped: Mutex::new(None),
        });
        shared.progress.live_figures.is_requested.store(assignment.watched.is_some(), Ordering::Relaxed);
        let work = MixThread { context, assignment: assignment.clone(), shared: Arc::clone(&shared), start };
        let thread = Thread::spawn("mix", move || work.carry_out())?;
        Ok(MixTask { assignment, shared, starter, thread })
    }

    pub(crate) fn run(&self) -> &str {
        &self.assignment.run
    }

    pub(crate) fn mix(&self) -> u64 {
        self.assignment.mix
    }

    pub(crate) fn is(&self, run: &str, mix: u64) -> bool {
        self.assignment.run == run && self.assignment.mix == mix
    }

    /// The moment of the start on this machine's monotonic clock.
    pub(crate) fn start(&self, at_monotonic_ns: u64) {
        // A mix that has ended needs no start.
        let _ = self.starter.send(at_monotonic_ns);
    }

    /// Ends it, and sends the measurements until now.
    pub(crate) fn stop(&self, reason: &str) {
        let mut stopped = self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert_with(|| reason.to_string());
        self.shared.progress.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn state(&self) -> AgentState {
        STATES[usize::from(self.shared.state.load(Ordering::Relaxed)) % STATES.len()]
    }

    /// Valid answers, errors and bytes so far.
    pub(crate) fn counters(&self) -> (u64, u64, u64) {
        let progress = &self.shared.progress;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (read(&progress.requests), read(&progress.errors), read(&progress.bytes))
    }

    /// The figures so far, if they were requested and the mix continues.
    pub(crate) fn figures(&self) -> Option<Report> {
        let watched = self.assignment.watched.as_ref().filter(|_| self.state() == AgentState::Running)?;
        let figures = self.shared.progress.live_figures.sum()?.of_classes(watched);
        let (run, mix) = (self.assignment.run.clone(), self.assignment.mix);
        Some(Report::Figures { run, mix, figures: Box::new(figures) })
    }

    pub(crate) fn wait(self) {
        self.thread.join();
    }
}

/// The mix's own thread.
struct MixThread {
    context: Arc<AgentContext>,
    assignment: Assignment,
    shared: Arc<SharedTask>,
    start: Receiver<u64>,
}

impl MixThread {
    fn carry_out(self) {
        let Assignment { run, mix, .. } = &self.assignment;
        let outcome = self.measure();
        let reason = self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(reason) = outcome.err().or(reason) {
            self.context.notes.add(format!("mix {mix}: {reason}"));
            self.context.send_report(&Report::Failed { run: run.clone(), mix: *mix, reason });
        }
    }

    fn enter(&self, state: AgentState) {
        let place = STATES.iter().position(|other| *other == state).unwrap_or_default();
        self.shared.state.store(place as u8, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.shared.progress.stop.load(Ordering::Relaxed)
    }

    fn measure(&self) -> Result<(), String> {
        let plan = self.plan()?;
        match &self.assignment.portion {
            Some(portion) => self.drive(plan, portion),
            None => self.watch(&plan),
        }
    }

    /// Runs a portion of the plan.
    fn drive(&self, plan: Plan, portion: &Portion) -> Result<(), String> {
        let own = &self.context.cores;
        if portion.threads.len() > own.len() {
            return Err(format!(
                "{} threads are ordered for {} processors",
                portion.threads.len(),
                own.len()
            ));
        }
        let plan = Plan { cores: own[..portion.threads.len()].to_vec(), ..plan };
        self.check_targets(&plan)?;
        let ready = Engine::prepare(&plan, portion)?;
        let room = self.take_room(RESULT_BYTES + portion.client_count(&plan) as u64 * CLIENT_RESULT_BYTES)?;
        let Some(start_ns) = self.wait_for_order(ready.time_to_prepare_ns()) else { return Ok(()) };
        let Assignment { run, mix, .. } = &self.assignment;
        let (clients, threads) = (portion.client_count(&plan), portion.threads.len());
        self.context.notes.add(format!(
            "mix {mix} of the run {run} begins: {clients} clients on {threads} engine threads for {:?}",
            plan.length
        ));
        // The engine's threads wait for the start themselves: until then they make their clients ready.
        self.enter(AgentState::Running);
        let outcome = ready.run_at(start_ns, &self.shared.progress)?;
        self.context.notes.add(format!(
            "mix {mix} of the run {run} has ended: {} requests, {} errors",
            outcome.total_requests, outcome.total_errors
        ));
        self.spool_result(&outcome, room)
    }

    /// Watches this machine for as long as the plan takes.
    fn watch(&self, plan: &Plan) -> Result<(), String> {
        let room = self.take_room(RESULT_BYTES)?;
        let Some(start_ns) = self.wait_for_order(0) else { return Ok(()) };
        while !self.is_stopped() && monotonic_ns() < start_ns {
            sleep(Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())).min(CHECK_PERIOD));
        }
        self.enter(AgentState::Running);
        let start = now() - Duration::from_nanos(monotonic_ns().saturating_sub(start_ns));
        let monitor = Monitor::start(Watch {
            pids: self.context.pids.clone(),
            period: WATCH_PERIOD,
            start,
            window_start: plan.ramp_up,
            window_end: plan.length.saturating_sub(plan.ramp_down),
            cpus: Vec::new(),
            exporter: None,
            session: None,
        })
        .map_err(|error| format!("its monitor cannot be started: {error}"))?;
        while !self.is_stopped() && since(start) < plan.length {
            sleep(CHECK_PERIOD);
        }
        self.spool_result(&monitor.finish(), room)
    }

    /// Puts a result into the spool, from where it is sent.
    fn spool_result<T: Serialize>(&self, result: &T, mut room: ReservedSpace) -> Result<(), String> {
        self.enter(AgentState::Reporting);
        let Assignment { run, mix, .. } = &self.assignment;
        let parts = Part::of_result(run, *mix, &self.context.name, result)?;
        let kept = parts.iter().try_for_each(|part| self.context.spool.put(part, &mut room));
        kept.map_err(|error| format!("its result cannot be stored: {error}"))
    }

    /// The plan, as the controller published it.
    fn plan(&self) -> Result<Plan, String> {
        let plan_sha256 = &self.assignment.plan_sha256;
        let document = self.context.fabric.fetch(plan_sha256);
        let document = document.map_err(|error| format!("the plan cannot be fetched: {error}"))?;
        let found = sha256(&document);
        if found != *plan_sha256 {
            return Err(format!("the hash of the plan is {found}, but should be {plan_sha256}"));
        }
        serde_json::from_slice(&document).map_err(|error| format!("the plan cannot be read: {error}"))
    }

    /// Every target is allowed, and there.
    fn check_targets(&self, plan: &Plan) -> Result<(), String> {
        if let Some(target) = plan.targets().find(|target| !self.context.allow.allows(target.address)) {
            return Err(format!(
                "the agent does not allow load to {}: start it with --allow for this address, if load \
                 may be sent there",
                target.address
            ));
        }
        // What listens for HTTP/3 need not take TCP.
        if plan.version == HttpVersion::Http3 || simulator().is_some() {
            return Ok(());
        }
        plan.targets().try_for_each(|target| {
            TcpStream::connect_timeout(&target.address, TARGET_TIME).map(drop).map_err(|error| {
                format!("the target {} cannot be reached from the agent's machine: {error}", target.address)
            })
        })
    }

    /// Reserved before the mix, so that the result is not lost if the disk becomes full in that time.
    fn take_room(&self, bytes: u64) -> Result<ReservedSpace, String> {
        let AgentContext { spool, name, .. } = &*self.context;
        spool.reserve(name, bytes).map_err(|error| {
            format!("the agent's disk has no room for a result of up to {} KiB: {error}", bytes / 1024)
        })
    }

    /// Reports that it is ready, and waits for the order to start; `None` when the mix was stopped.
    fn wait_for_order(&self, time_to_prepare_ns: u64) -> Option<u64> {
        let (run, mix) = (self.assignment.run.clone(), self.assignment.mix);
        self.enter(AgentState::Ready);
        self.context.send_report(&Report::Ready { run, mix, time_to_prepare_ns });
        loop {
            match self.start.recv_timeout(CHECK_PERIOD) {
                Ok(start_ns) => return Some(start_ns),
                Err(RecvTimeoutError::Timeout) if !self.is_stopped() => {}
                Err(_) => return None,
            }
        }
    }
}

/// A load engine that is ready for its portion.
enum Engine<'p> {
    Real(PreparedRun<'p>),
    Simulated(&'p Plan, &'p Portion),
}

impl<'p> Engine<'p> {
    fn prepare(plan: &'p Plan, portion: &'p Portion) -> Result<Engine<'p>, String> {
        if simulator().is_some() {
            return Ok(Engine::Simulated(plan, portion));
        }
        PreparedRun::new(plan, portion.clone()).map(Engine::Real).map_err(|error| error.to_string())
    }

    fn time_to_prepare_ns(&self) -> u64 {
        match self {
            Engine::Real(ready) => ready.time_to_prepare_ns(),
            Engine::Simulated(..) => 0,
        }
    }

    fn run_at(&self, start_ns: u64, progress: &Progress) -> Result<Outcome, String> {
        match self {
            Engine::Real(ready) => ready.run_at(start_ns, progress).map_err(|error| error.to_string()),
            Engine::Simulated(plan, portion) => {
                let simulator = simulator().ok_or("the simulator has ended")?;
                simulator.send_load(plan, portion, start_ns, progress)
            }
        }
    }
}
