//! The transport of a connection's bytes: the socket itself, or TLS on top of it.
//!
//! Both have the same interface. TLS adds two things that the caller must handle: accepted bytes may still
//! wait to be sent ([`Transport::poll_flush`]), and TLS must announce the end before the socket is closed
//! ([`Transport::end`]).

mod socket;
pub mod sys;
pub mod udp;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use touchstone_handler::request::TlsFacts;
use touchstone_observe::metrics::CoreCounts;
use touchstone_tls::{CiphertextBuffer, RECORD_BYTES, Received, TlsError, TlsSession};

pub use socket::Socket;

/// Plaintext encrypted at a time: four whole records, one write.
const SEND_BYTES: usize = 4 * RECORD_BYTES;

/// The answer to a client that uses plain HTTP on a TLS port; the client cannot read any other.
const PLAIN_HTTP_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nServer: touchstone\r\nContent-Type: text/plain\r\n\
    Content-Length: 65\r\nConnection: close\r\n\r\n\
    This port speaks HTTPS. Ask again with https:// in front of it.\r\n";

/// A connection's transport to its client.
pub enum Transport {
    /// The socket itself.
    Plain(Socket),
    /// TLS on top of it.
    Tls(Box<TlsTransport>),
}

/// TLS on top of a socket.
pub struct TlsTransport {
    socket: Socket,
    session: TlsSession,
    /// The buffer for new records, shared by all connections of the core.
    records: Rc<RefCell<CiphertextBuffer>>,
    /// Records that did not fit into the socket.
    unsent: Vec<u8>,
    /// Records, mostly the session ticket, that are delayed to be sent with the first answer. They are sent
    /// before the connection waits for anything.
    held: Vec<u8>,
    /// Decrypted bytes that have not been read yet.
    plaintext: Vec<u8>,
    /// The client has announced its end.
    client_done: bool,
    /// This server has announced its end.
    ended: bool,
    /// The counters for the handshake's result; `None` once it is counted.
    handshake: Option<Arc<CoreCounts>>,
}

impl Drop for TlsTransport {
    fn drop(&mut self) {
        if let Some(counts) = self.handshake.take() {
            counts.handshake_failed("abandoned");
        }
    }
}

impl Transport {
    /// TLS on top of `socket`; its handshake is counted in `counts`.
    pub fn tls(
        socket: Socket,
        session: TlsSession,
        records: Rc<RefCell<CiphertextBuffer>>,
        counts: Arc<CoreCounts>,
    ) -> Transport {
        Transport::Tls(Box::new(TlsTransport {
            socket,
            session,
            records,
            unsent: Vec::new(),
            held: Vec::new(),
            plaintext: Vec::new(),
            client_done: false,
            ended: false,
            handshake: Some(counts),
        }))
    }

