//! The controller's record of an agent.

use crate::clock::ClockEstimate;
use crate::fabric::Traffic;
use crate::message::{AgentFacts, AgentState, Heartbeat, PROTOCOL, Role};
use crate::runtime::{now, since};
use crate::setup::AgentEntry;
use std::time::{Duration, Instant};
use touchstone_lab::result::ToolFacts;
use touchstone_lab_run::bench::LoadMachine;
use touchstone_load::LiveFigures;

/// An agent that is silent for this long is lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_millis(1500);
/// The time over which an agent's rate is computed.
const RATE_PERIOD: Duration = Duration::from_secs(1);
/// A clock of the day that is wrong by more than this would make every date in a result wrong.
const MAXIMUM_OFFSET: Duration = Duration::from_secs(3600);
/// A start cannot be agreed upon if the clocks are known less exactly.
pub(crate) const MAXIMUM_BOUND: Duration = Duration::from_millis(25);
/// A clock of the day that moves by more between exchanges of one moment is being set, or is unstable.
const MAXIMUM_UNSTEADY: Duration = Duration::from_millis(5);

/// The state of an agent without recent messages.
const NO_BROKER: &str = "no broker";

/// The controller's record of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) entry: AgentEntry,
    pub(crate) facts: Option<AgentFacts>,
    /// Two processes claim to be this agent.
    pub(crate) is_double: bool,
    pub(crate) heard: Option<Instant>,
    pub(crate) beat: Option<Heartbeat>,
    pub(crate) clock: Option<ClockEstimate>,
    /// The index of the mix that it is ready for, and how long before the start it must get the order.
    pub(crate) ready: Option<(u64, u64)>,
    /// Why the mix of this place failed there.
    pub(crate) failed: Option<(u64, String)>,
    pub(crate) gone: Option<String>,
    pub(crate) logs: Vec<String>,
    /// The figures of the mix of this place so far, until they are looked at.
    pub(crate) figures: Option<(u64, LiveFigures)>,
    rate: Vec<(Instant, u64)>,
}

/// An agent, as views show it.
#[derive(Debug, Clone)]
pub struct MemberView {
    /// Its name.
    pub name: String,
    /// Its task.
    pub role: Role,
    /// Its own description; `None` until that has arrived.
    pub facts: Option<AgentFacts>,
    /// Seconds since its last message; `None`: none has arrived.
    pub heard_s: Option<f64>,
    /// What it does.
    pub state: Option<AgentState>,
    /// Valid answers a second, recently.
    pub requests_per_second: f64,
    /// Errors in the mix so far.
    pub errors: u64,
    /// How busy its processors are, 0 to 1.
    pub cpu_share: f64,
    /// Its clock of the day against the controller's, and how exactly that is known; `None`: not compared
    /// yet.
    pub clock: Option<ClockEstimate>,
    /// What it has sent and received beside the load.
    pub traffic: Traffic,
    /// Parts of results that the broker does not have yet.
    pub spooled: u64,
    /// Why it no longer takes part.
    pub gone: Option<String>,
    /// It ends when it has finished its task.
    pub draining: bool,
}

