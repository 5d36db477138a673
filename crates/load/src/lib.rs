//! The load engine: virtual clients on pinned cores, every latency kept.
//!
//! One [`Plan`] describes one measured load (one WebBench *mix*): which requests, how many virtual clients,
//! kept or new connections, ramps, length. [`run`] carries it out with one event loop a core and gives back an
//! [`Outcome`]: counts, bytes, errors by kind, and the whole latency distribution, for all clients and for each.
//! The crate knows nothing of suites, servers or reports; those are the lab's.

mod answer;
mod check;
mod choice;
mod clock;
mod engine;
mod exchange;
mod outcome;
mod plan;
mod record;
mod request;
mod run;
mod schedule;
mod timers;
mod url;

pub use check::{
    MAXIMUM_CLIENTS, MAXIMUM_HEADERS_BYTES, MAXIMUM_LENGTH, MAXIMUM_PATH_BYTES, MAXIMUM_RECEIVE_BUFFER_BYTES,
    MAXIMUM_REQUESTS, allowed_cores,
};
pub use outcome::{ClientOutcome, EngineUse, ErrorCounts, Interval, Outcome, Saturation, TimeSummary};
pub use plan::{
    ConnectionUse, DEFAULT_RECEIVE_BUFFER_BYTES, DEFAULT_TIMEOUT, HttpVersion, Plan, PlanError,
    PlannedRequest, Progress, Target,
};
pub use run::run;
pub use url::{HttpUrl, MAXIMUM_URL_BYTES, UrlError};
