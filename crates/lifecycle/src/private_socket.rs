//! Unix sockets to which only their owner can connect from the first moment, without changing the umask of
//! the process.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};

/// The length of the queue of connections to accept.
const BACKLOG: i32 = 128;

/// Listens at a path, or at a name of the abstract namespace if the path begins with a zero byte. On Linux
/// the file gets the mode that the socket has when it is bound, so that there is no moment at which another
/// user could connect.
pub fn listen(path: impl AsRef<Path>) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_owner_may_connect_and_the_umask_is_unchanged() {
        let place = tempfile::tempdir().unwrap();
        let mask =
            || std::fs::read_to_string("/proc/self/status").unwrap().lines().nth(1).unwrap().to_string();
        let before = mask();
        assert!(before.starts_with("Umask:"), "{before}");
        let path = place.path().join("socket");
        let _listener = listen(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(mask(), before);
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let name = format!("\0touchstone-test-{}", std::process::id());
        let named = listen(&name).unwrap();
        assert!(named.local_addr().unwrap().as_pathname().is_none());
    }
}
