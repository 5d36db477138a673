//! The thread of a pool: starts workers, reads their output, starts them again when they have ended, and
//! replaces them without losing a request: the new worker takes over when it is ready, and the old one ends
//! when its requests have ended.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use touchstone_handler::handler::Level;

use super::child::{self, WorkerProcess};
use super::message_log::MessageLog;
use super::pool::{Pool, PoolState};
use super::restarts::Reason;
use crate::interpreter::Interpreter;
use crate::settings::RouteSettings;
use crate::shared::control;

/// The first and the longest pause before a worker is started again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A worker that ran for at least this long is started again at once.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// After this many failed starts in a row, requests are refused at once.
const FAILURES_TO_REFUSE: u32 = 3;

/// How often the thread checks things that do not wake it: ended requests and memory.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
const CHECK_INTERVAL_WHILE_ENDING: Duration = Duration::from_millis(20);

/// How long a worker may take to end after its last request.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The same for a worker with a thread that does not return: it seldom ends by itself, and may use the
/// processor until its end.
const END_TIMEOUT_OF_STUCK: Duration = Duration::from_secs(1);

/// A worker that uses this percentage of its memory limit is replaced before it reaches the limit.
const MEMORY_PERCENT: u64 = 90;

/// Starts the thread. It ends when the pool is dropped or stopped.
pub fn start(settings: RouteSettings, log: MessageLog) -> std::io::Result<(Arc<Pool>, JoinHandle<()>)> {
    let pool = Arc::new(Pool::new(settings, log.clone())?);
    let slots = (0..pool.settings().worker_count()).map(|_| WorkerSlot::default()).collect();
    let supervisor = Supervisor {
        settings: pool.settings().clone(),
        wake: pool.orders().descriptor().try_clone()?,
        pool: Arc::downgrade(&pool),
        interpreter: None,
        slots,
        ending: Vec::new(),
        last_number: 0,
        is_stopping: false,
        log,
    };
    let thread = std::thread::Builder::new().name("python-watch".to_string());
    let thread = thread.spawn(move || supervisor.run())?;
    Ok((pool, thread))
}

struct Supervisor {
    settings: RouteSettings,
    wake: std::os::fd::OwnedFd,
    /// Requests hold the pool; this thread does not.
    pool: Weak<Pool>,
    interpreter: Option<Interpreter>,
    slots: Vec<WorkerSlot>,
    /// Workers that take no more requests.
    ending: Vec<WorkerProcess>,
    last_number: u64,
    is_stopping: bool,
    log: MessageLog,
}

/// A slot for a worker.
#[derive(Default)]
struct WorkerSlot {
    /// The worker that takes requests, or is being started for the first time.
    worker: Option<WorkerProcess>,
    /// Its replacement, which is being started.
    next: Option<WorkerProcess>,
    /// The earliest time of the next start.
    not_before: Option<Instant>,
    /// Starts in a row that have failed.
    failures: u32,
    /// The worker must be replaced.
    must_replace: bool,
}

impl Supervisor {
    fn run(mut self) {
        loop {
            let pool = self.pool.upgrade();
            let must_stop = pool.as_ref().is_none_or(|pool| pool.orders().must_stop());
            if must_stop && !self.is_stopping {
                self.is_stopping = true;
                self.end_all(pool.as_deref());
            }
            if self.is_stopping && self.ending.is_empty() {
                return;
            }
            if let Some(pool) = &pool
                && pool.orders().take_replace()
            {
                self.replace_all(pool, Reason::Reload, "the configuration was reloaded");
                // The interpreter may have been replaced.
                self.interpreter = None;
            }
            if let Some(pool) = pool.filter(|_| !self.is_stopping) {
                self.end_hung(&pool);
                self.start_due(&pool);
                self.check_limits(&pool);
                self.count(&pool);
            }
            self.wait();
            self.process_events();
        }
    }

    /// Replaces all workers by new ones.
    fn replace_all(&mut self, pool: &Pool, reason: Reason, text: &str) {
        for slot in &mut self.slots {
            slot.must_replace = true;
            if let Some(process) = &slot.worker {
                let text = format!("worker {} is replaced: {text}", process.worker.pid);
                pool.counts().restarts.add(reason, &text);
            }
        }
    }

