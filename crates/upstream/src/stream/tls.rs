//! The client's side of TLS on a connection to an origin: a session of rustls and its socket.
//!
//! The session does not own the socket, so that the connection can send and receive at the same time, and an
//! idle connection can move to another core.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{BufMut, BytesMut};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::{RECEIVE_BYTES, Stream};

/// The most plaintext that waits in a session for its socket.
const WAITING_BYTES: usize = 64 * 1024;

/// A connection with TLS.
#[derive(Debug)]
pub struct TlsStream {
    under: Stream,
    session: RefCell<ClientConnection>,
}

/// The socket, with the traits through which the session reads and writes it.
struct Socket<'s>(&'s Stream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0 {
            Stream::Unix(stream) => stream.try_read(buffer),
            Stream::Tcp(stream) => stream.try_read(buffer),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_send_slices(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_send_slices(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// Makes the TLS handshake on a connection.
    pub async fn connect(
        under: Stream,
        rules: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<TlsStream> {
        let mut session = ClientConnection::new(rules, name).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(WAITING_BYTES));
        let stream = TlsStream { under, session: RefCell::new(session) };
        poll_fn(|context| {
            loop {
                let step = {
                    let session = &mut *stream.session.borrow_mut();
                    if session.wants_write() {
                        session.write_tls(&mut Socket(&stream.under)).map(|_| ())
                    } else if !session.is_handshaking() {
                        return Poll::Ready(Ok(()));
                    } else {
                        receive_records(session, &stream.under)
                    }
                };
                match step {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let is_sending = stream.session.borrow().wants_write();
                        ready!(match is_sending {
                            true => stream.under.poll_writable(context),
                            false => stream.under.poll_readable(context),
                        })?;
                    }
                    Err(error) => {
                        // The alert tells the peer what is wrong, if it still receives.
                        let _ = stream.session.borrow_mut().write_tls(&mut Socket(&stream.under));
                        return Poll::Ready(Err(error));
                    }
                }
            }
        })
        .await?;
        Ok(stream)
    }

    /// The connection under it.
    pub fn under(&self) -> &Stream {
        &self.under
    }

    /// Whether HTTP/2 was agreed on.
    pub fn speaks_http2(&self) -> bool {
        self.session.borrow().alpn_protocol() == Some(b"h2")
    }

    pub(super) fn try_receive(&self, received: &mut BytesMut) -> io::Result<usize> {
        let session = &mut *self.session.borrow_mut();
        loop {
            received.reserve(RECEIVE_BYTES);
            let before = received.len();
            // The memory is zeroed first, because `read` needs initialized memory.
            received.put_bytes(0, RECEIVE_BYTES);
            let read = session.reader().read(&mut received[before..]);
            received.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            receive_records(session, &self.under)?;
            if session.wants_write() {
                // A message of the session itself, such as the answer to a key update. Bytes that cannot be
                // written now are sent with the next ones.
                match session.write_tls(&mut Socket(&self.under)) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
        }
    }

    pub(super) fn try_send(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let session = &mut *self.session.borrow_mut();
        let mut taken = session.writer().write_vectored(slices)?;
        if taken == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            // The session's buffer is full.
            session.write_tls(&mut Socket(&self.under))?;
            taken = session.writer().write_vectored(slices)?;
        }
        while session.wants_write() {
            match session.write_tls(&mut Socket(&self.under)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    pub(super) fn try_flush(&self) -> io::Result<()> {
        let session = &mut *self.session.borrow_mut();
        while session.wants_write() {
            session.write_tls(&mut Socket(&self.under))?;
        }
        Ok(())
    }

    pub(super) fn send_close_notify(&self) {
        self.session.borrow_mut().send_close_notify();
        // Bytes that cannot be sent now are dropped.
        let _ = self.try_flush();
    }

    /// Processes received records without data (tickets, key updates). Returns false if there is anything
    /// else.
    pub(super) fn is_quiet(&self) -> bool {
        struct Descriptor<'s>(&'s Stream);
        impl Read for Descriptor<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                Ok(rustix::net::recv(self.0, buffer, rustix::net::RecvFlags::DONTWAIT)?.0)
            }
        }
        let session = &mut *self.session.borrow_mut();
        loop {
            let is_data = !matches!(
                session.reader().read(&mut [0]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock
            );
            if is_data {
                return false;
            }
            match session.read_tls(&mut Descriptor(&self.under)) {
                Ok(0) => return false,
                Ok(_) if session.process_new_packets().is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(_) | Err(_) => return false,
            }
        }
    }

    pub(super) fn moved_here(self) -> io::Result<TlsStream> {
        Ok(TlsStream { under: self.under.moved_here()?, session: self.session })
    }
}

/// Receives once and lets the session look at it.
fn receive_records(session: &mut ClientConnection, under: &Stream) -> io::Result<()> {
    if session.read_tls(&mut Socket(under))? == 0 {
        // The other side closed the connection without an alert. The session reports this to the reader.
        if session.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    session
        .process_new_packets()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        .map(|_| ())
}
