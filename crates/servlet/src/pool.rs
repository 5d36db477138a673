//! The Java threads of one route, and the requests that wait for one of them.
//!
//! Waking a sleeping thread costs tens of microseconds, and a surplus thread costs context switches.
//! Therefore a thread that has just had work checks for more for a short time before it sleeps, if a
//! processor is free. As many threads as there are processors start with requests at once. More threads are
//! added only when requests stay in the queue because the running threads wait for other events. Each route
//! has its own threads, so that stuck applications do not block other routes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::call_durations::{CallDurations, PathKey};
use crate::java_call::{AnswerEnd, Event, JavaCall, Threads};
use crate::monitor::{CheckResult, Checked, Monitor};
use crate::settings::Limits;

/// How long a thread checks for more work before it sleeps.
const SPIN: Duration = Duration::from_micros(30);

/// How long an idle thread is kept.
const IDLE: Duration = Duration::from_secs(60);

/// The state of a pool, for operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Threads.
    pub threads: u64,
    /// Those of them that have a request or an event.
    pub busy: u64,
    /// The most threads; 0: each request has a virtual thread.
    pub most_threads: u64,
    /// Requests and events that wait for a thread.
    pub waiting: u64,
    /// The most requests and events that may wait.
    pub most_waiting: u64,
    /// Requests that wait for an application which is being started.
    pub held: u64,
    /// Requests that were passed to these threads.
    pub requests: u64,
    /// Requests that were answered on the thread of their connection.
    pub calls: u64,
    /// Requests that were refused because threads and queue were full.
    pub refused: u64,
    /// The sum of the times that requests have waited for a thread, in seconds.
    pub waited_s: f64,
}

/// Work for a thread.
pub enum Job {
    /// A request in the form of `flat`.
    Request(Arc<JavaCall>, Vec<u8>),
    /// An event for an asynchronous request: its slab, its number and the event.
    Event(i32, i32, Event),
}

/// A request whose application is being started.
struct HeldRequest {
    java_call: Arc<JavaCall>,
    request: Vec<u8>,
    until: Instant,
}

/// The threads.
pub struct Pool {
    /// The number of the route.
    pub route: i32,
    limits: Limits,
    /// The number of threads that can run at the same time.
    processors: usize,
    queue: Mutex<Queue>,
    /// Requests whose application is being started. They occupy no thread and no place in the queue.
    held: Mutex<Vec<HeldRequest>>,
    wake: Condvar,
    /// The number of jobs that wait, for reading without the lock.
    waiting: AtomicUsize,
    monitor: Arc<Monitor>,
    call_durations: CallDurations,
    calls: AtomicU64,
    waited_ns: AtomicU64,
    /// The work of each thread: it takes jobs from the pool until there are none.
    work: fn(&Arc<Pool>),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that check for work without sleeping.
    spinning: usize,
    sleeping: usize,
    /// Threads that run a job.
    running: usize,
    /// The number of jobs that were ever taken.
    taken: u64,
    /// That number at the last check of the monitor.
    taken_before: u64,
    /// Requests that were ever submitted, and those that were refused.
    submitted: u64,
    refused: u64,
    is_closed: bool,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBusy;

impl Pool {
    /// The pool of a route, whose threads do `work`.
    pub fn new(route: i32, limits: Limits, monitor: Arc<Monitor>, work: fn(&Arc<Pool>)) -> Arc<Pool> {
        let pool = Arc::new(Pool {
            route,
            limits,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            queue: Mutex::default(),
            held: Mutex::default(),
            wake: Condvar::new(),
            waiting: AtomicUsize::new(0),
            monitor,
            call_durations: CallDurations::default(),
            calls: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            work,
        });
        pool.monitor.watch(&pool);
        pool
    }

