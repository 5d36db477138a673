//! The origins of a route: which of them a request goes to, and what became of it.
//!
//! What is known of origins is shared by all cores, and outlives a reload that changes nothing about them.

use std::cell::RefCell;
use std::rc::{Rc, Weak as LocalWeak};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::balance::{Balance, Candidate, Chance, Turns, by_hash, least_requests};
use super::check;
use super::failure::Failure;
use super::health::State;
use super::http2::Sessions;
use super::origin::SharedOrigin;
use super::origin_url::Role;
use super::retry::RetryBudget;
use super::settings::ProxySettings;
use crate::handler::{Level, Server};
use crate::request::Request;

/// How often connections without requests are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What the cores share of the origins of a route.
#[derive(Debug)]
pub struct SharedGroup {
    /// The configuration.
    pub settings: ProxySettings,
    /// The origins, in the order of the configuration.
    pub origins: Vec<Arc<SharedOrigin>>,
    /// How many retries there may be.
    pub budget: RetryBudget,
    began: Instant,
    /// A core asks the origins whether they are well.
    is_checked: AtomicBool,
}

/// The groups of this process, for metrics and for the next configuration.
static GROUPS: Mutex<Vec<Weak<SharedGroup>>> = Mutex::new(Vec::new());

/// The groups of this process that are in use.
pub fn groups_of_process() -> Vec<Arc<SharedGroup>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

impl SharedGroup {
    /// The group with these settings: the one that there is already, or a new one, all of whose origins are
    /// thought well.
    pub fn of_process(settings: ProxySettings) -> Arc<SharedGroup> {
        let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|group| group.strong_count() > 0);
        if let Some(known) = groups.iter().filter_map(Weak::upgrade).find(|group| group.settings == settings)
        {
            return known;
        }
        let origin =
            |spec: &super::origin_url::OriginSpec| Arc::new(SharedOrigin::new(spec.clone(), &settings));
        let group = Arc::new(SharedGroup {
            origins: settings.origins.iter().map(origin).collect(),
            settings,
            budget: RetryBudget::new(),
            began: Instant::now(),
            is_checked: AtomicBool::new(false),
        });
        groups.push(Arc::downgrade(&group));
        group
    }

    /// Milliseconds since the group was made; never 0, which means never.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// How an origin is.
    pub fn state(&self, index: usize) -> State {
        self.origins[index].health.state(self.now_ms(), &self.settings.health)
    }

    /// Whether one more origin may be left alone.
    fn may_eject(&self, index: usize) -> bool {
        let is_used = |origin: &&Arc<SharedOrigin>| origin.spec.role != Role::Draining;
        let count = self.origins.iter().filter(is_used).count();
        if count < 2 {
            return false;
        }
        let most = (count * self.settings.health.most_ejected_percent as usize / 100).max(1);
        let others = self.origins.iter().enumerate().filter(|(other, _)| *other != index);
        others.filter(|(_, origin)| origin.health.ejected_until_ms().is_some()).count() < most
    }
}

/// The origins of a route on one core.
pub struct Group {
    /// What all cores share.
    pub shared: Arc<SharedGroup>,
    /// The server, on this core.
    pub server: Rc<dyn Server>,
    /// HTTP/2 connections, by origin.
    pub sessions: Vec<Rc<Sessions>>,
    turns: Turns,
    chance: Chance,
    names: Vec<u64>,
    /// Whether sessions name origins.
    has_routes: bool,
    /// This core asks the origins whether they are well.
    checks: RefCell<bool>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if *self.checks.borrow() {
            self.shared.is_checked.store(false, Relaxed);
        }
    }
}

