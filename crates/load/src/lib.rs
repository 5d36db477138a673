//! The load engine: virtual clients on pinned cores, every latency kept.
//!
//! One [`Plan`] describes one measured load (one WebBench *mix*): which requests, how many virtual clients,
//! kept or new connections, ramps, length. [`run`] carries it out with one event loop a core and returns an
//! [`Outcome`]: counts, bytes, errors by kind, and the whole latency distribution, for all clients and for
//! each.
//! The crate knows nothing of suites, servers or reports; those are the lab's.

mod abort;
mod answer;
mod arrivals;
mod blocks;
mod body;
mod check;
mod choice;
mod client;
mod clock;
mod curve;
mod engine;
mod exchange;
mod export;
mod failure;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod h2;
mod h3;
mod head;
mod housekeeping;
mod http1;
mod keeper;
mod layered;
mod layered_ends;
mod machine;
mod merge;
mod messages;
mod moments;
mod named_certificate;
mod outcome;
mod parts;
mod pipeline;
mod plan;
mod portion;
mod priority;
mod progress;
mod quic;
mod recent;
mod record;
mod request;
mod run;
mod scripted;
mod slots;
mod socket;
mod start;
mod streams;
mod target;
mod threshold;
mod timers;
mod tls;
mod tls_setup;
#[cfg(test)]
mod truth;
mod upgraded;
mod url;
mod varying;
mod websocket;
mod websocket_plan;
mod wire;

pub use abort::AbortWatch;
pub use check::{
    MAXIMUM_BODY_BYTES, MAXIMUM_CLIENTS, MAXIMUM_HEADERS_BYTES, MAXIMUM_LENGTH, MAXIMUM_PATH_BYTES,
    MAXIMUM_RECEIVE_BUFFER_BYTES, MAXIMUM_RECORDED, MAXIMUM_REQUESTS, MAXIMUM_STAGES,
};
pub use curve::Stage;
pub use export::{interval_log, percentile_text};

pub use machine::allowed_cores;
pub use merge::{MachineOutcome, MergeError, merge};
pub use messages::{MessageForm, MessagePlan};
pub use moments::Moments;
pub use outcome::{
    ArrivalsOutcome, ClassOutcome, ClientOutcome, EngineUse, ErrorCounts, ErrorReason, HandshakeCounts,
    Interval, LATE, MessagesOutcome, Outcome, Saturation, StageOutcome, TimeSummary, WebSocketsOutcome,
};
pub use plan::{
    Arrivals, ConnectionUse, DEFAULT_RECEIVE_BUFFER_BYTES, DEFAULT_TIMEOUT, Plan, PlanError, PlannedRequest,
    Recorded, Session, TimeSpread,
};
pub use portion::Portion;
pub use progress::Progress;
pub use recent::RecentLatency;
pub use run::{Ready, run};
pub use target::{ClientCertificate, HttpVersion, Target, TlsTarget, TlsVersions, Trust};
pub use threshold::{Standing, Standings, Threshold, Unit, Verdict};
pub use touchstone_session::{
    DataPlan, ExtractPlan, MAXIMUM_DATA_BYTES, RowOrder, ScriptError, ScriptPlan, StepPlan, check_step,
    check_text, read_csv, read_json,
};
pub use url::{HttpUrl, MAXIMUM_URL_BYTES, UrlError};
pub use websocket_plan::WebSocketPlan;
