//! The counts of certificates from an authority.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The counts of one process.
#[derive(Debug, Default)]
pub struct AcmeCounts {
    /// A certificate is or was configured.
    is_used: AtomicBool,
    /// Orders that returned a certificate.
    pub orders_done: AtomicU64,
    /// Orders that failed.
    pub orders_failed: AtomicU64,
    /// Names with a certificate on demand in use.
    pub on_demand_names: AtomicU64,
    /// Handshakes for names that may have no certificate.
    pub on_demand_refused: AtomicU64,
    /// Handshakes that could not wait because too many did.
    pub on_demand_overload: AtomicU64,
    /// Queries whether a name may have a certificate.
    pub on_demand_queries: AtomicU64,
    /// The ends of validity of the configuration's certificates, by their first name.
    ends: Mutex<BTreeMap<String, i64>>,
}

impl AcmeCounts {
    /// A certificate is configured.
    pub fn set_used(&self) {
        self.is_used.store(true, Relaxed);
    }

    /// Notes the end of validity of a name's certificate, in seconds since 1970.
    pub fn set_end(&self, name: &str, end_s: i64) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.insert(name.to_string(), end_s);
    }

    /// Removes the certificates of names that are not configured any more.
    pub fn retain_ends(&self, is_wanted: impl Fn(&str) -> bool) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| is_wanted(name));
    }

    /// The values, if a certificate is or was configured.
    pub fn totals(&self) -> Option<AcmeTotals> {
        let value = |count: &AtomicU64| count.load(Relaxed);
        self.is_used.load(Relaxed).then(|| AcmeTotals {
            orders: [("done", value(&self.orders_done)), ("failed", value(&self.orders_failed))],
            names: value(&self.on_demand_names),
            queries: value(&self.on_demand_queries),
            refused: [
                ("refused", value(&self.on_demand_refused)),
                ("overload", value(&self.on_demand_overload)),
            ],
            ends: self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }
}

/// The values of the counts.
#[derive(Debug, Clone, Default)]
pub struct AcmeTotals {
    /// Orders, by their result.
    pub orders: [(&'static str, u64); 2],
    /// Names with a certificate on demand in use.
    pub names: u64,
    /// Queries whether a name may have a certificate.
    pub queries: u64,
    /// Handshakes without a certificate on demand, by the reason.
    pub refused: [(&'static str, u64); 2],
    /// The ends of validity of certificates, by their first name.
    pub ends: BTreeMap<String, i64>,
}
