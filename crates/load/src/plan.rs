//! The input of the engine: targets, requests and times of one load. It is checked before the first request
//! is sent.

use crate::messages::MessagePlan;
use crate::stages::Stage;
use crate::target::{HttpVersion, Target};
use crate::websocket_plan::WebSocketPlan;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use touchstone_session::{ScriptPlan, StepPlan};

/// The default size of a receive call in bytes: an answer of common size is received in one call.
pub const DEFAULT_RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// The default time limit of a request.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether a virtual client keeps its connection (WebBench: "Use Keep-Alives").
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum ConnectionUse {
    /// One connection a client, used until the server closes it.
    Kept,
    /// A new connection for every request.
    New,
    /// Kept, except that this share of the requests (above 0 and below 1) are the last on their connections.
    NewShare(f64),
}

/// The distribution of the intervals between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Arrivals {
    /// Equal intervals.
    #[default]
    Constant,
    /// A Poisson process, as of many independent users: the intervals are exponentially distributed.
    Poisson,
}

/// One request of the workload with its weight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedRequest {
    /// The class of the request: an index that the caller chooses. Each class has its own counts.
    pub class: usize,
    /// The target: 0 for [`Plan::target`], `n` for number `n - 1` of [`Plan::other_targets`].
    pub target: usize,
    /// The method, for example `GET`.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// The probability of its choice, relative to the sum of all weights. 0: it is never chosen directly, and
    /// another request names it in `then`.
    pub weight: f64,
    /// The requests that the same client sends after this one, in order, before it chooses again: the parts
    /// of a page, or the rest of a session. They are indices into [`Plan::requests`].
    pub then: Vec<usize>,
    /// The client's think time before this request, if another request names it in `then`.
    pub think_before: Duration,
    /// Whether the client closes its connections after the last request of `then`, because the next session
    /// is that of another user.
    pub is_session: bool,
    /// Header fields of the request, `name: value` without line ends. They replace fields of the plan or the
    /// engine with the same name.
    pub headers: Vec<String>,
    /// The request's body; `None`: no body and no Content-Length.
    #[serde(with = "crate::base64_serde::body")]
    pub body: Option<Arc<[u8]>>,
    /// The status codes of a valid answer; empty: 200 to 399.
    pub expected_status: Vec<RangeInclusive<u16>>,
    /// The exact length of the answer's body, if the caller knows it.
    pub expected_body_bytes: Option<u64>,
    /// The expected SHA-256 of the answer's body. The engine then hashes each body, which costs processor
    /// time.
    pub expected_body_sha256: Option<[u8; 32]>,
    /// The values to extract from the answer, the assertions on it, and its redirects.
    pub step: Option<StepPlan>,
    /// Set: the answer is a stream of messages, and the engine measures the time of each.
    pub messages: Option<MessagePlan>,
    /// Set: the request opens a WebSocket, on which its body is sent as a message.
    pub websocket: Option<WebSocketPlan>,
}

impl PlannedRequest {
    /// A plain GET of class 0 with the weight 1. Callers change the fields that they need.
    pub fn get(path: impl Into<String>) -> PlannedRequest {
        PlannedRequest {
            class: 0,
            target: 0,
            method: "GET".to_string(),
            path: path.into(),
            weight: 1.0,
            then: Vec::new(),
            think_before: Duration::ZERO,
            is_session: false,
            headers: Vec::new(),
            body: None,
            expected_status: Vec::new(),
            expected_body_bytes: None,
            expected_body_sha256: None,
            step: None,
            messages: None,
            websocket: None,
        }
    }
}

/// The distribution of a time that is given as one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TimeSpread {
    /// All times are equal.
    #[default]
    Fixed,
    /// Exponentially distributed with the figure as its mean.
    Exponential,
}

/// The session of an arriving user in a partly open load: a number of requests with think times between them,
/// on a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The number of requests in a session, at least 1. With [`TimeSpread::Exponential`] the mean of a
    /// geometric distribution.
    pub requests: f64,
    /// The distribution of the number of requests.
    pub spread: TimeSpread,
}

/// A request with its own due time, from a recorded load that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The due time, measured from the beginning of the run.
    pub after: Duration,
    /// The request, an index into [`Plan::requests`].
    pub request: usize,
}

