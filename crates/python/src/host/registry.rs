//! All pools of the process: those of the current configuration, and of requests that still use an older one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use super::pool::{Pool, RouteNames};
use super::supervisor;
use crate::settings::RouteSettings;
use crate::status::ApplicationStatus;

static KNOWN: Mutex<Vec<RegisteredPool>> = Mutex::new(Vec::new());
/// Counts the configurations.
static CONFIGURATION: AtomicU64 = AtomicU64::new(0);
/// The number of the configuration in use.
static IN_USE: AtomicU64 = AtomicU64::new(0);

struct RegisteredPool {
    pool: Weak<Pool>,
    thread: JoinHandle<()>,
    /// The configuration that has opened the pool.
    since: u64,
    /// The last configuration that uses it.
    used: u64,
    /// Its first route in that configuration.
    names: RouteNames,
}

fn known() -> MutexGuard<'static, Vec<RegisteredPool>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The workers of an application: the running ones, or new ones.
///
/// # Errors
/// Their thread cannot be started.
pub fn open(settings: &RouteSettings, names: RouteNames) -> Result<Arc<Pool>, String> {
    let mut known = known();
    known.retain(|known| known.pool.strong_count() > 0 || !known.thread.is_finished());
    let since = CONFIGURATION.load(Ordering::SeqCst);
    for running in known.iter_mut() {
        let pool = running.pool.upgrade().filter(|pool| pool.settings() == settings);
        if let Some(pool) = pool {
            if running.used != since {
                (running.used, running.names) = (since, names);
            }
            return Ok(pool);
        }
    }
    let failed = |error: std::io::Error| format!("its workers cannot be watched: {error}");
    let (pool, thread) = supervisor::start(settings.clone()).map_err(failed)?;
    known.push(RegisteredPool { pool: Arc::downgrade(&pool), thread, since, used: since, names });
    Ok(pool)
}

/// Called before a configuration is opened.
pub fn begin_configuration() {
    CONFIGURATION.fetch_add(1, Ordering::SeqCst);
}

/// Called when the configuration that was opened last is in use: workers that it shares with the previous one
/// are replaced, so that they run the current version of the application.
pub fn apply_configuration() {
    let now = CONFIGURATION.load(Ordering::SeqCst);
    IN_USE.store(now, Ordering::SeqCst);
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
    for RegisteredPool { thread, .. } in known {
        // The panic of a thread was already reported.
        let _ = thread.join();
    }
}

/// The states of the applications of the current configuration, in the order of their routes' names.
pub fn applications() -> Vec<ApplicationStatus> {
    let now = IN_USE.load(Ordering::SeqCst);
    let pools: Vec<(Arc<Pool>, RouteNames)> = known()
        .iter()
        .filter(|known| known.used >= now)
        .filter_map(|known| Some((known.pool.upgrade()?, known.names.clone())))
        .collect();
    let mut all: Vec<ApplicationStatus> = pools.iter().map(|(pool, names)| pool.status(names)).collect();
    all.sort_by(|one, other| (&one.site, &one.route).cmp(&(&other.site, &other.route)));
    // A configuration that is only being checked may have opened the application of the same route.
    all.dedup_by(|one, other| (&one.site, &one.route) == (&other.site, &other.route));
    all
}