impl Member {
    pub(crate) fn new(entry: AgentEntry) -> Member {
        Member {
            entry,
            facts: None,
            is_double: false,
            heard: None,
            beat: None,
            clock: None,
            ready: None,
            failed: None,
            gone: None,
            logs: Vec::new(),
            figures: None,
            rate: Vec::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.name
    }

    /// The agent introduces itself. A process that replaces one that has ended is the same agent; a second
    /// one beside it is not.
    pub(crate) fn introduce(&mut self, facts: AgentFacts) {
        let other = self.facts.as_ref().is_some_and(|known| known.instance != facts.instance);
        if other && self.gone.is_none() && self.heard.is_some_and(|heard| since(heard) < LOST_AFTER / 2) {
            self.is_double = true;
            return;
        }
        self.gone = None;
        self.facts = Some(facts);
        self.heard = Some(now());
    }

    pub(crate) fn beats(&mut self, beat: Heartbeat) {
        if self.facts.as_ref().is_some_and(|known| known.instance != beat.instance) {
            return;
        }
        let moment = now();
        self.heard = Some(moment);
        if self.beat.as_ref().is_some_and(|last| last.mix != beat.mix) {
            self.rate.clear();
        }
        self.rate.push((moment, beat.requests));
        while self.rate.len() > 2 && moment - self.rate[1].0 >= RATE_PERIOD {
            self.rate.remove(0);
        }
        self.beat = Some(beat);
    }

    /// Whether its last message is too old. `since` is the earliest time of a message.
    pub(crate) fn is_silent(&self, now: Instant, since: Instant) -> bool {
        let heard = self.heard.map_or(since, |heard| heard.max(since));
        now.saturating_duration_since(heard) > LOST_AFTER
    }

    pub(crate) fn cores(&self) -> usize {
        match (&self.facts, self.entry.role) {
            (Some(facts), Role::Load) => facts.cores.len(),
            _ => 0,
        }
    }

    /// Why it cannot take part, by its own description.
    pub(crate) fn unfit(&self, own: &ToolFacts) -> Option<String> {
        let facts = self.facts.as_ref()?;
        let name = self.name();
        let short = |hash: &str| hash.get(..12).unwrap_or("unknown").to_string();
        let own_hash = own.binary_sha256.as_deref().unwrap_or_default();
        if self.is_double {
            return Some(format!("two agents have the name {name}: end one of them"));
        }
        if facts.protocol != PROTOCOL || facts.version != own.version {
            return Some(format!(
                "agent {name} is touchstone {} (protocol {}), and this is {} (protocol {PROTOCOL}): install \
                 the same program there",
                facts.version, facts.protocol, own.version
            ));
        }
        if facts.binary_sha256 != own_hash {
            return Some(format!(
                "agent {name} runs another build of touchstone {} (its hash begins with {}, this one's with \
                 {}): install the same program there",
                facts.version,
                short(&facts.binary_sha256),
                short(own_hash)
            ));
        }
        if facts.role != self.entry.role {
            return Some(format!(
                "agent {name} was started with a --role that is not its role in \
                fleet.toml"
            ));
        }
        (facts.role == Role::Load && facts.cores.is_empty())
            .then(|| format!("agent {name} has no processors for its load engine"))
    }

    /// Whether its clocks are known to within this bound.
    pub(crate) fn has_clock_within(&self, bound: Duration) -> bool {
        self.clock.is_some_and(|clock| u128::from(clock.bound_ns) <= bound.as_nanos())
    }

    /// Whether its clock of the day is wrong in every comparison.
    pub(crate) fn has_mad_clock(&self) -> bool {
        self.clock.is_some_and(|clock| is_far(&clock) || is_unsteady(&clock))
    }

    /// What is wrong with its clocks.
    pub(crate) fn mad_clock(&self) -> Option<String> {
        let name = self.name();
        if let Some(reason) = &self.gone {
            return Some(format!("agent {name} has ended: {reason}"));
        }
        let Some(clock) = &self.clock else {
            return Some(format!("agent {name} did not answer when the clocks were compared"));
        };
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        if is_far(clock) {
            return Some(format!(
                "the clock of agent {name} is wrong by {:.0} s: set it (NTP)",
                seconds(clock.real_offset_ns.unsigned_abs())
            ));
        }
        if is_unsteady(clock) {
            return Some(format!(
                "the clock of agent {name} changed by {:.3} s while it was compared: it is being set, or \
                 is not stable",
                seconds(clock.unsteady_ns)
            ));
        }
        (clock.bound_ns > MAXIMUM_BOUND.as_nanos() as u64).then(|| {
            format!(
                "the clock of agent {name} is known to {:.0} ms only, because each message and its \
                 answer took {:.0} ms: a common start is not possible",
                clock.bound_ns as f64 / 1e6,
                clock.round_trip_ns as f64 / 1e6
            )
        })
    }

    pub(crate) fn view(&self) -> MemberView {
        MemberView { facts: self.facts.clone(), ..self.shown() }
    }

    /// As a bench shows it, several times a second.
    pub(crate) fn machine(&self, broker_is_away: bool) -> LoadMachine {
        let machine = self.shown().machine();
        // Its state is unknown then.
        let is_unheard = broker_is_away && self.gone.is_none();
        LoadMachine { state: if is_unheard { NO_BROKER.to_string() } else { machine.state }, ..machine }
    }

    /// The view without the description of its machine, which is long and does not change.
    fn shown(&self) -> MemberView {
        let beat = self.beat.as_ref();
        let rate = match (self.rate.first(), self.rate.last()) {
            (Some((then, before)), Some((now, requests))) if now > then => {
                requests.saturating_sub(*before) as f64 / (*now - *then).as_secs_f64()
            }
            _ => 0.0,
        };
        MemberView {
            name: self.entry.name.clone(),
            role: self.entry.role,
            facts: None,
            heard_s: self.heard.map(|heard| since(heard).as_secs_f64()),
            state: beat.map(|beat| beat.state),
            requests_per_second: rate,
            errors: beat.map_or(0, |beat| beat.errors),
            cpu_share: beat.map_or(0.0, |beat| beat.cpu_share),
            clock: self.clock,
            traffic: beat.map(|beat| beat.traffic).unwrap_or_default(),
            spooled: beat.map_or(0, |beat| beat.spooled),
            gone: self.gone.clone(),
            draining: beat.is_some_and(|beat| beat.draining),
        }
    }
}

fn is_far(clock: &ClockEstimate) -> bool {
    clock.real_offset_ns.unsigned_abs() > MAXIMUM_OFFSET.as_nanos() as u64
}

fn is_unsteady(clock: &ClockEstimate) -> bool {
    clock.unsteady_ns > MAXIMUM_UNSTEADY.as_nanos() as u64
}

impl MemberView {
    /// Whether it is there now.
    pub fn is_present(&self) -> bool {
        self.gone.is_none() && self.heard_s.is_some_and(|heard_s| heard_s < LOST_AFTER.as_secs_f64())
    }

    /// The name of its state.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            _ if self.heard_s.is_none() => "not there",
            _ if self.gone.is_some() => "gone",
            _ if !self.is_present() => "lost",
            Some(AgentState::Running) if self.draining => "running, draining",
            _ if self.draining => "draining",
            None | Some(AgentState::Idle) => "idle",
            Some(AgentState::Preparing) => "preparing",
            Some(AgentState::Ready) => "ready",
            Some(AgentState::Running) => "running",
            Some(AgentState::Reporting) => "reporting",
        }
    }

    fn machine(&self) -> LoadMachine {
        LoadMachine {
            name: self.name.clone(),
            state: self.state_word().to_string(),
            requests_per_second: self.requests_per_second,
            errors: self.errors,
            cpu_share: self.cpu_share,
            clock_offset_us: self.clock.map(|clock| clock.real_offset_ns as f64 / 1e3),
            clock_bound_us: self.clock.map(|clock| clock.bound_ns as f64 / 1e3),
        }
    }
}
