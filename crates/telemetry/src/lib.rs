//! Traces and metrics for a collector of OpenTelemetry, by OTLP.
//!
//! ```text
//! core: sampler -> spans --\
//! core: sampler -> spans ---+-> queue (bounded) -> exporter, a thread of its own -> collector
//! counters of all cores ------------------------------^
//! ```
//!
//! A core decides which requests are traced and adds finished spans to the queue; it never waits. The
//! exporter encodes and sends them. If `[telemetry]` names no collector, there is no thread, and a request
//! costs one branch.
//!
//! | module | |
//! |---|---|
//! | `rules` | which part of the requests of each site and route is traced, as configured |
//! | `sampler` | the decision for a request, on its core |
//! | `server_span` | the span of a client's request, with its attributes |
//! | `queue` | finished spans that wait |
//! | `messages` | the messages of OTLP, as Protocol Buffers |
//! | `encode` | from spans and metrics to these messages |
//! | `destination` | the collector: its address, its protocol, one export |
//! | `exporter` | batches, retries, the end |

mod destination;
mod encode;
mod exporter;
mod messages;
mod queue;
mod rules;
mod sampler;
mod server_span;

pub use destination::{Destination, read_fields};
pub use exporter::Telemetry;
pub use queue::SpanQueue;
pub use rules::TraceRules;
pub use sampler::{SamplingInput, Tracer};
pub use server_span::{ServerFacts, attributes_markdown, record as record_server_span};
