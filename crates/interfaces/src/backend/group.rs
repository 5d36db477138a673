//! The backends of a route: chooses one for each request, and records results.
//!
//! The state of a backend is shared by all cores and by all routes with the same rules for it: a connection
//! that one route keeps may occupy the process that another route's request waits for.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::OnceCell;
use touchstone_handler::handler::{Level, Server};

use super::address::Address;
use super::connections::{ConnectionRules, Connections, SharedConnections};
use super::settings::{Backend, GroupRules};
use touchstone_upstream::clock::now_ms;
use touchstone_upstream::live_instances::LiveInstances;
use touchstone_upstream::outage::Outage;
use touchstone_upstream::{Candidate, Chooser, Health, HealthRules, hash};

/// The state of a route's backends that the cores share.
pub struct SharedGroup {
    rules: GroupRules,
    backends: Vec<Arc<SharedBackend>>,
    /// One core checks backends that get no requests.
    is_checked: AtomicBool,
}

/// A backend, shared by its routes.
struct SharedBackend {
    sharing: Sharing,
    health: Health,
    outage: Outage,
    connections: Arc<SharedConnections>,
    /// The time of the last check by any route; 0: never.
    checked_at_ms: AtomicU64,
}

/// Routes share a backend if these values are equal.
#[derive(PartialEq)]
struct Sharing {
    address: Address,
    connections: ConnectionRules,
    health: HealthRules,
}

/// The backends of a server that are in use. Its routes share the processes at an address.
#[derive(Default)]
pub struct Backends {
    backends: LiveInstances<SharedBackend>,
}

impl Backends {
    /// The backend with this address and these rules: the existing one, or a new one, assumed to be up.
    fn get(&self, address: &Address, rules: &GroupRules) -> Arc<SharedBackend> {
        let sharing = Sharing {
            address: address.clone(),
            connections: rules.connections.clone(),
            health: rules.health,
        };
        self.backends.get(sharing, |backend, wanted| backend.sharing == *wanted, SharedBackend::new)
    }
}

impl SharedBackend {
    fn new(sharing: Sharing, known: &[Arc<SharedBackend>]) -> SharedBackend {
        let at_address = known.iter().find(|backend| backend.sharing.address == sharing.address);
        let others = at_address.map(|other| &*other.connections);
        SharedBackend {
            connections: Arc::new(SharedConnections::new(&sharing.connections, others)),
            sharing,
            health: Health::default(),
            outage: Outage::default(),
            checked_at_ms: AtomicU64::new(0),
        }
    }

    /// Whether the backend must be checked now: no route has done so within this interval.
    fn takes_check(&self, now_ms: u64, interval: Duration) -> bool {
        let last = self.checked_at_ms.load(Relaxed);
        let interval = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let is_due = last == 0 || now_ms.saturating_sub(last) >= interval;
        is_due && self.checked_at_ms.compare_exchange(last, now_ms, Relaxed, Relaxed).is_ok()
    }
}

impl SharedGroup {
    /// The backends for these rules, among those of a server.
    pub fn new(rules: GroupRules, backends: &Backends) -> Arc<SharedGroup> {
        let backend = |backend: &Backend| backends.get(&backend.address, &rules);
        let backends = rules.backends.iter().map(backend).collect();
        Arc::new(SharedGroup { rules, backends, is_checked: AtomicBool::new(false) })
    }
}

/// The backends of a route on one core.
pub struct Group {
    shared: Arc<SharedGroup>,
    name: &'static str,
    server: Rc<dyn Server>,
    backends: Vec<CoreBackend>,
    chooser: Chooser,
}

struct CoreBackend {
    /// Requests in progress.
    under_way: Cell<u32>,
    /// Answers that have begun.
    answers: Cell<u64>,
    /// A check whether the backend still answers, as long as requests wait for its result.
    look: RefCell<Weak<OnceCell<bool>>>,
    connections: Rc<Connections>,
}

/// A request that a backend is working on; the choice of backends counts it.
pub struct RequestGuard {
    group: Rc<Group>,
    index: usize,
}

