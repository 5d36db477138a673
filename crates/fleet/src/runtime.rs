//! Time, waiting, threads and the load engine, as the fleet uses them: those of the machine, or those of a
//! simulator.
//!
//! A simulator runs controllers and agents as tasks of one thread, with virtual time. It replaces the machine
//! for the thread that calls [`simulate`]; all other threads use the machine. These functions are called only
//! a few times per second.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use touchstone_lab::machine;
use touchstone_lab::result::{MachineFacts, ToolFacts};
use touchstone_load::{Outcome, Plan, Portion, Progress};

/// What a simulator provides in the place of the machine.
pub trait Simulator {
    /// Now.
    fn now(&self) -> Instant;

    /// The clock of the day of the calling task's machine, in nanoseconds.
    fn real_ns(&self) -> i64;

    /// The monotonic clock of this machine.
    fn monotonic_ns(&self) -> u64;

    /// Suspends the task until this moment, or until a value was sent to any task. It may return early.
    fn pause(&self, until: Instant);

    /// A value was sent: tasks that wait must check their channels.
    fn notify(&self);

    /// Begins a task of the same process.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce()>);

    /// Whether the task is being removed, because its process was killed: it must not wait any more.
    fn is_ending(&self) -> bool;

    /// Sends the load of a portion of a plan, from this moment of the machine's monotonic clock.
    fn send_load(
        &self,
        plan: &Plan,
        portion: &Portion,
        start_ns: u64,
        progress: &Progress,
    ) -> Result<Outcome, String>;
}

thread_local! {
    static SIMULATOR: RefCell<Option<Rc<dyn Simulator>>> = const { RefCell::new(None) };
}

/// From now on this thread uses this simulator instead of the machine; `None`: the machine itself.
pub fn simulate(simulator: Option<Rc<dyn Simulator>>) {
    SIMULATOR.set(simulator);
}

pub(crate) fn simulator() -> Option<Rc<dyn Simulator>> {
    SIMULATOR.with_borrow(Clone::clone)
}

/// The facts of this program and its machine, which are read once.
pub(crate) fn own_facts() -> &'static (MachineFacts, ToolFacts) {
    static FACTS: OnceLock<(MachineFacts, ToolFacts)> = OnceLock::new();
    FACTS.get_or_init(|| (machine::facts(false), machine::tool()))
}

/// Now.
pub fn now() -> Instant {
    simulator().map_or_else(Instant::now, |simulator| simulator.now())
}

/// The time since a moment.
pub(crate) fn since(moment: Instant) -> Duration {
    now().saturating_duration_since(moment)
}

/// Nanoseconds since 1970.
pub(crate) fn real_ns() -> i64 {
    if let Some(simulator) = simulator() {
        return simulator.real_ns();
    }
    let real = clock_gettime(ClockId::Realtime);
    real.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(real.tv_nsec)
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    if let Some(simulator) = simulator() {
        return simulator.monotonic_ns();
    }
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits for this time.
pub fn sleep(time: Duration) {
    let Some(simulator) = simulator() else { return std::thread::sleep(time) };
    let until = simulator.now() + time;
    while simulator.now() < until && !simulator.is_ending() {
        simulator.pause(until);
    }
}

/// A thread, or a task in its place.
pub(crate) enum Thread {
    Real(JoinHandle<()>),
    /// Whether the task has ended.
    Task(Arc<AtomicBool>),
}

impl Thread {
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        if let Some(simulator) = simulator() {
            let has_ended = Arc::new(AtomicBool::new(false));
            let ended = Arc::clone(&has_ended);
            let work = move || {
                work();
                ended.store(true, Ordering::Relaxed);
            };
            simulator.spawn(name, Box::new(work));
            return Ok(Thread::Task(has_ended));
        }
        Ok(Thread::Real(std::thread::Builder::new().name(name.to_string()).spawn(work)?))
    }

    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Thread::Real(thread) => thread.is_finished(),
            Thread::Task(has_ended) => has_ended.load(Ordering::Relaxed),
        }
    }

    /// Waits for its end. A panic in it was printed on standard error.
    pub(crate) fn join(self) {
        match self {
            Thread::Real(thread) => drop(thread.join()),
            Thread::Task(has_ended) => {
                while !has_ended.load(Ordering::Relaxed)
                    && simulator().is_some_and(|simulator| !simulator.is_ending())
                {
                    sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

/// Makes a channel.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Sender(Some(sender)), Receiver(receiver))
}

/// One end of a channel.
pub(crate) struct Sender<T>(Option<mpsc::Sender<T>>);

/// The other end.
pub(crate) struct Receiver<T>(mpsc::Receiver<T>);

impl<T> Sender<T> {
    /// Sends; false if the other end no longer exists.
    pub(crate) fn send(&self, message: T) -> bool {
        let is_sent = self.0.as_ref().is_some_and(|sender| sender.send(message).is_ok());
        notify();
        is_sent
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0 = None;
        notify();
    }
}

impl<T> Receiver<T> {
    /// The next message, if one arrives within this time.
    pub(crate) fn recv_timeout(&self, wait: Duration) -> Result<T, RecvTimeoutError> {
        let Some(simulator) = simulator() else { return self.0.recv_timeout(wait) };
        let until = simulator.now() + wait;
        loop {
            match self.0.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if simulator.now() >= until || simulator.is_ending() => {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => simulator.pause(until),
            }
        }
    }

    /// The next message; `None` if the other end no longer exists.
    pub(crate) fn recv(&self) -> Option<T> {
        let Some(simulator) = simulator() else { return self.0.recv().ok() };
        loop {
            match self.recv_timeout(Duration::from_secs(3600)) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) if !simulator.is_ending() => {}
                Err(_) => return None,
            }
        }
    }
}

fn notify() {
    // While a thread ends, its thread-local values may have been dropped.
    let simulator = SIMULATOR.try_with(|simulator| simulator.borrow().clone());
    if let Ok(Some(simulator)) = simulator {
        simulator.notify();
    }
}
