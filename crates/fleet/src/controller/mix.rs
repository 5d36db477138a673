//! One mix on the fleet: portions, readiness, a common start, supervision, and the sum of the results.

use super::Controller;
use super::member::Member;
use super::session::Session;
use crate::agent::{BEAT_PERIOD, LEASE};
use crate::fabric::Traffic;
use crate::message::{Order, Role};
use crate::mix_results::MixResults;
use crate::runtime::{monotonic_ns, now, since};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_lab::result::{AgentUse, FleetUse};
use touchstone_lab_run::bench::{GeneratedLoad, PreparedLoad};
use touchstone_load::{MachineOutcome, Outcome, Plan, PlanError, Portion, Progress, merge};

/// How long agents may take to prepare a mix, in addition to the time to fetch a large plan.
const READY_TIME: Duration = Duration::from_secs(10);
/// The least time between the order to start and the start.
const START_AHEAD: Duration = Duration::from_secs(1);
/// The start is at least this number of round trips ahead.
const ROUND_TRIPS_AHEAD: u64 = 10;
/// How long results may take after the end of the last possible answer.
const RESULT_TIME: Duration = Duration::from_secs(10);
/// How long to wait for results that the broker delays.
const BROKER_TIME: Duration = Duration::from_secs(60);
/// How long to wait for the results of a stopped mix.
const STOPPED_TIME: Duration = Duration::from_secs(5);
/// How long to receive messages between two checks of all agents: often enough for time limits of seconds,
/// and seldom enough for thousands of agents.
const LISTEN_PERIOD: Duration = Duration::from_millis(50);
/// A larger spread of the starts causes a warning.
const SPREAD_WARNING: Duration = Duration::from_millis(5);
/// A larger spread of the starts makes the mix invalid.
const SPREAD_INVALID: Duration = Duration::from_millis(50);
/// An abort by the share of errors needs at least this number of requests.
const ABORT_REQUESTS: u64 = 100;

/// An agent with its portion of the plan; a probe has none.
type PartOfMix = (String, Option<Portion>);

/// A mix that has just begun everywhere.
pub(super) struct Mix {
    number: u64,
    start: Instant,
    /// The agents and their portions.
    parts: Vec<PartOfMix>,
    /// The traffic of each of them before the mix.
    traffic: Vec<Traffic>,
    /// Agents that were lost before and have no part in it.
    left_out: Vec<String>,
}

/// A mix that has just begun, for the bench.
pub(super) struct PreparedMix<'a> {
    pub(super) controller: &'a Controller,
    pub(super) plan: &'a Plan,
    pub(super) mix: Mix,
}

impl PreparedLoad for PreparedMix<'_> {
    fn run(&self, progress: &Progress) -> Result<GeneratedLoad, PlanError> {
        let mut session = self.controller.lock();
        let mut watch = Watch {
            controller: self.controller,
            mix: &self.mix,
            plan: self.plan,
            invalid: None,
            lost: self.mix.parts.iter().map(|_| None).collect(),
            warnings: self.mix.left_out.iter().map(|name| without(name)).collect(),
            stopped: None,
            interrupted: None,
        };
        watch.wait_for_results(&mut session, progress);
        watch.result(&session).map_err(PlanError)
    }
}

impl Session {
    /// Prepares a mix on every agent that has a part of it, and returns at the moment of its start.
    pub(super) fn prepare(
        &mut self,
        plan: &Plan,
        watched: Option<&Vec<usize>>,
        interrupt: &AtomicBool,
    ) -> Result<Mix, String> {
        let number = self.next_mix;
        self.next_mix += 1;
        self.fold = None;
        self.compare_clocks(interrupt)?;
        let left_out = self.lost_before();
        let parts = self.deal(plan, &left_out)?;
        self.fold = Some(MixResults::new(&self.run, number, parts.iter().map(|(name, _)| name.as_str())));
        let document = serde_json::to_vec(&Plan { cores: Vec::new(), ..plan.clone() })
            .map_err(|error| format!("the plan cannot be written: {error}"))?;
        let plan_sha256 = self.fabric.store_document(&document).map_err(|error| error.to_string())?;
        for (name, portion) in &parts {
            let run = self.run.clone();
            let (plan_sha256, portion, watched) = (plan_sha256.clone(), portion.clone(), watched.cloned());
            self.order(name, &Order::Prepare { run, mix: number, plan_sha256, portion, watched });
        }
        if let Err(problem) = self.wait_until_ready(number, &parts, interrupt) {
            self.stop(number, &parts);
            return Err(problem);
        }
        let traffic = parts.iter().map(|(name, _)| self.traffic_of(name)).collect();
        let start = self.send_start(number, &parts);
        while now() < start {
            if interrupt.load(Ordering::Relaxed) {
                self.stop(number, &parts);
                return Err("interrupted before the mix began".to_string());
            }
            self.listen(start.saturating_duration_since(now()).min(LISTEN_PERIOD));
        }
        Ok(Mix { number, start, parts, traffic, left_out })
    }

