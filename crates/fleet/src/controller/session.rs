//! The controller's side of the conversation: which members are there, their last reports, and the notices of
//! the engine.

use super::member::{MAXIMUM_BOUND, Member, MemberView};
use super::{ControllerOptions, FleetError};
use crate::clock::{Clock, ClockEstimate, Exchange, Stamp};
use crate::deployment::Deployment;
use crate::fabric::{Fabric, Inbox, Message, Notice, StoredMessage};
use crate::message::{Order, Report, Role, Subjects, decode, encode, sender};
use crate::mix_results::{MixResults, Part};
use crate::runtime::{Sender, Thread, channel, monotonic_ns, now, own_facts};
use crate::setup::{AgentEntry, FleetFile};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_lab::result::ToolFacts;
use touchstone_lab_run::bench::LoadMachine;

/// How often missing agents are called.
const MUSTER_PERIOD: Duration = Duration::from_millis(250);
/// How long refused agents are given to receive the refusal.
const REFUSAL_TIME: Duration = Duration::from_millis(500);
/// The length of one wait for messages.
const LISTEN_PERIOD: Duration = Duration::from_millis(10);
/// The most messages that are handled before the time and other events are checked.
const HEARD_AT_ONCE: usize = 1000;
/// Exchanges with every agent when clocks are compared.
const EXCHANGES: u64 = 10;
/// The most exchanges with agents whose clocks are not known well enough by then: on a busy machine most
/// messages are delayed, and one without a delay is needed.
const MOST_EXCHANGES: u64 = 30;
/// The same for agents whose clocks are not even known well enough for a start.
const MOST_EXCHANGES_FOR_START: u64 = 150;
/// Clocks that are known this well need no more exchanges than others.
const WELL_KNOWN: Duration = Duration::from_millis(1);
/// The number of agents that get the question at the same time: the answers of more would delay each other,
/// and that delay would be measured.
const ASKED_AT_ONCE: usize = 20;
/// The least time between two exchanges with one agent.
const EXCHANGE_PERIOD: Duration = Duration::from_millis(20);
/// The least time between one group of agents and the next.
const ASKING_PERIOD: Duration = Duration::from_millis(4);
/// How long the last answers may take.
const EXCHANGE_TIME: Duration = Duration::from_millis(1200);

/// The conversation of one controller or visitor with a fleet.
pub(super) struct Session {
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) subjects: Subjects,
    pub(super) run: String,
    pub(super) options: ControllerOptions,
    pub(super) members: BTreeMap<String, Member>,
    pub(super) next_mix: u64,
    pub(super) fold: Option<MixResults>,
    url: String,
    agents: Vec<AgentEntry>,
    own: ToolFacts,
    clock: Clock,
    inbox: Inbox<Message>,
    kept: Option<Inbox<StoredMessage>>,
    acknowledge: Option<Sender<StoredMessage>>,
    notices: Vec<Notice>,
    pings: HashMap<(String, u64), Stamp>,
    next_exchange: u64,
    /// Since when the broker cannot be reached.
    pub(super) away_since: Option<Instant>,
    /// Since when it can be reached.
    pub(super) connected_since: Instant,
}

impl Session {
    pub(super) fn open(
        fabric: Arc<dyn Fabric>,
        file: &FleetFile,
        run: String,
        options: ControllerOptions,
    ) -> Result<Session, FleetError> {
        let subjects = Subjects::of(&file.name);
        let inbox = fabric.subscribe(&subjects.from("*"))?;
        let members = file.agents.iter().map(|entry| (entry.name.clone(), Member::new(entry.clone())));
        Ok(Session {
            members: members.collect(),
            agents: file.agents.clone(),
            url: file.controller.clone(),
            own: own_facts().1.clone(),
            clock: Clock::default(),
            kept: None,
            acknowledge: None,
            notices: Vec::new(),
            pings: HashMap::new(),
            // A controller and a visitor at the same time each recognise the answers to their own questions.
            next_exchange: monotonic_ns(),
            next_mix: 0,
            fold: None,
            away_since: None,
            connected_since: now(),
            fabric,
            subjects,
            run,
            options,
            inbox,
        })
    }

