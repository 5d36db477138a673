//! A connection to a program or an origin, over a unix socket or TCP: it can be sent on and received from at the same
//! time. FastCGI, SCGI and the proxy share it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// How many pieces one write takes.
const PIECES_A_WRITE: usize = 16;

/// Received at once, where nobody says otherwise.
pub const RECEIVE_BYTES: usize = 32 * 1024;

/// A connection to a program or an origin.
#[derive(Debug)]
pub enum Stream {
    /// Over a unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Stream {
    /// Receives what is there behind what was received, about so many bytes at the most; 0: the other side has closed the
    /// connection.
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
            ready!(match self {
                Stream::Unix(stream) => stream.poll_read_ready(context),
                Stream::Tcp(stream) => stream.poll_read_ready(context),
            })?;
        }
    }

    /// Sends what fits of the pieces, which are taken away as far as they were sent.
    pub fn poll_send(&self, context: &mut Context<'_>, pieces: &mut VecDeque<Bytes>) -> Poll<io::Result<()>> {
        while !pieces.is_empty() {
            match self.try_send(pieces) {
                Ok(sent) => take_sent(pieces, sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(match self {
                    Stream::Unix(stream) => stream.poll_write_ready(context),
                    Stream::Tcp(stream) => stream.poll_write_ready(context),
                })?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether nothing was received and the other side has not closed an idle connection.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let received = match self {
            Stream::Unix(stream) => stream.try_read(&mut byte),
            Stream::Tcp(stream) => stream.try_read(&mut byte),
        };
        matches!(received, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Receives what is there behind what was received, and waits until something is; 0 is the other side's end.
    pub async fn receive(&self, received: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| self.poll_receive(context, received, RECEIVE_BYTES)).await
    }

    /// Says that nothing more will be sent.
    pub fn shut_down_sending(&self) {
        // Where it fails the other side is gone already.
        let _ = match self {
            Stream::Unix(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
            Stream::Tcp(stream) => rustix::net::shutdown(stream, rustix::net::Shutdown::Write),
        };
    }

    fn try_receive(&self, received: &mut BytesMut, most_bytes: usize) -> io::Result<usize> {
        received.reserve(most_bytes);
        let spare = received.spare_capacity_mut();
        let mut count = None;
        let receive = || {
            let asked = spare.len();
            let result = match self {
                Stream::Unix(stream) => rustix::net::recv(stream, &mut *spare, RecvFlags::empty()),
                Stream::Tcp(stream) => rustix::net::recv(stream, &mut *spare, RecvFlags::empty()),
            };
            let bytes = result?.1;
            count = Some(bytes);
            // A short read has emptied the socket: "would block" makes the event loop wait for the next event, without
            // the second system call that would say the same. At the other side's end there is no next event.
            if bytes > 0 && bytes < asked { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let tried = match self {
            Stream::Unix(stream) => stream.try_io(Interest::READABLE, receive),
            Stream::Tcp(stream) => stream.try_io(Interest::READABLE, receive),
        };
        match (count, tried) {
            (Some(bytes), _) => {
                // SAFETY: the kernel has written so many bytes to the beginning of the spare capacity.
                unsafe { received.advance_mut(bytes) };
                Ok(bytes)
            }
            (None, Err(error)) => Err(error),
            // It says so only where the call was made.
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self {
                    Stream::Unix(stream) => stream.writable().await?,
                    Stream::Tcp(stream) => stream.writable().await?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn try_send(&self, pieces: &VecDeque<Bytes>) -> io::Result<usize> {
        if pieces.len() == 1 {
            // The usual request. The kernel has less to do for one buffer.
            return match self {
                Stream::Unix(stream) => stream.try_write(&pieces[0]),
                Stream::Tcp(stream) => stream.try_write(&pieces[0]),
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
        }
    }
}

fn take_sent(pieces: &mut VecDeque<Bytes>, mut sent: usize) {
    while let Some(first) = pieces.front_mut() {
        if sent < first.len() {
            // Nothing more was sent than this.
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
