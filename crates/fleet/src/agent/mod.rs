//! The agent: the one process on a load machine. It connects to the controller's broker, never the other way
//! round; runs orders within the limits of its own machine; reports its state four times a second; and stops
//! on its own when it no longer receives the controller's lease.

mod mix;
mod usage;

use crate::allow::AllowList;
use crate::clock::Clock;
use crate::fabric::{Fabric, FabricError, Message};
use crate::message::{
    AgentFacts, AgentState, Heartbeat, Order, PROTOCOL, Report, Role, Subjects, decode, encode,
};
use crate::runtime::{Thread, monotonic_ns, now, own_facts, sleep};
use crate::spool::Spool;
use mix::{AgentContext, Assignment, MixTask};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use touchstone_lab_run::placement;
use usage::ProcessorUse;

/// An agent stops sending when no message of its controller has arrived for this long.
pub const LEASE: Duration = Duration::from_secs(3);
/// How often an agent reports its state.
pub const BEAT_PERIOD: Duration = Duration::from_millis(250);
/// The longest interval between two checks of orders, the lease and the interrupt.
const CHECK_PERIOD: Duration = Duration::from_millis(20);
/// How often parts of results that the broker did not take are sent again.
const REPLAY_PERIOD: Duration = Duration::from_millis(200);
/// An agent's last line begins with this when the broker does not have all of its results.
pub(crate) const LEFT_WORDS: &str = "results that the broker does not have are left in";
/// How many noted lines an agent remembers.
const NOTED_LINES: usize = 500;

/// The settings of an agent.
pub struct AgentOptions {
    /// Its name.
    pub name: String,
    /// Its task.
    pub role: Role,
    /// The processors for its engine; empty: all that it may use.
    pub cores: Vec<usize>,
    /// Where it may send load.
    pub allow: AllowList,
    /// The directory for results that the broker does not have yet; `None`: a new one for this agent, which
    /// is removed at its end unless it contains files.
    pub spool: Option<PathBuf>,
    /// The processes that a probe watches, with all that descend from them; empty: the machine alone.
    pub pids: Vec<u32>,
    /// Its clocks.
    pub clock: Clock,
}

/// Why an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// The controller ordered it.
    Drained,
    /// The controller refused it, for this reason.
    Refused(String),
    /// A signal on its own machine requested it.
    Interrupted,
}

