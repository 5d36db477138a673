//! The state that all threads share that call Java: the machine, the slabs, the monitor and the pools.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::jvm::Machine;
use crate::monitor::Monitor;
use crate::pool::Pool;
use crate::slab::Slabs;

/// What threads that call Java share.
pub struct JavaRuntime {
    machine: OnceLock<Machine>,
    slabs: Slabs,
    monitor: Arc<Monitor>,
    pools: Mutex<Vec<Weak<Pool>>>,
    /// Java has stopped and cannot be used again.
    has_ended: AtomicBool,
}

static RUNTIME: OnceLock<JavaRuntime> = OnceLock::new();

/// The state of this process. Only threads that an engine has started may call this.
pub fn of_process() -> &'static JavaRuntime {
    RUNTIME.get().expect("an engine starts Java's threads")
}

/// The state of this process, if Java was ever started.
pub fn if_started() -> Option<&'static JavaRuntime> {
    RUNTIME.get()
}

impl JavaRuntime {
    /// Makes the state of this process, with a running monitor. The engine calls it once.
    pub fn start() -> std::io::Result<&'static JavaRuntime> {
        let monitor = Monitor::start()?;
        Ok(RUNTIME.get_or_init(|| JavaRuntime {
            machine: OnceLock::new(),
            slabs: Slabs::default(),
            monitor,
            pools: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }))
    }

    /// Called when the machine has started.
    pub fn set_machine(&self, machine: Machine) {
        self.machine.get_or_init(|| machine);
    }

    /// The machine, once it runs.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.get()
    }

    /// Whether Java has stopped.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Notes that Java has stopped. Returns whether it had stopped before.
    pub fn end(&self) -> bool {
        self.has_ended.swap(true, Ordering::AcqRel)
    }

    /// The monitor of pools and cores.
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.monitor
    }

    /// The slabs.
    pub fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// Adds the pool of a route.
    pub fn add_pool(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    /// The pool of a route, if it is still used.
    pub fn pool(&self, route: i32) -> Option<Arc<Pool>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).find(|pool| pool.route == route)
    }
}