impl RequestGuard {
    /// The backend's index.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let under_way = &self.group.backends[self.index].under_way;
        under_way.set(under_way.get().saturating_sub(1));
    }
}

impl Group {
    /// The backends on this core. `name` is that of the interface, for the log.
    pub fn new(shared: Arc<SharedGroup>, name: &'static str, server: Rc<dyn Server>) -> Rc<Group> {
        let rules = &shared.rules;
        let core_backend = |(backend, shared): (&Backend, &Arc<SharedBackend>)| CoreBackend {
            under_way: Cell::new(0),
            answers: Cell::new(0),
            look: RefCell::default(),
            connections: Connections::of_core(&backend.address, &rules.connections, &shared.connections),
        };
        let backends = rules.backends.iter().zip(&shared.backends).map(core_backend).collect();
        let name_hash = |backend: &Backend| hash(backend.address.to_string().as_bytes());
        let chooser = Chooser::new(rules.backends.iter().map(name_hash).collect(), server.core() as u64);
        let interval = rules.check_interval;
        let group = Rc::new(Group { shared: shared.clone(), name, server, backends, chooser });
        if let Some(interval) = interval
            && !shared.is_checked.swap(true, Relaxed)
        {
            tokio::task::spawn_local(check(Rc::downgrade(&group), interval));
        }
        group
    }

    /// The configuration.
    pub fn rules(&self) -> &GroupRules {
        &self.shared.rules
    }

    /// Whether a request that belongs to this backend may be sent to it; the caller sends it then.
    pub fn try_admit(&self, index: usize) -> bool {
        self.len() == 1 || self.shared.backends[index].health.try_admit(now_ms(), &self.rules().health)
    }

    /// The backend for the next attempt, after those in `tried` have failed; `None`: all have been tried.
    pub fn choose(&self, tried: &[usize]) -> Option<usize> {
        let rules = self.rules();
        let now = now_ms();
        let health = |index: usize| &self.shared.backends[index].health;
        // A single backend gets all requests, even if it is considered down.
        if self.len() == 1 {
            health(0).probe(now, &rules.health);
            return tried.is_empty().then_some(0);
        }
        for are_backups in [false, true] {
            let candidate = |(index, backend): (usize, &Backend)| {
                let is_one = backend.is_backup == are_backups && !tried.contains(&index);
                let under_way = self.backends[index].under_way.get();
                is_one.then(|| Candidate { index, weight: u64::from(backend.weight.max(1)), under_way })
            };
            let candidates = rules.backends.iter().enumerate().filter_map(candidate).collect();
            let try_admit = |index: usize| health(index).try_admit(now, &rules.health);
            let chosen = self.chooser.choose(&rules.balance, candidates, None, try_admit);
            if chosen.is_some() {
                return chosen;
            }
        }
        // All are down. The one that has been down for the longest time may be up again.
        if !tried.is_empty() {
            return None;
        }
        let longest = (0..self.len()).min_by_key(|index| health(*index).ejected_until_ms())?;
        health(longest).probe(now, &rules.health);
        Some(longest)
    }

    /// Counts a request as in progress.
    pub fn begin(self: &Rc<Group>, index: usize) -> RequestGuard {
        let under_way = &self.backends[index].under_way;
        under_way.set(under_way.get() + 1);
        RequestGuard { group: self.clone(), index }
    }

    /// The connections to a backend.
    pub fn connections(&self, index: usize) -> &Rc<Connections> {
        &self.backends[index].connections
    }

    /// How many backends there are.
    pub fn len(&self) -> usize {
        self.backends.len()
    }

    /// The backend has answered a request.
    pub fn succeeded(&self, index: usize) {
        let answers = &self.backends[index].answers;
        answers.set(answers.get().wrapping_add(1));
        let is_back = self.shared.backends[index].health.answered(now_ms(), false, &self.rules().health);
        self.log_success(index, is_back);
    }

    /// The backend has answered a check.
    fn checked_well(&self, index: usize) {
        let is_back =
            self.shared.backends[index].health.record_successful_check(now_ms(), &self.rules().health);
        self.log_success(index, is_back);
    }

