//! A thread that looks every millisecond or few while there is work, for what nobody was woken for: requests
//! that wait because all threads are busy with something that takes long, calls whose neighbours wait, and
//! answers that a thread wanted to tell with the next one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::caller::Watched as WatchedCalls;
use crate::core_queue::CoreQueue;
use crate::pool::Pool;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// How often it looks where there are only calls on threads of connections, which mostly wait for nobody.
const LOOK_AT_CALLS: Duration = Duration::from_millis(5);

/// After so many looks that found nothing, it sleeps until it is called.
const IDLE_LOOKS: u32 = 20;

/// The monitor.
#[derive(Default)]
pub struct Monitor {
    is_awake: AtomicBool,
    thread: OnceLock<Thread>,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    pools: Vec<Weak<Pool>>,
    cores: Vec<Weak<CoreQueue>>,
    calls: Vec<Weak<WatchedCalls>>,
}

impl Monitor {
    /// Starts it.
    pub fn start() -> std::io::Result<Arc<Monitor>> {
        let monitor = Arc::new(Monitor::default());
        let running = monitor.clone();
        let builder = std::thread::Builder::new().name("servlet-monitor".to_string());
        let handle = builder.stack_size(128 * 1024).spawn(move || running.run())?;
        let _ = monitor.thread.set(handle.thread().clone());
        Ok(monitor)
    }

    /// There may be something to look for.
    pub fn kick(&self) {
        if !self.is_awake.load(Ordering::Acquire)
            && !self.is_awake.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Looks at a pool from now on.
    pub fn watch_pool(&self, pool: &Arc<Pool>) {
        self.lock().pools.push(Arc::downgrade(pool));
    }

    /// The pool of a route, if it is still used.
    pub fn pool(&self, route: i32) -> Option<Arc<Pool>> {
        self.lock().pools.iter().filter_map(Weak::upgrade).find(|pool| pool.route == route)
    }

    /// Looks at a core from now on.
    pub fn watch_core(&self, core: &Arc<CoreQueue>) {
        self.lock().cores.push(Arc::downgrade(core));
    }

    /// Looks at the calls of a thread from now on.
    pub fn watch_calls(&self, calls: &Arc<WatchedCalls>) {
        self.lock().calls.push(Arc::downgrade(calls));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut idle_looks = 0;
        let mut pause = LOOK;
        loop {
            std::thread::park_timeout(pause);
            let found = self.look();
            pause = found.unwrap_or(LOOK);
            idle_looks = if found.is_some() { 0 } else { idle_looks + 1 };
            if idle_looks >= IDLE_LOOKS {
                self.is_awake.store(false, Ordering::Release);
                // Somebody may have come before the flag was down.
                if self.look().is_none() {
                    while !self.is_awake.load(Ordering::Acquire) {
                        std::thread::park();
                    }
                }
                idle_looks = 0;
            }
        }
    }

    /// When to look again; `None`: there was nothing.
    fn look(&self) -> Option<Duration> {
        let mut watched = self.lock();
        let (mut found, mut found_calls) = (false, false);
        watched.cores.retain(|core| {
            let Some(core) = core.upgrade() else { return false };
            if core.is_pending() {
                core.wake();
                found = true;
            }
            true
        });
        watched.calls.retain(|calls| {
            let Some(calls) = calls.upgrade() else { return false };
            found_calls |= calls.look();
            true
        });
        watched.pools.retain(|pool| {
            let Some(pool) = pool.upgrade() else { return false };
            found |= pool.look();
            true
        });
        if found { Some(LOOK) } else { found_calls.then_some(LOOK_AT_CALLS) }
    }
}
