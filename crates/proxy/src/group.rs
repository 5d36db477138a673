//! The origins of a route: selects one for each request, and records results.
//!
//! All cores, and all groups with the same rules for an origin, share the origin's state. A reload that does
//! not change these rules keeps the state.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use touchstone_handler::handler::{Level, Server};
use touchstone_handler::request::Request;

use super::core_sessions::CoreSessions;
use super::failure::Failure;
use super::member::{Member, OriginState};
use super::origin::{OriginKey, SharedOrigin};
use super::origin_url::Role;
use super::retry::RetryBudget;
use super::settings::ProxySettings;
use touchstone_upstream::clock::now_ms;
use touchstone_upstream::{Candidate, Chooser, State};

/// The part of the origins of a route that all cores share.
#[derive(Debug)]
pub struct SharedGroup {
    /// The settings.
    pub settings: ProxySettings,
    /// The origins, in the order of the configuration.
    pub members: Vec<Member>,
    /// The budget for retries.
    pub budget: RetryBudget,
    /// The number of the last configuration that contains this group.
    pub(super) configuration: AtomicU64,
}

impl SharedGroup {
    /// A new group. It shares origins with the groups in `known` that have the same rules for them; new
    /// origins are assumed to be up.
    pub(super) fn new(settings: ProxySettings, known: &[Arc<SharedGroup>]) -> SharedGroup {
        let mut members: Vec<Member> = Vec::with_capacity(settings.origins.len());
        for spec in &settings.origins {
            let key = OriginKey::new(&spec.url, &settings);
            let mut others = members.iter().chain(known.iter().flat_map(|group| &group.members));
            let origin = others.find(|other| other.origin.key == key);
            let origin =
                origin.map_or_else(|| Arc::new(SharedOrigin::new(key)), |other| other.origin.clone());
            members.push(Member::new(spec.clone(), origin));
        }
        SharedGroup { members, settings, budget: RetryBudget::new(), configuration: AtomicU64::new(0) }
    }

    /// The health of an origin.
    pub fn state(&self, index: usize) -> State {
        self.members[index].origin.health.state(now_ms(), &self.settings.health)
    }

    /// Whether one more origin may be ejected.
    fn may_eject(&self, index: usize) -> bool {
        let is_used = |member: &&Member| member.role() != Role::Draining;
        let count = self.members.iter().filter(is_used).count();
        if count < 2 {
            return false;
        }
        let most = (count * self.settings.health.most_ejected_percent as usize / 100).max(1);
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != index);
        others.filter(|(_, member)| member.origin.health.ejected_until_ms().is_some()).count() < most
    }
}

/// The origins of a route on one core.
pub struct Group {
    /// The part that all cores share.
    pub shared: Arc<SharedGroup>,
    /// The server, on this core.
    pub server: Rc<dyn Server>,
    /// This core's connections of HTTP/2 and HTTP/3, by origin.
    pub sessions: Vec<Rc<CoreSessions>>,
    chooser: Chooser,
    /// Whether sessions name origins (`route=NAME`).
    has_session_routes: bool,
    /// The origins that this core checks, on behalf of all routes that share them.
    checks: RefCell<Vec<usize>>,
}

impl Drop for Group {
    fn drop(&mut self) {
        for index in self.checks.get_mut() {
            self.shared.members[*index].origin.is_checked.store(false, Relaxed);
        }
    }
}

