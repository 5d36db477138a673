//! Checks the path of a unix socket before it is bound: a file of an earlier process is removed.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

/// The kind of file at a path.
pub enum AtPath {
    /// No file remains: there was none, or a socket without a process.
    Free,
    /// A file that is not a socket.
    OtherFile,
    /// A socket that this process may not connect to: it cannot be known whether a program listens.
    Forbidden(io::Error),
    /// A socket on which a program listens, even if its queue is full.
    InUse,
}

/// Checks the kind of file at a path, and removes the file of a socket on which no program listens. The error
/// is that of the removal.
pub fn remove_stale(path: &Path) -> io::Result<AtPath> {
    match std::fs::symlink_metadata(path) {
        Err(_) => return Ok(AtPath::Free),
        Ok(metadata) if !metadata.file_type().is_socket() => return Ok(AtPath::OtherFile),
        Ok(_) => {}
    }
    let client = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    match client.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            Ok(AtPath::Free)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(AtPath::Forbidden(error)),
        _ => Ok(AtPath::InUse),
    }
}
