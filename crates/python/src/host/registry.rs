//! All pools of a server: those of the current configuration, and of requests that still use an older one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use touchstone_handler::configurations::Configurations;

use super::message_log::{Log, MessageLog};
use super::pool::{Pool, RouteNames};
use super::supervisor;
use crate::settings::RouteSettings;
use crate::status::{ApplicationStatus, Status};

/// The workers of all applications of a server.
#[derive(Default)]
pub struct PythonPools {
    known: Mutex<Vec<RegisteredPool>>,
    configurations: Configurations,
    log: MessageLog,
}

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

impl PythonPools {
    /// The workers of an application: the running ones, or new ones.
    ///
    /// # Errors
    /// Their thread cannot be started.
    pub(super) fn open(&self, settings: &RouteSettings, names: RouteNames) -> Result<Arc<Pool>, String> {
        let mut known = self.known();
        known.retain(|known| known.pool.strong_count() > 0 || !known.thread.is_finished());
        let since = self.configurations.opened();
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
        let (pool, thread) = supervisor::start(settings.clone(), self.log.clone()).map_err(failed)?;
        known.push(RegisteredPool { pool: Arc::downgrade(&pool), thread, since, used: since, names });
        Ok(pool)
    }

    /// Sets the function that writes the log messages of workers and their supervisors.
    pub fn log_to(&self, log: Log) {
        self.log.set(log);
    }

    /// Called before a configuration is opened.
    pub fn begin_configuration(&self) {
        self.configurations.begin();
    }

    /// Called when the configuration that was opened last is in use: workers that it shares with the previous
    /// one are replaced, so that they run the current version of the application.
    pub fn configuration_in_use(&self) {
        self.configurations.use_opened();
        let now = self.configurations.in_use();
        for known in self.known().iter().filter(|known| known.since < now) {
            if let Some(pool) = known.pool.upgrade() {
                pool.replace_workers();
            }
        }
    }

    /// Ends all workers, and waits until they have ended.
    pub fn stop(&self) {
        let known = std::mem::take(&mut *self.known());
        known.iter().filter_map(|known| known.pool.upgrade()).for_each(|pool| pool.stop());
        for RegisteredPool { thread, .. } in known {
            // The panic of a thread was already reported.
            let _ = thread.join();
        }
    }

    /// The state of the applications of the current configuration, in the order of their routes' names.
    pub fn status(&self) -> Status {
        let pools: Vec<(Arc<Pool>, RouteNames)> = self
            .known()
            .iter()
            .filter(|known| self.configurations.has(known.used))
            .filter_map(|known| Some((known.pool.upgrade()?, known.names.clone())))
            .collect();
        let mut all: Vec<ApplicationStatus> = pools.iter().map(|(pool, names)| pool.status(names)).collect();
        all.sort_by(|one, other| (&one.site, &one.route).cmp(&(&other.site, &other.route)));
        // A configuration that is only being checked may have opened the application of the same route.
        all.dedup_by(|one, other| (&one.site, &one.route) == (&other.site, &other.route));
        Status { applications: all }
    }

    fn known(&self) -> MutexGuard<'_, Vec<RegisteredPool>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
