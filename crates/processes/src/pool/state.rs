//! The state of a pool that requests need: its supervisor sets it, requests read it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of a pool that requests need.
#[derive(Debug, Default)]
pub struct State {
    /// Why no process can be kept running, if so.
    problem: Mutex<Option<String>>,
    /// Whether there is a problem, so that requests need no lock.
    has_problem: AtomicBool,
}

impl State {
    pub fn has_problem(&self) -> bool {
        self.has_problem.load(Ordering::Relaxed)
    }

    /// Why no process can be kept running, if so.
    pub fn problem(&self) -> Option<String> {
        if self.has_problem() { self.lock().clone() } else { None }
    }

    pub fn set_problem(&self, problem: Option<String>) {
        self.has_problem.store(problem.is_some(), Ordering::Relaxed);
        *self.lock() = problem;
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
