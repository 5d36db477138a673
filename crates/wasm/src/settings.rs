//! The settings of a route's component.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use touchstone_handler::handler::Interface;

/// A component and how it runs.
#[derive(Clone)]
pub struct Settings {
    /// The component.
    pub component: PathBuf,
    /// The directory for compiled components; `None`: they are compiled at each start.
    pub compiled: Option<PathBuf>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Its values of `wasi:config`.
    pub config: Vec<(String, String)>,
    /// The name of the site, to which its buckets belong.
    pub site: String,
    /// The name of the route.
    pub route: String,
    /// The names of the buckets that `wasi:keyvalue` gives it.
    pub buckets: Vec<String>,
    /// Directories that it may read: its own name for each, and the directory.
    pub directories: Vec<(String, PathBuf)>,
    /// The origins that it may send requests to.
    pub outgoing: Vec<Origin>,
    /// The most requests that an instance answers, one after another.
    pub reuse: u32,
    /// Its limits.
    pub limits: Limits,
}

/// The limits of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of an instance.
    pub memory_bytes: usize,
    /// How long an instance may compute for a request.
    pub computing: Duration,
    /// The time to the head of the answer, and between two pieces of its body; zero: no limit.
    pub answer: Duration,
    /// The most requests at the same time.
    pub concurrency: usize,
    /// Bytes of the keys and values of a bucket.
    pub bucket_bytes: usize,
    /// Bytes of the body of an answer; 0: no limit.
    pub body_bytes: u64,
    /// Bytes of standard output and error that are logged for a request.
    pub output_bytes: usize,
}

/// An origin that a component may send requests to.
#[derive(Clone)]
pub struct Origin {
    /// The scheme and authority, such as `https://api.example.com`, in lower case.
    pub origin: String,
    /// The client that makes the requests.
    pub client: Arc<dyn Interface>,
}
