//! The thread that looks after a worker while calls take long: it tells cores of answers that were written
//! before such a call, and has other threads take the requests behind it.
//!
//! It looks every millisecond while the worker is at work, and sleeps when it has had nothing to do for a
//! while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use super::hub::Hub;

/// How often it looks.
const TICK: Duration = Duration::from_millis(1);

/// After so many looks without anything under way it sleeps.
const QUIET_TICKS: u32 = 100;

/// The thread.
#[derive(Default)]
pub struct Monitor {
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Monitor {
    /// Starts it. `one_more` starts another thread for the application.
    pub fn start(hub: &Arc<Hub>, one_more: impl Fn() + Send + 'static) -> Arc<Monitor> {
        let monitor = Arc::new(Monitor::default());
        let (of_thread, hub) = (monitor.clone(), hub.clone());
        let run = move || of_thread.run(&hub, one_more);
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

    fn run(&self, hub: &Hub, one_more: impl Fn()) {
        let mut quiet = 0;
        let mut begun = 0;
        loop {
            std::thread::sleep(TICK);
            let now = hub.begun.load(Ordering::Relaxed);
            if hub.look_after(now != begun) {
                one_more();
            }
            quiet = if now != begun || hub.under_way() > 0 { 0 } else { quiet + 1 };
            begun = now;
            if quiet >= QUIET_TICKS {
                self.is_asleep.store(true, Ordering::Release);
                // A request that has come meanwhile unparks, or is seen here.
                if hub.begun.load(Ordering::Relaxed) == begun {
                    std::thread::park();
                }
                self.is_asleep.store(false, Ordering::Release);
                quiet = 0;
            }
        }
    }
}