/// The complete description of one measured load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The target of the requests.
    pub target: Target,
    /// Further targets, for requests that name one.
    pub other_targets: Vec<Target>,
    /// The workload: at least one request; weights positive.
    pub requests: Vec<PlannedRequest>,
    /// Additional header fields, `name: value` without line ends.
    pub headers: Vec<String>,
    /// Whether the engine adds the fields that every current client sends: Host, User-Agent, Accept. A
    /// request without them is allowed only in HTTP/1.0.
    pub usual_fields: bool,
    /// The number of virtual clients; each has one active request at a time. In a closed loop they make up
    /// the load. With a rate they limit the active requests, and an arrival waits while all clients are busy.
    pub clients: usize,
    /// The number of virtual clients that share one connection. In HTTP/2 and 3 each has its own stream; in
    /// HTTP/1.1 each sends its request without waiting for the answers to earlier ones (pipelining, RFC 9112,
    /// section 9.3.2). Otherwise 1.
    pub streams: usize,
    /// The processors, each with one engine thread pinned to it; empty: one thread that is not pinned.
    pub cores: Vec<usize>,
    /// Kept connections or a new one for every request.
    pub connections: ConnectionUse,
    /// The protocol version of targets that do not set one.
    pub version: HttpVersion,
    /// The size of a receive call in bytes (WebBench: "Receive Buffer").
    pub receive_buffer_bytes: usize,
    /// Each client starts after a random wait of at most this (WebBench: "Delay").
    pub delay: Duration,
    /// The wait between an answer and the next request (WebBench: "Think Time").
    pub think_time: Duration,
    /// The distribution of the think times.
    pub think_spread: TimeSpread,
    /// A request without a complete answer after this time is an error.
    pub timeout: Duration,
    /// The time at the beginning that is excluded from the figures.
    pub ramp_up: Duration,
    /// The total time, ramps included (WebBench: "Length").
    pub length: Duration,
    /// The time at the end that is excluded from the figures.
    pub ramp_down: Duration,
    /// The rate of an open load: this many requests (or sessions) arrive each second, independently of the
    /// answers, and the latency of each begins at its due time. `None`: closed loop, in which each client
    /// sends its next request after the answer to its last.
    pub rate: Option<f64>,
    /// The distribution of the intervals between the arrivals of an open load.
    pub arrivals: Arrivals,
    /// A recorded load, which is an open load too: each of these requests arrives at its due time. They are
    /// in the order of these times. Empty: requests are chosen by their weights.
    #[serde(with = "crate::base64_serde::recorded")]
    pub recorded: Arc<[Recorded]>,
    /// Set: the arrivals are sessions (partly open load).
    pub session: Option<Session>,
    /// The phases of the run; together they last as long as the run. Their values are arrival rates if a rate
    /// is set (whose figure is then ignored), and numbers of clients otherwise. Empty: one phase.
    pub stages: Vec<Stage>,
    /// The run ends after this many requests, if they end before the length is over.
    pub request_limit: Option<u64>,
    /// The seed of the random choices, with which a run can be repeated.
    pub seed: u64,
    /// The values at the beginning of sessions. `${name}` in a path, a field or a body is replaced by the
    /// value. `None`: these texts are sent without changes.
    pub script: Option<ScriptPlan>,
}

impl Plan {
    /// A plan for one request with default values: one client on a kept HTTP/1.1 connection for ten seconds,
    /// no ramps, one thread that is not pinned. Callers change the fields that they need.
    pub fn of_one(target: Target, path: &str) -> Plan {
        Plan {
            target,
            other_targets: Vec::new(),
            requests: vec![PlannedRequest::get(path)],
            headers: Vec::new(),
            usual_fields: true,
            clients: 1,
            streams: 1,
            cores: Vec::new(),
            connections: ConnectionUse::Kept,
            version: HttpVersion::Http11,
            receive_buffer_bytes: DEFAULT_RECEIVE_BUFFER_BYTES,
            delay: Duration::ZERO,
            think_time: Duration::ZERO,
            think_spread: TimeSpread::Fixed,
            timeout: DEFAULT_TIMEOUT,
            ramp_up: Duration::ZERO,
            length: Duration::from_secs(10),
            ramp_down: Duration::ZERO,
            rate: None,
            arrivals: Arrivals::Constant,
            recorded: Arc::new([]),
            session: None,
            stages: Vec::new(),
            request_limit: None,
            seed: 0,
            script: None,
        }
    }

    /// All targets, in the order of [`PlannedRequest::target`].
    pub fn targets(&self) -> impl ExactSizeIterator<Item = &Target> {
        (0..self.other_targets.len() + 1).map(|number| match number {
            0 => &self.target,
            _ => &self.other_targets[number - 1],
        })
    }

    /// Whether requests arrive independently of the answers.
    pub fn is_open(&self) -> bool {
        self.rate.is_some() || !self.recorded.is_empty()
    }

    /// Whether several clients share each connection of HTTP/1.1 to a target.
    pub(crate) fn is_pipelined_to(&self, target: &Target) -> bool {
        self.streams > 1 && self.version_of(target) == HttpVersion::Http11
    }

    /// Whether any answer contains messages.
    pub(crate) fn has_messages(&self) -> bool {
        self.requests.iter().any(|request| request.messages.is_some() || request.websocket.is_some())
    }

    /// Whether the plan opens WebSockets.
    pub(crate) fn has_websockets(&self) -> bool {
        self.requests.iter().any(|request| request.websocket.is_some())
    }

    /// Whether the plan opens WebSockets to this target.
    pub(crate) fn has_websockets_of(&self, target: usize) -> bool {
        self.requests.iter().any(|request| request.target == target && request.websocket.is_some())
    }

    /// The protocol version of the requests to a target.
    pub(crate) fn version_of(&self, target: &Target) -> HttpVersion {
        target.version.unwrap_or(self.version)
    }

    /// The stages of the arrival rate; `None` without a rate.
    pub(crate) fn rate_stages(&self) -> Option<Vec<Stage>> {
        let rate = self.rate?;
        Some(if self.stages.is_empty() {
            vec![Stage::constant(self.length, rate)]
        } else {
            self.stages.clone()
        })
    }

    /// The stages of the number of clients; `None` if all clients are active during the whole run.
    pub(crate) fn client_stages(&self) -> Option<&[Stage]> {
        (!self.is_open() && !self.stages.is_empty()).then_some(&self.stages[..])
    }
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
