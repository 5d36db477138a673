//! A connection of a server: its state, and its operations.
//!
//! [`receive`](ServerConnection::receive), in `receive.rs`, processes input. `send.rs` plans output.
//! `shutdown.rs` ends the connection.

mod receive;
mod send;
mod shutdown;

#[cfg(test)]
mod tests;

pub use receive::{Preface, detect_preface};
pub use send::{Body, DataFrame, Responded};

use shutdown::Shutdown;

use super::error::{ConnectionError, StreamError};
use super::events::{Events, Record};
use super::flow::{ReceiveWindow, SendWindow};
use super::frame;
use super::hpack::{DEFAULT_TABLE_BYTES, Decoder, Encoder};
use super::limits::{FloodGuard, Limits};
use super::priority::Priority;
use super::scheduler::Scheduler;
use super::settings::{DEFAULT_WINDOW_BYTES, PeerSettings};
use super::streams::{ClosedStreams, Response, StreamClosing, StreamKey, Streams};

/// The frames that may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client's preface.
    Preface,
    /// The client's first frame, which must be `SETTINGS`.
    FirstSettings,
    /// Any frame.
    Frames,
    /// Nothing: the connection has failed.
    Failed(ConnectionError),
}

/// A header block whose `CONTINUATION` frames have not all arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnfinishedBlock {
    stream: u32,
    end_stream: bool,
    continuation_frames: u32,
}

/// The server's side of an HTTP/2 connection, without input and output. See [the module](super) for how to
/// drive it.
#[derive(Debug)]
pub struct ServerConnection {
    limits: Limits,
    phase: Phase,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    streams: Streams,
    closed: ClosedStreams,
    scheduler: Scheduler,
    flood: FloodGuard,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// The highest identifier of any stream that the client began.
    highest_stream: u32,
    /// `SETTINGS` of ours that the client has not acknowledged.
    unacknowledged_settings: u32,
    shutdown: Shutdown,
    client_is_leaving: bool,
    unfinished_block: Option<UnfinishedBlock>,
    /// The fragments of the unfinished block.
    block: Vec<u8>,
    /// Frames of this side's own, which are sent before all others.
    control: Vec<u8>,
    /// Trailers of responses that have data to send before them.
    trailers: Vec<(StreamKey, Vec<u8>)>,
    /// Priorities of streams that are not open yet.
    early_priorities: Vec<(u32, Priority)>,
    /// Streams whose responses have become complete before their requests.
    answered_early: Vec<StreamKey>,
}

impl ServerConnection {
    /// A connection on which nothing was sent or received. Its `SETTINGS` are in the output at once: a server
    /// may send them before the client has sent anything (RFC 9113 section 3.4).
    pub fn new(limits: Limits) -> ServerConnection {
        let limits = limits.within_bounds();
        let mut control = Vec::new();
        frame::append_settings(&limits.settings(), &mut control);
        let connection_window_bytes = limits.connection_window_bytes;
        if connection_window_bytes > DEFAULT_WINDOW_BYTES {
            frame::append_window_update(0, connection_window_bytes - DEFAULT_WINDOW_BYTES, &mut control);
        }
        let mut decoder = Decoder::new();
        // The client may use a larger table as soon as it reads the setting. It must use a smaller one as
        // soon as it has acknowledged the setting.
        decoder.set_table_limit(limits.decoder_table_bytes.max(DEFAULT_TABLE_BYTES));
        ServerConnection {
            phase: Phase::Preface,
            peer: PeerSettings::default(),
            decoder,
            encoder: Encoder::new(limits.encoder_table_bytes),
            streams: Streams::new(),
            closed: ClosedStreams::new(),
            scheduler: Scheduler::new(),
            flood: FloodGuard::default(),
            send_window: SendWindow::new(DEFAULT_WINDOW_BYTES),
            receive_window: ReceiveWindow::new(connection_window_bytes),
            highest_stream: 0,
            unacknowledged_settings: 1,
            shutdown: Shutdown::No,
            client_is_leaving: false,
            unfinished_block: None,
            block: Vec::new(),
            control,
            trailers: Vec::new(),
            early_priorities: Vec::new(),
            answered_early: Vec::new(),
            limits,
        }
    }