    /// Waits until every agent is there and fit.
    pub(super) fn muster(
        &mut self,
        mut deployment: Option<&mut Deployment>,
        interrupt: &AtomicBool,
    ) -> Result<(), FleetError> {
        if !self.members.values().any(|member| member.entry.role == Role::Load) {
            return Err(FleetError(
                "the fleet has no agents that make load: name them in fleet.toml".to_string(),
            ));
        }
        let until = now() + self.options.wait;
        let mut next_call = now();
        loop {
            if now() >= next_call {
                next_call = now() + MUSTER_PERIOD;
                self.order_all(&Order::Muster);
            }
            self.listen_for(LISTEN_PERIOD);
            if interrupt.load(Ordering::Relaxed) {
                return Err(FleetError("interrupted while waiting for the agents".to_string()));
            }
            self.check_refusals()?;
            if let Some(ended) = deployment.as_mut().and_then(|deployment| deployment.ended()) {
                return Err(FleetError(ended));
            }
            if let Err(unfit) = self.check_fitness() {
                self.wait_for_refused();
                return Err(unfit);
            }
            let mut missing = self.members.values().filter(|member| member.facts.is_none());
            match missing.next() {
                None => break,
                Some(first) if now() >= until => {
                    let names: Vec<&str> =
                        std::iter::once(first).chain(missing).map(|member| member.name()).collect();
                    return Err(self.missing(&names, deployment.as_deref()));
                }
                Some(_) => {}
            }
        }
        let kept = self.fabric.kept(&self.subjects.result("*"), &format!("run-{}", self.run))?;
        self.kept = Some(kept);
        self.acknowledge = Some(acknowledger()?);
        Ok(())
    }

    /// Gives refused agents the time to receive the refusal before this process ends.
    fn wait_for_refused(&mut self) {
        let until = now() + REFUSAL_TIME;
        let own = self.own.clone();
        let is_there =
            |member: &Member| !member.is_double && member.gone.is_none() && member.unfit(&own).is_some();
        while self.members.values().any(is_there) && now() < until {
            self.listen_for(LISTEN_PERIOD);
        }
    }

    /// The error that names the missing agents, with advice.
    fn missing(&self, names: &[&str], deployment: Option<&Deployment>) -> FleetError {
        let launched = |name: &&str| deployment.and_then(|deployment| deployment.waited_for(name));
        let started: Vec<String> = names.iter().filter_map(launched).collect();
        let advice = match started.is_empty() {
            true => {
                format!("start it on its machine with touchstone agent --controller {}", self.url)
            }
            false => started.join("; "),
        };
        let names = names.join(", agent ");
        FleetError(format!("agent {names} did not connect within {:?}: {advice}", self.options.wait))
    }