impl Group {
    /// The origins on this core. Must be called on that core.
    pub fn new(shared: Arc<SharedGroup>, server: Rc<dyn Server>) -> Rc<Group> {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), server.core());
        let names = shared.members.iter().map(|member| member.name_hash).collect();
        Rc::new(Group {
            sessions: shared.members.iter().map(|member| CoreSessions::of_core(&member.origin)).collect(),
            chooser: Chooser::new(names, seed),
            has_session_routes: shared.members.iter().any(|member| !member.spec.route.is_empty()),
            checks: RefCell::default(),
            shared,
            server,
        })
    }

    /// Claims the active checks of an origin for this core; false if another core makes them already.
    pub fn claim_checks(&self, index: usize) -> bool {
        let is_claimed = self.origin(index).is_checked.swap(true, Relaxed);
        if !is_claimed {
            self.checks.borrow_mut().push(index);
        }
        !is_claimed
    }

    /// The settings.
    pub fn settings(&self) -> &ProxySettings {
        &self.shared.settings
    }

    /// A member of this group.
    pub fn member(&self, index: usize) -> &Member {
        &self.shared.members[index]
    }

    /// An origin.
    pub fn origin(&self, index: usize) -> &Arc<SharedOrigin> {
        &self.member(index).origin
    }

    /// The origin that the session of a request names.
    pub fn session_origin(&self, request: &Request) -> Option<usize> {
        if !self.has_session_routes {
            return None;
        }
        let routes: Vec<&str> = self.shared.members.iter().map(|member| member.spec.route.as_str()).collect();
        self.settings().sessions.owner(&request.received, &request.encoded_path, &routes)
    }

    /// Selects the origin for the next attempt, after those in `tried` have failed: the origin of the session
    /// if it is available. `None`: all have been tried.
    pub fn choose(&self, tried: &[usize], session_origin: Option<usize>, hash: Option<u64>) -> Option<usize> {
        let settings = self.settings();
        let members = &self.shared.members;
        let now = now_ms();
        let try_admit = |index: usize| members[index].origin.health.try_admit(now, &settings.health);
        // A draining origin still gets the requests of its sessions.
        let serves = |index: &usize| {
            !tried.contains(index) && members[*index].state() != OriginState::Maintenance && try_admit(*index)
        };
        if let Some(index) = session_origin.filter(serves) {
            return Some(index);
        }
        for role in [Role::Active, Role::Backup] {
            let candidate = |(index, member): (usize, &Member)| {
                let is_candidate = member.role() == role && !tried.contains(&index);
                is_candidate.then(|| Candidate {
                    index,
                    weight: u64::from(member.weight()) * member.origin.health.share(now, &settings.health),
                    under_way: member.origin.under_way(),
                })
            };
            let candidates = members.iter().enumerate().filter_map(candidate).collect();
            let chosen = self.chooser.choose(&settings.balance, candidates, hash, try_admit);
            if chosen.is_some() {
                return chosen;
            }
        }
        // All are ejected. Tries the one whose ejection ends first: it may be up again.
        let rest = (0..members.len())
            .filter(|index| !tried.contains(index) && members[*index].role() != Role::Draining);
        let index = rest.min_by_key(|index| members[*index].origin.health.ejected_until_ms())?;
        members[index].origin.health.probe(now, &settings.health);
        Some(index)
    }

    /// Whether there is an origin that is not in `tried`.
    pub fn has_untried(&self, tried: &[usize]) -> bool {
        let mut members = self.shared.members.iter().enumerate();
        members.any(|(index, member)| !tried.contains(&index) && member.role() != Role::Draining)
    }

    /// Records that the origin has answered with this status, after this time.
    pub fn record_answer(&self, index: usize, status: u16, after: Duration) {
        let (member, settings) = (self.member(index), self.settings());
        let origin = &member.origin;
        let is_server_error = status >= 500;
        member.counts.record_answer(status, after);
        let is_recovered = origin.health.answered(now_ms(), is_server_error, &settings.health);
        self.record_success(member, is_recovered);
        if is_server_error && self.is_outlier(index) && self.shared.may_eject(index) {
            self.eject(index, "most of its answers are server errors, unlike those of other origins");
        }
    }

    /// Records that the origin has accepted a connection of a stream, or has answered a datagram.
    pub fn record_connection(&self, index: usize) {
        let (member, settings) = (self.member(index), self.settings());
        let is_recovered = member.origin.health.answered(now_ms(), false, &settings.health);
        self.record_success(member, is_recovered);
    }

    fn record_success(&self, member: &Member, is_recovered: bool) {
        let is_logged = member.origin.outage.answered() && self.server.log_recovered(&name_in_log(member));
        if is_recovered && !is_logged {
            self.server.log(Level::Information, "origin up", &format!("origin {} is up again", member.name));
        }
    }

    /// Whether an origin has a much higher share of server errors than the others.
    fn is_outlier(&self, index: usize) -> bool {
        let health = &self.settings().health;
        let percent = |member: &Member| member.origin.health.error_percent(health);
        let Some(own) = percent(self.member(index)).filter(|own| *own >= health.outlier_percent.max(1))
        else {
            return false;
        };
        let others = self.shared.members.iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<u32> = others.filter_map(|(_, member)| percent(member)).collect();
        !others.is_empty() && others.iter().sum::<u32>() / (others.len() as u32) < own / 2
    }

    /// Counts a failed attempt.
    pub fn record_failure(&self, index: usize, failure: &Failure) {
        self.member(index).counts.failures[failure.label() as usize].fetch_add(1, Relaxed);
        if failure.affects_health() {
            self.record_health_failure(index);
        }
    }

    /// Logs a failed attempt. `log_name` names the request.
    pub fn log_failure(&self, index: usize, failure: &Failure, log_name: &str) {
        let member = self.member(index);
        let (name, reason) = (name_in_log(member), format!("{failure} ({log_name})"));
        if !failure.affects_health() {
            self.server.log(Level::Information, "origin failed", &format!("{name}: {reason}"));
        } else if member.origin.outage.failed() {
            self.server.log_failing(&name, &reason);
        } else {
            self.server.log(Level::Warning, "origin failed", &format!("{name}: {reason}"));
        }
    }

    /// Counts and logs an incomplete response.
    pub fn record_broken_body(&self, index: usize, reason: &str) {
        let member = self.member(index);
        member.counts.broken_bodies.fetch_add(1, Relaxed);
        let message = format!("origin {}: its response broke off: {reason}", member.name);
        self.server.log(Level::Warning, "origin broke off", &message);
        self.record_health_failure(index);
    }

    fn record_health_failure(&self, index: usize) {
        let health = &self.settings().health;
        if self.origin(index).health.failed(now_ms(), health) && self.shared.may_eject(index) {
            self.eject(index, "it has failed too often");
        }
    }

    fn eject(&self, index: usize, why: &str) {
        let member = self.member(index);
        if member.origin.health.eject(now_ms(), &self.settings().health) {
            member.counts.ejections.fetch_add(1, Relaxed);
            member.origin.connections.clear();
            let message = format!("origin {} gets no requests for a while: {why}", member.name);
            self.server.log(Level::Warning, "origin down", &message);
        }
    }

    /// Records the result of an active check.
    pub fn record_check(&self, index: usize, is_healthy: bool, reason: &str) {
        let member = self.member(index);
        if !member.origin.health.checked(is_healthy, now_ms()) {
            return;
        }
        if is_healthy {
            let message = format!("origin {} passes its checks again", member.name);
            self.server.log(Level::Information, "origin up", &message);
        } else {
            member.origin.connections.clear();
            let message = format!("origin {} fails its checks and gets no requests: {reason}", member.name);
            self.server.log(Level::Warning, "origin down", &message);
        }
    }
}

fn name_in_log(member: &Member) -> String {
    format!("origin {}", member.name)
}
