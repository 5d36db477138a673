//! The only place that uses a connection's socket, so that the reactor under it can be changed.
//!
//! A socket begins *fresh*: registered in the kernel but not in the event loop, because most operations of a
//! new connection (receive, send, close) need no wait. It is *registered* for events when it first has to
//! wait.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use touchstone_observe::metrics::traffic;

/// A connection's socket; always non-blocking.
pub enum Socket {
    /// Not registered for events.
    Fresh(OwnedFd),
    /// Registered for events.
    Registered(TcpStream),
    /// Another thread waits for its events, and also owns it.
    Shared(Arc<OwnedFd>),
    /// In transition, or after a failed registration: every call fails.
    Gone,
}

impl Socket {
    /// A socket that has just been accepted, non-blocking.
    pub fn fresh(descriptor: OwnedFd) -> Socket {
        Socket::Fresh(descriptor)
    }

    /// The socket itself, deregistered, for another owner.
    pub fn into_descriptor(self) -> Option<OwnedFd> {
        match self {
            Socket::Fresh(descriptor) => Some(descriptor),
            Socket::Registered(stream) => stream.into_std().ok().map(OwnedFd::from),
            Socket::Shared(_) | Socket::Gone => None,
        }
    }

    /// Takes a registered socket out of the event loop: it is fresh again. False if it was not registered, or
    /// the event loop does not release it.
    pub fn deregister(&mut self) -> bool {
        if !matches!(self, Socket::Registered(_)) {
            return false;
        }
        let Some(descriptor) = std::mem::replace(self, Socket::Gone).into_descriptor() else { return false };
        *self = Socket::Fresh(descriptor);
        true
    }

    /// The descriptor, for an event loop of the caller; `None`: the socket is closed.
    pub fn as_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor().ok()
    }

    /// The address of the client.
    pub fn peer(&self) -> Option<SocketAddr> {
        let address = rustix::net::getpeername(self.descriptor().ok()?).ok()??;
        SocketAddr::try_from(address).ok()
    }

    /// Receives what is available now; `None` if nothing is.
    #[inline]
    pub fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self.descriptor()?, buffer, RecvFlags::empty()) {
            Ok((received, _)) => {
                traffic::received(received);
                Ok(Some(received))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for bytes and receives them; 0 means the client's end.
    #[inline]
    pub fn poll_receive(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let stream = self.register()?;
        loop {
            ready!(stream.poll_read_ready(context))?;
            let mut received = Ok(0);
            let requested = buffer.len();
            let tried = stream.try_io(Interest::READABLE, || {
                received =
                    rustix::net::recv(&*stream, &mut *buffer, RecvFlags::empty()).map(|(count, _)| count);
                match received {
                    // A short read has emptied the socket: "would block" makes the event loop wait for the
                    // next event, which saves a second system call. At the client's end there is no next
                    // event to wait for.
                    Ok(count) if count > 0 && count < requested => Err(io::ErrorKind::WouldBlock.into()),
                    Err(rustix::io::Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            match (received, tried) {
                (Err(rustix::io::Errno::AGAIN), _) => {}
                // According to the event loop there was nothing to receive, so it was not tried.
                (Ok(0), Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                (Ok(count), _) => {
                    traffic::received(count);
                    return Poll::Ready(Ok(count));
                }
                (Err(errno), _) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// Sends the bytes that fit now and returns the count; 0 if none fit.
    #[inline]
    pub fn try_send(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let descriptor = self.descriptor()?;
        let sent = if second.is_empty() {
            rustix::net::send(descriptor, first, SendFlags::NOSIGNAL)
        } else {
            // `writev` cannot take the flag, and the process ignores SIGPIPE.
            rustix::io::writev(descriptor, &[io::IoSlice::new(first), io::IoSlice::new(second)])
        };
        none_now_is_zero(sent)
    }

    /// Like [`Socket::try_send`], for a head that its file follows at once: the kernel may put both in one
    /// packet.
    pub fn try_send_more(&self, bytes: &[u8]) -> io::Result<usize> {
        none_now_is_zero(rustix::net::send(self.descriptor()?, bytes, SendFlags::NOSIGNAL | SendFlags::MORE))
    }

    /// Sends the bytes of a file that fit now, starting at `offset`, which it advances. `None` if none fit, 0
    /// at the file's end.
    pub fn try_send_file(
        &self,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> io::Result<Option<usize>> {
        match rustix::fs::sendfile(self.descriptor()?, file, Some(offset), count) {
            Ok(sent) => {
                traffic::sent(sent);
                Ok(Some(sent))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits until something can be sent. Must be called after a send that sent less than all.
    pub fn poll_sendable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.register()?;
        loop {
            ready!(stream.poll_write_ready(context))?;
            // The event loop only stores that the socket was writable once; this queries whether it still is.
            let writable = stream.try_io(Interest::WRITABLE, || {
                let mut slots = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::OUT)];
                match rustix::event::poll(
                    &mut slots,
                    Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }),
                )? {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            match writable {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }

    /// Ends this direction of the connection.
    pub fn shut_down_sending(&self) {
        if let Ok(descriptor) = self.descriptor() {
            // The client may have disconnected; then the error does not matter.
            let _ = rustix::net::shutdown(descriptor, Shutdown::Write);
        }
    }

    /// Makes the close of the socket send a reset to the client, and the kernel drop what was not sent.
    pub fn reset_when_closed(&self) {
        if let Ok(descriptor) = self.descriptor() {
            let _ = SockRef::from(&descriptor).set_linger(Some(Duration::ZERO));
        }
    }

    /// Limits how long the kernel keeps sending without progress after the socket is closed.
    pub fn limit_stall_when_closed(&self, limit: Duration) {
        if let Ok(descriptor) = self.descriptor() {
            let _ = SockRef::from(&descriptor).set_tcp_user_timeout(Some(limit));
        }
    }

    /// Registers the socket for events, once.
    fn register(&mut self) -> io::Result<&mut TcpStream> {
        if let Socket::Fresh(_) = self
            && let Socket::Fresh(descriptor) = std::mem::replace(self, Socket::Gone)
        {
            *self = Socket::Registered(TcpStream::from_std(descriptor.into())?);
        }
        match self {
            Socket::Registered(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    #[inline]
    fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Socket::Fresh(descriptor) => Ok(descriptor.as_fd()),
            Socket::Registered(stream) => Ok(stream.as_fd()),
            Socket::Shared(descriptor) => Ok(descriptor.as_fd()),
            Socket::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Counts the bytes sent; "would block" counts as 0.
fn none_now_is_zero(sent: rustix::io::Result<usize>) -> io::Result<usize> {
    match sent {
        Ok(count) => {
            traffic::sent(count);
            Ok(count)
        }
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}
