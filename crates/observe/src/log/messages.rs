//! Destinations that take messages in place of lines: syslog servers and the journal.
//!
//! Lines come as in a file, each with its end. Behind a line may stand fields, each after [`FIELD`], which no
//! line contains, because control bytes are escaped there.

use std::io;
use std::time::Duration;

use super::journal::Journal;
use super::settings::{LogDestination, LogIdentity};
use super::syslog::Syslog;

/// What stands before each field behind a line.
pub(super) const FIELD: u8 = 0x1F;

/// How long a message may wait for a local receiver or for TCP.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// How many lines were lost, and why.
pub(super) type Lost = (u64, io::Error);

/// A destination of messages.
pub(super) enum Messages {
    Syslog(Syslog),
    Journal(Journal),
}

impl Messages {
    /// Opens a destination; `None` if it takes lines. `log` names the log, for the journal.
    pub(super) fn open(
        destination: &LogDestination,
        identity: &LogIdentity,
        log: &'static str,
    ) -> io::Result<Option<Messages>> {
        Ok(match destination {
            LogDestination::Syslog(server) => Some(Messages::Syslog(Syslog::open(server, identity)?)),
            LogDestination::Journal(path) => Some(Messages::Journal(Journal::open(path, identity, log)?)),
            _ => None,
        })
    }

    /// Sends each line as a message of this severity.
    pub(super) fn send(&mut self, severity: u8, lines: &[u8]) -> Result<(), Lost> {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        match self {
            Messages::Syslog(syslog) => syslog.send(severity, lines),
            Messages::Journal(journal) => journal.send(severity, lines),
        }
    }
}
