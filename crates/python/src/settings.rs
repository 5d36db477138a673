//! The settings of a route.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The interface between server and application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// Determined from the application.
    Detect,
    /// WSGI, PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

/// The settings of a route. Routes with equal settings share their workers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RouteSettings {
    /// `module:name`
    pub app: String,
    /// The interface of the application.
    pub protocol: Protocol,
    /// The name is a function that makes the application.
    pub is_factory: bool,
    /// The current directory, which is searched first for modules.
    pub directory: PathBuf,
    /// More directories that are searched for modules.
    pub path: Vec<PathBuf>,
    /// The virtual environment, or the program `python3` itself; `None`: from `VIRTUAL_ENV` and `PATH`.
    pub virtual_environment: Option<PathBuf>,
    /// Worker processes; 0: as many as processors.
    pub workers: usize,
    /// How many threads of a worker call a WSGI application at the same time.
    pub threads: usize,
    /// Variables of the environment.
    pub environment: Vec<(String, String)>,
    /// The user of the workers; empty: that of the server.
    pub user: String,
    /// The path prefix of the application.
    pub script_name: String,
    /// Workers are replaced when a source file changes.
    pub reload: bool,
    /// The limits of the workers.
    pub limits: Limits,
}

/// The limits of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// The longest time until an answer begins; `None`: no limit.
    pub answer: Option<Duration>,
    /// The longest time for a worker to start.
    pub start: Duration,
    /// The longest time for the requests of a worker that is replaced.
    pub drain: Duration,
    /// Bytes of memory of a worker; 0: no limit.
    pub memory: u64,
    /// A worker is replaced after this many requests; 0: never.
    pub requests: u64,
    /// The most requests that may wait in a worker.
    pub queue: usize,
}

impl RouteSettings {
    /// The name of the application in messages.
    pub fn name(&self) -> &str {
        &self.app
    }

    /// The number of worker processes.
    pub fn worker_count(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }
}
