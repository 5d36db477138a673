//! The access logs of a core: that of the server, and those that sites and routes have of their own.

use std::sync::Arc;

use touchstone_observe::log::access::{CoreBuffer, Record};
use touchstone_sites::logs::{LogIndex, SiteLogs};
use touchstone_sites::site::Snapshot;

/// The access logs of a core.
pub struct CoreLogs {
    server: CoreBuffer,
    /// `None` where no site or route has a log of its own.
    own: Option<Box<SiteLogBuffers>>,
}

struct SiteLogBuffers {
    table: Arc<SiteLogs>,
    buffers: Vec<CoreBuffer>,
}

impl CoreLogs {
    /// The logs of a configuration.
    pub fn new(server: CoreBuffer, snapshot: &Snapshot) -> CoreLogs {
        let mut logs = CoreLogs { server, own: None };
        logs.apply_config(snapshot);
        logs
    }

    /// Changes to the logs of another configuration. Buffered lines of the previous one are written.
    pub fn apply_config(&mut self, snapshot: &Snapshot) {
        let own =
            |table: &Arc<SiteLogs>| SiteLogBuffers { buffers: table.core_buffers(), table: table.clone() };
        self.own = snapshot.logs.as_ref().map(own).map(Box::new);
    }

    /// Whether a log is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.server.is_on() || self.any_own(CoreBuffer::is_on)
    }

    /// Whether a line of a log contains the duration.
    #[inline]
    pub fn needs_duration(&self) -> bool {
        self.server.needs_duration() || self.any_own(CoreBuffer::needs_duration)
    }

    /// Whether a line of a log contains the request's id.
    #[inline]
    pub fn needs_request_id(&self) -> bool {
        self.server.needs_request_id() || self.any_own(CoreBuffer::needs_request_id)
    }

    #[inline]
    fn any_own(&self, is: fn(&CoreBuffer) -> bool) -> bool {
        self.own.as_ref().is_some_and(|own| own.buffers.iter().any(is))
    }

    /// Adds the line of a request of a site and route, by their positions in the present configuration.
    #[inline]
    pub fn record(&mut self, site: Option<usize>, route: Option<usize>, record: &Record<'_>) {
        let Some(own) = &mut self.own else { return self.server.record(record) };
        match own.table.access_log_of(site, route) {
            LogIndex::Server => self.server.record(record),
            LogIndex::Own(position) => own.buffers[position].record(record),
        }
    }

    /// Passes lines on to the writers.
    pub fn flush(&mut self) {
        self.server.flush();
        if let Some(own) = &mut self.own {
            own.buffers.iter_mut().for_each(CoreBuffer::flush);
        }
    }
}
