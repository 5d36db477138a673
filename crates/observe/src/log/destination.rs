//! Opens the destination of a log.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat};

use super::messages::Messages;
use super::settings::{LogDestination, LogIdentity, SyslogServer};

/// Opens a destination; `None` if the log is off. The error names the destination that could not be opened.
pub(super) fn open(destination: &LogDestination) -> io::Result<Option<File>> {
    let opened = match destination {
        LogDestination::Off => return Ok(None),
        LogDestination::Stdout => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        LogDestination::Stderr => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        LogDestination::File(path) => open_file(path),
        // These accept messages.
        LogDestination::Syslog(_) | LogDestination::Journal(_) => return Ok(None),
    };
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) => {
            let message = format!("cannot open {}: {error}", name(destination));
            Err(io::Error::new(error.kind(), message))
        }
    }
}

/// Opens a destination that accepts messages; `None` if it accepts lines.
pub(super) fn open_messages(
    destination: &LogDestination,
    identity: &LogIdentity,
    log: &'static str,
) -> io::Result<Option<Messages>> {
    Messages::open(destination, identity, log).map_err(|error| {
        let message = format!("cannot open {}: {error}", name(destination));
        io::Error::new(error.kind(), message)
    })
}

/// The name of a destination in a message.
pub(super) fn name(destination: &LogDestination) -> String {
    match destination {
        LogDestination::Off => "no log".to_string(),
        LogDestination::Stdout => "standard output".to_string(),
        LogDestination::Stderr => "standard error".to_string(),
        LogDestination::File(path) => format!("'{}'", path.display()),
        LogDestination::Syslog(SyslogServer::Unix(path)) => format!("syslog at '{}'", path.display()),
        LogDestination::Syslog(SyslogServer::Udp(address)) => format!("syslog at {address} (UDP)"),
        LogDestination::Syslog(SyslogServer::Tcp(address)) => format!("syslog at {address} (TCP)"),
        LogDestination::Journal(path) => format!("the journal at '{}'", path.display()),
    }
}

/// Waits until the destination is writable, for at most this many milliseconds. Standard output may be a pipe
/// that another process has made non-blocking; all other destinations block by themselves.
pub(super) fn wait_until_writable(file: &File, milliseconds: u32) {
    let timeout = Timespec {
        tv_sec: i64::from(milliseconds / 1_000),
        tv_nsec: i64::from(milliseconds % 1_000) * 1_000_000,
    };
    // If this fails, the next write returns the error.
    let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&timeout));
}

/// Opens a file to append to. Its mode keeps clients' addresses from other users of the machine.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY;
    // Without NONBLOCK, opening a pipe that no process reads would never return; with it, that is an error
    // (ENXIO).
    let file = openat(CWD, path, flags | OFlags::NONBLOCK, Mode::from_raw_mode(0o640))?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_made_and_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let destination = LogDestination::File(path.clone());
        for line in ["one\n", "two\n"] {
            open(&destination).unwrap().unwrap().write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        // The umask may remove more permissions.
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777 & !0o640, 0);
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing/a.log");
        let error = open(&LogDestination::File(missing.clone())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let expected = format!("cannot open '{}': No such file or directory (os error 2)", missing.display());
        assert_eq!(error.to_string(), expected);

        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let error = open(&LogDestination::File(pipe.clone())).unwrap_err();
        let expected = format!("cannot open '{}': No such device or address (os error 6)", pipe.display());
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn off_opens_nothing() {
        assert!(open(&LogDestination::Off).unwrap().is_none());
        assert!(open(&LogDestination::Stderr).unwrap().is_some());
        assert!(open(&LogDestination::Stdout).unwrap().is_some());
    }
}
