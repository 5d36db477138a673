//! The thread that checks a worker while calls take long: it notifies cores of answers that were written
//! before such a call, and performs its [`MonitorCheck`].
//!
//! It checks every millisecond while the worker is busy, less often while requests are only waiting for
//! something, and sleeps when there are none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use super::hub::Hub;

/// How often it checks.
const TICK: Duration = Duration::from_millis(1);

/// After this many checks without a new request it checks less often.
const QUIET_TICKS: u32 = 100;

/// How often it checks while all requests only wait, if that is sufficient.
const SLOW_TICK: Duration = Duration::from_millis(50);

/// The checks of the thread.
pub trait MonitorCheck: Send + 'static {
    /// Whether there are requests in progress.
    fn has_requests(&self) -> bool;

    /// Whether it must check every millisecond as long as there are.
    fn is_urgent(&self) -> bool;

    /// Makes a check. `is_moving`: a request was started since the last check.
    fn check(&mut self, is_moving: bool);
}

/// The thread.
#[derive(Default)]
pub struct Monitor {
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Monitor {
    /// Starts the monitor.
    pub fn start(hub: &Arc<Hub>, duty: impl MonitorCheck) -> Arc<Monitor> {
        let monitor = Arc::new(Monitor::default());
        let (of_thread, hub) = (monitor.clone(), hub.clone());
        let run = move || of_thread.run(&hub, duty);
        match std::thread::Builder::new().name("monitor".to_string()).spawn(run) {
            Ok(handle) => drop(monitor.thread.set(handle.thread().clone())),
            Err(error) => super::server::log('w', &format!("a worker has no monitor: {error}")),
        }
        monitor
    }

    /// Called when a request was started.
    pub fn kick(&self) {
        if self.is_asleep.load(Ordering::Relaxed)
            && self.is_asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn run(&self, hub: &Hub, mut duty: impl MonitorCheck) {
        let mut quiet = 0;
        let mut started_requests = 0;
        loop {
            std::thread::sleep(TICK);
            let now = hub.started_requests.load(Ordering::Relaxed);
            duty.check(now != started_requests);
            let has_requests = duty.has_requests();
            quiet = if now != started_requests || (has_requests && duty.is_urgent()) { 0 } else { quiet + 1 };
            started_requests = now;
            if quiet >= QUIET_TICKS {
                self.sleep(hub, started_requests, has_requests.then_some(SLOW_TICK));
                quiet = if has_requests { QUIET_TICKS } else { 0 };
            }
        }
    }

    /// Sleeps until a request begins, or for at most this time.
    fn sleep(&self, hub: &Hub, started_requests: u64, longest: Option<Duration>) {
        self.is_asleep.store(true, Ordering::Release);
        // A request that arrives between the check and the sleep unparks this thread, or is detected here.
        if hub.started_requests.load(Ordering::Relaxed) == started_requests {
            match longest {
                Some(longest) => std::thread::park_timeout(longest),
                None => std::thread::park(),
            }
        }
        self.is_asleep.store(false, Ordering::Release);
    }
}
