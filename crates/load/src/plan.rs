//! What to load, with what, for how long: the input of the engine, checked before anything is sent.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Bytes asked for in one receive call unless the plan says otherwise: a whole answer of common size in one call.
pub const DEFAULT_RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// The time limit of a request unless the plan says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the requests go.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address to connect to, resolved before the run so that no name is looked up while measuring.
    pub address: SocketAddr,
    /// The value of the Host field.
    pub host: String,
}

/// Whether a virtual client keeps its connection (WebBench: "Use Keep-Alives").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionUse {
    /// One connection a client, used until the server closes it.
    Kept,
    /// A new connection for every request.
    New,
}

/// The protocol version that the requests are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0; kept connections are asked for with `Connection: keep-alive`.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// One request of the workload with its weight.
#[derive(Debug, Clone)]
pub struct PlannedRequest {
    /// The class that it belongs to (an index that the caller chooses; counts are kept for each class).
    pub class: usize,
    /// Path and query, as sent.
    pub path: String,
    /// How often it is chosen, relative to the sum of all weights.
    pub weight: f64,
    /// The exact body length the answer must have, where the caller knows it.
    pub expected_body_bytes: Option<u64>,
}

/// One measured load, complete.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the requests go.
    pub target: Target,
    /// The workload: at least one request; weights positive.
    pub requests: Vec<PlannedRequest>,
    /// Extra header fields, `name: value` without line ends.
    pub headers: Vec<String>,
    /// Virtual clients; each has one request under way at a time (closed loop).
    pub clients: usize,
    /// The processors to pin one engine thread each to; empty: one thread, not pinned.
    pub cores: Vec<usize>,
    /// Kept connections or a new one for every request.
    pub connections: ConnectionUse,
    /// The protocol version.
    pub version: HttpVersion,
    /// Bytes asked for in one receive call (WebBench: "Receive Buffer").
    pub receive_buffer_bytes: usize,
    /// Each client starts after a random wait of at most this (WebBench: "Delay").
    pub delay: Duration,
    /// The wait between an answer and the next request (WebBench: "Think Time").
    pub think_time: Duration,
    /// A request without a complete answer after this is an error.
    pub timeout: Duration,
    /// The time at the beginning that is not counted.
    pub ramp_up: Duration,
    /// The whole time, ramps included (WebBench: "Length").
    pub length: Duration,
    /// The time at the end that is not counted.
    pub ramp_down: Duration,
    /// Requests a second over all clients, sent on a fixed schedule and timed from the intended start;
    /// `None`: closed loop, as fast as the answers come.
    pub rate: Option<f64>,
    /// Seed of the choice of requests, so that a run can be repeated.
    pub seed: u64,
}

impl Plan {
    /// A plan for one request with plain values: one client on a kept HTTP/1.1 connection for ten seconds, no ramps,
    /// one thread that is not pinned. Callers change what they need.
    pub fn of_one(target: Target, path: &str) -> Plan {
        let request =
            PlannedRequest { class: 0, path: path.to_string(), weight: 1.0, expected_body_bytes: None };
        Plan {
            target,
            requests: vec![request],
            headers: Vec::new(),
            clients: 1,
            cores: Vec::new(),
            connections: ConnectionUse::Kept,
            version: HttpVersion::Http11,
            receive_buffer_bytes: DEFAULT_RECEIVE_BUFFER_BYTES,
            delay: Duration::ZERO,
            think_time: Duration::ZERO,
            timeout: DEFAULT_TIMEOUT,
            ramp_up: Duration::ZERO,
            length: Duration::from_secs(10),
            ramp_down: Duration::ZERO,
            rate: None,
            seed: 0,
        }
    }
}

/// Live counters of a run, shared with whoever shows progress; and the way to end it early.
#[derive(Debug, Default)]
pub struct Progress {
    /// Valid answers so far, ramps included.
    pub requests: AtomicU64,
    /// Errors so far, ramps included.
    pub errors: AtomicU64,
    /// Bytes received so far, ramps included.
    pub bytes: AtomicU64,
    /// Set by the caller to end the run: what was measured is kept and marked interrupted.
    pub stop: AtomicBool,
}

/// Why a plan cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub String);

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}