    /// The agents without which an exploratory run continues.
    fn lost_before(&self) -> Vec<String> {
        if !self.options.exploratory {
            return Vec::new();
        }
        let now = now();
        let is_lost = |member: &&Member| member.gone.is_some() || member.is_silent(now, self.connected_since);
        self.members.values().filter(is_lost).map(|member| member.entry.name.clone()).collect()
    }

    /// Distributes the clients in proportion to processors, every client once.
    fn deal(&self, plan: &Plan, left_out: &[String]) -> Result<Vec<PartOfMix>, String> {
        let takes_part = |member: &&Member| !left_out.contains(&member.entry.name);
        let present = || self.members.values().filter(takes_part);
        let members: Vec<&Member> = present().filter(|member| member.cores() > 0).collect();
        let processors: Vec<usize> = members.iter().map(|member| member.cores()).collect();
        let portions = Portion::divide(plan, &processors).into_iter().zip(&members);
        let mut parts: Vec<PartOfMix> = portions
            .filter_map(|(portion, member)| Some((member.entry.name.clone(), Some(portion?))))
            .collect();
        if parts.is_empty() {
            return Err("no agent has processors for a load engine".to_string());
        }
        let probes = present().filter(|member| member.entry.role == Role::Probe);
        parts.extend(probes.map(|member| (member.entry.name.clone(), None)));
        Ok(parts)
    }

    fn wait_until_ready(
        &mut self,
        number: u64,
        parts: &[PartOfMix],
        interrupt: &AtomicBool,
    ) -> Result<(), String> {
        let began = now();
        loop {
            self.listen_for(LISTEN_PERIOD);
            if interrupt.load(Ordering::Relaxed) {
                return Err("interrupted while the agents prepared a mix".to_string());
            }
            if self.away_since.is_some() {
                return Err(self.connection_loss());
            }
            let mut late = None;
            for (name, _) in parts {
                let Some(member) = self.members.get(name) else { continue };
                if let Some((_, reason)) = member.failed.as_ref().filter(|(mix, _)| *mix == number) {
                    return Err(format!("agent {name}: {reason}"));
                }
                if let Some(reason) = &member.gone {
                    return Err(format!("agent {name} has ended: {reason}"));
                }
                if member.is_double {
                    return Err(format!("two agents have the name {name}: end one of them"));
                }
                if member.is_silent(now(), began.max(self.connected_since)) {
                    return Err(format!("agent {name} is lost: no message arrived from it for 1.5 s"));
                }
                if member.ready.is_none_or(|(mix, _)| mix != number) {
                    late = Some(name);
                }
            }
            match late {
                None => return Ok(()),
                Some(name) if since(began) > READY_TIME => {
                    return Err(format!("agent {name} was not ready after {READY_TIME:?}"));
                }
                Some(_) => {}
            }
        }
    }

    /// Sends one start moment to all agents, to each in its own clock.
    fn send_start(&self, number: u64, parts: &[PartOfMix]) -> Instant {
        let members = || parts.iter().filter_map(|(name, _)| self.members.get(name));
        let round_trip_ns = members().filter_map(|it| it.clock).map(|clock| clock.round_trip_ns).max();
        let prepare_ns = members().filter_map(|it| it.ready).map(|(_, ns)| ns).max().unwrap_or(0);
        let ahead_ns = (ROUND_TRIPS_AHEAD * round_trip_ns.unwrap_or(0)).max(START_AHEAD.as_nanos() as u64);
        let (moment, now_ns) = (now(), monotonic_ns());
        let start_ns = now_ns + ahead_ns + prepare_ns;
        for member in members() {
            let at_monotonic_ns = member.clock.map_or(start_ns, |clock| clock.theirs(start_ns));
            let order = Order::Start { run: self.run.clone(), mix: number, at_monotonic_ns };
            self.order(&member.entry.name, &order);
        }
        moment + Duration::from_nanos(start_ns - now_ns)
    }

