//! The workers of an application, as requests see them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::EventfdFlags;
use tokio::sync::watch;

use crate::settings::RouteSettings;

/// Whether there are workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The first are being started.
    Starting,
    /// There is one at least.
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
    standing: watch::Sender<Standing>,
    orders: Orders,
    counts: Counts,
}

/// What has happened to the workers of an application.
#[derive(Debug, Default)]
pub struct Counts {
    /// Workers that were started.
    pub started: AtomicU64,
    /// Workers that have ended without being asked to.
    pub lost: AtomicU64,
}

/// What the supervisor is to do.
pub struct Orders {
    wake: OwnedFd,
    replace: AtomicBool,
    stop: AtomicBool,
}

/// A worker that takes requests, or has.
pub struct Worker {
    /// The socket of messages.
    pub control: OwnedFd,
    /// Wakes it.
    pub wake: OwnedFd,
    /// Its process.
    pub pid: u32,
    /// Tells workers apart.
    pub number: u64,
    /// Requests that it has.
    pub under_way: AtomicUsize,
    /// Requests that it was given.
    pub requests: AtomicU64,
    /// It takes no more.
    is_closed: AtomicBool,
    /// A request in it has taken longer than it may.
    is_stuck: AtomicBool,
    /// The application is one of ASGI.
    is_asgi: AtomicBool,
}

/// A worker, for status and metrics.
#[derive(Debug, Clone)]
pub struct WorkerFacts {
    /// The application.
    pub app: String,
    /// Its process.
    pub pid: u32,
    /// Requests under way.
    pub under_way: usize,
    /// Requests that it was given.
    pub requests: u64,
}

impl Pool {
    /// A pool without workers.
    pub fn new(settings: RouteSettings) -> io::Result<Pool> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Pool {
            settings,
            workers: Mutex::default(),
            changes: AtomicU64::new(0),
            standing: watch::Sender::new(Standing::Starting),
            orders: Orders { wake, replace: AtomicBool::new(false), stop: AtomicBool::new(false) },
            counts: Counts::default(),
        })
    }

    /// What the route asks for.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Whether there are workers.
    pub fn standing(&self) -> &watch::Sender<Standing> {
        &self.standing
    }

    /// What has happened to them.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the supervisor is to do.
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

    /// The number of changes so far. While it is the same, so are the workers.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The workers that take requests.
    pub fn workers(&self) -> Vec<Arc<Worker>> {
        self.lock().clone()
    }

    /// A worker takes requests from now on.
    pub fn add(&self, worker: Arc<Worker>) {
        self.lock().push(worker);
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.standing.send_replace(Standing::Ready);
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
            let set = |standing: &mut Standing| {
                let was_ready = *standing == Standing::Ready;
                if was_ready {
                    *standing = Standing::Starting;
                }
                was_ready
            };
            self.standing.send_if_modified(set);
        }
    }

    /// A request has taken longer than it may: its worker is replaced.
    pub fn report_stuck(&self, worker: &Worker) {
        if !worker.is_stuck.swap(true, Ordering::SeqCst) {
            self.orders.ring();
        }
    }

    /// The workers, for status and metrics.
    pub fn facts(&self) -> Vec<WorkerFacts> {
        let fact = |worker: &Arc<Worker>| WorkerFacts {
            app: self.settings.app.clone(),
            pid: worker.pid,
            under_way: worker.under_way.load(Ordering::Relaxed),
            requests: worker.requests.load(Ordering::Relaxed),
        };
        self.lock().iter().map(fact).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Orders {
    /// Has the supervisor look.
    fn ring(&self) {
        // The counter is full only if it was woken often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// What becomes readable when there is something to do.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.wake
    }

    /// Whether workers are to be replaced; it is asked once.
    pub fn take_replace(&self) -> bool {
        let mut counter = [0u8; 8];
        // There is nothing where the supervisor looks for another reason.
        let _ = rustix::io::read(&self.wake, &mut counter);
        self.replace.swap(false, Ordering::SeqCst)
    }

    /// Whether all are to end.
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
            requests: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_asgi: AtomicBool::new(false),
        }
    }

    /// Counts a request that it is given; false: it takes no more.
    pub fn begin(&self) -> bool {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if self.is_closed.load(Ordering::SeqCst) {
            self.end();
            return false;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A request of it has ended.
    pub fn end(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a request in it has taken longer than it may.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::SeqCst)
    }

    /// What its application is.
    pub fn set_asgi(&self, is_asgi: bool) {
        self.is_asgi.store(is_asgi, Ordering::Relaxed);
    }

    /// Whether its application is one of ASGI.
    pub fn is_asgi(&self) -> bool {
        self.is_asgi.load(Ordering::Relaxed)
    }
}