    fn log_success(&self, index: usize, is_back: bool) {
        let backend = &self.shared.backends[index];
        let is_logged = backend.outage.answered() && self.server.log_recovered(&self.name_in_log(index));
        if is_back && !is_logged {
            let message = format!("{} is up again", self.name_in_log(index));
            self.server.log(Level::Information, "backend up", &message);
        }
    }

    /// Logs that a request has failed. `is_of_backend`: the backend could not be reached, or did not answer.
    pub fn log_failure(&self, index: usize, reason: &str, is_of_backend: bool) {
        let name = self.name_in_log(index);
        if is_of_backend && self.shared.backends[index].outage.failed() {
            self.server.log_failing(&name, reason);
        } else {
            self.server.log(Level::Warning, "program failed", &format!("{name}: {reason}"));
        }
    }

    fn name_in_log(&self, index: usize) -> String {
        format!("{} {}", self.name, self.backends[index].connections.address())
    }

    /// Whether a request could go to a backend other than this one.
    pub fn has_other(&self, index: usize) -> bool {
        let mut backends = self.shared.backends.iter().enumerate();
        let now = now_ms();
        backends.any(|(other, backend)| other != index && backend.health.would_admit(now))
    }

    /// Whether a backend with a ping answers neither the ping, on a connection of its own, nor any request in
    /// that time. Requests that check at the same time share one ping.
    pub async fn is_silent(&self, index: usize) -> bool {
        let backend = &self.backends[index];
        let known = backend.look.borrow().upgrade();
        let look = known.unwrap_or_else(|| {
            let look = Rc::new(OnceCell::new());
            *backend.look.borrow_mut() = Rc::downgrade(&look);
            look
        });
        let ask = || async {
            let before = backend.answers.get();
            !self.answers_check(index).await && backend.answers.get() == before
        };
        *look.get_or_init(ask).await
    }

    /// Whether the backend accepts a connection, and answers a ping if its protocol has one.
    async fn answers_check(&self, index: usize) -> bool {
        let timeout = self.rules().connections.connect_timeout;
        match tokio::time::timeout(timeout, self.backends[index].connections.address().connect()).await {
            Ok(Ok(stream)) => match &self.rules().ping {
                Some(rules) => rules.ping.is_answered(&stream, &mut BytesMut::new()).await,
                None => true,
            },
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// The backend could not be reached, or did not answer.
    pub fn failed(&self, index: usize) {
        let (health, now) = (&self.rules().health, now_ms());
        let of_backend = &self.shared.backends[index].health;
        if of_backend.failed(now, health) && of_backend.eject(now, health) && self.len() > 1 {
            let message = format!(
                "{} has failed {} times; it gets no requests for {:?}",
                self.name_in_log(index),
                health.most_failures,
                health.window
            );
            self.server.log(Level::Warning, "backend down", &message);
        }
    }
}

/// Connects to each backend from time to time, unless another route has done so, and sends a ping if the
/// protocol has one.
async fn check(group: Weak<Group>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(group) = group.upgrade() else { return };
        for index in 0..group.len() {
            if !group.shared.backends[index].takes_check(now_ms(), interval) {
                continue;
            }
            if group.answers_check(index).await { group.checked_well(index) } else { group.failed(index) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_routes_that_share_a_backend_checks_it() {
        let sharing = Sharing {
            address: Address::Unix("/nowhere/app.sock".into()),
            connections: ConnectionRules {
                keep: false,
                most: 0,
                most_waiting: 0,
                wait_timeout: Duration::ZERO,
                most_idle: 0,
                idle_timeout: Duration::ZERO,
                most_requests: 0,
                connect_timeout: Duration::ZERO,
            },
            health: HealthRules::by_failures(1, Duration::ZERO),
        };
        let backend = SharedBackend::new(sharing, &[]);
        let interval = Duration::from_millis(100);
        let taken: Vec<u64> = [1, 1, 50, 100, 101, 150, 201]
            .into_iter()
            .filter(|now| backend.takes_check(*now, interval))
            .collect();
        assert_eq!(taken, [1, 101, 201]);
    }
}
