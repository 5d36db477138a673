//! The state of the applications and their workers, for operators: the status page, `touchstone status` and
//! the metrics.

use std::collections::BTreeMap;

use serde::Serialize;

/// All applications of the present configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// Each application once: routes with the same settings share their workers.
    pub applications: Vec<ApplicationStatus>,
}

/// One application.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ApplicationStatus {
    /// The name of the site of its first route.
    pub site: String,
    /// What its first route matches.
    pub route: String,
    /// Module and name.
    pub app: String,
    /// `wsgi` or `asgi`; empty: unknown until the first worker has imported it.
    pub protocol: String,
    /// The version of Python; empty: not known yet.
    pub python: String,
    /// `starting`, `ready` or `failed`.
    pub state: String,
    /// Workers that it should have.
    pub most_workers: u64,
    /// Workers that are being started.
    pub starting: u64,
    /// Workers that take no more requests and end when those that they have are answered.
    pub ending: u64,
    /// The most requests of a worker, including those that wait.
    pub queue_limit: u64,
    /// Bytes of memory that a worker may use; 0: no limit.
    pub memory_limit_bytes: u64,
    /// Workers that were started.
    pub started: u64,
    /// Workers that were replaced or started again, by reason.
    pub restarts: BTreeMap<&'static str, u64>,
    /// The last restart; absent: there was none.
    pub last_restart: Option<RestartStatus>,
    /// Requests without an answer of the application, by reason.
    pub failures: BTreeMap<&'static str, u64>,
    /// The workers that take requests.
    pub workers: Vec<WorkerStatus>,
}

/// A worker that was replaced or started again.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RestartStatus {
    /// Why.
    pub reason: String,
    /// The message in the error log.
    pub text: String,
    /// When, in seconds since 1970.
    pub unix_s: u64,
}

/// One worker that takes requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// The number of its process.
    pub process: u32,
    /// When it was started, in seconds since 1970.
    pub started_unix_s: u64,
    /// Requests that the application has.
    pub busy: u64,
    /// Requests that wait in the worker.
    pub queue: u64,
    /// Requests that it has received.
    pub requests: u64,
    /// Bytes of memory that it uses, including memory shared with other processes.
    pub resident_bytes: u64,
}

impl ApplicationStatus {
    /// Requests that the application has, in all workers.
    pub fn busy(&self) -> u64 {
        self.workers.iter().map(|worker| worker.busy).sum()
    }

    /// Requests that wait, in all workers.
    pub fn queue(&self) -> u64 {
        self.workers.iter().map(|worker| worker.queue).sum()
    }

    /// Bytes of memory of all workers.
    pub fn resident_bytes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.resident_bytes).sum()
    }
}
