//! Counters of what is done for certificates, read by the metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize};

/// The counters of the process.
#[derive(Debug, Default)]
pub struct AcmeCounts {
    /// Orders that gave a certificate.
    pub orders_done: AtomicU64,
    /// Orders that failed.
    pub orders_failed: AtomicU64,
    /// Names with a certificate on demand in use.
    pub on_demand_names: AtomicUsize,
    /// Handshakes for names that may have no certificate.
    pub on_demand_refused: AtomicU64,
    /// Handshakes that could not wait because too many did.
    pub on_demand_overload: AtomicU64,
    /// Questions to the `ask` URL.
    pub on_demand_asked: AtomicU64,
}