    /// Takes a request. [`Pool::announce`] then wakes threads. A core calls it once for all requests of a
    /// turn: a thread that is woken for the first one would often run before the core has read the second
    /// one, and sleep again.
    pub fn submit(&self, java_call: Arc<JavaCall>, request: Vec<u8>) -> Result<(), TooBusy> {
        let mut queue = self.lock();
        // Idle threads, and those that can still be started, take requests out of the queue at once.
        let free = self.limits.threads.saturating_sub(queue.running);
        if queue.is_closed || queue.jobs.len() >= self.limits.waiting.saturating_add(free) {
            queue.refused += 1;
            return Err(TooBusy);
        }
        queue.submitted += 1;
        queue.jobs.push_back(Job::Request(java_call, request));
        self.waiting.store(queue.jobs.len(), Ordering::Release);
        Ok(())
    }

    /// Keeps a request that waits for its application, until [`Pool::resume`] or the end of its time.
    pub fn hold(&self, java_call: Arc<JavaCall>, request: Vec<u8>) {
        let until = java_call.since() + self.limits.start_timeout;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_many = held.len() >= self.limits.waiting.max(self.limits.threads);
        if is_too_many || until <= Instant::now() {
            drop(held);
            return java_call.finish(None, AnswerEnd::Unavailable, true);
        }
        held.push(HeldRequest { java_call, request, until });
    }

    /// Called when an application has started, and once a second. Requests that wait for their application
    /// are tried again, and those whose time is over are ended.
    pub fn resume(self: &Arc<Self>) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        if held.is_empty() {
            return;
        }
        let now = Instant::now();
        let (over, again): (Vec<HeldRequest>, Vec<HeldRequest>) =
            held.into_iter().partition(|held| held.until <= now);
        over.iter().for_each(|held| held.java_call.finish(None, AnswerEnd::Unavailable, true));
        let mut queue = self.lock();
        queue.jobs.extend(again.into_iter().map(|held| Job::Request(held.java_call, held.request)));
        self.waiting.store(queue.jobs.len(), Ordering::Release);
        drop(queue);
        self.announce();
    }

    /// Wakes or adds threads for the jobs that wait.
    pub fn announce(self: &Arc<Self>) {
        let queue = self.lock();
        let at_work = queue.threads - queue.sleeping;
        let unseen = queue.jobs.len().saturating_sub(queue.spinning);
        if unseen == 0 {
            return;
        }
        let wanted = unseen.min(self.processors.saturating_sub(at_work));
        self.add_threads(queue, wanted);
        if wanted < unseen {
            // The other jobs wait for running threads. These may themselves wait, so the monitor checks.
            self.monitor.kick();
        }
    }

    /// Adds this many threads: first sleeping ones, then new ones.
    fn add_threads(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>, wanted: usize) {
        let woken = wanted.min(queue.sleeping);
        for _ in woken..wanted {
            if queue.threads < self.limits.threads {
                self.start_thread(&mut queue);
            }
        }
        drop(queue);
        (0..woken).for_each(|_| self.wake.notify_one());
    }

    fn start_thread(self: &Arc<Self>, queue: &mut Queue) {
        let pool = self.clone();
        let builder = std::thread::Builder::new().name(format!("servlet-{}", self.route));
        let work = move || (pool.work)(&pool);
        if builder.stack_size(self.limits.stack_bytes).spawn(work).is_ok() {
            queue.threads += 1;
        }
    }

    /// Called about once a millisecond while there is work. Adds threads if requests wait and none was taken
    /// since the last call. Returns whether to check again.
    fn add_needed_threads(self: &Arc<Self>) -> bool {
        let mut queue = self.lock();
        if queue.jobs.is_empty() {
            return false;
        }
        let is_stuck = queue.taken == queue.taken_before;
        queue.taken_before = queue.taken;
        if is_stuck || queue.threads == 0 {
            let at_work = (queue.threads - queue.sleeping).max(1);
            let wanted = queue.jobs.len().min(at_work);
            self.add_threads(queue, wanted);
        }
        true
    }

