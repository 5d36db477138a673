//! The workers of an application, as requests see them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::event::EventfdFlags;
use tokio::sync::watch;

use super::message_log::MessageLog;
use super::restarts::Restarts;
use crate::settings::{Protocol, RouteSettings};
use crate::shared::segment::Segment;
use crate::status::{ApplicationStatus, RestartStatus, WorkerStatus};

/// Whether there are workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolState {
    /// The first are being started.
    Starting,
    /// There is at least one.
    Ready,
    /// None can be kept running.
    Failed,
}

/// The workers.
pub struct Pool {
    settings: RouteSettings,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// Counts the changes of `workers`.
    changes: AtomicU64,
    state: watch::Sender<PoolState>,
    orders: Orders,
    counts: Counts,
    /// The application uses ASGI, as the last worker that became ready has reported.
    is_asgi: AtomicBool,
    python: Mutex<String>,
    log: MessageLog,
}

/// Counts of events of an application's workers and requests.
#[derive(Debug, Default)]
pub struct Counts {
    /// Workers that were started.
    pub started: AtomicU64,
    /// Workers that are being started.
    pub starting: AtomicUsize,
    /// Workers that take no more requests and have not ended.
    pub ending: AtomicUsize,
    /// Workers that were replaced, or started again.
    pub restarts: Restarts,
    /// Requests that were refused because all workers had the maximum of waiting requests.
    pub full: AtomicU64,
    /// Requests that were refused because there was no worker.
    pub no_worker: AtomicU64,
    /// Requests that took longer than the limit.
    pub too_long: AtomicU64,
    /// Requests whose worker has ended, and that could not be repeated.
    pub lost: AtomicU64,
    /// Requests that were repeated, because their worker had ended.
    pub repeated: AtomicU64,
}

/// The name of a route in metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteNames {
    /// The name of its site.
    pub site: String,
    /// What the route matches.
    pub route: String,
}

/// Orders for the supervisor.
pub struct Orders {
    wake: OwnedFd,
    replace: AtomicBool,
    stop: AtomicBool,
}

/// A worker that takes requests, or did so.
pub struct Worker {
    /// The socket of messages.
    pub control: OwnedFd,
    /// Wakes it.
    pub wake: OwnedFd,
    /// Its process.
    pub pid: u32,
    /// Distinguishes workers.
    pub number: u64,
    /// Requests in progress.
    pub under_way: AtomicUsize,
    /// Requests that it had when it ended, as far as their cores have noticed.
    lost: AtomicUsize,
    /// Requests that it has received.
    pub requests: AtomicU64,
    /// When it was started.
    started: SystemTime,
    /// The memory that it shares with each core.
    segments: Mutex<Vec<Arc<Segment>>>,
    /// It takes no more requests.
    is_closed: AtomicBool,
    /// A request in it has taken longer than the limit.
    is_stuck: AtomicBool,
    /// The application uses ASGI.
    is_asgi: AtomicBool,
}