    fn check_refusals(&mut self) -> Result<(), FleetError> {
        for notice in self.take_notices() {
            match notice {
                Notice::Unauthorised(name) if self.members.contains_key(&name) => {
                    return Err(FleetError(format!(
                        "agent {name} was refused by the broker: its credentials are not those of this \
                         fleet; give it the file {name}.credentials of the fleet's directory"
                    )));
                }
                Notice::Disconnected => return Err(FleetError(self.connection_loss())),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends the reason to each agent that cannot take part. Returns the reason of the first.
    fn check_fitness(&self) -> Result<(), FleetError> {
        let unfit: Vec<(&str, String)> = self
            .members
            .values()
            .filter_map(|member| Some((member.name(), member.unfit(&self.own)?)))
            .collect();
        for (name, reason) in &unfit {
            // Of two agents with the same name one is in order, and an order reaches both.
            if !self.members.get(*name).is_some_and(|member| member.is_double) {
                self.order(name, &Order::Refuse { reason: reason.clone() });
            }
        }
        match unfit.into_iter().next() {
            Some((_, reason)) => Err(FleetError(reason)),
            None => Ok(()),
        }
    }

    /// Reports that the connection to the broker is lost, and which agents this cuts off.
    pub(super) fn connection_loss(&self) -> String {
        let names: Vec<&str> = self.members.keys().map(String::as_str).collect();
        format!(
            "the connection to the broker at {} is lost: no messages of the agents {} arrive; they stop \
             after 3 s",
            self.url,
            names.join(", ")
        )
    }

    /// Compares clocks with every agent, several times.
    pub(super) fn compare_clocks(&mut self, interrupt: &AtomicBool) -> Result<(), String> {
        self.members.values_mut().for_each(|member| member.clock = None);
        let began = now().max(self.connected_since);
        for turn in 0..MOST_EXCHANGES_FOR_START {
            let wanted = if turn < MOST_EXCHANGES { WELL_KNOWN } else { MAXIMUM_BOUND };
            let is_asked = |member: &&Member| turn < EXCHANGES || !member.has_clock_within(wanted);
            let names: Vec<String> =
                self.members.values().filter(is_asked).map(|member| member.entry.name.clone()).collect();
            // No exchange makes the clocks of these agents known.
            let is_hopeless = |member: &Member| {
                member.has_mad_clock() || member.gone.is_some() || member.is_silent(now(), began)
            };
            let is_mad = turn >= EXCHANGES && self.members.values().any(is_hopeless);
            if names.is_empty() || is_mad || interrupt.load(Ordering::Relaxed) {
                break;
            }
            self.exchange_with(&names);
        }
        let until = now() + EXCHANGE_TIME;
        let is_compared = |session: &Session| session.members.values().all(|member| member.clock.is_some());
        while !is_compared(self) && now() < until && !interrupt.load(Ordering::Relaxed) {
            self.listen_for(LISTEN_PERIOD);
        }
        self.pings.clear();
        match self.members.values().find_map(Member::mad_clock) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// Compares clocks with the agents that are there, as well as is possible in a short time.
    pub(super) fn measure_clocks(&mut self) {
        let names: Vec<String> = self
            .members
            .values()
            .filter(|member| member.view().is_present())
            .map(|member| member.entry.name.clone())
            .collect();
        for _ in 0..EXCHANGES {
            self.exchange_with(&names);
        }
    }

    /// Asks each of them once for the time of its clock.
    fn exchange_with(&mut self, names: &[String]) {
        let exchange = self.next_exchange;
        self.next_exchange += 1;
        let until = now() + EXCHANGE_PERIOD;
        for names in names.chunks(ASKED_AT_ONCE) {
            for name in names {
                self.pings.insert((name.clone(), exchange), self.clock.now());
                self.order(name, &Order::Ping { exchange });
            }
            self.listen_for(ASKING_PERIOD);
        }
        self.listen_for(until.saturating_duration_since(now()));
    }

    /// Handles messages for at most this time.
    pub(super) fn listen(&mut self, wait: Duration) {
        self.check_connection();
        let mut message = self.inbox.next(wait);
        for _ in 0..HEARD_AT_ONCE {
            let Some(heard) = message else { break };
            self.handle_report(&heard);
            message = self.inbox.next(Duration::ZERO);
        }
        if let Some(heard) = message {
            self.handle_report(&heard);
        }
        while let Some(kept) = self.kept.as_ref().and_then(|kept| kept.next(Duration::ZERO)) {
            if let (Some(agent), Some(part), Some(fold)) =
                (sender(&kept.subject), Part::decode(&kept.body), &mut self.fold)
            {
                fold.take(agent, part);
            }
            if let Some(acknowledge) = &self.acknowledge {
                // A message that is not acknowledged is delivered again, without an effect.
                acknowledge.send(kept);
            }
        }
    }

    /// Handles messages until this time is over, however many there are, so that all agents are not checked
    /// after each message.
    pub(super) fn listen_for(&mut self, time: Duration) {
        let until = now() + time;
        while now() < until {
            self.listen(until.saturating_duration_since(now()).min(LISTEN_PERIOD));
        }
    }

    fn check_connection(&mut self) {
        self.notices.extend(self.fabric.notices());
        match (self.fabric.is_connected(), self.away_since) {
            (false, None) => self.away_since = Some(now()),
            (true, Some(_)) => {
                self.away_since = None;
                self.connected_since = now();
            }
            _ => {}
        }
    }

    fn handle_report(&mut self, message: &Message) {
        let Some(member) = sender(&message.subject).and_then(|name| self.members.get_mut(name)) else {
            return;
        };
        let Some(report) = decode::<Report>(&message.body) else { return };
        match report {
            Report::Here(facts) => member.introduce(*facts),
            Report::Pong { exchange, question_received, answer_sent } => {
                let Some(question_sent) = self.pings.remove(&(member.entry.name.clone(), exchange)) else {
                    return;
                };
                let answer_received = message.received;
                let exchange = Exchange { question_sent, question_received, answer_sent, answer_received };
                match (ClockEstimate::of(&exchange), &mut member.clock) {
                    (Some(new), Some(clock)) => clock.merge(&new),
                    (new, clock) => *clock = clock.or(new),
                }
            }
            Report::Ready { run, mix, time_to_prepare_ns } if run == self.run => {
                member.ready = Some((mix, time_to_prepare_ns));
            }
            Report::Failed { run, mix, reason } if run == self.run => member.failed = Some((mix, reason)),
            Report::Figures { run, mix, figures } if run == self.run => {
                member.figures = Some((mix, *figures));
            }
            Report::Ready { .. } | Report::Failed { .. } | Report::Figures { .. } => {}
            Report::Beat(beat) => member.beats(beat),
            Report::Logs { lines } => member.logs = lines,
            Report::Gone { reason } => member.gone = Some(reason),
        }
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// An order that cannot be sent now is dropped: the controller notices agents that do not answer it.
    pub(super) fn order(&self, agent: &str, order: &Order) {
        let _ = encode(order).and_then(|body| self.fabric.publish(&self.subjects.to(agent), body));
    }

    pub(super) fn order_all(&self, order: &Order) {
        let _ = encode(order).and_then(|body| self.fabric.publish(&self.subjects.all(), body));
    }

    /// Sends an order to the named agents, or to all if none is named.
    pub(super) fn order_some(&self, names: &[String], order: &Order) {
        if names.is_empty() {
            self.order_all(order);
        }
        names.iter().for_each(|name| self.order(name, order));
    }

    /// The agents as a bench shows them.
    pub(super) fn machines(&self) -> Vec<LoadMachine> {
        let is_away = self.away_since.is_some();
        self.members.values().map(|member| member.machine(is_away)).collect()
    }

    pub(super) fn members(&self) -> Vec<MemberView> {
        self.members.values().map(Member::view).collect()
    }

    pub(super) fn logs(&self) -> Vec<(String, Vec<String>)> {
        let name_and_logs = |member: &Member| (member.entry.name.clone(), member.logs.clone());
        self.members.values().filter(|member| !member.logs.is_empty()).map(name_and_logs).collect()
    }

    pub(super) fn expected(&self) -> &[AgentEntry] {
        &self.agents
    }
}

/// Acknowledges kept messages in another thread, since each waits for the broker's confirmation.
fn acknowledger() -> Result<Sender<StoredMessage>, FleetError> {
    let (sender, messages) = channel::<StoredMessage>();
    let work = move || {
        while let Some(message) = messages.recv() {
            let _ = message.acknowledge();
        }
    };
    let thread = Thread::spawn("acknowledge", work);
    thread.map_err(|error| FleetError(format!("no thread to acknowledge results: {error}")))?;
    Ok(sender)
}
