//! The counts of streams.

use std::sync::Arc;

use touchstone_handler::service_counts::ServiceCounts;
use touchstone_handler::stream_counts::{self, End};

/// The current counts of a stream.
#[derive(Debug, Clone)]
pub struct StreamTotals {
    /// Its name.
    pub name: String,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Connections that were accepted, or sessions that have begun.
    pub accepted: u64,
    /// Those that are open.
    pub open: u64,
    /// Those that have ended, by [`End`].
    pub ends: [u64; End::ALL.len()],
    /// Bytes from clients.
    pub received_bytes: u64,
    /// Bytes to clients.
    pub sent_bytes: u64,
    /// Datagrams from clients.
    pub received_datagrams: u64,
    /// Datagrams to clients.
    pub sent_datagrams: u64,
    /// Datagrams that were not passed on.
    pub dropped_datagrams: u64,
}

impl StreamTotals {
    /// The labels of its metrics.
    pub fn labels(&self) -> [&str; 2] {
        [&self.name, self.protocol]
    }

    /// Those that have ended, with the names of the reasons.
    pub fn ends_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        End::ALL.map(End::label).into_iter().zip(self.ends)
    }
}

/// All streams that are in use.
pub fn stream_totals(counts: &ServiceCounts) -> Vec<StreamTotals> {
    let totals =
        |((name, protocol), counts): (stream_counts::Name, Arc<stream_counts::Counts>)| StreamTotals {
            name,
            protocol,
            accepted: counts.accepted.get(),
            open: counts.open.get(),
            ends: End::ALL.map(|end| counts.ends(end)),
            received_bytes: counts.received_bytes.get(),
            sent_bytes: counts.sent_bytes.get(),
            received_datagrams: counts.received_datagrams.get(),
            sent_datagrams: counts.sent_datagrams.get(),
            dropped_datagrams: counts.dropped_datagrams.get(),
        };
    counts.streams.all().into_iter().map(totals).collect()
}
