//! The new process, as seen from the old one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use touchstone_config::ListenAddress;

use super::VARIABLE;
use super::packet::{MOST_IN_A_PACKET, Packet, PassedSocket, receive, send};
use crate::descriptor::close_in_programs;
use crate::systemd::ACTIVATION_VARIABLES;

/// The time that a process may take to end after it has closed its end of the channel.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The new process.
pub struct Successor {
    child: Mutex<Child>,
    channel: OwnedFd,
    program: PathBuf,
}

/// The result of a start: the new process accepts connections.
#[derive(Debug)]
pub struct ReadyNotice {
    /// The addresses in this process's configuration whose sockets it uses.
    pub taken: Vec<ListenAddress>,
}

impl Successor {
    /// Starts `program` with the arguments of this process, and passes these sockets to it.
    pub fn start(program: &Path, sockets: Vec<(PassedSocket, OwnedFd)>) -> Result<Successor, String> {
        Successor::start_with(program, std::env::args_os().skip(1).collect(), sockets)
    }

    /// Does the same with other arguments.
    pub(super) fn start_with(
        program: &Path,
        arguments: Vec<OsString>,
        sockets: Vec<(PassedSocket, OwnedFd)>,
    ) -> Result<Successor, String> {
        let as_message = |error: io::Error| format!("cannot start '{}': {error}", program.display());
        let (channel, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| as_message(error.into()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(theirs).env(VARIABLE, std::process::id().to_string());
        for variable in ACTIVATION_VARIABLES {
            command.env_remove(variable);
        }
        close_in_programs();
        let child = command.spawn().map_err(as_message)?;
        // The child's end is now the only one: when it is closed, this end is notified.
        drop(command);
        let successor = Successor { child: Mutex::new(child), channel, program: program.to_path_buf() };
        match successor.hand_over(&sockets) {
            Ok(()) => Ok(successor),
            // It may have ended before it has received everything; it may have sent the reason.
            Err(_) => match successor.wait_until_ready(END_TIMEOUT) {
                Err(reason) => Err(reason),
                Ok(_) => {
                    successor.end();
                    Err(format!("'{}' did not receive its sockets", successor.program.display()))
                }
            },
        }
    }

    fn hand_over(&self, sockets: &[(PassedSocket, OwnedFd)]) -> io::Result<()> {
        for part in sockets.chunks(MOST_IN_A_PACKET) {
            let passed = part.iter().map(|(passed, _)| passed.clone()).collect();
            let descriptors: Vec<BorrowedFd<'_>> = part.iter().map(|(_, socket)| socket.as_fd()).collect();
            send(&self.channel, &Packet::Sockets(passed), &descriptors)?;
        }
        send(&self.channel, &Packet::End, &[])
    }

    /// Waits until it accepts on every core; otherwise ends it and returns the reason.
    pub fn wait_until_ready(&self, most: Duration) -> Result<ReadyNotice, String> {
        let deadline = Instant::now() + most;
        loop {
            match receive(&self.channel, Some(deadline)) {
                Ok(Some((Packet::Ready(taken), _))) => return Ok(ReadyNotice { taken }),
                Ok(Some((Packet::Failed(reasons), _))) => {
                    self.ended(END_TIMEOUT);
                    return Err(reasons.join("; "));
                }
                // A later version may send packets that this one does not support.
                Ok(Some(_)) => {}
                Ok(None) => return Err(self.exit_text()),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    self.end();
                    return Err(format!(
                        "'{}' was not ready within server.upgrade_timeout, {most:?}, and was stopped",
                        self.program.display()
                    ));
                }
                Err(error) => {
                    self.end();
                    return Err(format!("messages of '{}' cannot be read: {error}", self.program.display()));
                }
            }
        }
    }

    /// Notifies it that this process no longer accepts.
    pub fn go(&self) -> io::Result<()> {
        send(&self.channel, &Packet::Go, &[])
    }

    /// Its process number.
    pub fn process(&self) -> u32 {
        self.child().id()
    }

    /// The program that it runs.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Stops the successor at once.
    pub fn end(&self) {
        // It may have ended by itself.
        let _ = self.child().kill();
        self.ended(END_TIMEOUT);
    }

    fn exit_text(&self) -> String {
        let program = self.program.display();
        match self.ended(END_TIMEOUT) {
            Some(status) => format!("'{program}' ended ({status}) before it was ready"),
            None => {
                self.end();
                format!("'{program}' closed the channel to this process before it was ready, and was stopped")
            }
        }
    }

    fn ended(&self, most: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + most;
        loop {
            if let Ok(Some(status)) = self.child().try_wait() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path of this process's program as it was called: a link to the newest version is then followed again.
pub fn own_program() -> io::Result<PathBuf> {
    let name = std::env::args_os().next().unwrap_or_default();
    match find_program(&name, std::env::var_os("PATH").as_deref()) {
        Some(program) => Ok(program),
        None => std::env::current_exe(),
    }
}

fn find_program(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program = |candidate: &PathBuf| candidate.is_file();
    if name.is_empty() {
        return None;
    }
    if name.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(is_program);
    }
    std::env::split_paths(path?).map(|directory| directory.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_does() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("server");
        std::fs::write(&program, "").unwrap();
        let path = directory.path().as_os_str();
        assert_eq!(find_program(program.as_os_str(), None), Some(program.clone()));
        assert_eq!(find_program("server".as_ref(), Some(path)), Some(program));
        assert_eq!(find_program("other".as_ref(), Some(path)), None);
        assert_eq!(find_program("".as_ref(), Some(path)), None);
        assert_eq!(find_program("server".as_ref(), None), None);
    }
}