    /// What the client has chosen in its `SETTINGS`.
    pub fn peer_settings(&self) -> &PeerSettings {
        &self.peer
    }

    /// How many streams are open.
    #[inline]
    pub fn open_streams(&self) -> usize {
        self.streams.open()
    }

    /// Whether a stream is open: false once its response and its request are complete, or it was reset.
    #[inline]
    pub fn is_open(&self, stream: StreamKey) -> bool {
        self.streams.contains(stream)
    }

    /// Whether the client has begun a header block and not ended it. A server limits the time for it.
    pub fn is_within_header_block(&self) -> bool {
        self.unfinished_block.is_some()
    }

    /// Whether the client has acknowledged all settings. If it does not do so within some seconds, the caller
    /// can [`close`](ServerConnection::close) the connection with `SETTINGS_TIMEOUT` (RFC 9113 section
    /// 6.5.3).
    pub fn settings_are_acknowledged(&self) -> bool {
        self.unacknowledged_settings == 0
    }

    /// Must be called about once a second, whatever happens on the connection: it begins a new period for the
    /// limits on resets and on control and empty frames.
    pub fn replenish(&mut self) {
        self.flood.replenish();
    }

    /// Sends a `PING`; the answer is [`Event::Pong`](super::Event::Pong).
    pub fn ping(&mut self, payload: [u8; 8]) {
        frame::append_ping(payload, false, &mut self.control);
    }

    /// Releases `bytes` of a request body that the caller has processed, so that the client may send as many
    /// again. After a complete response only the connection's window is opened, because the request is not
    /// needed any more. Does nothing for a closed stream: closing it released all its bytes.
    pub fn release(&mut self, stream: StreamKey, bytes: usize) {
        let target = self.limits.stream_window_bytes;
        let Some(open) = self.streams.get(stream) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(open.receive_window.unconsumed());
        let increment = open.receive_window.consume(bytes, target);
        if let Some(increment) = increment
            && !open.request_ended
            && open.response != Response::Complete
        {
            frame::append_window_update(stream.id(), increment, &mut self.control);
        }
        self.release_of_connection(bytes);
    }

    /// Changes the priority of a response, if the server has better information than the client (RFC 9218
    /// section 8).
    pub fn set_priority(&mut self, stream: StreamKey, priority: Priority) {
        if self.streams.contains(stream) {
            self.scheduler.set_priority(&mut self.streams, stream.index() as u32, priority);
        }
    }

    #[inline]
    fn release_of_connection(&mut self, bytes: u32) {
        let target = self.limits.connection_window_bytes;
        if let Some(increment) = self.receive_window.consume(bytes, target) {
            frame::append_window_update(0, increment, &mut self.control);
        }
    }

    /// Closes a stream. Its bytes are released to the connection's window.
    #[inline]
    fn remove_stream(&mut self, slot: u32, how: StreamClosing) {
        let stream = self.streams.slot(slot);
        let (id, unconsumed, has_trailers) =
            (stream.id, stream.receive_window.unconsumed(), stream.has_trailers);
        if stream.queue.is_queued {
            self.scheduler.remove(&mut self.streams, slot);
        }
        if has_trailers {
            self.trailers.retain(|(key, _)| key.id() != id);
        }
        self.closed.remember(id, how);
        self.streams.remove(slot);
        if unconsumed > 0 {
            self.release_of_connection(unconsumed);
        }
    }

    /// Resets a stream because of something that the client did.
    fn reset_for_error(
        &mut self,
        slot: u32,
        error: StreamError,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        let stream = self.streams.key(slot);
        frame::append_reset_stream(stream.id(), error.code, &mut self.control);
        self.remove_stream(slot, StreamClosing::ByReset);
        events.push(Record::Reset { stream, code: error.code, reason: Some(error.reason) });
        self.flood.reset(&self.limits)
    }
}
