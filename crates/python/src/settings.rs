//! What a route asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The interface between server and application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// As the application looks.
    Detect,
    /// WSGI, PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

/// The settings of a route. Two routes that have the same share their workers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RouteSettings {
    /// `module:name`
    pub app: String,
    /// Which interface it has.
    pub protocol: Protocol,
    /// The name is a function that makes the application.
    pub is_factory: bool,
    /// The current directory, in which modules are looked for first.
    pub directory: PathBuf,
    /// More directories in which modules are looked for.
    pub path: Vec<PathBuf>,
    /// The virtual environment, or the program `python3` itself; `None`: as `VIRTUAL_ENV` and `PATH` say.
    pub virtual_environment: Option<PathBuf>,
    /// Worker processes; 0: as many as processors.
    pub workers: usize,
    /// Threads of a worker that call a WSGI application at a time.
    pub threads: usize,
    /// Variables of the environment.
    pub environment: Vec<(String, String)>,
    /// Who the workers run as; empty: as the server.
    pub user: String,
    /// The beginning of paths that is the application's place.
    pub script_name: String,
    /// Workers are replaced when a source file changes.
    pub reload: bool,
    /// What the workers may use.
    pub limits: Limits,
}

/// What workers may use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// The longest time until an answer begins; `None`: no limit.
    pub answer: Option<Duration>,
    /// The longest time for a worker to start.
    pub start: Duration,
    /// The longest time for what is under way in a worker that is replaced.
    pub drain: Duration,
    /// Bytes of memory of a worker; 0: no limit.
    pub memory: u64,
    /// A worker is replaced after so many requests; 0: never.
    pub requests: u64,
    /// Requests that may wait in a worker.
    pub queue: usize,
}

impl RouteSettings {
    /// How messages name the application.
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
