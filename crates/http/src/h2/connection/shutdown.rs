//! How a connection ends (RFC 9113 sections 5.4.1 and 6.8).
//!
//! A graceful end takes two steps. The first `GOAWAY` only announces the end, because requests that the
//! client has already sent must not be lost; a `PING` follows it. When the client answers the `PING`, it has
//! seen the `GOAWAY` and begins no more streams: the second `GOAWAY` then names the last stream that was
//! processed.

use super::super::error::{ConnectionError, ErrorCode};
use super::super::frame::{self, MAX_STREAM_ID};
use super::super::streams::{StreamClosing, StreamKey};
use super::{Phase, ServerConnection};

/// The payload of the ping that goes with the first `GOAWAY`.
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"farewell";

/// How far the shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// The shutdown has not begun.
    No,
    /// The client was ordered to begin no more streams; those that it begins nevertheless are served.
    Announced,
    /// Streams above this one are ignored.
    Final(u32),
}

impl ServerConnection {
    /// Begins a graceful shutdown: requests are still processed until the client has seen the announcement,
    /// then no more.
    ///
    /// The second step follows when the client answers. If it does not answer in time, the caller takes the
    /// second step with [`refuse_new_streams`](ServerConnection::refuse_new_streams).
    pub fn shut_down(&mut self) {
        if self.shutdown == Shutdown::No {
            self.shutdown = Shutdown::Announced;
            frame::append_goaway(MAX_STREAM_ID, ErrorCode::NO_ERROR, b"", &mut self.control);
            frame::append_ping(SHUTDOWN_PING, false, &mut self.control);
        }
    }

    /// Takes the second step of a graceful shutdown: from now on new streams are ignored. The `GOAWAY` names
    /// the last stream that is not ignored, so that the client can send the other requests again.
    pub fn refuse_new_streams(&mut self) {
        if !matches!(self.shutdown, Shutdown::Final(_)) {
            self.shutdown = Shutdown::Final(self.highest_stream);
            frame::append_goaway(self.highest_stream, ErrorCode::NO_ERROR, b"", &mut self.control);
        }
    }

    /// Whether the connection can be closed: it has failed, or a shutdown that this side began is complete
    /// and all responses are sent. Output that was not taken yet must be sent before.
    pub fn is_finished(&self) -> bool {
        let is_shut_down = matches!(self.shutdown, Shutdown::Final(_)) && self.streams.open() == 0;
        is_shut_down || matches!(self.phase, Phase::Failed(_))
    }

    /// Whether the client has sent `GOAWAY`. It will close the connection itself; if this side closed it, the
    /// connection could break while the client still sends. If no stream is open, a short wait is enough.
    pub fn client_is_leaving(&self) -> bool {
        self.client_is_leaving
    }

    /// Ends the connection at once, for example with `SETTINGS_TIMEOUT` or with `ENHANCE_YOUR_CALM`. The
    /// caller should still send the output, and then close the connection.
    pub fn close(&mut self, code: ErrorCode, reason: &'static str) {
        self.fail(ConnectionError::new(code, reason));
    }

    /// Resets a stream: its response will not be completed. `CANCEL` and `INTERNAL_ERROR` are the usual
    /// codes. There is no event for it.
    pub fn reset(&mut self, stream: StreamKey, code: ErrorCode) {
        if self.streams.contains(stream) {
            frame::append_reset_stream(stream.id(), code, &mut self.control);
            self.remove_stream(stream.index() as u32, StreamClosing::ByReset);
        }
    }

    /// Notes that the connection has failed, and puts `GOAWAY` into the output.
    pub(super) fn fail(&mut self, error: ConnectionError) {
        if !matches!(self.phase, Phase::Failed(_)) {
            let last_stream = match self.shutdown {
                Shutdown::Final(last_stream) => last_stream,
                _ => self.highest_stream,
            };
            frame::append_goaway(last_stream, error.code, error.reason.as_bytes(), &mut self.control);
            self.phase = Phase::Failed(error);
        }
    }
}
