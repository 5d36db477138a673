//! The client's side of TLS on one connection, without input and output: it converts received bytes to
//! plaintext, and produces the bytes to send. Records are decrypted in place; only incomplete records are
//! buffered.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, HandshakeKind};
use std::sync::Arc;

/// The most plaintext bytes of one record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 * 1024;
/// An upper bound of the overhead of a record, in any version and cipher suite.
const RECORD_OVERHEAD_BYTES: usize = 64;
const RECORD_HEADER_BYTES: usize = 5;
/// The initial space for a handshake message or an alert; it is enlarged if it is too small.
const HANDSHAKE_ROOM_BYTES: usize = 4096;
/// The most buffered bytes of incomplete records and handshake messages.
const MAXIMUM_INCOMPLETE_BYTES: usize = 512 * 1024;

/// The TLS session of one connection.
pub(crate) struct TlsConnection {
    connection: UnbufferedClientConnection,
    /// Received bytes that are not processed yet: a part of a record, or of a handshake message.
    incomplete: Vec<u8>,
    is_open: bool,
    /// The server has announced that it will send no more data.
    peer_closed: bool,
}

/// The result of [`TlsConnection::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// This call has completed the handshake.
    pub(crate) handshake_done: bool,
    /// The server has announced that it will send no more data.
    pub(crate) closed: bool,
}

/// The reason why a session failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFailure(pub(crate) String);

impl TlsConnection {
    /// Begins a handshake. Its first message is appended to `out`.
    pub(crate) fn begin(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        out: &mut Vec<u8>,
    ) -> Result<TlsConnection, TlsFailure> {
        let connection = UnbufferedClientConnection::new(config, name).map_err(failure)?;
        let mut tls =
            TlsConnection { connection, incomplete: Vec::new(), is_open: false, peer_closed: false };
        tls.process(&mut [], &mut Vec::new(), out)?;
        Ok(tls)
    }