/// Serves a controller until an order or signal ends it. Calls `say` with a line for each event.
pub fn run_agent(
    fabric: Arc<dyn Fabric>,
    fleet: &str,
    options: AgentOptions,
    interrupt: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> Result<AgentEnd, FabricError> {
    Agent::start(fabric, fleet, options)?.serve(interrupt, say)
}

/// The lines that an agent noted lately; its mixes add to them, too.
#[derive(Clone, Default)]
pub(crate) struct AgentLog(Arc<Mutex<(u64, VecDeque<String>)>>);

impl AgentLog {
    /// Adds a line with the time of day, because it is read later, and on another machine.
    pub(crate) fn add(&self, line: String) {
        let second = Clock::default().now().real_ns.div_euclid(1_000_000_000).rem_euclid(24 * 3600);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let line = format!("{hour:02}:{minute:02}:{second:02} UTC {line}");
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.1.len() == NOTED_LINES {
            notes.1.pop_front();
        }
        notes.1.push_back(line);
        notes.0 += 1;
    }

    /// The lines that were added after the first `seen` ones.
    fn since(&self, seen: u64) -> (u64, Vec<String>) {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (notes.0 - seen).min(notes.1.len() as u64) as usize;
        (notes.0, notes.1.iter().skip(notes.1.len() - new).cloned().collect())
    }
}

struct Agent {
    context: Arc<AgentContext>,
    clock: Clock,
    facts: AgentFacts,
    task: Option<MixTask>,
    /// The last arrival of the lease of the task's run.
    lease_heard: Instant,
    /// Since when the broker cannot be reached.
    away_since: Option<Instant>,
    refused: Option<String>,
    draining: bool,
    processors: ProcessorUse,
}

impl Agent {
    fn start(fabric: Arc<dyn Fabric>, fleet: &str, options: AgentOptions) -> Result<Agent, FabricError> {
        let unusable = |what: String| FabricError::Failed(what);
        let spool = match &options.spool {
            Some(directory) => Spool::open(directory).map_err(|error| {
                unusable(format!("the spool {} cannot be used: {error}", directory.display()))
            }),
            None => Spool::temporary(&format!("touchstone-{fleet}-{}", options.name))
                .map_err(|error| unusable(format!("no directory for results can be created: {error}"))),
        }?;
        let cores = match options.cores.is_empty() {
            true => placement::allowed().map_err(|error| unusable(error.to_string()))?,
            false => options.cores,
        };
        let facts = facts(options.role, &cores, &options.allow, &options.pids);
        let context = Arc::new(AgentContext {
            fabric,
            subjects: Subjects::of(fleet),
            name: options.name,
            cores,
            pids: options.pids,
            allow: options.allow,
            spool,
            notes: AgentLog::default(),
        });
        let sender = Arc::clone(&context);
        let thread = Thread::spawn("spool", move || send_spooled(&sender));
        thread.map_err(|error| unusable(error.to_string()))?;
        Ok(Agent {
            context,
            clock: options.clock,
            facts,
            task: None,
            lease_heard: now(),
            away_since: None,
            refused: None,
            draining: false,
            processors: ProcessorUse::new(),
        })
    }

    fn serve(mut self, interrupt: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<AgentEnd, FabricError> {
        let own = self.context.subjects.to(&self.context.name);
        let orders = self.context.fabric.subscribe(&own)?;
        let to_all = self.context.fabric.subscribe(&self.context.subjects.all())?;
        self.send_report(&Report::Here(Box::new(self.facts.clone())));
        if self.context.spool.is_temporary() {
            // After a crash, this line shows which agent a stored result belongs to.
            say(&format!("results that the broker does not have yet are in {}", self.directory().display()));
        }
        let (mut next_beat, mut last_turn, mut seen) = (now(), now(), 0);
        loop {
            // Leases that arrived before the order are handled before it. Otherwise the last lease of an
            // earlier run would stop the mix that the order begins.
            let order = orders.next(CHECK_PERIOD);
            while let Some(message) = to_all.next(Duration::ZERO) {
                self.obey(&message);
            }
            if let Some(message) = order {
                self.obey(&message);
            }
            let turn = now();
            self.check_broker(turn);
            self.check_lease(turn, turn - last_turn);
            last_turn = turn;
            if turn >= next_beat {
                next_beat = turn + BEAT_PERIOD;
                self.beat();
            }
            let (noted, lines) = self.context.notes.since(seen);
            seen = noted;
            lines.iter().for_each(|line| say(line));
            let is_idle = self.task.as_ref().is_none_or(MixTask::has_ended);
            let end = match self.refused.take() {
                Some(reason) => Some(AgentEnd::Refused(reason)),
                None if interrupt.load(Ordering::Relaxed) => Some(AgentEnd::Interrupted),
                None if self.draining && is_idle && self.context.spool.len() == 0 => Some(AgentEnd::Drained),
                None => None,
            };
            if let Some(end) = end {
                let (end, left) = self.end(end);
                left.iter().for_each(|line| say(line));
                return Ok(end);
            }
        }
    }

    fn directory(&self) -> &Path {
        self.context.spool.directory()
    }

    /// Ends the active work and announces its end; returns which results the broker does not have.
    fn end(mut self, end: AgentEnd) -> (AgentEnd, Option<String>) {
        if let Some(task) = self.task.take() {
            task.stop("the agent was ended");
            task.wait();
        }
        // One attempt to send the rest: what remains is sent when the agent starts again.
        let AgentContext { fabric, subjects, name, spool, .. } = &*self.context;
        if fabric.is_connected() {
            let _ = spool.replay(&**fabric, subjects, name);
        }
        let reason = match &end {
            AgentEnd::Drained => "it was drained".to_string(),
            AgentEnd::Refused(reason) => reason.clone(),
            AgentEnd::Interrupted => "it was ended on its own machine".to_string(),
        };
        self.send_report(&Report::Gone { reason });
        let left = (self.context.spool.len() > 0).then(|| {
            format!(
                "{LEFT_WORDS} {}: an agent of this name with this --spool sends them",
                self.directory().display()
            )
        });
        self.context.spool.close();
        (end, left)
    }

    /// A report that cannot be sent now is dropped: the controller repeats its order, or detects the loss.
    fn send_report(&self, report: &Report) {
        self.context.send_report(report);
    }

    fn obey(&mut self, message: &Message) {
        let Some(order) = decode::<Order>(&message.body) else {
            self.context.notes.add("an order that cannot be read was ignored".to_string());
            return;
        };
        match order {
            Order::Lease { run } => {
                if let Some(task) = &self.task {
                    if task.run() == run {
                        self.lease_heard = now();
                    } else {
                        task.stop("the controller began another run");
                    }
                }
            }
            Order::Muster => self.send_report(&Report::Here(Box::new(self.facts.clone()))),
            Order::Ping { exchange } => {
                let answer_sent = self.clock.now();
                self.send_report(&Report::Pong {
                    exchange,
                    question_received: message.received,
                    answer_sent,
                });
            }
            Order::Prepare { run, mix, plan_sha256, portion, watched } => {
                self.prepare(Assignment { run, mix, plan_sha256, portion, watched });
            }
            Order::Start { run, mix, at_monotonic_ns } => {
                if let Some(task) = self.task.as_ref().filter(|task| task.is(&run, mix)) {
                    task.start(at_monotonic_ns);
                }
            }
            Order::Stop { run, mix } => {
                if let Some(task) = self.task.as_ref().filter(|task| task.is(&run, mix)) {
                    task.stop("the controller ended the mix");
                }
            }
            Order::Refuse { reason } => {
                self.context.notes.add(format!("the controller refuses this agent: {reason}"));
                self.refused = Some(reason);
            }
            Order::Drain => {
                if !self.draining {
                    self.context
                        .notes
                        .add("the controller ended this agent because its work is done".to_string());
                }
                self.draining = true;
            }
            Order::Logs => {
                let (_, lines) = self.context.notes.since(0);
                self.send_report(&Report::Logs { lines });
            }
        }
    }

    fn prepare(&mut self, assignment: Assignment) {
        if let Some(task) = self.task.take() {
            if task.is(&assignment.run, assignment.mix) {
                // The order arrived twice.
                self.task = Some(task);
                return;
            }
            task.stop("the controller began to prepare another mix");
            task.wait();
        }
        self.lease_heard = now();
        let (run, mix) = (assignment.run.clone(), assignment.mix);
        match MixTask::begin(Arc::clone(&self.context), assignment) {
            Ok(task) => self.task = Some(task),
            Err(error) => {
                self.send_report(&Report::Failed { run, mix, reason: format!("no thread: {error}") })
            }
        }
    }

    /// Notes when the broker cannot be reached, and for how long that lasted.
    fn check_broker(&mut self, now: Instant) {
        match (self.context.fabric.is_connected(), self.away_since) {
            (false, None) => {
                self.away_since = Some(now);
                self.context.notes.add("the broker is away".to_string());
            }
            (true, Some(since)) => {
                self.away_since = None;
                let seconds = now.duration_since(since).as_secs_f64();
                self.context.notes.add(format!("the broker is back after {seconds:.1} s"));
            }
            _ => {}
        }
    }

    /// Ends the mix when the lease has expired. An agent that was itself suspended cannot know what was
    /// published in that time: its lease has expired as well.
    fn check_lease(&self, now: Instant, stood_still: Duration) {
        let Some(task) = self.task.as_ref().filter(|task| !task.has_ended()) else { return };
        if stood_still > LEASE {
            task.stop(&format!("this agent was suspended for {:.1} s", stood_still.as_secs_f64()));
        } else if now.duration_since(self.lease_heard) > LEASE {
            task.stop(&format!("no message of the controller arrived for {} s", LEASE.as_secs()));
        }
    }

    fn beat(&mut self) {
        let (requests, errors, bytes) = self.task.as_ref().map(MixTask::counters).unwrap_or_default();
        let spooled = self.context.spool.len();
        let state = match &self.task {
            Some(task) if !task.has_ended() => task.state(),
            _ if spooled > 0 => AgentState::Reporting,
            _ => AgentState::Idle,
        };
        let beat = Heartbeat {
            instance: self.facts.instance.clone(),
            state,
            mix: self.task.as_ref().map(|task| (task.run().to_string(), task.mix())),
            requests,
            errors,
            bytes,
            cpu_share: self.processors.since_last(),
            traffic: self.context.fabric.traffic(),
            spooled,
            draining: self.draining,
        };
        self.send_report(&Report::Beat(beat));
        if let Some(report) = self.task.as_ref().and_then(MixTask::figures) {
            self.send_report(&report);
        }
    }
}

fn facts(role: Role, cores: &[usize], allow: &AllowList, pids: &[u32]) -> AgentFacts {
    let (machine, tool) = own_facts().clone();
    AgentFacts {
        instance: format!("{}-{:x}", std::process::id(), monotonic_ns()),
        role,
        protocol: PROTOCOL,
        version: tool.version,
        binary_sha256: tool.binary_sha256.unwrap_or_default(),
        kernel: machine.kernel,
        sysctls: machine.sysctls,
        cores: cores.to_vec(),
        memory_bytes: machine.memory_bytes,
        open_files_limit: machine.open_files_limit,
        allowed: allow.0.iter().map(ToString::to_string).collect(),
        pids: pids.to_vec(),
    }
}

/// Sends the parts in the spool whenever the broker can be reached, until the process ends.
fn send_spooled(context: &AgentContext) {
    let AgentContext { fabric, subjects, name, spool, .. } = context;
    loop {
        sleep(REPLAY_PERIOD / 4);
        if spool.len() == 0 {
            continue;
        }
        if !fabric.is_connected() || spool.replay(&**fabric, subjects, name).is_err() {
            sleep(REPLAY_PERIOD);
        }
    }
}

impl AgentContext {
    /// Sends a report to the controller, if that is possible now.
    pub(crate) fn send_report(&self, report: &Report) {
        let sent = encode(report).and_then(|body| self.fabric.publish(&self.subjects.from(&self.name), body));
        // Beats are repeated, and the controller notices what is missing.
        drop(sent);
    }
}