    /// Whether a job waits. Does not take the lock.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Takes a job that waits, if there is one. `was_running`: the calling thread has just run a job.
    pub fn take_waiting(&self, was_running: bool) -> Option<Job> {
        let mut queue = self.lock();
        queue.running -= usize::from(was_running);
        self.take(&mut queue)
    }

    fn take(&self, queue: &mut Queue) -> Option<Job> {
        let job = queue.jobs.pop_front()?;
        queue.taken += 1;
        queue.running += 1;
        self.waiting.store(queue.jobs.len(), Ordering::Release);
        Some(job)
    }

    /// Waits for the next job; `None` if the thread is not needed any more. A thread that gets `None` must
    /// end.
    pub fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        if self.processors > 1 && queue.jobs.is_empty() {
            queue.spinning += 1;
            drop(queue);
            let until = Instant::now() + SPIN;
            while !self.has_waiting() && Instant::now() < until {
                std::hint::spin_loop();
            }
            queue = self.lock();
            queue.spinning -= 1;
        }
        loop {
            if let Some(job) = self.take(&mut queue) {
                return Some(job);
            }
            if queue.is_closed {
                queue.threads -= 1;
                return None;
            }
            queue.sleeping += 1;
            let (locked, timeout) =
                self.wake.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = locked;
            queue.sleeping -= 1;
            if timeout.timed_out() && queue.jobs.is_empty() && queue.threads > 1 {
                queue.threads -= 1;
                return None;
            }
        }
    }

    /// A request was answered on the thread of its connection.
    pub fn note_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how long a request has waited for its thread.
    pub fn note_wait(&self, waited: Duration) {
        self.waited_ns.fetch_add(u64::try_from(waited.as_nanos()).unwrap_or(0), Ordering::Relaxed);
    }

    /// Its state.
    pub fn status(&self) -> PoolStatus {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        let queue = self.lock();
        PoolStatus {
            threads: queue.threads as u64,
            busy: queue.running as u64,
            most_threads: if self.limits.is_virtual { 0 } else { self.limits.threads as u64 },
            waiting: queue.jobs.len() as u64,
            most_waiting: if self.limits.is_virtual { 0 } else { self.limits.waiting as u64 },
            held,
            requests: queue.submitted,
            calls: self.calls.load(Ordering::Relaxed),
            refused: queue.refused,
            waited_s: self.waited_ns.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }

    /// The paths that are answered quickly.
    pub fn call_durations(&self) -> &CallDurations {
        &self.call_durations
    }

    /// The monitor.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Takes no more requests. Threads end after the jobs that wait.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_all();
        self.end_held();
    }

    /// Ends the requests whose application has not started.
    fn end_held(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        held.iter().for_each(|held| held.java_call.finish(None, AnswerEnd::Unavailable, true));
    }

    /// Closes the pool and ends the requests that wait, because none will be answered any more.
    pub fn give_up(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        for job in jobs {
            if let Job::Request(java_call, _) = job {
                java_call.finish(None, AnswerEnd::Unavailable, true);
            }
        }
        self.end_held();
    }

    /// Called when a thread could not start.
    pub fn thread_has_failed(&self) {
        self.lock().threads -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Threads for Pool {
    fn route(&self) -> i32 {
        self.route
    }

    /// Such jobs are few, one per request, and are never refused, because the request would wait forever.
    fn post(self: Arc<Self>, slab: i32, number: i32, event: Event) {
        let mut queue = self.lock();
        queue.jobs.push_back(Job::Event(slab, number, event));
        self.waiting.store(queue.jobs.len(), Ordering::Release);
        drop(queue);
        self.announce();
    }

    fn note_moved(&self, path: PathKey) {
        self.call_durations.note_moved(path);
    }

    fn kick_monitor(&self) {
        self.monitor.kick();
    }
}

impl Checked for Pool {
    fn check(self: Arc<Self>) -> CheckResult {
        if self.add_needed_threads() { CheckResult::Work } else { CheckResult::Nothing }
    }
}