    /// The client's address.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Transport::Plain(socket) => socket.peer(),
            Transport::Tls(tls) => tls.socket.peer(),
        }
    }

    /// Whether the client has agreed to HTTP/2 (ALPN).
    pub fn speaks_http2(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.session.protocol() == Some(b"h2"))
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        match self {
            Transport::Plain(_) => "http",
            Transport::Tls(_) => "https",
        }
    }

    /// The facts of the session for handlers and logs; `None`: plain HTTP.
    pub fn tls_facts(&self) -> Option<TlsFacts> {
        let Transport::Tls(tls) = self else { return None };
        let session = &tls.session;
        let certificate = session.client_certificate();
        Some(TlsFacts {
            version: session.version().unwrap_or_default(),
            cipher_suite: session.cipher_suite().unwrap_or_default(),
            server_name: session.server_name().map(Box::from),
            resumed: session.is_resumed(),
            client_subject: certificate.map(|certificate| certificate.subject.as_str().into()),
            client_issuer: certificate.map(|certificate| certificate.issuer.as_str().into()),
            client_serial: certificate.map(|certificate| certificate.serial_number.as_str().into()),
            client_fingerprint: certificate.map(|certificate| certificate.fingerprint.as_str().into()),
            client_certificates: certificate
                .map(|certificate| certificate.chain.as_slice().into())
                .unwrap_or_default(),
        })
    }

    /// Whether a request for this host may be answered here. A TLS session was opened under the rules of one
    /// site (such as a client certificate); it must not reach a host with other rules (RFC 9110 section
    /// 15.5.20).
    #[inline]
    pub fn may_serve(&self, host: Option<&[u8]>) -> bool {
        match self {
            Transport::Plain(_) => true,
            Transport::Tls(tls) => {
                touchstone_tls::host_name(host).is_some_and(|name| tls.session.may_serve(&name))
            }
        }
    }

    /// Waits until the TLS handshake is done; received bytes of it are stored in `buffer`. Plain connections
    /// have none.
    pub fn poll_handshake(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<()>> {
        let Transport::Tls(tls) = self else { return Poll::Ready(Ok(())) };
        while tls.session.is_handshaking() {
            if let Poll::Ready(Err(error)) = tls.poll_flush(context) {
                return Poll::Ready(Err(error));
            }
            if tls.session.waits_for_certificate() {
                ready!(tls.poll_certificate(context))?;
                continue;
            }
            match ready!(tls.socket.poll_receive(context, buffer))? {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                count => tls.decrypt(&mut buffer[..count])?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether an ACME authority has requested a proof, and received it (RFC 8737).
    pub fn is_acme_challenge(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.session.is_acme_challenge())
    }

    /// Receives the bytes that are available now; `None` if there are none.
    #[inline]
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Transport::Plain(socket) => socket.try_receive(buffer),
            Transport::Tls(tls) => loop {
                if let Some(count) = tls.take_plaintext(buffer) {
                    return Ok(Some(count));
                }
                if tls.session.waits_for_certificate() {
                    return Ok(None);
                }
                match tls.socket.try_receive(buffer)? {
                    None => return Ok(None),
                    Some(0) => return Ok(Some(0)),
                    Some(count) => tls.decrypt(&mut buffer[..count])?,
                }
            },
        }
    }

    /// Waits for bytes and receives them; 0 means the client's end.
    #[inline]
    pub fn poll_receive(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.poll_receive(context, buffer),
            Transport::Tls(tls) => loop {
                if let Some(count) = tls.take_plaintext(buffer) {
                    return Poll::Ready(Ok(count));
                }
                // Waiting records are sent at the same time; the client may need them before it sends
                // anything.
                if let Poll::Ready(Err(error)) = tls.poll_flush(context) {
                    return Poll::Ready(Err(error));
                }
                if tls.session.waits_for_certificate() {
                    ready!(tls.poll_certificate(context))?;
                    continue;
                }
                match ready!(tls.socket.poll_receive(context, buffer))? {
                    0 => return Poll::Ready(Ok(0)),
                    count => tls.decrypt(&mut buffer[..count])?,
                }
            },
        }
    }

    /// Accepts the bytes that fit now and returns their number; 0 if none fit.
    #[inline]
    pub fn try_send(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.try_send(first, second),
            Transport::Tls(tls) => tls.try_send(first, second),
        }
    }

    /// Like [`Transport::try_send`], for the last bytes: with TLS the end is announced in the same write.
    #[inline]
    pub fn try_send_last(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.try_send(first, second),
            Transport::Tls(tls) => tls.try_send_last(first, second),
        }
    }

    /// Like [`Transport::try_send`], for a head that its file follows at once: the kernel may put both in one
    /// packet.
    pub fn try_send_more(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.try_send_more(bytes),
            Transport::Tls(tls) => tls.try_send(bytes, &[]),
        }
    }

    /// Sends the bytes of a file that fit now, from `offset`, which it advances. `None` if none fit, 0 at the
    /// file's end.
    pub fn try_send_file(
        &mut self,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> io::Result<Option<usize>> {
        match self {
            Transport::Plain(socket) => socket.try_send_file(file, offset, count),
            Transport::Tls(tls) => {
                if !tls.flush_now()? {
                    return Ok(None);
                }
                let mut bytes = vec![0; count.min(SEND_BYTES)];
                let read = rustix::io::pread(file, &mut bytes, *offset)?;
                *offset += read as u64;
                if read > 0 {
                    tls.try_send(&bytes[..read], &[])?;
                }
                Ok(Some(read))
            }
        }
    }

    /// Waits until something can be sent. Must be called after a send that sent less than it was given.
    pub fn poll_sendable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(socket) => socket.poll_sendable(context),
            Transport::Tls(tls) => tls.poll_flush(context),
        }
    }

    /// Waits until all accepted bytes are sent.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(tls) => tls.poll_flush(context),
        }
    }

    /// Announces the end; true if that needs no waiting, so that the socket may be closed.
    #[inline]
    pub fn end(&mut self) -> bool {
        match self {
            Transport::Plain(_) => true,
            Transport::Tls(tls) => {
                tls.announce_end();
                // An error is an end as well.
                tls.flush_now().unwrap_or(true)
            }
        }
    }

    /// Whether it holds nothing but its session: nothing waits to be sent or read, and no handshake is in
    /// progress.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        match self {
            Transport::Plain(_) => true,
            Transport::Tls(tls) => {
                tls.unsent.is_empty()
                    && tls.held.is_empty()
                    && tls.plaintext.is_empty()
                    && tls.session.is_open()
                    && !tls.client_done
            }
        }
    }

    /// Takes a [quiet](Transport::is_quiet) transport out of the event loop, and releases its buffers. False
    /// if the event loop does not release the socket.
    pub fn deregister(&mut self) -> bool {
        match self {
            Transport::Plain(socket) => socket.deregister(),
            Transport::Tls(tls) => {
                tls.unsent = Vec::new();
                tls.held = Vec::new();
                tls.plaintext = Vec::new();
                tls.session.release_buffer();
                tls.socket.deregister()
            }
        }
    }

    /// The underlying socket.
    pub fn socket(&self) -> &Socket {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => &tls.socket,
        }
    }

    /// Announces the end, and closes the sending side of the socket: the client sees the end while this side
    /// still receives.
    pub fn shut_down_sending(&mut self) {
        match self {
            Transport::Plain(socket) => socket.shut_down_sending(),
            Transport::Tls(tls) => {
                tls.announce_end();
                let _ = tls.flush_now();
                tls.socket.shut_down_sending();
            }
        }
    }

    /// Receives bytes and discards them without decryption.
    pub fn poll_discard(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.poll_receive(context, buffer),
            Transport::Tls(tls) => tls.socket.poll_receive(context, buffer),
        }
    }
}