    /// Processes received bytes, which are decrypted in place. Plaintext is appended to `plaintext`, and the
    /// bytes to send to `out`; after an error, `out` may contain an alert.
    pub(crate) fn receive(
        &mut self,
        mut ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Received, TlsFailure> {
        let was_open = self.is_open;
        while !self.incomplete.is_empty() && !self.peer_closed {
            let moved = self.complete_record(ciphertext);
            ciphertext = &mut ciphertext[moved..];
            let mut incomplete = std::mem::take(&mut self.incomplete);
            let consumed = self.process(&mut incomplete, plaintext, out)?;
            incomplete.drain(..consumed);
            self.incomplete = incomplete;
            if consumed == 0 && ciphertext.is_empty() {
                break;
            }
        }
        if self.incomplete.is_empty() && !ciphertext.is_empty() {
            let consumed = self.process(ciphertext, plaintext, out)?;
            self.incomplete.extend_from_slice(&ciphertext[consumed..]);
        }
        if self.incomplete.len() > MAXIMUM_INCOMPLETE_BYTES {
            return Err(TlsFailure("the server's handshake is too long".to_string()));
        }
        Ok(Received { handshake_done: !was_open && self.is_open, closed: self.peer_closed })
    }

    /// Encrypts plaintext and appends the records to `out`. The handshake must be done.
    pub(crate) fn send(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), TlsFailure> {
        let records = plaintext.len().div_ceil(RECORD_BYTES);
        let room = plaintext.len() + records * RECORD_OVERHEAD_BYTES;
        self.with_write_traffic(out, |traffic, out| {
            fill(out, room, |space| match traffic.encrypt(plaintext, space) {
                Ok(count) => FillResult::Bytes(count),
                Err(EncryptError::InsufficientSize(error)) => FillResult::Needs(error.required_size),
                Err(_) => FillResult::Failed,
            })
        })
    }

    /// Appends the close_notify alert to `out`.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if self.is_open {
            // An error is ignored, because the connection is about to be closed.
            let _ = self.with_write_traffic(out, |traffic, out| {
                fill(out, RECORD_OVERHEAD_BYTES, |space| match traffic.queue_close_notify(space) {
                    Ok(count) => FillResult::Bytes(count),
                    Err(EncryptError::InsufficientSize(error)) => FillResult::Needs(error.required_size),
                    Err(_) => FillResult::Failed,
                })
            });
        }
    }

    /// Whether an earlier session was resumed; valid when the handshake is done.
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The negotiated protocol (ALPN).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Appends received bytes to the buffered ones until the record is complete; returns their number. If the
    /// record is already complete, rustls waits for the rest of a handshake message in further records, which
    /// must follow in the same buffer.
    fn complete_record(&mut self, ciphertext: &[u8]) -> usize {
        let Some(mut missing) = missing_bytes(&self.incomplete) else {
            self.incomplete.extend_from_slice(ciphertext);
            return ciphertext.len();
        };
        let mut moved = 0;
        loop {
            let count = missing.min(ciphertext.len() - moved);
            self.incomplete.extend_from_slice(&ciphertext[moved..moved + count]);
            moved += count;
            match missing_bytes(&self.incomplete) {
                // The header is complete, and the length of the rest is known.
                Some(more) if moved < ciphertext.len() => missing = more,
                _ => return moved,
            }
        }
    }

    /// Processes the complete records in `input`; returns the number of consumed bytes.
    fn process(
        &mut self,
        input: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, TlsFailure> {
        let mut consumed = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut input[consumed..]);
            let mut continues = true;
            match state.map_err(failure) {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(failure)?;
                        discard += record.discard;
                        plaintext.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, out),
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    continues = false;
                }
                // BlockedHandshake, WriteTraffic, Closed: all complete records are processed.
                Ok(_) => continues = false,
                Err(error) => {
                    self.encode_alert(out);
                    return Err(error);
                }
            }
            consumed += discard;
            if !continues {
                break;
            }
        }
        self.is_open = self.is_open || !self.connection.is_handshaking();
        Ok(consumed)
    }

    /// Appends the alert that rustls may have to send after an error.
    fn encode_alert(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, out),
                _ => return,
            }
        }
    }

    /// Calls `write` when rustls is in the state in which it can encrypt.
    fn with_write_traffic(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut WriteTraffic<'_, ClientConnectionData>, &mut Vec<u8>) -> bool,
    ) -> Result<(), TlsFailure> {
        loop {
            // The buffered bytes were processed before. They are passed again, because rustls remembers its
            // position in them.
            match self.connection.process_tls_records(&mut self.incomplete).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return match write(&mut traffic, out) {
                        true => Ok(()),
                        false => Err(TlsFailure("the session's keys are used up".to_string())),
                    };
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, out),
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                Ok(_) => return Err(TlsFailure("the session is not open".to_string())),
                Err(error) => return Err(failure(error)),
            }
        }
    }
}

fn failure(error: rustls::Error) -> TlsFailure {
    TlsFailure(error.to_string())
}

fn encode(message: &mut EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) {
    fill(out, HANDSHAKE_ROOM_BYTES, |space| match message.encode(space) {
        Ok(count) => FillResult::Bytes(count),
        Err(EncodeError::InsufficientSize(error)) => FillResult::Needs(error.required_size),
        Err(_) => FillResult::Failed,
    });
}

enum FillResult {
    Bytes(usize),
    Needs(usize),
    Failed,
}

/// Appends the output of `write` to `out`, with more space if it is needed; returns whether `write`
/// succeeded.
fn fill(out: &mut Vec<u8>, mut room: usize, mut write: impl FnMut(&mut [u8]) -> FillResult) -> bool {
    let before = out.len();
    loop {
        out.resize(before + room, 0);
        match write(&mut out[before..]) {
            FillResult::Bytes(count) => {
                out.truncate(before + count);
                return true;
            }
            FillResult::Needs(more) if more > room => room = more,
            _ => {
                out.truncate(before);
                return false;
            }
        }
    }
}

/// The number of missing bytes of the first record, or of its header; `None` if it is complete, or if it is
/// invalid, so that rustls reports the error at once.
fn missing_bytes(bytes: &[u8]) -> Option<usize> {
    let whole = match bytes {
        [20..=23, 3, _, high, low, ..] => {
            RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]))
        }
        [_, _, _, _, _, ..] => return None,
        _ => RECORD_HEADER_BYTES,
    };
    whole.checked_sub(bytes.len()).filter(|missing| *missing > 0)
}
