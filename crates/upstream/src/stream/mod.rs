//! A connection to a program or an origin, over a unix socket or TCP, with or without TLS. It can send and
//! receive at the same time. FastCGI, SCGI and the proxy share it.

mod tls;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

pub use tls::TlsStream;

/// The most pieces of one write.
const PIECES_A_WRITE: usize = 16;

/// How long an idle connection stays open beyond the number that is kept. Often as many requests follow soon,
/// and closing and opening a connection for each of them costs several times as much as keeping one.
pub const SURPLUS_STAYS: Duration = Duration::from_secs(1);

/// The default number of bytes that are received at once.
pub const RECEIVE_BYTES: usize = 32 * 1024;

/// A connection to a program or an origin.
#[derive(Debug)]
pub enum Stream {
    /// Over a unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
    /// With TLS, over one of the others.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Receives and appends at most about this many bytes; 0: the other side has closed the connection.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        received: &mut BytesMut,
        most_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_receive(received, most_bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(self.poll_readable(context))?;
        }
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Unix(stream) => stream.poll_read_ready(context),
            Stream::Tcp(stream) => stream.poll_read_ready(context),
            Stream::Tls(stream) => stream.under().poll_readable(context),
        }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Unix(stream) => stream.poll_write_ready(context),
            Stream::Tcp(stream) => stream.poll_write_ready(context),
            Stream::Tls(stream) => stream.under().poll_writable(context),
        }
    }

    /// Sends some of these bytes and returns their number. With TLS they may wait in the session, see
    /// [`Stream::poll_flush`].
    pub fn poll_send_some(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_send_slices(&[io::IoSlice::new(bytes)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(context))?
                }
                result => return Poll::Ready(result),
            }
        }
    }

    /// Sends the bytes that wait in a TLS session.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stream::Tls(stream) = self else { return Poll::Ready(Ok(())) };
        loop {
            match stream.try_flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(context))?
                }
                result => return Poll::Ready(result),
            }
        }
    }

    /// Sends as much of the pieces as possible, and removes the bytes that were sent.
    pub fn poll_send(&self, context: &mut Context<'_>, pieces: &mut VecDeque<Bytes>) -> Poll<io::Result<()>> {
        while !pieces.is_empty() {
            match self.try_send(pieces) {
                Ok(sent) => take_sent(pieces, sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(context))?
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.poll_flush(context)
    }

    /// Whether an idle connection has received nothing and was not closed by the other side.
    pub fn is_quiet(&self) -> bool {
        if let Stream::Tls(stream) = self {
            return stream.is_quiet();
        }
        // This queries the kernel, because the event loop may not have the latest state.
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recv(self, &mut [0u8; 1], flags).is_err_and(|error| error == rustix::io::Errno::AGAIN)
    }

    /// The same according to the event loop, usually without a system call. For callers that can send the
    /// request on another connection if this was wrong.
    pub fn seems_quiet(&self) -> bool {
        let peek = || {
            let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
            rustix::net::recv(self, &mut [0u8; 1], flags)?;
            Ok(())
        };
        let heard = match self {
            Stream::Unix(stream) => stream.try_io(Interest::READABLE, peek),
            Stream::Tcp(stream) => stream.try_io(Interest::READABLE, peek),
            Stream::Tls(stream) => return stream.is_quiet(),
        };
        heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Moves the connection to the event loop of the calling core.
    pub fn moved_here(self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(UnixStream::from_std(stream.into_std()?)?),
            Stream::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Stream::Tls(stream) => Stream::Tls(Box::new(stream.moved_here()?)),
        })
    }

    /// Waits for bytes, receives and appends them; 0: the other side has closed the connection.
    pub async fn receive(&self, received: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| self.poll_receive(context, received, RECEIVE_BYTES)).await
    }

    /// Ends the sending direction.
    pub fn shut_down_sending(&self) {
        if let Stream::Tls(stream) = self {
            stream.send_close_notify();
        }
        // If it fails, the other side has already closed the connection.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Write);
    }

    /// Receives bytes into a buffer; 0: the other side has closed the connection. Not for TLS.
    pub fn poll_receive_into(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let requested = buffer.len();
            match self.receive_plain(requested, || {
                let received = rustix::net::recv(self, &mut *buffer, RecvFlags::empty())?;
                Ok(received.0)
            }) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(self.poll_readable(context))?;
        }
    }

    /// Receives at most this many bytes into a buffer, whose contents are replaced, and returns them. None:
    /// the other side has closed the connection, or there is an error, which the next receive returns again.
    /// Not for TLS.
    pub fn poll_receive_piece<'b>(
        &self,
        context: &mut Context<'_>,
        buffer: &'b mut Vec<u8>,
        most_bytes: usize,
    ) -> Poll<&'b [u8]> {
        buffer.resize(most_bytes, 0);
        let count = ready!(self.poll_receive_into(context, buffer));
        Poll::Ready(&buffer[..count.unwrap_or(0)])
    }

    /// Tries to send all of these bytes at once. If it returns `false`, a part of them may have been sent.
    pub fn try_send_all(&self, bytes: &[u8]) -> bool {
        let sent = match self {
            Stream::Unix(stream) => stream.try_write(bytes),
            Stream::Tcp(stream) => stream.try_write(bytes),
            // Bytes may wait in the session, and this function does not wait.
            Stream::Tls(_) => return false,
        };
        sent.is_ok_and(|count| count == bytes.len())
    }

    fn try_receive(&self, received: &mut BytesMut, most_bytes: usize) -> io::Result<usize> {
        received.reserve(most_bytes);
        if let Stream::Tls(stream) = self {
            return stream.try_receive(received);
        }
        let spare = received.spare_capacity_mut();
        let requested = spare.len();
        let receive = || rustix::net::recv(self, &mut *spare, RecvFlags::empty()).map(|(_, count)| count);
        let count = self.receive_plain(requested, receive)?;
        // SAFETY: the kernel has written this many bytes to the beginning of the spare capacity.
        unsafe { received.advance_mut(count) };
        Ok(count)
    }

    /// Receives at most this many bytes, without TLS.
    fn receive_plain(
        &self,
        requested: usize,
        mut receive: impl FnMut() -> rustix::io::Result<usize>,
    ) -> io::Result<usize> {
        let mut count = None;
        let receive = || {
            let bytes = receive()?;
            count = Some(bytes);
            // A short read has emptied the socket. The error "would block" makes the event loop wait for the
            // next event, and saves a second system call with the same result. After the other side has
            // closed the connection, there is no next event.
            if bytes > 0 && bytes < requested { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let tried = match self {
            Stream::Unix(stream) => stream.try_io(Interest::READABLE, receive),
            Stream::Tcp(stream) => stream.try_io(Interest::READABLE, receive),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        match (count, tried) {
            (Some(bytes), _) => Ok(bytes),
            (None, Err(error)) => Err(error),
            // `try_io` returns `Ok` only if the call was made, so this does not happen.
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends all of two buffers, waiting as needed.
    pub async fn send(&self, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
        if first.is_empty() {
            std::mem::swap(&mut first, &mut second);
        }
        while !first.is_empty() {
            match self.try_send_slices(&[io::IoSlice::new(first), io::IoSlice::new(second)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) if count < first.len() => first = &first[count..],
                Ok(count) => (first, second) = (&second[count - first.len()..], &[]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|context| self.poll_writable(context)).await?;
                }
                Err(error) => return Err(error),
            }
        }
        poll_fn(|context| self.poll_flush(context)).await
    }

    fn try_send(&self, pieces: &VecDeque<Bytes>) -> io::Result<usize> {
        if pieces.len() == 1 {
            // Most requests are one piece, and a write of one buffer is cheaper for the kernel.
            return match self {
                Stream::Unix(stream) => stream.try_write(&pieces[0]),
                Stream::Tcp(stream) => stream.try_write(&pieces[0]),
                Stream::Tls(stream) => stream.try_send(&[io::IoSlice::new(&pieces[0])]),
            };
        }
        let mut slices = [io::IoSlice::new(&[]); PIECES_A_WRITE];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = io::IoSlice::new(piece);
            count += 1;
        }
        self.try_send_slices(&slices[..count])
    }

    fn try_send_slices(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.try_write_vectored(slices),
            Stream::Tcp(stream) => stream.try_write_vectored(slices),
            Stream::Tls(stream) => stream.try_send(slices),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.under().as_fd(),
        }
    }
}

fn take_sent(pieces: &mut VecDeque<Bytes>, mut sent: usize) {
    while let Some(first) = pieces.front_mut() {
        if sent < first.len() {
            // Only a part of this piece was sent.
            let _ = first.split_to(sent);
            return;
        }
        sent -= first.len();
        pieces.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_taken_away() {
        let mut pieces: VecDeque<Bytes> =
            [&b"abc"[..], b"", b"de"].into_iter().map(Bytes::from_static).collect();
        take_sent(&mut pieces, 1);
        assert_eq!(pieces.front().map(|piece| &piece[..]), Some(&b"bc"[..]));
        take_sent(&mut pieces, 2);
        assert_eq!(pieces.front().map(|piece| &piece[..]), Some(&b"de"[..]));
        take_sent(&mut pieces, 2);
        assert!(pieces.is_empty());
    }
}
