//! Companions: programs that are started with a system under test, because it calls them but does not start
//! them. One process runs for each of the system's processors; together they accept from one unix socket,
//! which is their descriptor 0, as spawn-fcgi hands it down.

use super::memory_group::MemoryGroup;
use super::process::{Start, SystemProcess};
use super::user::User;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A program that is started with a system.
#[derive(Debug, Clone, PartialEq)]
pub struct Companion {
    /// The capability that the system has only with it.
    pub needs: String,
    /// The name of its socket in the directory of sockets.
    pub socket: String,
    /// Its command with its arguments, as templates.
    pub command: Vec<String>,
}

/// A companion with its templates filled.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedCompanion {
    /// The name of its socket in the directory of sockets.
    pub socket: String,
    /// Its command with its arguments.
    pub command: Vec<String>,
}

/// A directory with a short path for the unix sockets of one system, which only the user enters that the
/// system runs as. Dropping it takes it away.
#[derive(Debug)]
pub struct SocketDirectory {
    path: PathBuf,
}

impl SocketDirectory {
    /// Makes it, for this user where there is one.
    pub fn make(user: Option<&User>) -> io::Result<SocketDirectory> {
        let base = std::env::temp_dir();
        for number in 0..1000 {
            let path = base.join(format!("touchstone-bench-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let directory = SocketDirectory { path };
                    set_owner(&directory.path, user)?;
                    return Ok(directory);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for a directory of sockets is taken"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        // Files that cannot be removed remain in the temporary directory, and are removed with its other
        // contents.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl PreparedCompanion {
    /// Starts a process for each processor; their output is written to a file.
    pub fn start(
        &self,
        cpus: &[usize],
        output: &Path,
        sockets: &Path,
        user: Option<&User>,
        memory: Option<&MemoryGroup>,
    ) -> io::Result<Vec<SystemProcess>> {
        let path = sockets.join(&self.socket);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        set_owner(&path, user)?;
        let start = || {
            SystemProcess::start(Start {
                command: &self.command,
                environment: &[],
                cpus,
                // The one directory that the user can surely enter.
                directory: sockets,
                output,
                socket: Some(&listener),
                user,
                memory,
            })
        };
        cpus.iter().map(|_| start()).collect()
    }
}

fn set_owner(path: &Path, user: Option<&User>) -> io::Result<()> {
    match user {
        Some(user) => std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_companion_is_there_for_each_processor_and_accepts_from_its_socket() {
        let place = tempfile::tempdir().unwrap();
        let sockets = SocketDirectory::make(None).unwrap();
        let script =
            "import socket\ns = socket.socket(fileno=0)\nc, _ = s.accept()\nc.sendall(c.recv(9) + b'!')\n";
        let command = ["python3", "-c", script].map(str::to_string).to_vec();
        let companion = PreparedCompanion { socket: "echo.sock".to_string(), command };
        let started = companion.start(&[0], &place.path().join("companion.log"), sockets.path(), None, None);
        let Ok(processes) = started else {
            return touchstone_lab::sample::skipped("a companion in Python (install python3)");
        };
        assert_eq!(processes.len(), 1);
        let mut stream = UnixStream::connect(sockets.path().join("echo.sock")).unwrap();
        stream.write_all(b"hello").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "hello!");
        let path = sockets.path().to_path_buf();
        drop((processes, sockets));
        assert!(!path.exists());
    }
}
