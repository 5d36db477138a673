//! The counts of routes with WebDAV.

use std::sync::Arc;

use touchstone_handler::service_counts::ServiceCounts;
use touchstone_handler::webdav_counts::{self, METHODS, Refusal};

/// The current counts of a route with WebDAV.
#[derive(Debug, Clone)]
pub struct WebDavTotals {
    /// The name of its site.
    pub site: String,
    /// The name of its route.
    pub route: String,
    /// Requests, by [`METHODS`].
    pub requests: [u64; METHODS.len()],
    /// Requests that were refused, by [`Refusal`].
    pub refusals: [u64; Refusal::ALL.len()],
    /// Bytes of uploads that were written.
    pub written_bytes: u64,
    /// Locks that clients hold.
    pub locks: u64,
}

/// All routes with WebDAV that are in use.
pub fn webdav_totals(counts: &ServiceCounts) -> Vec<WebDavTotals> {
    let totals = |(name, counts): (webdav_counts::Name, Arc<webdav_counts::Counts>)| WebDavTotals {
        site: name.site,
        route: name.route,
        requests: counts.requests(),
        refusals: Refusal::ALL.map(|reason| counts.refusals(reason)),
        written_bytes: counts.written_bytes.get(),
        locks: counts.locks_held(),
    };
    counts.webdav.all().into_iter().map(totals).collect()
}
