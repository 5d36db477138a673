//! The settings of a route's component.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use touchstone_handler::handler::Interface;

/// A component and its environment.
#[derive(Clone)]
pub struct Settings {
    /// The file of the component.
    pub component: PathBuf,
    /// The directory for compiled components; `None`: the component is compiled at each start.
    pub compiled: Option<PathBuf>,
    /// Its environment variables.
    pub environment: Vec<(String, String)>,
    /// Its values of `wasi:config`.
    pub config: Vec<(String, String)>,
    /// The name of the site that its buckets belong to.
    pub site: String,
    /// The name of the route.
    pub route: String,
    /// The names of the buckets that it may open by `wasi:keyvalue`.
    pub buckets: Vec<String>,
    /// Directories that it may read: the path in the component, and the directory.
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
    /// The most bytes of memory of an instance.
    pub memory_bytes: usize,
    /// The computing time of an instance for a request.
    pub computing: Duration,
    /// The time to the head of the answer, and between two pieces of its body; zero: no limit.
    pub answer: Duration,
    /// The most requests at the same time.
    pub concurrency: usize,
    /// The most bytes of the keys and values of a bucket.
    pub bucket_bytes: usize,
    /// The most bytes of the body of an answer; 0: no limit.
    pub body_bytes: u64,
    /// The most bytes of standard output and error that are logged for a request.
    pub output_bytes: usize,
}

/// An origin that a component may send requests to.
#[derive(Clone)]
pub struct Origin {
    /// The scheme and authority, such as `https://api.example.com`, in lower case.
    pub origin: String,
    /// The client that sends the requests.
    pub client: Arc<dyn Interface>,
}