impl Pool {
    /// A pool without workers.
    pub fn new(settings: RouteSettings, log: MessageLog) -> io::Result<Pool> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let settings_say_asgi = settings.protocol == Protocol::Asgi;
        Ok(Pool {
            settings,
            workers: Mutex::default(),
            changes: AtomicU64::new(0),
            state: watch::Sender::new(PoolState::Starting),
            orders: Orders { wake, replace: AtomicBool::new(false), stop: AtomicBool::new(false) },
            counts: Counts::default(),
            is_asgi: AtomicBool::new(settings_say_asgi),
            python: Mutex::default(),
            log,
        })
    }

    /// Takes log messages about its workers.
    pub fn log(&self) -> &MessageLog {
        &self.log
    }

    /// The settings of the route.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Whether there are workers.
    pub fn state(&self) -> &watch::Sender<PoolState> {
        &self.state
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The orders for the supervisor.
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Has all workers replaced by new ones.
    pub fn replace_workers(&self) {
        self.orders.replace.store(true, Ordering::SeqCst);
        self.orders.ring();
    }

    /// Ends all workers.
    pub fn stop(&self) {
        self.orders.stop.store(true, Ordering::SeqCst);
        self.orders.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Worker>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of changes so far. While it is the same, the workers are the same.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The workers that take requests.
    pub fn workers(&self) -> Vec<Arc<Worker>> {
        self.lock().clone()
    }

    /// Whether the application uses ASGI, if that is known.
    pub fn is_asgi(&self) -> bool {
        self.is_asgi.load(Ordering::Relaxed)
    }

    /// A worker takes requests from now on.
    pub fn add(&self, worker: Arc<Worker>) {
        self.is_asgi.store(worker.is_asgi(), Ordering::Relaxed);
        self.lock().push(worker);
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.state.send_replace(PoolState::Ready);
    }

    /// A worker takes no more requests.
    pub fn remove(&self, worker: &Worker) {
        worker.is_closed.store(true, Ordering::SeqCst);
        let mut workers = self.lock();
        workers.retain(|other| other.number != worker.number);
        let is_empty = workers.is_empty();
        drop(workers);
        self.changes.fetch_add(1, Ordering::AcqRel);
        if is_empty {
            let set = |state: &mut PoolState| {
                let was_ready = *state == PoolState::Ready;
                if was_ready {
                    *state = PoolState::Starting;
                }
                was_ready
            };
            self.state.send_if_modified(set);
        }
    }

    /// A request has taken longer than the limit: its worker is replaced.
    pub fn report_stuck(&self, worker: &Worker) {
        if !worker.is_stuck.swap(true, Ordering::SeqCst) {
            self.orders.ring();
        }
    }

    /// The version of Python that the workers run.
    pub fn set_python(&self, version: &str) {
        *self.python.lock().unwrap_or_else(PoisonError::into_inner) = version.to_string();
    }

    /// The state of the application, for operators.
    pub fn status(&self, names: &RouteNames) -> ApplicationStatus {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        let state = self.state.borrow().clone();
        let is_known = state == PoolState::Ready || self.settings.protocol != Protocol::Detect;
        let protocol = if self.is_asgi() { "asgi" } else { "wsgi" };
        ApplicationStatus {
            site: names.site.clone(),
            route: names.route.clone(),
            app: self.settings.app.clone(),
            protocol: if is_known { protocol.to_string() } else { String::new() },
            python: self.python.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            state: state.word().to_string(),
            most_workers: self.settings.worker_count() as u64,
            starting: counts.starting.load(Ordering::Relaxed) as u64,
            ending: counts.ending.load(Ordering::Relaxed) as u64,
            queue_limit: self.settings.limits.queue as u64,
            memory_limit_bytes: self.settings.limits.memory,
            started: count(&counts.started),
            restarts: counts.restarts.counts().into_iter().collect(),
            last_restart: counts.restarts.last().map(|last| RestartStatus {
                reason: last.reason.to_string(),
                text: last.text,
                unix_s: unix_s(last.at),
            }),
            failures: [
                ("full", count(&counts.full)),
                ("no_worker", count(&counts.no_worker)),
                ("too_long", count(&counts.too_long)),
                ("lost", count(&counts.lost)),
                ("repeated", count(&counts.repeated)),
            ]
            .into_iter()
            .collect(),
            workers: self.workers().iter().map(|worker| worker.status()).collect(),
        }
    }
}

impl PoolState {
    fn word(&self) -> &'static str {
        match self {
            PoolState::Starting => "starting",
            PoolState::Ready => "ready",
            PoolState::Failed => "failed",
        }
    }
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Orders {
    /// Wakes the supervisor.
    fn ring(&self) {
        // If the counter is full, it was woken often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Becomes readable when there is something to do.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.wake
    }

    /// Whether workers must be replaced; reading it clears the order.
    pub fn take_replace(&self) -> bool {
        let mut counter = [0u8; 8];
        // The counter is empty if the supervisor was woken for another reason.
        let _ = rustix::io::read(&self.wake, &mut counter);
        self.replace.swap(false, Ordering::SeqCst)
    }

    /// Whether all workers must end.
    pub fn must_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

impl Worker {
    /// A worker that was started.
    pub fn new(number: u64, pid: u32, control: OwnedFd, wake: OwnedFd) -> Worker {
        Worker {
            control,
            wake,
            pid,
            number,
            under_way: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            started: SystemTime::now(),
            segments: Mutex::default(),
            is_closed: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_asgi: AtomicBool::new(false),
        }
    }

    /// Counts a request that it receives; false: it takes no more.
    pub fn begin(&self) -> bool {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if self.is_closed.load(Ordering::SeqCst) {
            self.end();
            return false;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// One of its requests has ended.
    pub fn end(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    /// A core has noticed that it has ended with this many requests.
    pub fn note_lost(&self, requests: usize) {
        self.lost.fetch_add(requests, Ordering::SeqCst);
        self.under_way.fetch_sub(requests, Ordering::SeqCst);
    }

    /// Its requests in progress, or those that it had when it ended.
    pub fn unanswered(&self) -> usize {
        self.under_way.load(Ordering::SeqCst) + self.lost.load(Ordering::SeqCst)
    }

    /// Notes memory that a core shares with it.
    pub fn add_segment(&self, segment: Arc<Segment>) {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).push(segment);
    }

    /// Bytes of memory that it uses, including memory shared with other processes.
    pub fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.pid)).unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        pages * rustix::param::page_size() as u64
    }

    /// Its state, for operators.
    fn status(&self) -> WorkerStatus {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let started_requests =
            segments.iter().fold(0u64, |sum, segment| sum.wrapping_add(segment.started_requests()));
        let (requests, under_way) =
            (self.requests.load(Ordering::Relaxed), self.under_way.load(Ordering::Relaxed) as u64);
        // The worker may write any number, and counts continue while they are read.
        let queue = requests.saturating_sub(started_requests).min(under_way);
        WorkerStatus {
            process: self.pid,
            started_unix_s: unix_s(self.started),
            busy: under_way - queue,
            queue,
            requests,
            resident_bytes: self.resident_bytes(),
        }
    }

    /// Whether a request in it has taken longer than the limit.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::SeqCst)
    }

    /// Sets whether its application uses ASGI.
    pub fn set_asgi(&self, is_asgi: bool) {
        self.is_asgi.store(is_asgi, Ordering::Relaxed);
    }

    /// Whether its application uses ASGI.
    pub fn is_asgi(&self) -> bool {
        self.is_asgi.load(Ordering::Relaxed)
    }
}
