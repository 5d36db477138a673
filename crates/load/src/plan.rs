//! What to load, with what, for how long: the input of the engine, checked before anything is sent.

use crate::messages::MessagePlan;
use crate::stages::Stage;
use crate::target::{HttpVersion, Target};
use crate::websocket_plan::WebSocketPlan;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use touchstone_session::{ScriptPlan, StepPlan};

/// Bytes asked for in one receive call unless the plan says otherwise: a whole answer of common size in one
/// call.
pub const DEFAULT_RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// The time limit of a request unless the plan says otherwise.
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

/// How arrivals follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// At random, as many independent users would: a Poisson process, whose distances are exponentially
    /// distributed.
    Poisson,
}

/// One request of the workload with its weight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedRequest {
    /// The class that it belongs to (an index that the caller chooses; counts are kept for each class).
    pub class: usize,
    /// Where it goes: 0 for [`Plan::target`], `n` for number `n - 1` of [`Plan::other_targets`].
    pub target: usize,
    /// The method, for example `GET`.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// How often it is chosen, relative to the sum of all weights. 0: it is never chosen directly; another
    /// request names it in `then`.
    pub weight: f64,
    /// The requests that the same client makes after this one, in order, before it chooses again: the parts
    /// of a page, or the rest of a session. They are indices into [`Plan::requests`].
    pub then: Vec<usize>,
    /// How long the client thinks before this request, if another names it in `then`.
    pub think_before: Duration,
    /// Whether the client closes its connections after the last of `then`: the next session is another
    /// user's.
    pub is_session: bool,
    /// Header fields of the request, `name: value` without line ends. They replace fields of the plan or the
    /// engine with the same name.
    pub headers: Vec<String>,
    /// The request's body; `None`: it has none, and no Content-Length.
    #[serde(with = "crate::base64_serde::body")]
    pub body: Option<Arc<[u8]>>,
    /// The statuses of a valid answer; empty: 200 to 399.
    pub expected_status: Vec<RangeInclusive<u16>>,
    /// The exact body length the answer must have, where the caller knows it.
    pub expected_body_bytes: Option<u64>,
    /// The SHA-256 that the answer's body must have. Each body is then hashed, which costs the engine time.
    pub expected_body_sha256: Option<[u8; 32]>,
    /// The values that are taken from its answer, what must be true of it, and its redirects.
    pub step: Option<StepPlan>,
    /// Set: its answer is a stream of messages, each of which is timed.
    pub messages: Option<MessagePlan>,
    /// Set: it asks for a WebSocket, on which its body is sent as a message.
    pub websocket: Option<WebSocketPlan>,
}

impl PlannedRequest {
    /// A plain GET of class 0 with the weight 1. Callers change what they need.
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

/// How a time that is given as one figure is distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TimeSpread {
    /// Every time is the same.
    #[default]
    Fixed,
    /// Exponentially distributed with the figure as its mean.
    Exponential,
}

/// What an arriving user does (a partly open load): some requests with think times between them, on its own
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Requests of a session, at least 1. With [`TimeSpread::Exponential`] the mean of a geometric
    /// distribution.
    pub requests: f64,
    /// Whether all sessions are of the same length.
    pub spread: TimeSpread,
}

/// A request with its own due time: one of a recorded load that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// When it is due, measured from the beginning of the run.
    pub after: Duration,
    /// Which one it is, an index into [`Plan::requests`].
    pub request: usize,
}

