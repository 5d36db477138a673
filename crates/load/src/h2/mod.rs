//! The HTTP/2 client of the engine (RFC 9113): it sends requests that were encoded before the run, and
//! parses, counts and discards the answers.
//!
//! A connection has one slot for each virtual client that shares it; a slot has one request at a time, and a
//! new stream for each request. Frames and header compression are those of the http crate. The flow control
//! windows are large, because the received bytes are not stored.

mod receive;
#[cfg(test)]
mod tests;

use crate::answer::Answer;
use crate::header_blocks::HeaderBlocks;
use std::sync::Arc;
use touchstone_http::h2::error::ErrorCode;
use touchstone_http::h2::frame::{
    self, MAX_STREAM_ID, append_data_header, append_headers, append_reset_stream, append_settings,
    append_window_update,
};
use touchstone_http::h2::hpack::{Decoder, FieldList};
use touchstone_http::h2::settings::{DEFAULT_FRAME_BYTES, DEFAULT_WINDOW_BYTES, SettingId};

/// The flow control window of each stream, and of the connection.
const WINDOW_BYTES: u32 = 1 << 30;
/// A window is updated after this number of received bytes.
const OPEN_AGAIN_BYTES: u32 = WINDOW_BYTES / 2;
/// The dynamic table size update to 0 (RFC 7541, section 6.3).
const NO_TABLE: u8 = 0x20;

/// One connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    slots: Vec<Stream>,
    /// A cache of the slots of stream identifiers: see [`Http2::slot_of`].
    slot_hints: Vec<u32>,
    open_streams: usize,
    next_stream: u32,
    table: PeerTable,
    /// No new streams are possible: the server sent GOAWAY, or the stream identifiers are used up.
    is_ending: bool,
    peer: Peer,
    /// The flow control window of the connection for sent bytes.
    send_window: i64,
    /// The number of slots whose request body is not completely sent.
    sending: usize,
    /// The bytes received on the connection since its last window update.
    received: u32,
    receiving: receive::PartialFrame,
    decoder: Decoder,
    fields: FieldList,
}

/// The settings of the server.
#[derive(Debug)]
struct Peer {
    concurrent_streams: usize,
    initial_window: i64,
    frame_bytes: usize,
}

/// The content of the server's dynamic table for the fields of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerTable {
    Empty,
    /// It contains the fields that all requests share.
    Common,
    /// The server's settings require an empty table; the size update has not been sent yet.
    Refused,
    /// It is empty, and the size update was sent.
    Unused,
}

/// A slot with its active request, if any.
#[derive(Debug, Default)]
struct Stream {
    /// The stream identifier; 0 without an active request.
    id: u32,
    is_head: bool,
    /// The status; 0 before the final head.
    status: u16,
    content_length: Option<u64>,
    bytes: u64,
    body_bytes: u64,
    /// The bytes received since the stream's last window update.
    received: u32,
    send_window: i64,
    /// The request's body, and the number of sent bytes.
    body: Option<(Arc<[u8]>, usize)>,
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEvent {
    /// The answer is complete.
    Answered { slot: usize, answer: Answer },
    /// The length of the answer's body differs from its Content-Length.
    ShortBody { slot: usize },
    /// The server reset the stream (RST_STREAM).
    Reset { slot: usize },
    /// The answer violates the protocol.
    Malformed { slot: usize },
    /// The server has not processed the request: it may be sent again (RFC 9113, section 8.7).
    Unprocessed { slot: usize },
}

/// A connection error: the server violated the protocol, or the header compression failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionBroken;

impl Http2 {
    /// A new connection with this number of slots. The connection preface is appended to `out`.
    pub(crate) fn new(slots: usize, out: &mut Vec<u8>) -> Http2 {
        out.extend_from_slice(frame::PREFACE);
        append_settings(&[(SettingId::ENABLE_PUSH, 0), (SettingId::INITIAL_WINDOW_SIZE, WINDOW_BYTES)], out);
        append_window_update(0, WINDOW_BYTES - DEFAULT_WINDOW_BYTES, out);
        Http2 {
            slots: (0..slots).map(|_| Stream::default()).collect(),
            slot_hints: vec![0; (slots * 2).next_power_of_two()],
            open_streams: 0,
            next_stream: 1,
            table: PeerTable::Empty,
            is_ending: false,
            peer: Peer {
                // RFC 9113, section 6.5.2: initially there is no limit.
                concurrent_streams: usize::MAX,
                initial_window: i64::from(DEFAULT_WINDOW_BYTES),
                frame_bytes: DEFAULT_FRAME_BYTES as usize,
            },
            send_window: i64::from(DEFAULT_WINDOW_BYTES),
            sending: 0,
            received: 0,
            receiving: receive::PartialFrame::default(),
            decoder: Decoder::new(),
            fields: FieldList::new(),
        }
    }

