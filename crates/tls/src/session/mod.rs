//! The TLS of one connection, without I/O: it processes received bytes, and returns plaintext and bytes to
//! send.
//!
//! ```text
//! receive(bytes)  -> plaintext, and messages of the handshake
//! send(plaintext) -> records
//! close()         -> close_notify
//! ```
//!
//! Records are decrypted in place; only an incomplete one is kept. Records to send are written after any
//! handshake messages into the buffer that the core sends, so that one write carries all of them: a session
//! ticket together with the first response, for example.
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | bytes of a handshake | 80 KiB, which holds the longest message that rustls accepts (64 KiB) |
//! | records of a ClientHello in several pieces | 16 if the site is chosen by name; then the limit on bytes |
//! | bytes kept of incomplete records | one record: 18 KiB |
//! | records without content in a row | 32, by rustls |
//! | key updates without data between them | 32, by rustls |
//! | warnings of a TLS 1.2 client | 4, by rustls |
//! | renegotiation (TLS 1.2) | refused; asked for twice, the connection ends |
//! | early data (0-RTT) | none |

mod facts;

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::active_tls::ActiveTls;
use super::ciphertext::CiphertextBuffer;
use super::client_certificate::ClientCertificate;
use super::client_hello::{self, Hello, Peek};
use super::error::{TlsError, classify};
use super::on_demand::CertificateWait;

/// The most plaintext that one record carries (RFC 8446 section 5.1).
pub const RECORD_BYTES: usize = 16 * 1024;

/// The bytes of a record besides its content, in any version and suite: header, explicit nonce, type and tag,
/// and some spare bytes.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// The largest record that rustls accepts: header, content, and what TLS 1.2 allows a cipher to add.
const MOST_KEPT_BYTES: usize = RECORD_HEADER_BYTES + RECORD_BYTES + 2048;

const RECORD_HEADER_BYTES: usize = 5;

/// The most that a client may send before its handshake is done.
const MOST_HANDSHAKE_BYTES: usize = 80 * 1024;

/// The room for a handshake message or an alert; it grows if it is too small.
const HANDSHAKE_ROOM_BYTES: usize = 4096;

/// The methods by which a plain-text request is recognized: those of RFC 9110, PATCH, WebDAV, and HTTP/2's
/// preface.
const METHODS: [&str; 18] = [
    "GET ",
    "HEAD ",
    "POST ",
    "PUT ",
    "DELETE ",
    "CONNECT ",
    "OPTIONS ",
    "TRACE ",
    "PATCH ",
    "PRI ",
    "QUERY ",
    "PROPFIND ",
    "PROPPATCH ",
    "MKCOL ",
    "COPY ",
    "MOVE ",
    "LOCK ",
    "UNLOCK ",
];

/// The TLS of one connection.
pub struct TlsSession {
    active: Arc<ActiveTls>,
    /// Made once the client's request is known.
    connection: Option<Box<UnbufferedServerConnection>>,
    /// Received and not processed: a part of a record, or of a handshake message.
    kept: Vec<u8>,
    phase: Phase,
    /// The client has announced that it will send nothing more.
    peer_closed: bool,
    /// Received during the handshake.
    handshake_bytes: usize,
    server_name: Option<Box<str>>,
    /// The index of the endpoint's policy.
    policy: usize,
    wait: Wait,
    client_certificate: OnceCell<Option<Box<ClientCertificate>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The ClientHello is not complete yet.
    Hello,
    /// The handshake is not complete.
    Handshake,
    /// Data may be exchanged.
    Open,
    /// The server has sent close_notify, or the session broke. Nothing more is sent, and received bytes are
    /// ignored.
    Ended,
}

/// The wait for a certificate that is obtained during the handshake.
enum Wait {
    /// The name of the client is not known yet.
    NotYet,
    /// It is being obtained.
    Now(CertificateWait),
    /// The handshake continues, with a certificate or without.
    Over,
}

/// The result of receiving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// This call completed the handshake: the facts of the session are known from now on.
    pub handshake_done: bool,
    /// The client will send nothing more (close_notify), or the session has ended. It may still wait for
    /// answers.
    pub closed: bool,
}

impl TlsSession {
    /// A session for a connection that was just accepted.
    pub fn new(active: Arc<ActiveTls>) -> TlsSession {
        TlsSession {
            active,
            connection: None,
            kept: Vec::new(),
            phase: Phase::Hello,
            peer_closed: false,
            handshake_bytes: 0,
            server_name: None,
            policy: 0,
            wait: Wait::NotYet,
            client_certificate: OnceCell::new(),
        }
    }

    /// Releases the memory of the buffer for received bytes that is not needed; for a connection that will be
    /// idle.
    pub fn release_buffer(&mut self) {
        self.kept.shrink_to_fit();
    }

