//! Sends figures of a load while it runs: to Prometheus (remote write) and to OpenTelemetry (OTLP over HTTP).
//!
//! [`Figures`] are taken from the engine's [`touchstone_load::Progress`], whose counters the engine has in
//! any case. A [`Sender`] has its own thread, and a slow or missing receiver delays neither the load nor the
//! other receivers.

mod figures;
mod otlp;
mod post;
mod remote_write;
mod sender;

pub use figures::{Figures, METRICS, Metric};
pub use post::Endpoint;
pub use sender::{DeliveryReport, Destination, Sender};