    /// Counts the workers that are being started or are ending.
    fn count(&self, pool: &Pool) {
        let of_slots = self.slots.iter().flat_map(|slot| slot.worker.iter().chain(&slot.next));
        let starting = of_slots.filter(|process| !process.is_ready).count();
        pool.counts().starting.store(starting, Ordering::Relaxed);
        pool.counts().ending.store(self.ending.len(), Ordering::Relaxed);
    }

    /// Ends workers whose event loop does not return: none of their requests can end. The traces of their
    /// threads are logged.
    fn end_hung(&mut self, pool: &Pool) {
        for slot in &mut self.slots {
            let Some(mut process) = slot.worker.take_if(|process| process.hung.is_some()) else { continue };
            let how = process.hung.take().unwrap_or_default();
            let had = process.worker.unanswered();
            let text = format!("worker {} {how}: it is killed, with {had} requests", process.worker.pid);
            self.log.write(Level::Error, &format!("{}: {text}", self.settings.name()));
            pool.counts().restarts.add(Reason::Loop, &text);
            pool.remove(&process.worker);
            process.end_with_trace();
            slot.not_before = None;
            self.ending.push(process);
        }
    }

    /// Starts missing workers and replacements.
    fn start_due(&mut self, pool: &Pool) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let is_missing = slot.worker.is_none() || slot.must_replace;
            let may_start = slot.not_before.is_none_or(|at| at <= Instant::now());
            if !is_missing || !may_start || slot.next.is_some() {
                continue;
            }
            let is_first = slot.worker.is_none();
            match self.start_one(pool) {
                Ok(process) => {
                    pool.counts().started.fetch_add(1, Ordering::Relaxed);
                    let slot = &mut self.slots[index];
                    slot.must_replace = false;
                    if is_first {
                        slot.worker = Some(process);
                    } else {
                        slot.next = Some(process);
                    }
                }
                Err(error) => {
                    let text = format!("no worker can be started: {error}");
                    self.log.write(Level::Error, &format!("{}: {text}", self.settings.name()));
                    pool.counts().restarts.add(Reason::Start, &text);
                    self.slots[index].must_replace = false;
                    self.failed(pool, index);
                }
            }
        }
    }

    fn start_one(&mut self, pool: &Pool) -> Result<WorkerProcess, String> {
        let interpreter = match &self.interpreter {
            Some(interpreter) => interpreter.clone(),
            None => {
                let found = Interpreter::find(self.settings.virtual_environment.as_deref())?;
                self.log.write(
                    Level::Information,
                    &format!(
                        "{}: Python {} of {}, from {}",
                        self.settings.name(),
                        found.version,
                        found.program.display(),
                        found.libpython.display()
                    ),
                );
                pool.set_python(&found.version);
                self.interpreter.insert(found).clone()
            }
        };
        self.last_number += 1;
        WorkerProcess::start(&self.settings, &interpreter, self.last_number)
            .map_err(|error| error.to_string())
    }

    /// Called when a start has failed.
    fn failed(&mut self, pool: &Pool, index: usize) {
        let slot = &mut self.slots[index];
        slot.failures += 1;
        let pause = FIRST_PAUSE * 2u32.saturating_pow(slot.failures.min(10));
        slot.not_before = Some(Instant::now() + pause.min(LONGEST_PAUSE));
        let has_none = self.slots.iter().all(|slot| slot.failures >= FAILURES_TO_REFUSE);
        if has_none && pool.workers().is_empty() {
            pool.state().send_replace(PoolState::Failed);
        }
    }

    /// Replaces workers that have reached their number of requests or their memory limit.
    fn check_limits(&mut self, pool: &Pool) {
        let limits = &self.settings.limits;
        for slot in &mut self.slots {
            let Some(process) = slot.worker.as_ref().filter(|process| process.is_ready) else { continue };
            if slot.next.is_some()
                || slot.must_replace
                || slot.not_before.is_some_and(|at| at > Instant::now())
            {
                continue;
            }
            let requests = process.worker.requests.load(Ordering::Relaxed);
            let memory = if limits.memory > 0 { process.worker.resident_bytes() } else { 0 };
            let (reason, text) = if process.worker.is_stuck() {
                (Reason::Answer, "exceeded the time limit of a request".to_string())
            } else if limits.requests > 0 && requests >= jittered(limits.requests, process.worker.number) {
                (Reason::Requests, format!("has had {requests} requests"))
            } else if limits.memory > 0 && memory > limits.memory / 100 * MEMORY_PERCENT {
                (Reason::Memory, format!("uses {memory} bytes of memory"))
            } else {
                continue;
            };
            let level = if reason == Reason::Requests { Level::Information } else { Level::Warning };
            let text = format!("worker {} {text}: it is replaced", process.worker.pid);
            self.log.write(level, &format!("{}: {text}", self.settings.name()));
            pool.counts().restarts.add(reason, &text);
            if reason == Reason::Answer {
                // Further requests to it would never be answered.
                pool.remove(&process.worker);
                process.request_trace();
            }
            slot.must_replace = true;
        }
    }

    fn end_all(&mut self, pool: Option<&Pool>) {
        for slot in &mut self.slots {
            for process in [slot.worker.take(), slot.next.take()].into_iter().flatten() {
                if let Some(pool) = pool {
                    pool.remove(&process.worker);
                }
                self.ending.push(process);
            }
        }
        for process in &mut self.ending {
            process.retired.get_or_insert_with(Instant::now);
            process.order_end();
        }
    }

    /// Waits for an event.
    fn wait(&self) {
        let all = self.all();
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(
            all.flat_map(WorkerProcess::descriptors).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        let interval = if self.ending.is_empty() { CHECK_INTERVAL } else { CHECK_INTERVAL_WHILE_ENDING };
        let due = self.slots.iter().filter_map(|slot| slot.not_before);
        let due = due.map(|at| at.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero());
        let wait = due.fold(interval, Duration::min).max(Duration::from_millis(1));
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        // If a signal ends the wait early, the checks are just made earlier.
        let _ = poll(&mut fds, Some(&wait));
    }

    fn all(&self) -> impl Iterator<Item = &WorkerProcess> {
        let of_slots = self.slots.iter().flat_map(|slot| slot.worker.iter().chain(&slot.next));
        of_slots.chain(&self.ending)
    }

    /// Processes all events.
    fn process_events(&mut self) {
        let pool = self.pool.upgrade();
        for index in 0..self.slots.len() {
            self.check_replacement(index, pool.as_deref());
            self.check_worker(index, pool.as_deref());
        }
        let (name, drain) = (self.settings.name().to_string(), self.settings.limits.drain);
        let is_stopping = self.is_stopping;
        self.ending.retain_mut(|process| {
            read_messages(process, &name, &self.log);
            if process.ended().is_some() {
                read_messages(process, &name, &self.log);
                return false;
            }
            if process.hung.take().is_some() {
                process.end_with_trace();
            }
            let retired = process.retired.get_or_insert_with(Instant::now).elapsed();
            if process.worker.under_way.load(Ordering::SeqCst) == 0 || is_stopping {
                process.order_end();
            }
            let timeout = if process.worker.is_stuck() { END_TIMEOUT_OF_STUCK } else { END_TIMEOUT };
            let is_late = process.end_ordered_at.is_some_and(|ordered| ordered.elapsed() > timeout)
                || process.kill_at.is_some_and(|at| at <= Instant::now());
            if (retired > drain || is_late) && !std::mem::replace(&mut process.was_killed, true) {
                if retired > drain {
                    let text = "is killed with the requests that have not ended in 'limits.drain'";
                    self.log.write(Level::Warning, &format!("{name}: worker {} {text}", process.worker.pid));
                }
                process.kill();
            }
            true
        });
    }

    /// Checks the replacement of a worker.
    fn check_replacement(&mut self, index: usize, pool: Option<&Pool>) {
        let name = self.settings.name().to_string();
        let Some(mut next) = self.slots[index].next.take() else { return };
        read_messages(&mut next, &name, &self.log);
        self.replace_on_change(&mut next, pool);
        if let Some(status) = next.ended() {
            read_messages(&mut next, &name, &self.log);
            let how = child::how(status);
            let text = format!("a new worker has ended {how} before it was ready");
            self.log.write(Level::Error, &format!("{name}: {text}: the present workers remain"));
            if let Some(pool) = pool {
                pool.counts().restarts.add(Reason::Start, &text);
                self.failed(pool, index);
            }
            return;
        }
        if next.is_ready {
            self.slots[index].failures = 0;
            if let Some(pool) = pool {
                pool.add(next.worker.clone());
            }
            if let Some(mut old) = self.slots[index].worker.replace(next) {
                if let Some(pool) = pool {
                    pool.remove(&old.worker);
                }
                old.retired = Some(Instant::now());
                self.ending.push(old);
            }
            return;
        }
        if next.started.elapsed() > self.settings.limits.start && next.end_late() {
            let text = "a new worker is not ready after 'limits.start': it is killed";
            self.log.write(Level::Error, &format!("{name}: {text}"));
        }
        self.slots[index].next = Some(next);
    }

    fn check_worker(&mut self, index: usize, pool: Option<&Pool>) {
        let name = self.settings.name().to_string();
        let Some(mut process) = self.slots[index].worker.take() else { return };
        let was_ready = process.is_ready;
        read_messages(&mut process, &name, &self.log);
        self.replace_on_change(&mut process, pool);
        if process.is_ready && !was_ready && !self.is_stopping {
            self.slots[index].failures = 0;
            if let Some(pool) = pool {
                pool.add(process.worker.clone());
            }
        }
        if let Some(status) = process.ended() {
            read_messages(&mut process, &name, &self.log);
            let Some(pool) = pool else { return };
            pool.remove(&process.worker);
            let (pid, how) = (process.worker.pid, child::how(status));
            let had = process.worker.unanswered();
            let text = format!("worker {pid} has ended {how}, with {had} requests: it is started again");
            if !process.has_failed {
                self.log.write(Level::Error, &format!("{name}: {text}"));
            }
            let reason = if process.is_ready { Reason::End } else { Reason::Start };
            pool.counts().restarts.add(reason, &text);
            if process.is_ready && process.started.elapsed() >= STABLE_AFTER {
                self.slots[index].failures = 0;
                self.slots[index].not_before = None;
            } else {
                self.failed(pool, index);
            }
            return;
        }
        let is_late = !process.is_ready && process.started.elapsed() > self.settings.limits.start;
        if is_late && process.end_late() {
            self.log.write(
                Level::Error,
                &format!("{name}: a worker is not ready after 'limits.start': it is killed"),
            );
        }
        self.slots[index].worker = Some(process);
    }

    /// Replaces all workers if this one has reported a changed file.
    fn replace_on_change(&mut self, process: &mut WorkerProcess, pool: Option<&Pool>) {
        let Some(file) = process.changed_file.take() else { return };
        if let Some(pool) = pool {
            let text = format!("{file} has changed");
            pool.counts().restarts.add(Reason::Change, &text);
        }
        self.slots.iter_mut().for_each(|slot| slot.must_replace = true);
    }
}

