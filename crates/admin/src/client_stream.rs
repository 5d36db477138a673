//! The socket of a client of the admin listener.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The maximum time without progress of an answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long, and how much, is read of a body that is not used.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
const MOST_REST_BYTES: usize = 2 << 20;

/// A connection's socket.
pub enum ClientStream {
    /// Over TCP.
    Tcp(TcpStream),
    /// On this machine.
    Unix(UnixStream),
}

impl ClientStream {
    pub(super) fn set_timeouts(&self, read: Duration) -> io::Result<()> {
        // A timeout of zero would mean no timeout.
        let read = Some(read.max(Duration::from_millis(1)));
        match self {
            ClientStream::Tcp(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(SEND_TIMEOUT))
            }
            ClientStream::Unix(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(SEND_TIMEOUT))
            }
        }
    }

    /// Continues to read for a moment, and ignores the data: if a socket is closed with unread bytes, the
    /// client may lose the answer.
    pub(super) fn take_the_rest(&mut self) {
        let ended = match self {
            ClientStream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            ClientStream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let mut buffer = [0; 16 << 10];
        let mut rest = MOST_REST_BYTES;
        let deadline = Instant::now() + REST_TIMEOUT;
        while ended.is_ok() && rest > 0 && self.set_timeouts(REST_TIMEOUT).is_ok() {
            match self.read(&mut buffer) {
                Ok(count) if count > 0 && Instant::now() < deadline => rest = rest.saturating_sub(count),
                _ => return,
            }
        }
    }

    /// The user of the client's process at a unix socket.
    pub(super) fn user(&self) -> Option<u32> {
        match self {
            ClientStream::Tcp(_) => None,
            ClientStream::Unix(stream) => {
                rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
            }
        }
    }

    /// The address of the client, or `unix`.
    pub(super) fn address(&self) -> String {
        match self {
            ClientStream::Tcp(stream) => {
                stream.peer_addr().map_or_else(|_| "-".to_string(), |peer| peer.to_string())
            }
            ClientStream::Unix(_) => "unix".to_string(),
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Tcp(stream) => stream.read(buffer),
            ClientStream::Unix(stream) => stream.read(buffer),
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            ClientStream::Tcp(stream) => stream.write_all(bytes),
            ClientStream::Unix(stream) => stream.write_all(bytes),
        }
    }
}
