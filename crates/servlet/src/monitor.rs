//! A thread that checks every few milliseconds, while there is work, for work that woke no thread: requests
//! that wait because all threads are busy with long calls, long calls on threads where other connections
//! wait, and answers that a thread wanted to report together with the next one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

/// The time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The time between two checks if there are only calls on threads of connections, which rarely wait.
const CALL_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// After this many checks without work, it sleeps until it is called.
const IDLE_CHECKS: u32 = 20;

/// What a check has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckResult {
    /// No work.
    Nothing,
    /// Calls on threads of connections.
    Calls,
    /// Other work.
    Work,
}

/// An object that is checked: a pool, the queue of a core, or the calls of a thread.
pub trait Checked: Send + Sync {
    /// Does the work that woke no thread.
    fn check(self: Arc<Self>) -> CheckResult;
}

/// The monitor.
#[derive(Default)]
pub struct Monitor {
    is_awake: AtomicBool,
    thread: OnceLock<Thread>,
    watched: Mutex<Vec<Weak<dyn Checked>>>,
}

impl Monitor {
    /// Starts the monitor.
    pub fn start() -> std::io::Result<Arc<Monitor>> {
        let monitor = Arc::new(Monitor::default());
        let running = monitor.clone();
        let builder = std::thread::Builder::new().name("servlet-monitor".to_string());
        let handle = builder.stack_size(128 * 1024).spawn(move || running.run())?;
        let _ = monitor.thread.set(handle.thread().clone());
        Ok(monitor)
    }

    /// Wakes it, because there may be work.
    pub fn kick(&self) {
        if !self.is_awake.load(Ordering::Acquire)
            && !self.is_awake.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Checks this from now on.
    pub fn watch<T: Checked + 'static>(&self, checked: &Arc<T>) {
        let checked: Weak<T> = Arc::downgrade(checked);
        self.lock().push(checked);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Checked>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut idle_checks = 0;
        let mut pause = CHECK_INTERVAL;
        loop {
            std::thread::park_timeout(pause);
            let found = self.check_all();
            pause = found.unwrap_or(CHECK_INTERVAL);
            idle_checks = if found.is_some() { 0 } else { idle_checks + 1 };
            if idle_checks >= IDLE_CHECKS {
                self.is_awake.store(false, Ordering::Release);
                // Work may have arrived before the flag was cleared.
                if self.check_all().is_none() {
                    while !self.is_awake.load(Ordering::Acquire) {
                        std::thread::park();
                    }
                }
                idle_checks = 0;
            }
        }
    }

    /// Checks all objects. Returns the time until the next check; `None`: there was no work.
    fn check_all(&self) -> Option<Duration> {
        let mut watched = self.lock();
        let (mut found, mut found_calls) = (false, false);
        watched.retain(|checked| {
            let Some(checked) = checked.upgrade() else { return false };
            match checked.check() {
                CheckResult::Nothing => {}
                CheckResult::Calls => found_calls = true,
                CheckResult::Work => found = true,
            }
            true
        });
        if found { Some(CHECK_INTERVAL) } else { found_calls.then_some(CALL_CHECK_INTERVAL) }
    }
}
