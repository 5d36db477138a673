//! The common parts of destinations of messages: the mark before a field after a line, the time limit of a
//! message, datagrams to a local socket, and the result for lost messages.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// The byte before each field after a line. No line contains it, because control bytes are escaped there.
pub(super) const FIELD: u8 = 0x1F;

/// How long a message may wait for a local receiver or for TCP.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// How many lines were lost, and why.
pub(super) type LineLoss = (u64, io::Error);

/// A socket for datagrams to this one.
pub(super) fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(socket)
}

/// Whether a receiver exists but accepts no more at the moment.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Sends each of these, even if one before it was lost.
pub(super) fn send_each<M>(
    messages: impl Iterator<Item = M>,
    mut send: impl FnMut(M) -> io::Result<()>,
) -> Result<(), LineLoss> {
    let (mut lost, mut reason) = (0, None);
    for message in messages {
        if let Err(error) = send(message) {
            lost += 1;
            reason = Some(error);
        }
    }
    reason.map_or(Ok(()), |error| Err((lost, error)))
}
