//! The thread that looks after a worker while calls take long: it tells cores of answers that were written
//! before such a call, and does what its [`Duty`] wants beside that.
//!
//! It looks every millisecond while the worker is at work, less often while requests are only waiting for
//! something, and sleeps when there is none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use super::hub::Hub;

/// How often it looks.
const TICK: Duration = Duration::from_millis(1);

/// After so many looks without a new request it looks less often.
const QUIET_TICKS: u32 = 100;

/// How often it looks while requests are under way that only wait, where that is enough.
const SLOW_TICK: Duration = Duration::from_millis(50);

/// What the thread looks after.
pub trait Duty: Send + 'static {
    /// Whether a request is under way.
    fn has_requests(&self) -> bool;

    /// Whether it must look every millisecond for as long as one is.
    fn is_urgent(&self) -> bool;

    /// Looks. `is_moving`: a request was taken up since the last look.
    fn look(&mut self, is_moving: bool);
}

/// The thread.
#[derive(Default)]
pub struct Monitor {
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Monitor {
    /// Starts it.
    pub fn start(hub: &Arc<Hub>, duty: impl Duty) -> Arc<Monitor> {
        let monitor = Arc::new(Monitor::default());
        let (of_thread, hub) = (monitor.clone(), hub.clone());
        let run = move || of_thread.run(&hub, duty);
        match std::thread::Builder::new().name("monitor".to_string()).spawn(run) {
            Ok(handle) => drop(monitor.thread.set(handle.thread().clone())),
            Err(error) => super::server::log('w', &format!("a worker has no monitor: {error}")),
        }
        monitor
    }

    /// A request is begun.
    pub fn kick(&self) {
        if self.is_asleep.load(Ordering::Relaxed)
            && self.is_asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn run(&self, hub: &Hub, mut duty: impl Duty) {
        let mut quiet = 0;
        let mut begun = 0;
        loop {
            std::thread::sleep(TICK);
            let now = hub.begun.load(Ordering::Relaxed);
            duty.look(now != begun);
            let has_requests = duty.has_requests();
            quiet = if now != begun || (has_requests && duty.is_urgent()) { 0 } else { quiet + 1 };
            begun = now;
            if quiet >= QUIET_TICKS {
                self.sleep(hub, begun, has_requests.then_some(SLOW_TICK));
                quiet = if has_requests { QUIET_TICKS } else { 0 };
            }
        }
    }

    /// Sleeps until a request is begun, or for so long.
    fn sleep(&self, hub: &Hub, begun: u64, longest: Option<Duration>) {
        self.is_asleep.store(true, Ordering::Release);
        // A request that has come meanwhile unparks, or is seen here.
        if hub.begun.load(Ordering::Relaxed) == begun {
            match longest {
                Some(longest) => std::thread::park_timeout(longest),
                None => std::thread::park(),
            }
        }
        self.is_asleep.store(false, Ordering::Release);
    }
}