/// Reads the output and the messages of a worker.
fn read_messages(process: &mut WorkerProcess, name: &str, log: &MessageLog) {
    let pid = process.worker.pid;
    process.read_outputs(|line| log.write(Level::Warning, &format!("{name} [{pid}]: {line}")));
    while let Ok(Some(message)) = control::receive(process.worker.control.as_fd(), RecvFlags::DONTWAIT) {
        let text = String::from_utf8_lossy(&message.text);
        match message.kind {
            control::READY => {
                process.is_ready = true;
                process.worker.set_asgi(text.ends_with("asgi"));
                log.write(Level::Information, &format!("{name}: worker {pid} is ready ({text})"));
            }
            control::FAILED => {
                process.has_failed = true;
                log.write(Level::Error, &format!("{name}: {text}"));
            }
            control::CHANGED => {
                process.changed_file = Some(text.to_string());
                log.write(Level::Information, &format!("{name}: {text} has changed: workers are replaced"));
            }
            control::HUNG => process.hung = Some(text.to_string()),
            control::LOG => {
                let (level, text) = match text.split_at_checked(1) {
                    Some(("e", text)) => (Level::Error, text),
                    Some(("w", text)) => (Level::Warning, text),
                    Some((_, text)) => (Level::Information, text),
                    None => continue,
                };
                log.write(level, text);
            }
            _ => {}
        }
    }
}

/// Reduces the number of requests by up to a tenth, so that workers of the same age are not all replaced at
/// once.
fn jittered(requests: u64, number: u64) -> u64 {
    requests - (requests / 10).saturating_mul(number % 8) / 8
}
