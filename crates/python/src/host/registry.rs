//! All pools of the process: those of the present configuration, and of requests that still run under an
//! older one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use super::pool::{Pool, WorkerFacts};
use super::supervisor;
use crate::settings::RouteSettings;

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
/// Counts the configurations.
static CONFIGURATION: AtomicU64 = AtomicU64::new(0);

struct Known {
    pool: Weak<Pool>,
    thread: JoinHandle<()>,
    /// The configuration that has opened it.
    since: u64,
}

fn known() -> MutexGuard<'static, Vec<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The workers of an application: those that run, or new ones.
///
/// # Errors
/// Their thread cannot be started.
pub fn open(settings: &RouteSettings) -> Result<Arc<Pool>, String> {
    let mut known = known();
    known.retain(|known| known.pool.strong_count() > 0 || !known.thread.is_finished());
    let running = known.iter().filter_map(|known| known.pool.upgrade());
    if let Some(pool) = running.into_iter().find(|pool| pool.settings() == settings) {
        return Ok(pool);
    }
    let failed = |error: std::io::Error| format!("its workers cannot be watched: {error}");
    let (pool, thread) = supervisor::start(settings.clone()).map_err(failed)?;
    let since = CONFIGURATION.load(Ordering::SeqCst);
    known.push(Known { pool: Arc::downgrade(&pool), thread, since });
    Ok(pool)
}

/// Begins to open a configuration.
pub fn begin_configuration() {
    CONFIGURATION.fetch_add(1, Ordering::SeqCst);
}

/// The configuration that was begun last is applied: workers that it has taken over are replaced, so that
/// they run the application as it is now.
pub fn taken_up() {
    let now = CONFIGURATION.load(Ordering::SeqCst);
    for known in known().iter().filter(|known| known.since < now) {
        if let Some(pool) = known.pool.upgrade() {
            pool.replace_workers();
        }
    }
}

/// Ends all workers, and waits until they have ended.
pub fn stop() {
    let known = std::mem::take(&mut *known());
    known.iter().filter_map(|known| known.pool.upgrade()).for_each(|pool| pool.stop());
    for Known { thread, .. } in known {
        // The panic of a thread was already reported.
        let _ = thread.join();
    }
}

/// The workers of all applications.
pub fn workers_of_process() -> Vec<WorkerFacts> {
    let pools: Vec<Arc<Pool>> = known().iter().filter_map(|known| known.pool.upgrade()).collect();
    pools.iter().flat_map(|pool| pool.facts()).collect()
}