    /// The number of active requests.
    pub(crate) fn open_streams(&self) -> usize {
        self.open_streams
    }

    /// Whether a request can start now.
    pub(crate) fn can_start(&self) -> bool {
        !self.is_ending && self.open_streams < self.peer.concurrent_streams
    }

    /// Whether no further request can start on this connection.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether no byte of the answer on this slot has been received.
    pub(crate) fn is_unanswered(&self, slot: usize) -> bool {
        self.slots[slot].bytes == 0
    }

    /// Starts a request on a free slot.
    pub(crate) fn start(&mut self, slot: usize, blocks: &HeaderBlocks, is_head: bool, out: &mut Vec<u8>) {
        let id = self.next_stream;
        self.next_stream += 2;
        self.is_ending |= self.next_stream > MAX_STREAM_ID;
        self.open_streams += 1;
        let mask = self.slot_hints.len() - 1;
        self.slot_hints[(id >> 1) as usize & mask] = slot as u32;
        let body = blocks.body.clone().filter(|body| !body.is_empty());
        self.sending += usize::from(body.is_some());
        self.append_block(id, blocks, body.is_none(), out);
        self.slots[slot] = Stream {
            id,
            is_head,
            send_window: self.peer.initial_window,
            body: body.map(|body| (body, 0)),
            ..Stream::default()
        };
        self.send_body(slot, out);
    }

    /// The received part of the answer on this slot.
    pub(crate) fn answer(&self, slot: usize) -> Answer {
        let Stream { status, bytes, body_bytes, .. } = self.slots[slot];
        Answer { status, keeps_connection: true, bytes, body_bytes }
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, slot: usize, out: &mut Vec<u8>) {
        let id = self.slots[slot].id;
        if id != 0 {
            append_reset_stream(id, ErrorCode::CANCEL, out);
            self.free(slot);
        }
    }

    fn append_block(&mut self, id: u32, blocks: &HeaderBlocks, end_stream: bool, out: &mut Vec<u8>) {
        let joined;
        let block = match (self.table, &blocks.first) {
            (PeerTable::Empty, Some(first)) => {
                self.table = PeerTable::Common;
                first
            }
            (PeerTable::Common, Some(_)) => &blocks.later,
            (PeerTable::Refused, _) => {
                self.table = PeerTable::Unused;
                joined = [&[NO_TABLE], &blocks.without_table[..]].concat();
                &joined
            }
            _ => &blocks.without_table,
        };
        append_headers(id, block, end_stream, self.peer.frame_bytes, out);
    }

    /// Sends the part of a request's body that both windows allow.
    fn send_body(&mut self, slot: usize, out: &mut Vec<u8>) {
        let stream = &mut self.slots[slot];
        let Some((body, sent)) = &mut stream.body else { return };
        while *sent < body.len() {
            let allowed = stream.send_window.min(self.send_window).max(0) as usize;
            let length = (body.len() - *sent).min(allowed).min(self.peer.frame_bytes);
            if length == 0 {
                return;
            }
            append_data_header(stream.id, length, *sent + length == body.len(), out);
            out.extend_from_slice(&body[*sent..*sent + length]);
            *sent += length;
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
        }
        stream.body = None;
        self.sending -= 1;
    }

    /// The slot of a stream. The cached slot is nearly always right, because streams are numbered in turn and
    /// there are more entries than slots. A long stream may lose its entry to a later stream.
    fn slot_of(&self, id: u32) -> Option<usize> {
        let hint = self.slot_hints[(id >> 1) as usize & (self.slot_hints.len() - 1)] as usize;
        if self.slots[hint].id == id {
            return Some(hint);
        }
        self.slots.iter().position(|stream| stream.id == id && id != 0)
    }

    fn free(&mut self, slot: usize) {
        let stream = &mut self.slots[slot];
        stream.id = 0;
        self.open_streams -= 1;
        if stream.body.take().is_some() {
            self.sending -= 1;
        }
    }
}
