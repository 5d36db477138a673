//! Destinations that accept messages instead of lines: syslog servers and the journal.
//!
//! Lines have the same form as in a file, each with its end. Fields may follow a line, see `message_socket`.

use std::io;

use super::journal::Journal;
use super::message_socket::LineLoss;
use super::settings::{LogDestination, LogIdentity};
use super::syslog::Syslog;

/// A destination of messages.
pub(super) enum Messages {
    Syslog(Syslog),
    Journal(Journal),
}

impl Messages {
    /// Opens a destination; `None` if it accepts lines. `log` names the log, for the journal.
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
    pub(super) fn send(&mut self, severity: u8, lines: &[u8]) -> Result<(), LineLoss> {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        match self {
            Messages::Syslog(syslog) => syslog.send(severity, lines),
            Messages::Journal(journal) => journal.send(severity, lines),
        }
    }
}
