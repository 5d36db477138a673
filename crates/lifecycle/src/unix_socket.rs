//! Unix sockets that a site or stream listens on: bound with the permissions and the owner of their files,
//! and removed at the end.
//!
//! A program can connect as soon as the socket listens, so the file has its permissions before that.

use std::fs::Metadata;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};
use touchstone_config::{ListenAddress, UnixSocketName};

use crate::stale_socket::{AtPath, remove_stale};

/// The length of the queue of connections to accept; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// The permissions and the owner of the file of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketFileRights {
    /// The permissions.
    pub mode: u32,
    /// The owner; `None`: as it is made.
    pub user: Option<u32>,
    /// The group; `None`: as it is made.
    pub group: Option<u32>,
}

/// The file of a socket that this server has made, or taken over from its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketFileIdentity {
    device: u64,
    inode: u64,
}

/// Makes the socket and its file, and listens. The error states the remedy.
pub fn listen(name: UnixSocketName, rights: SocketFileRights) -> Result<TcpListener, String> {
    let as_message = |error: io::Error| error.to_string();
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).map_err(as_message)?;
    let address = SockAddr::unix(name.to_bind()).map_err(as_message)?;
    if let Some(path) = name.path() {
        make_room(path)?;
        // The kernel makes the file with the mode of the socket, without the bits of the umask.
        fchmod(&socket, Mode::from_raw_mode(rights.mode)).map_err(|error| as_message(error.into()))?;
    }
    socket.bind(&address).map_err(|error| problem_of_bind(name, &error))?;
    if let Some(path) = name.path()
        && let Err(problem) = set_rights(path, rights)
    {
        let _ = std::fs::remove_file(path);
        return Err(problem);
    }
    socket.listen(BACKLOG).map_err(as_message)?;
    Ok(OwnedFd::from(socket).into())
}

/// Sets the permissions and the owner of a socket's file.
pub fn set_rights(path: &Path, rights: SocketFileRights) -> Result<(), String> {
    let found = own_file(path).ok_or("its file has been removed or replaced")?;
    let differs = |wanted: Option<u32>, is: u32| wanted.filter(|wanted| *wanted != is);
    let (user, group) = (differs(rights.user, found.uid()), differs(rights.group, found.gid()));
    if user.is_some() || group.is_some() {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| {
            format!(
                "the owner of its file cannot be set: {error}: only root can give a file to another user or \
                 to a group that the server is not in; see 'socket_user' and 'socket_group'"
            )
        })?;
    }
    if found.mode() & 0o777 != rights.mode {
        let permissions = std::fs::Permissions::from_mode(rights.mode);
        std::fs::set_permissions(path, permissions)
            .map_err(|error| format!("the permissions of its file cannot be set: {error}"))?;
    }
    Ok(())
}

/// The address of a unix socket that listens; `None`: it does not listen, or has no name.
pub fn bound_name(socket: &OwnedFd) -> Option<ListenAddress> {
    let copy = UnixListener::from(socket.try_clone().ok()?);
    let address = copy.local_addr().ok()?;
    let name = match address.as_pathname() {
        Some(path) => UnixSocketName::of_path(path),
        None => UnixSocketName::of_abstract_name(address.as_abstract_name()?),
    };
    name.map(ListenAddress::Unix)
}

/// The file at the path of a socket, to recognise it later.
pub fn identity(path: &Path) -> Option<SocketFileIdentity> {
    own_file(path).map(|file| SocketFileIdentity { device: file.dev(), inode: file.ino() })
}

/// Removes the file of a socket, if it is still the same. It stays where the directory belongs to root and
/// the server does not run as root any more: the next start replaces it.
pub fn remove(path: &Path, known: SocketFileIdentity) {
    if identity(path) == Some(known) {
        let _ = std::fs::remove_file(path);
    }
}

fn own_file(path: &Path) -> Option<Metadata> {
    std::fs::symlink_metadata(path).ok().filter(|file| file.file_type().is_socket())
}

/// Removes a stale file at a path. If another file is there, the error states the remedy.
fn make_room(path: &Path) -> Result<(), String> {
    let found = remove_stale(path)
        .map_err(|error| format!("the file of an earlier socket cannot be removed: {error}"))?;
    match found {
        AtPath::Free => Ok(()),
        AtPath::OtherFile => {
            Err("a file that is not a socket is in the way; remove it or choose another path".into())
        }
        AtPath::Forbidden(error) => {
            Err(format!("there is a socket to which this server may not connect: {error}"))
        }
        AtPath::InUse => Err("another program listens there; stop it or choose another path".into()),
    }
}

fn problem_of_bind(name: UnixSocketName, error: &io::Error) -> String {
    let directory = name.path().and_then(Path::parent).unwrap_or(Path::new("/")).display();
    let help = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no directory '{directory}'; make it, with systemd by RuntimeDirectory= in the unit"
        ),
        io::ErrorKind::NotADirectory => format!("'{directory}' is not a directory"),
        io::ErrorKind::PermissionDenied => format!("the server may not make files in '{directory}'"),
        io::ErrorKind::AddrInUse => "another program listens there".to_string(),
        _ => "the path cannot be used".to_string(),
    };
    format!("{error}: {help}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const RIGHTS: SocketFileRights = SocketFileRights { mode: 0o660, user: None, group: None };

    fn name(path: &Path) -> UnixSocketName {
        UnixSocketName::of_path(path).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_file_has_its_mode_whatever_the_umask() {
        let place = tempfile::tempdir().unwrap();
        for wanted in [0o200, 0o600, 0o660, 0o666, 0o777] {
            let path = place.path().join(format!("{wanted:o}.sock"));
            let listener = listen(name(&path), SocketFileRights { mode: wanted, ..RIGHTS }).unwrap();
            assert_eq!(mode(&path), wanted);
            assert_eq!(bound_name(&listener.into()), Some(ListenAddress::Unix(name(&path))));
        }
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.sock");
        let first = listen(name(&path), RIGHTS).unwrap();
        let problem = listen(name(&path), RIGHTS).unwrap_err();
        assert!(problem.contains("another program listens there"), "{problem}");
        assert!(UnixStream::connect(&path).is_ok());
        drop(first);
        let second = listen(name(&path), RIGHTS).unwrap();
        let known = identity(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        // The new file may have the inode of the one that was removed; it is then treated as the same file.
        if identity(&path) != Some(known) {
            remove(&path, known);
            assert!(path.exists());
        }
        drop((second, other));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "text").unwrap();
        let problem = listen(name(&path), RIGHTS).unwrap_err();
        assert!(problem.contains("not a socket"), "{problem}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn a_faulty_directory_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let problem = listen(name(&place.path().join("no/a.sock")), RIGHTS).unwrap_err();
        assert!(problem.contains("there is no directory") && problem.contains("/no'"), "{problem}");
        std::fs::write(place.path().join("file"), "").unwrap();
        let problem = listen(name(&place.path().join("file/a.sock")), RIGHTS).unwrap_err();
        assert!(problem.contains("not a directory"), "{problem}");
    }

    #[test]
    fn an_abstract_name_has_no_file() {
        let text = format!("touchstone-test-{}", std::process::id());
        let name = UnixSocketName::of_abstract_name(text.as_bytes()).unwrap();
        let listener = listen(name, RIGHTS).unwrap();
        assert!(listen(name, RIGHTS).unwrap_err().contains("another program listens there"));
        assert_eq!(bound_name(&listener.into()), Some(ListenAddress::Unix(name)));
    }
}
