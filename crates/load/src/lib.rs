//! The load engine: virtual clients on pinned cores, with a record of every latency.
//!
//! One [`Plan`] describes one measured load (one WebBench *mix*): the requests, the number of virtual
//! clients, kept or new connections, ramps, length. [`run`] executes it with one event loop on each core and
//! returns an [`Outcome`]: counts, bytes, errors by kind, and the whole latency distribution, for all clients
//! and for each. The crate does not depend on suites, servers or reports; these belong to the lab.

mod abort;
mod answer;
mod answer_head;
mod arrivals;
mod base64_serde;
mod body;
mod check;
mod choice;
mod client;
mod clock;
mod engine;
mod export;
mod failure;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod h2;
mod h3;
mod header_blocks;
mod housekeeping;
mod http1;
mod layered;
mod layered_ends;
mod machine;
mod merge;
mod message_streams;
mod messages;
mod named_certificate;
mod outcome;
#[cfg(test)]
mod percentile_tests;
mod pipeline;
mod plan;
mod portion;
mod progress;
mod quic;
mod raised_priority;
mod recent_latency;
mod record;
mod request;
mod request_cycle;
mod request_template;
mod retained_answer;
mod run;
mod session_values;
mod slots;
mod socket;
mod stages;
mod start_time;
mod target;
mod thread_share;
mod threshold;
mod timers;
mod tls;
mod tls_setup;
mod url;
mod value_summary;
mod websocket;
mod websocket_connection;
mod websocket_plan;

pub use abort::AbortWatch;
pub use check::{
    MAXIMUM_BODY_BYTES, MAXIMUM_CLIENTS, MAXIMUM_HEADERS_BYTES, MAXIMUM_LENGTH, MAXIMUM_PATH_BYTES,
    MAXIMUM_RECEIVE_BUFFER_BYTES, MAXIMUM_RECORDED, MAXIMUM_REQUESTS, MAXIMUM_STAGES,
};
pub use export::{interval_log, percentile_text};
pub use stages::Stage;

pub use machine::allowed_cores;
pub use merge::{MachineOutcome, MergeError, merge};
pub use messages::{MessageForm, MessagePlan};
pub use outcome::{
    ArrivalsOutcome, ClassOutcome, ClientOutcome, EngineUse, ErrorCounts, ErrorReason, HandshakeCounts,
    Interval, LATE, MessagesOutcome, Outcome, RateLimit, Saturation, SaturationSign, StageOutcome,
    TimeSummary, WebSocketsOutcome,
};
pub use plan::{
    Arrivals, ConnectionUse, DEFAULT_RECEIVE_BUFFER_BYTES, DEFAULT_TIMEOUT, Plan, PlanError, PlannedRequest,
    Recorded, Session, TimeSpread,
};
pub use portion::Portion;
pub use progress::Progress;
pub use recent_latency::RecentLatency;
pub use run::{PreparedRun, run};
pub use target::{ClientCertificate, HttpVersion, Target, TlsTarget, TlsVersions, Trust};
pub use threshold::{LiveFigures, ThreadFigures, Threshold, Unit, Verdict};
pub use touchstone_session::{
    DataPlan, ExtractPlan, MAXIMUM_DATA_BYTES, RowOrder, ScriptError, ScriptPlan, StepPlan, check_step,
    check_text, read_csv, read_json,
};
pub use url::{HttpUrl, MAXIMUM_URL_BYTES, UrlError};
pub use value_summary::ValueSummary;
pub use websocket_plan::WebSocketPlan;
