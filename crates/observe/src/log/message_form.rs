//! What destinations of messages have in common: the mark before a field behind a line, how long a message
//! may wait, datagrams to a local socket, and what is said of messages that are lost.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// What is before each field behind a line. No line contains it, because control bytes are escaped there.
pub(super) const FIELD: u8 = 0x1F;

/// How long a message may wait for a local receiver or for TCP.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// How many lines were lost, and why.
pub(super) type Lost = (u64, io::Error);

/// A socket for datagrams to this one.
pub(super) fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(socket)
}

/// Whether a receiver takes no more at the moment, and is there.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Sends each of these, also after one that was lost.
pub(super) fn send_each<M>(
    messages: impl Iterator<Item = M>,
    mut send: impl FnMut(M) -> io::Result<()>,
) -> Result<(), Lost> {
    let (mut lost, mut reason) = (0, None);
    for message in messages {
        if let Err(error) = send(message) {
            lost += 1;
            reason = Some(error);
        }
    }
    reason.map_or(Ok(()), |error| Err((lost, error)))
}