    fn stop(&self, number: u64, parts: &[PartOfMix]) {
        for (name, _) in parts {
            self.order(name, &Order::Stop { run: self.run.clone(), mix: number });
        }
    }

    fn traffic_of(&self, name: &str) -> Traffic {
        let beat = self.members.get(name).and_then(|member| member.beat.as_ref());
        beat.map(|beat| beat.traffic).unwrap_or_default()
    }
}

/// Says that an agent has no part in a mix.
fn without(name: &str) -> String {
    format!("agent {name} was lost before this mix; its part was distributed to the other agents")
}

/// Watches a mix.
struct Watch<'a> {
    controller: &'a Controller,
    mix: &'a Mix,
    plan: &'a Plan,
    /// Why the mix is invalid; the first reason counts.
    invalid: Option<String>,
    /// For each part: since when its agent is lost, in seconds of the mix, and why.
    lost: Vec<Option<(f64, String)>>,
    warnings: Vec<String>,
    /// When the mix was ended before its time.
    stopped: Option<Instant>,
    /// When the caller interrupted the run.
    interrupted: Option<Instant>,
}

impl Watch<'_> {
    /// Waits until every agent that is not lost has delivered its result, or its time is over.
    fn wait_for_results(&mut self, session: &mut Session, progress: &Progress) {
        let end = self.mix.start + self.plan.length + self.plan.timeout;
        let mut next_show = self.mix.start;
        loop {
            session.listen_for(LISTEN_PERIOD);
            self.show_progress(session, progress);
            self.publish_figures(session, progress);
            if now() >= next_show {
                next_show = now() + BEAT_PERIOD;
                self.controller.show(session.machines());
            }
            self.check_agents(session);
            self.check_broker(session);
            self.check_thresholds(session, progress);
            if self.interrupted.is_none() && progress.stop.load(Ordering::Relaxed) {
                self.interrupted = Some(now());
                self.stop(session);
            }
            let missing: Vec<usize> =
                (0..self.mix.parts.len()).filter(|&part| !self.is_done(session, part)).collect();
            if missing.is_empty() {
                return;
            }
            let since = self.stopped.map_or(end + RESULT_TIME, |stopped| stopped + STOPPED_TIME);
            let limit = match (self.interrupted, session.away_since) {
                (Some(interrupted), _) => interrupted + STOPPED_TIME,
                (None, Some(away)) => since.max(away + BROKER_TIME),
                (None, None) => since.max(session.connected_since + RESULT_TIME.min(STOPPED_TIME)),
            };
            if now() > limit {
                for part in missing {
                    self.lose(session, part, "its result did not arrive".to_string());
                }
                return;
            }
        }
    }

    fn name(&self, part: usize) -> &str {
        &self.mix.parts[part].0
    }

    fn is_done(&self, session: &Session, part: usize) -> bool {
        self.lost[part].is_some()
            || session.fold.as_ref().is_some_and(|fold| fold.is_complete(self.name(part)))
    }

    fn at_s(&self) -> f64 {
        since(self.mix.start).as_secs_f64()
    }

    fn show_progress(&self, session: &Session, progress: &Progress) {
        let own = (session.run.clone(), self.mix.number);
        let (mut requests, mut errors, mut bytes) = (0, 0, 0);
        for (name, _) in &self.mix.parts {
            let beat = session.members.get(name).and_then(|member| member.beat.as_ref());
            if let Some(beat) = beat.filter(|beat| beat.mix.as_ref() == Some(&own)) {
                requests += beat.requests;
                errors += beat.errors;
                bytes += beat.bytes;
            }
        }
        progress.requests.store(requests, Ordering::Relaxed);
        progress.errors.store(errors, Ordering::Relaxed);
        progress.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Writes the agents' reports of the mix so far to the caller's live figures.
    fn publish_figures(&self, session: &mut Session, progress: &Progress) {
        for (place, (name, _)) in self.mix.parts.iter().enumerate() {
            let figures = session.members.get_mut(name).and_then(|member| member.figures.take());
            if let Some((_, figures)) = figures.filter(|(mix, _)| *mix == self.mix.number) {
                progress.live_figures.put(place, figures);
            }
        }
    }

    fn check_agents(&mut self, session: &Session) {
        let since = self.mix.start.max(session.connected_since);
        for part in 0..self.mix.parts.len() {
            if self.is_done(session, part) {
                continue;
            }
            let Some(member) = session.members.get(self.name(part)) else { continue };
            let failed = member.failed.as_ref().filter(|(mix, _)| *mix == self.mix.number);
            let is_silent = session.away_since.is_none() && member.is_silent(now(), since);
            if let Some(reason) = &member.gone {
                self.lose(session, part, reason.clone());
            } else if let Some((_, reason)) = failed.filter(|_| self.stopped.is_none()) {
                self.lose(session, part, reason.clone());
            } else if is_silent {
                self.lose(session, part, "no message arrived from it for 1.5 s".to_string());
            }
        }
    }

    /// Marks a part as lost, for this reason. Its work is given to no other agent.
    fn lose(&mut self, session: &Session, part: usize, reason: String) {
        let at_s = self.at_s();
        let what = format!("agent {} was lost at {at_s:.1} s: {reason}", self.name(part));
        // The agent may still send. It gets the order to stop; if that does not arrive, it stops by itself.
        session.order(self.name(part), &Order::Stop { run: session.run.clone(), mix: self.mix.number });
        self.lost[part] = Some((at_s, reason));
        if session.options.exploratory {
            let left = self.lost.iter().filter(|lost| lost.is_none()).count();
            self.warnings.push(format!(
                "{what}. {left} of {} agents continued, and its part is not in the figures of this mix",
                self.lost.len()
            ));
            if left == 0 {
                self.fail(session, what);
            }
        } else {
            self.fail(session, what);
        }
    }

    /// Makes the mix invalid and ends it.
    fn fail(&mut self, session: &Session, reason: String) {
        self.invalid.get_or_insert(reason);
        self.stop(session);
    }

    fn stop(&mut self, session: &Session) {
        if self.stopped.is_none() {
            self.stopped = Some(now());
            session.stop(self.mix.number, &self.mix.parts);
        }
    }

    /// Without the broker the lease does not reach the agents either; they finish a mix only if the broker
    /// returns in time or the mix ends before.
    fn check_broker(&mut self, session: &Session) {
        let Some(away) = session.away_since else {
            // An order to stop that was sent while the broker was away is repeated.
            if self.stopped.is_some_and(|stopped| stopped < session.connected_since) {
                session.stop(self.mix.number, &self.mix.parts);
                self.stopped = Some(now());
            }
            return;
        };
        let is_loaded = since(self.mix.start) < self.plan.length;
        if is_loaded && self.invalid.is_none() && since(away) > LEASE {
            let at_s = self.at_s();
            self.fail(session, format!("{} (at {at_s:.1} s)", session.connection_loss()));
        }
    }

    fn check_thresholds(&mut self, session: &Session, progress: &Progress) {
        let Some(most) = session.options.abort_error_share.filter(|_| self.stopped.is_none()) else { return };
        let errors = progress.errors.load(Ordering::Relaxed);
        let all = errors + progress.requests.load(Ordering::Relaxed);
        if all >= ABORT_REQUESTS && errors as f64 > all as f64 * most {
            let reason = format!(
                "{errors} of {all} requests failed in {:.1} s, more than the limit of {} % at which a \
                 run is ended",
                self.at_s(),
                most * 100.0
            );
            self.fail(session, reason);
        }
    }

    /// The sum of the results, and the state of each agent.
    fn result(mut self, session: &Session) -> Result<GeneratedLoad, String> {
        let mut machines: Vec<MachineOutcome> = Vec::new();
        let (mut agents, mut recording) = (Vec::new(), None);
        for (part, (name, portion)) in self.mix.parts.iter().enumerate() {
            let of_agent = |error: String| format!("agent {name}: {error}");
            let Some(portion) = portion else {
                // A recording from before a loss does not belong to the time of the figures.
                let result = session.fold.as_ref().and_then(|fold| fold.result(name));
                recording = result.transpose().map_err(of_agent)?.filter(|_| self.lost[part].is_none());
                continue;
            };
            let result = session.fold.as_ref().and_then(|fold| fold.result::<Outcome>(name));
            let outcome = result.transpose().map_err(of_agent)?;
            self.judge_end(session, name, outcome.as_ref());
            agents.push(self.agent_use(session, part, portion, outcome.as_ref()));
            if let Some(outcome) = outcome.filter(|_| self.lost[part].is_none() || self.invalid.is_some()) {
                machines.push((name.clone(), portion.clone(), outcome));
            }
        }
        let start_spread_us = start_spread_us(machines.iter().map(|(_, _, outcome)| outcome));
        self.judge_spread(start_spread_us);
        let Some(mut outcome) = merge(self.plan, machines).map_err(|error| error.to_string())? else {
            return Err(self.invalid.unwrap_or_else(|| "no agent sent a result".to_string()));
        };
        outcome.warnings.append(&mut self.warnings);
        let control_bytes: u64 =
            agents.iter().map(|agent| agent.control_sent_bytes + agent.control_received_bytes).sum();
        let fleet = FleetUse {
            start_spread_us,
            control_bytes_per_second: control_bytes as f64 / self.plan.length.as_secs_f64(),
            agents,
        };
        Ok(GeneratedLoad { outcome, fleet: Some(fleet), recording, invalid: self.invalid })
    }

    /// An agent that ended a mix without an order to stop has lost its lease, whatever it reported first.
    fn judge_end(&mut self, session: &Session, name: &str, outcome: Option<&Outcome>) {
        if self.stopped.is_none() && outcome.is_some_and(|outcome| outcome.interrupted) {
            let failed = session.members.get(name).and_then(|member| member.failed.clone());
            let reason = failed.map_or("it stated no reason".to_string(), |(_, reason)| reason);
            self.invalid.get_or_insert(format!("agent {name} stopped before the end: {reason}"));
        }
    }

    fn agent_use(
        &self,
        session: &Session,
        part: usize,
        portion: &Portion,
        outcome: Option<&Outcome>,
    ) -> AgentUse {
        let name = self.name(part);
        let clock = session.members.get(name).and_then(|member| member.clock);
        let (before, now) = (self.mix.traffic[part], session.traffic_of(name));
        AgentUse {
            name: name.to_string(),
            clients: portion.client_count(self.plan) as u64,
            threads: portion.threads.len() as u64,
            requests: outcome.map(|outcome| outcome.requests),
            errors: outcome.map(|outcome| outcome.errors.total()),
            total_requests: outcome.map(|outcome| outcome.total_requests),
            busiest_thread: outcome.map(|outcome| outcome.engine.busiest_thread),
            start_lateness_us: outcome.map(|outcome| outcome.start_lateness.as_secs_f64() * 1e6),
            clock_offset_us: clock.map(|clock| clock.real_offset_ns as f64 / 1e3),
            clock_bound_us: clock.map(|clock| clock.bound_ns as f64 / 1e3),
            control_sent_bytes: now.sent_bytes.saturating_sub(before.sent_bytes),
            control_received_bytes: now.received_bytes.saturating_sub(before.received_bytes),
            lost_at_s: self.lost[part].as_ref().map(|(at_s, _)| *at_s),
        }
    }

    fn judge_spread(&mut self, start_spread_us: f64) {
        let spread = Duration::from_secs_f64(start_spread_us / 1e6);
        if spread > SPREAD_INVALID {
            let reason =
                format!("the agents began {:.1} ms apart: at most 50 ms are allowed", start_spread_us / 1e3);
            self.invalid.get_or_insert(reason);
        } else if spread > SPREAD_WARNING {
            self.warnings.push(format!("The agents began {:.1} ms apart.", start_spread_us / 1e3));
        }
    }
}

/// The time from the first engine thread's start to the last one's, each measured against the agreed moment.
fn start_spread_us<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> f64 {
    let lateness = outcomes.map(|outcome| (outcome.first_start_lateness, outcome.start_lateness));
    let ends = lateness
        .reduce(|(first, last), (other_first, other_last)| (first.min(other_first), last.max(other_last)));
    ends.map_or(0.0, |(first, last)| last.saturating_sub(first).as_secs_f64() * 1e6)
}