    /// Processes received bytes, which are changed in place. Plaintext is appended to `plaintext`, never more
    /// than was received; bytes to send are appended to `out`.
    ///
    /// On an error the session has ended. `out` may then hold an alert, to be sent before the connection is
    /// closed.
    #[inline]
    pub fn receive(
        &mut self,
        ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut CiphertextBuffer,
    ) -> Result<Received, TlsError> {
        if self.phase == Phase::Open && self.kept.is_empty() && !self.peer_closed {
            // The usual case: whole records, decrypted in place.
            let consumed = self.process(ciphertext, plaintext, out)?;
            self.keep(&ciphertext[consumed..])?;
            return Ok(Received { handshake_done: false, closed: self.peer_closed });
        }
        self.receive_slowly(ciphertext, plaintext, out)
    }

    /// Encrypts both parts, one after the other, into records at the end of `out`. It encrypts everything: a
    /// caller with much data should call this with some tens of KiB at a time, preferably a multiple of
    /// [`RECORD_BYTES`], and send in between.
    pub fn send(&mut self, parts: [&[u8]; 2], out: &mut CiphertextBuffer) -> Result<(), TlsError> {
        let [first, second] = parts;
        if second.is_empty() {
            return self.seal(first, out);
        }
        if first.len() >= RECORD_BYTES {
            self.seal(first, out)?;
            return self.seal(second, out);
        }
        // A separate record for a small first part would cost more than a copy.
        let (with_first, rest) = second.split_at(second.len().min(RECORD_BYTES - first.len()));
        let mut joined = out.take_joined();
        joined.extend_from_slice(first);
        joined.extend_from_slice(with_first);
        let sealed = self.seal(&joined, out);
        out.return_buffer(joined);
        sealed?;
        self.seal(rest, out)
    }

    /// Sends close_notify, so that the client can verify that the data is complete. Afterwards nothing is
    /// sent, and received bytes are ignored.
    pub fn close(&mut self, out: &mut CiphertextBuffer) {
        if self.phase == Phase::Open {
            let goodbye = self.with_write_traffic(out, |traffic, out| {
                let mut room = RECORD_OVERHEAD_BYTES;
                loop {
                    match traffic.queue_close_notify(out.room(room)) {
                        Ok(count) => break out.fill(count),
                        Err(EncryptError::InsufficientSize(error)) if error.required_size > room => {
                            room = error.required_size;
                        }
                        Err(_) => break,
                    }
                }
                Ok(())
            });
            // If close_notify cannot be sent, the client has disconnected.
            let _ = goodbye;
        }
        self.end();
    }

    /// The bytes of a client without TLS; for the answer to [`TlsError::PlainHttp`].
    pub fn received_in_clear(&self) -> &[u8] {
        &self.kept
    }

    /// Whether the handshake waits for a certificate: nothing must be received until
    /// [`TlsSession::poll_certificate`] is ready.
    #[inline]
    pub fn waits_for_certificate(&self) -> bool {
        matches!(self.wait, Wait::Now(_))
    }

    /// Waits for that certificate. Afterwards [`TlsSession::receive`] must be called, even without new bytes.
    pub fn poll_certificate(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Wait::Now(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = Wait::Over;
        }
        Poll::Ready(())
    }

    // ---- receiving

    #[cold]
    fn receive_slowly(
        &mut self,
        mut ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut CiphertextBuffer,
    ) -> Result<Received, TlsError> {
        if self.phase == Phase::Ended || self.peer_closed {
            // Anything received after a closure alert must be ignored (RFC 8446 section 6.1).
            return Ok(Received { handshake_done: false, closed: true });
        }
        let was_handshaking = self.is_handshaking();
        let received_bytes = ciphertext.len();
        if self.phase == Phase::Hello && !self.begin(&mut ciphertext)? {
            self.count_handshake(received_bytes, out)?;
            return Ok(Received::default());
        }
        while !self.kept.is_empty() && !self.peer_closed {
            let (moved, is_whole) = self.complete_kept(ciphertext);
            ciphertext = &mut ciphertext[moved..];
            if !is_whole {
                break;
            }
            let mut kept = std::mem::take(&mut self.kept);
            let consumed = self.process(&mut kept, plaintext, out)?;
            kept.drain(..consumed);
            self.kept = kept;
            if consumed == 0 && ciphertext.is_empty() {
                break;
            }
        }
        if self.kept.is_empty() {
            // Frees the memory, so that a waiting connection holds none.
            self.kept = Vec::new();
            if !ciphertext.is_empty() {
                let consumed = self.process(ciphertext, plaintext, out)?;
                self.keep(&ciphertext[consumed..])?;
            }
        } else {
            self.keep(&[])?;
        }
        if self.is_handshaking() {
            self.count_handshake(received_bytes, out)?;
        }
        Ok(Received {
            handshake_done: was_handshaking && self.phase == Phase::Open,
            closed: self.peer_closed,
        })
    }

