//! The old process, as seen from the new one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{SocketType, sockopt};
use touchstone_config::ListenAddress;

use super::VARIABLE;
use super::packet::{Packet, PassedSocket, receive, send};

/// The maximum time for the sockets to arrive: the old process sends them before it waits for anything.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The old process.
pub struct Predecessor {
    channel: OwnedFd,
}

/// A socket with its description.
pub type Received = (PassedSocket, OwnedFd);

impl Predecessor {
    /// The process that started this one as its replacement, and its sockets; `None` if there is none.
    pub fn from_environment() -> Result<Option<(Predecessor, Vec<Received>)>, String> {
        let Some(process) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
        let stdin = std::io::stdin();
        let is_channel = sockopt::socket_type(stdin.as_fd()).is_ok_and(|kind| kind == SocketType::SEQPACKET);
        // A program that the server runs may have inherited the variable, and start its own server.
        if process.to_str() != parent.as_deref() || !is_channel {
            return Ok(None);
        }
        let as_message =
            |error: io::Error| format!("cannot take over from process {}: {error}", process.display());
        let channel = stdin.as_fd().try_clone_to_owned().map_err(as_message)?;
        let nothing = std::fs::File::open("/dev/null").map_err(as_message)?;
        // The old process waits for the end of the channel, which must have no other holder.
        rustix::stdio::dup2_stdin(&nothing).map_err(|error| as_message(error.into()))?;
        Predecessor::take_over(channel).map(Some).map_err(as_message)
    }

    pub(super) fn take_over(channel: OwnedFd) -> io::Result<(Predecessor, Vec<Received>)> {
        let deadline = Instant::now() + HANDOVER_TIMEOUT;
        let mut received = Vec::new();
        loop {
            match receive(&channel, Some(deadline))? {
                Some((Packet::Sockets(passed), descriptors)) => {
                    if passed.len() != descriptors.len() {
                        return Err(io::Error::other("a packet does not have as many sockets as it says"));
                    }
                    received.extend(passed.into_iter().zip(descriptors));
                }
                Some((Packet::End, _)) => return Ok((Predecessor { channel }, received)),
                Some(_) => {}
                None => return Err(io::Error::other("it ended before all sockets had arrived")),
            }
        }
    }

    /// Notifies the old process that every core accepts, and waits until it no longer accepts. A process that
    /// has ended does not accept either.
    pub fn ready(&self, taken: Vec<ListenAddress>) {
        if send(&self.channel, &Packet::Ready(taken), &[]).is_err() {
            return;
        }
        while let Ok(Some((packet, _))) = receive(&self.channel, None) {
            if packet == Packet::Go {
                return;
            }
        }
    }

    /// Waits until the old process has ended.
    pub fn wait_for_end(self) {
        while let Ok(Some(_)) = receive(&self.channel, None) {}
    }

    /// Sends the old process the reason why this one cannot start.
    pub fn failed(&self, reasons: &[String]) {
        // If the old process has ended, standard error still has the reasons.
        let _ = send(&self.channel, &Packet::Failed(reasons.to_vec()), &[]);
    }
}