impl TlsTransport {
    /// Returns plaintext, or the client's end after the last of it.
    #[inline]
    fn take_plaintext(&mut self, buffer: &mut [u8]) -> Option<usize> {
        if self.plaintext.is_empty() {
            return self.client_done.then_some(0);
        }
        let count = self.plaintext.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.plaintext[..count]);
        self.plaintext.drain(..count);
        Some(count)
    }

    /// Waits for the certificate that is obtained during the handshake, and continues the handshake.
    #[cold]
    fn poll_certificate(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.session.poll_certificate(context));
        Poll::Ready(self.decrypt(&mut []))
    }

    /// Decrypts received bytes, and sends the handshake's answers.
    #[inline]
    fn decrypt(&mut self, received: &mut [u8]) -> io::Result<()> {
        let was_handshaking = self.session.is_handshaking();
        let outcome = {
            let records = &mut *self.records.borrow_mut();
            let outcome = self.session.receive(received, &mut self.plaintext, records);
            if was_handshaking && self.session.is_open() && !self.plaintext.is_empty() {
                // The first request arrived with the end of the handshake: its answer follows at once.
                records.clear_into(0, &mut self.held);
            } else if !records.is_empty() {
                send_records(&self.socket, records, &mut self.unsent)?;
            }
            outcome
        };
        self.count_handshake(&outcome);
        match outcome {
            Ok(received) => {
                self.client_done |= received.closed;
                if was_handshaking && self.session.is_open() && self.session.is_acme_challenge() {
                    // An ACME authority has received the certificate that it requested: the connection ends,
                    // and the authority's further bytes are ignored (RFC 8737 section 3).
                    self.plaintext.clear();
                    self.client_done = true;
                }
                Ok(())
            }
            Err(TlsError::PlainHttp) => {
                let _ = self.socket.try_send(PLAIN_HTTP_ANSWER, &[]);
                Err(io::Error::new(io::ErrorKind::InvalidData, TlsError::PlainHttp))
            }
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    /// Counts the end of the handshake, once.
    #[inline]
    fn count_handshake(&mut self, outcome: &Result<Received, TlsError>) {
        if self.handshake.is_none() {
            return;
        }
        match outcome {
            Ok(received) if received.handshake_done => {
                if let Some(counts) = self.handshake.take() {
                    counts.handshake_done(self.session.version(), self.session.is_resumed());
                }
            }
            Ok(_) => {}
            Err(error) => {
                if let Some(counts) = self.handshake.take() {
                    counts.handshake_failed(error.kind());
                }
            }
        }
    }

    /// Encrypts the bytes that may be sent now. Encrypted bytes count as accepted: those that do not fit into
    /// the socket wait here.
    #[inline]
    fn try_send(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        self.try_send_and(first, second, false)
    }

    /// Does the same, and announces the end if all bytes are accepted.
    #[inline]
    fn try_send_last(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        self.try_send_and(first, second, first.len() + second.len() <= SEND_BYTES)
    }

    #[inline]
    fn try_send_and(&mut self, first: &[u8], second: &[u8], ends: bool) -> io::Result<usize> {
        if !self.unsent.is_empty() && !self.flush_now()? {
            return Ok(0);
        }
        let first = &first[..first.len().min(SEND_BYTES)];
        let second = &second[..second.len().min(SEND_BYTES - first.len())];
        let records = &mut *self.records.borrow_mut();
        if !self.held.is_empty() {
            records.extend(&self.held);
            self.held = Vec::new();
        }
        self.session
            .send([first, second], records)
            .map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
        if ends {
            self.ended = true;
            self.session.close(records);
        }
        send_records(&self.socket, records, &mut self.unsent)?;
        Ok(first.len() + second.len())
    }

    /// Sends waiting records as far as possible; true when none is waiting.
    #[inline]
    fn flush_now(&mut self) -> io::Result<bool> {
        self.unsent.append(&mut self.held);
        if self.unsent.is_empty() {
            return Ok(true);
        }
        let sent = self.socket.try_send(&self.unsent, &[])?;
        self.unsent.drain(..sent);
        Ok(self.unsent.is_empty())
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.flush_now()? {
            ready!(self.socket.poll_sendable(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn announce_end(&mut self) {
        if !self.ended {
            self.ended = true;
            let records = &mut *self.records.borrow_mut();
            self.session.close(records);
            records.clear_into(0, &mut self.unsent);
        }
    }
}

fn send_records(socket: &Socket, records: &mut CiphertextBuffer, unsent: &mut Vec<u8>) -> io::Result<()> {
    // Waiting records must be sent first, in order.
    let sent = if unsent.is_empty() { socket.try_send(records.as_slice(), &[]) } else { Ok(0) };
    match sent {
        Ok(sent) => {
            records.clear_into(sent, unsent);
            Ok(())
        }
        Err(error) => {
            records.clear();
            Err(error)
        }
    }
}