impl Group {
    /// The origins on this core. Must be made there.
    pub fn new(shared: Arc<SharedGroup>, server: Rc<dyn Server>) -> Rc<Group> {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), server.core());
        let group = Rc::new(Group {
            sessions: shared.origins.iter().map(|_| Rc::default()).collect(),
            turns: Turns::new(shared.origins.len()),
            chance: Chance::new(seed),
            names: shared.origins.iter().map(|origin| origin.name_hash).collect(),
            has_routes: shared.origins.iter().any(|origin| !origin.spec.route.is_empty()),
            checks: RefCell::new(false),
            shared,
            server,
        });
        tokio::task::spawn_local(look_after(Rc::downgrade(&group)));
        group
    }

    /// The configuration.
    pub fn settings(&self) -> &ProxySettings {
        &self.shared.settings
    }

    /// An origin.
    pub fn origin(&self, index: usize) -> &Arc<SharedOrigin> {
        &self.shared.origins[index]
    }

    /// The origin that the session of a request names.
    pub fn owner(&self, request: &Request) -> Option<usize> {
        if !self.has_routes {
            return None;
        }
        let routes: Vec<&str> = self.shared.origins.iter().map(|origin| origin.spec.route.as_str()).collect();
        self.settings().sessions.owner(&request.received, &request.path_as_sent, &routes)
    }

    /// The origin for a request that these could not answer: the owner of its session, if that can be asked.
    /// `None`: all have been tried.
    pub fn choose(&self, tried: &[usize], owner: Option<usize>, key: Option<u64>) -> Option<usize> {
        let settings = self.settings();
        let origins = &self.shared.origins;
        let now = self.shared.now_ms();
        // One that takes no new sessions finishes those that it has.
        if let Some(owner) = owner.filter(|owner| !tried.contains(owner))
            && origins[owner].health.admits(now, &settings.health)
        {
            return Some(owner);
        }
        for role in [Role::Active, Role::Backup] {
            let candidate = |(index, origin): (usize, &Arc<SharedOrigin>)| {
                let is_one = origin.spec.role == role && !tried.contains(&index);
                is_one.then(|| Candidate {
                    index,
                    weight: u64::from(origin.spec.weight) * origin.health.share(now, &settings.health),
                    under_way: origin.under_way(),
                })
            };
            let mut candidates: Vec<Candidate> = origins.iter().enumerate().filter_map(candidate).collect();
            // Whoever may be tried again is asked at once, so that one request finds out and not several.
            while let Some(index) = self.choose_among(&candidates, key) {
                if origins[index].health.admits(now, &settings.health) {
                    return Some(index);
                }
                candidates.retain(|candidate| candidate.index != index);
            }
        }
        // All are left alone. The one that has been so for the longest may have come back.
        let rest = (0..origins.len())
            .filter(|index| !tried.contains(index) && origins[*index].spec.role != Role::Draining);
        let index = rest.min_by_key(|index| origins[*index].health.ejected_until_ms())?;
        origins[index].health.probe(now, &settings.health);
        Some(index)
    }

    fn choose_among(&self, candidates: &[Candidate], key: Option<u64>) -> Option<usize> {
        match (candidates, &self.settings().balance, key) {
            ([only], ..) => Some(only.index),
            (_, Balance::RoundRobin, _) => self.turns.next(candidates),
            (_, Balance::Hash(_), Some(key)) => by_hash(key, candidates, &self.names),
            (_, Balance::LeastRequests | Balance::Hash(_), _) => {
                least_requests(candidates, &mut || self.chance.next())
            }
        }
    }

    /// Whether there is an origin besides these.
    pub fn has_others(&self, tried: &[usize]) -> bool {
        let origins = self.shared.origins.iter().enumerate();
        origins.filter(|(index, origin)| !tried.contains(index) && origin.spec.role != Role::Draining).count()
            > 0
    }

    /// The origin has answered with this status, so long after it was asked.
    pub fn answered(&self, index: usize, status: u16, after: Duration) {
        let (origin, settings) = (self.origin(index), self.settings());
        let now = self.shared.now_ms();
        let is_server_error = status >= 500;
        origin.counts.answered(status, after);
        let is_back = origin.health.answered(now, is_server_error, &settings.health);
        let is_told = origin.outage.answered() && self.server.log_recovered(&name_in_log(origin));
        if is_back && !is_told {
            self.server.log(Level::Information, "origin up", &format!("origin {} is up again", origin.name));
        }
        if is_server_error && self.is_outlier(index) && self.shared.may_eject(index) {
            self.eject(index, "most of its answers are server errors, and those of others are not");
        }
    }

    /// Whether an origin gives server errors where others do not.
    fn is_outlier(&self, index: usize) -> bool {
        let health = &self.settings().health;
        let percent = |origin: &Arc<SharedOrigin>| origin.health.error_percent(health);
        let Some(own) = percent(self.origin(index)).filter(|own| *own >= health.outlier_percent.max(1))
        else {
            return false;
        };
        let others = self.shared.origins.iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<u32> = others.filter_map(|(_, origin)| percent(origin)).collect();
        !others.is_empty() && others.iter().sum::<u32>() / (others.len() as u32) < own / 2
    }

    /// The origin could not be reached, or gave no good answer.
    pub fn failed(&self, index: usize, failure: &Failure) {
        let origin = self.origin(index);
        origin.counts.failures[failure.label() as usize].fetch_add(1, Relaxed);
        if failure.is_of_origin() {
            self.note_failure(index);
        }
    }

    /// Writes that a request came to nothing there. `about` names the request.
    pub fn log_failure(&self, index: usize, failure: &Failure, about: &str) {
        let origin = self.origin(index);
        let (name, reason) = (name_in_log(origin), format!("{failure} ({about})"));
        if !failure.is_of_origin() {
            self.server.log(Level::Information, "origin failed", &format!("{name}: {reason}"));
        } else if origin.outage.failed() {
            self.server.log_failing(&name, &reason);
        } else {
            self.server.log(Level::Warning, "origin failed", &format!("{name}: {reason}"));
        }
    }

    /// The origin's answer broke off.
    pub fn broke_off(&self, index: usize, reason: &str) {
        let origin = self.origin(index);
        origin.counts.broken_bodies.fetch_add(1, Relaxed);
        let message = format!("origin {}: its response broke off: {reason}", origin.name);
        self.server.log(Level::Warning, "origin broke off", &message);
        self.note_failure(index);
    }

    fn note_failure(&self, index: usize) {
        let health = &self.settings().health;
        if self.origin(index).health.failed(self.shared.now_ms(), health) && self.shared.may_eject(index) {
            self.eject(index, "it has failed too often");
        }
    }

    fn eject(&self, index: usize, why: &str) {
        let origin = self.origin(index);
        if origin.health.eject(self.shared.now_ms(), &self.settings().health) {
            origin.counts.ejections.fetch_add(1, Relaxed);
            origin.connections.clear();
            let message = format!("origin {} gets no requests for a while: {why}", origin.name);
            self.server.log(Level::Warning, "origin down", &message);
        }
    }

    /// A check has found the origin so.
    pub fn checked(&self, index: usize, is_well: bool, reason: &str) {
        let origin = self.origin(index);
        if !origin.health.checked(is_well, self.shared.now_ms()) {
            return;
        }
        if is_well {
            let message = format!("origin {} passes its checks again", origin.name);
            self.server.log(Level::Information, "origin up", &message);
        } else {
            origin.connections.clear();
            let message = format!("origin {} fails its checks and gets no requests: {reason}", origin.name);
            self.server.log(Level::Warning, "origin down", &message);
        }
    }
}

fn name_in_log(origin: &SharedOrigin) -> String {
    format!("origin {}", origin.name)
}

/// Closes old connections from time to time, and sees to it that one core checks.
async fn look_after(group: LocalWeak<Group>) {
    loop {
        {
            let Some(group) = group.upgrade() else { return };
            let core = group.server.core();
            for (origin, sessions) in group.shared.origins.iter().zip(&group.sessions) {
                let leads_there =
                    |address| origin.addresses.as_ref().is_none_or(|addresses| addresses.contains(address));
                origin.connections.look(core, leads_there);
                sessions.look(group.settings().connections.keep_alive_timeout, leads_there);
            }
            let wants_check = group.settings().check.is_some() && !*group.checks.borrow();
            if wants_check && !group.shared.is_checked.swap(true, Relaxed) {
                *group.checks.borrow_mut() = true;
                check::begin(&group);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