    /// Collects the ClientHello, and begins the session with it. Returns false if it is incomplete: then
    /// everything is kept. Otherwise `kept` holds all bytes received so far, unless this call received all of
    /// them.
    fn begin(&mut self, ciphertext: &mut &mut [u8]) -> Result<bool, TlsError> {
        let from_kept = !self.kept.is_empty();
        if from_kept {
            self.kept.extend_from_slice(ciphertext);
            *ciphertext = &mut [];
        }
        let received: &[u8] = if from_kept { &self.kept } else { ciphertext };
        match in_clear(received) {
            PlainTextCheck::No => {}
            PlainTextCheck::Perhaps => {
                if !from_kept {
                    self.kept.extend_from_slice(ciphertext);
                }
                return Ok(false);
            }
            PlainTextCheck::Http => {
                if !from_kept {
                    self.kept.extend_from_slice(ciphertext);
                }
                self.phase = Phase::Ended;
                return Err(TlsError::PlainHttp);
            }
        }
        let hello = match client_hello::peek(received) {
            Peek::More => {
                if !from_kept {
                    self.kept.extend_from_slice(ciphertext);
                }
                return Ok(false);
            }
            Peek::Whole(hello) => hello,
            Peek::Unreadable => Hello::default(),
        };
        if let Wait::NotYet = self.wait
            && let Some(wait) = self.active.certificate_wait(&hello)
        {
            self.wait = Wait::Now(wait);
            if !from_kept {
                self.kept.extend_from_slice(ciphertext);
            }
            return Ok(false);
        }
        let (config, policy) = self.active.config_for(&hello);
        let connection = UnbufferedServerConnection::new(config).map_err(|error| {
            self.end();
            TlsError::Broken(error.to_string())
        })?;
        self.connection = Some(Box::new(connection));
        self.policy = policy;
        self.server_name = hello.server_name;
        self.phase = Phase::Handshake;
        Ok(true)
    }

    /// Moves bytes to `kept` until its record is complete; returns how many, and whether it is complete.
    ///
    /// When the first record in `kept` is complete, rustls has begun to read it and waits for the rest of a
    /// handshake message in other records, which must then follow it.
    fn complete_kept(&mut self, ciphertext: &[u8]) -> (usize, bool) {
        let mut moved = 0;
        let Some(mut missing) = missing_bytes(&self.kept) else {
            self.kept.extend_from_slice(ciphertext);
            return (ciphertext.len(), true);
        };
        loop {
            let count = missing.min(ciphertext.len() - moved);
            self.kept.extend_from_slice(&ciphertext[moved..moved + count]);
            moved += count;
            match missing_bytes(&self.kept) {
                None => return (moved, true),
                Some(_) if moved == ciphertext.len() => return (moved, false),
                // The first call completed the header, this one the rest.
                Some(more) => missing = more,
            }
        }
    }

    fn keep(&mut self, rest: &[u8]) -> Result<(), TlsError> {
        if self.peer_closed {
            self.kept = Vec::new();
            return Ok(());
        }
        let most = if self.phase == Phase::Open { MOST_KEPT_BYTES } else { MOST_HANDSHAKE_BYTES };
        if self.kept.len() + rest.len() > most {
            self.end();
            return Err(TlsError::TooMuch);
        }
        self.kept.extend_from_slice(rest);
        Ok(())
    }

    fn count_handshake(&mut self, bytes: usize, out: &mut CiphertextBuffer) -> Result<(), TlsError> {
        self.handshake_bytes += bytes;
        if self.handshake_bytes > MOST_HANDSHAKE_BYTES {
            // Before there are keys, an alert is a plain record: fatal, handshake_failure.
            const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
            if self.phase == Phase::Hello {
                out.room(ALERT.len())[..ALERT.len()].copy_from_slice(&ALERT);
                out.fill(ALERT.len());
            }
            self.end();
            return Err(TlsError::TooMuch);
        }
        Ok(())
    }