/// One measured load, complete.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Where the requests go.
    pub target: Target,
    /// More targets, for requests that name one.
    pub other_targets: Vec<Target>,
    /// The workload: at least one request; weights positive.
    pub requests: Vec<PlannedRequest>,
    /// Extra header fields, `name: value` without line ends.
    pub headers: Vec<String>,
    /// Whether the engine adds the fields that every current client sends: Host, User-Agent, Accept. Without
    /// them a request is like those of HTTP/1.0, and allowed only in HTTP/1.0.
    pub usual_fields: bool,
    /// Virtual clients; each has one request under way at a time. In a closed loop they are the load; with a
    /// rate they limit the requests under way, and an arrival that finds all of them busy waits.
    pub clients: usize,
    /// Virtual clients that share one connection, each with its own stream (HTTP/2 and 3); in HTTP/1.1 each
    /// sends its request without waiting for the answers to those before it (pipelining, RFC 9112, section
    /// 9.3.2). Otherwise 1.
    pub streams: usize,
    /// The processors to pin one engine thread each to; empty: one thread, not pinned.
    pub cores: Vec<usize>,
    /// Kept connections or a new one for every request.
    pub connections: ConnectionUse,
    /// The protocol version of targets that do not set one.
    pub version: HttpVersion,
    /// Bytes asked for in one receive call (WebBench: "Receive Buffer").
    pub receive_buffer_bytes: usize,
    /// Each client starts after a random wait of at most this (WebBench: "Delay").
    pub delay: Duration,
    /// The wait between an answer and the next request (WebBench: "Think Time").
    pub think_time: Duration,
    /// Whether all think times are the same.
    pub think_spread: TimeSpread,
    /// A request without a complete answer after this is an error.
    pub timeout: Duration,
    /// The time at the beginning that is not counted.
    pub ramp_up: Duration,
    /// The whole time, ramps included (WebBench: "Length").
    pub length: Duration,
    /// The time at the end that is not counted.
    pub ramp_down: Duration,
    /// An open load: this many requests (or sessions) arrive each second, independently of the answers, and
    /// each is timed from the moment it was due. `None`: closed loop, as fast as the answers come.
    pub rate: Option<f64>,
    /// How the arrivals of an open load follow one another.
    pub arrivals: Arrivals,
    /// Also an open load: these requests arrive, each at its due time, in the order of these times. Empty:
    /// requests are chosen by their weights.
    #[serde(with = "crate::base64_serde::recorded")]
    pub recorded: Arc<[Recorded]>,
    /// Set: what arrives are sessions (partly open).
    pub session: Option<Session>,
    /// The phases of the run; together they last as long as the run. They hold arrival rates if there is a
    /// rate (whose figure is then ignored), and otherwise numbers of clients. Empty: one phase.
    pub stages: Vec<Stage>,
    /// The run ends after this many requests, if they are done before the length is over.
    pub request_limit: Option<u64>,
    /// Seed of the choice of requests, so that a run can be repeated.
    pub seed: u64,
    /// The values that sessions begin with. Where a path, a field or a body has `${name}` in it, the value
    /// stands there. `None`: these texts are sent as they are.
    pub script: Option<ScriptPlan>,
}

impl Plan {
    /// A plan for one request with plain values: one client on a kept HTTP/1.1 connection for ten seconds, no
    /// ramps, one thread that is not pinned. Callers change what they need.
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

    /// Whether any answer has messages in it.
    pub(crate) fn has_messages(&self) -> bool {
        self.requests.iter().any(|request| request.messages.is_some() || request.websocket.is_some())
    }

    /// Whether WebSockets are asked for.
    pub(crate) fn has_websockets(&self) -> bool {
        self.requests.iter().any(|request| request.websocket.is_some())
    }

    /// Whether one of the targets is asked for WebSockets.
    pub(crate) fn has_websockets_of(&self, target: usize) -> bool {
        self.requests.iter().any(|request| request.target == target && request.websocket.is_some())
    }

    /// The version of the requests to one of the targets.
    pub(crate) fn version_of(&self, target: &Target) -> HttpVersion {
        target.version.unwrap_or(self.version)
    }

    /// The stages of the arrival rate; `None` where there is none.
    pub(crate) fn rate_stages(&self) -> Option<Vec<Stage>> {
        let rate = self.rate?;
        Some(if self.stages.is_empty() {
            vec![Stage::holding(self.length, rate)]
        } else {
            self.stages.clone()
        })
    }

    /// The stages of the number of clients; `None` if all of them work all the time.
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
