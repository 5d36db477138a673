//! Figures of a load while it runs, sent elsewhere: to Prometheus (remote write) and to OpenTelemetry (OTLP
//! over HTTP).
//!
//! [`Figures`] are taken from the engine's [`touchstone_load::Progress`], which costs the engine nothing:
//! it keeps these counters anyway. A [`Sender`] has a thread of its own, and a receiver that is slow or
//! away holds nothing up.

mod figures;
mod otlp;
mod post;
mod remote_write;
mod sender;

pub use figures::{Figures, METRICS, Metric};
pub use post::Endpoint;
pub use sender::{Destination, Sender, Sent};