    /// Lets rustls process `input` as far as it can; returns how many bytes were processed.
    #[inline]
    fn process(
        &mut self,
        input: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut CiphertextBuffer,
    ) -> Result<usize, TlsError> {
        let Some(connection) = &mut self.connection else { return Err(TlsError::NotOpen) };
        let mut consumed = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                connection.process_tls_records(&mut input[consumed..]);
            let mut continues = true;
            let mut failed = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                plaintext.extend_from_slice(record.payload);
                            }
                            Err(error) => failed = Some(error),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, out),
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    continues = false;
                }
                // BlockedHandshake, WriteTraffic, Closed: all complete messages are processed. Early data is
                // never accepted, so there is none.
                Ok(_) => continues = false,
                Err(error) => failed = Some(error),
            }
            consumed += discard;
            if let Some(error) = failed {
                return Err(self.fail(error, out));
            }
            if !continues {
                break;
            }
        }
        if self.phase == Phase::Handshake && !connection.is_handshaking() {
            self.phase = Phase::Open;
        }
        Ok(consumed)
    }

    /// Ends the session after an error of rustls, which may have an alert to send.
    #[cold]
    fn fail(&mut self, error: rustls::Error, out: &mut CiphertextBuffer) -> TlsError {
        if let Some(connection) = &mut self.connection {
            // rustls returns its output before it reads any input, so it needs no input here.
            while connection.wants_write() {
                match connection.process_tls_records(&mut []).state {
                    Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, out),
                    _ => break,
                }
            }
        }
        self.end();
        classify(error)
    }

    // ---- sending

    fn seal(&mut self, plaintext: &[u8], out: &mut CiphertextBuffer) -> Result<(), TlsError> {
        if plaintext.is_empty() {
            return Ok(());
        }
        let records = plaintext.len().div_ceil(RECORD_BYTES);
        let mut room = plaintext.len() + records * RECORD_OVERHEAD_BYTES;
        self.with_write_traffic(out, |traffic, out| {
            loop {
                match traffic.encrypt(plaintext, out.room(room)) {
                    Ok(count) => {
                        out.fill(count);
                        return Ok(());
                    }
                    // A key update must be sent first.
                    Err(EncryptError::InsufficientSize(error)) if error.required_size > room => {
                        room = error.required_size;
                    }
                    Err(_) => return Err(TlsError::KeysUsedUp),
                }
            }
        })
    }

    /// Brings rustls into the state in which it can write, and writes.
    #[inline]
    fn with_write_traffic(
        &mut self,
        out: &mut CiphertextBuffer,
        write: impl FnOnce(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
            &mut CiphertextBuffer,
        ) -> Result<(), TlsError>,
    ) -> Result<(), TlsError> {
        let (Phase::Open, Some(connection)) = (self.phase, &mut self.connection) else {
            return Err(TlsError::NotOpen);
        };
        loop {
            // The kept bytes were passed to rustls before. They are passed again because rustls stores its
            // position in them.
            match connection.process_tls_records(&mut self.kept).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let written = write(&mut traffic, out);
                    if written.is_err() {
                        break;
                    }
                    return Ok(());
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, out),
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                Ok(_) => {
                    self.end();
                    return Err(TlsError::NotOpen);
                }
                Err(error) => return Err(self.fail(error, out)),
            }
        }
        // The close_notify that rustls adds itself when it may not use its keys any more.
        self.fail(rustls::Error::EncryptError, out);
        Err(TlsError::KeysUsedUp)
    }

    fn end(&mut self) {
        self.phase = Phase::Ended;
        self.kept = Vec::new();
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsSession")
            .field("phase", &self.phase)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Writes a handshake message or an alert.
fn encode(
    message: &mut rustls::unbuffered::EncodeTlsData<'_, rustls::server::ServerConnectionData>,
    out: &mut CiphertextBuffer,
) {
    let mut room = HANDSHAKE_ROOM_BYTES;
    loop {
        match message.encode(out.room(room)) {
            Ok(count) => return out.fill(count),
            Err(EncodeError::InsufficientSize(error)) if error.required_size > room => {
                room = error.required_size
            }
            Err(_) => return,
        }
    }
}

/// How many bytes the record at the front lacks, as far as is known; `None` when it is complete, or when it
/// is not a record, so that rustls reports that at once.
fn missing_bytes(bytes: &[u8]) -> Option<usize> {
    let whole = match bytes {
        [20..=23, 3, _, high, low, ..] => {
            RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]))
        }
        [_, _, _, _, _, ..] => return None,
        _ => RECORD_HEADER_BYTES,
    };
    whole.checked_sub(bytes.len()).filter(|missing| *missing > 0 && whole <= MOST_KEPT_BYTES)
}

enum PlainTextCheck {
    No,
    /// It may become a request.
    Perhaps,
    Http,
}

/// Whether the first bytes are a plain-text request. No TLS record begins with a letter.
fn in_clear(received: &[u8]) -> PlainTextCheck {
    if !received.first().is_some_and(u8::is_ascii_uppercase) {
        return PlainTextCheck::No;
    }
    if METHODS.iter().any(|method| received.starts_with(method.as_bytes())) {
        return PlainTextCheck::Http;
    }
    if METHODS.iter().any(|method| method.as_bytes().starts_with(received)) {
        return PlainTextCheck::Perhaps;
    }
    PlainTextCheck::No
}
