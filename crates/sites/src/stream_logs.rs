//! The logs of streams.

use std::io;
use std::sync::Arc;

use touchstone_config::{AccessLogConfig, AccessLogFormat, LogDestination};
use touchstone_handler::shared_by_name::SharedByName;
use touchstone_observe::log::access::{AccessLog, LostLines};

/// The logs of streams of a server. A configuration reuses those of the previous one, so that the lines of
/// its connections are not lost at the end of the server.
#[derive(Default)]
pub struct StreamLogs(SharedByName<LogDestination, AccessLog>);

impl StreamLogs {
    /// The log with this destination; `None` if it is off.
    pub fn open(
        &self,
        destination: &LogDestination,
        lost_lines: &LostLines,
    ) -> io::Result<Option<Arc<AccessLog>>> {
        if *destination == LogDestination::Off {
            return Ok(None);
        }
        let start = |destination: &LogDestination| {
            let config = AccessLogConfig::new(destination.clone(), AccessLogFormat::Common);
            AccessLog::start_beside(lost_lines, &config)
        };
        self.0.of_or(destination.clone(), start).map(Some)
    }
}
