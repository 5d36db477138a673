//! Sends responses: header sections at once, bodies as the windows and the priorities allow (RFC 9113
//! sections 5.2 and 8.1, RFC 9218).
//!
//! Bodies are never copied into the connection. It stores how many bytes of each the caller has, plans one
//! frame at a time, writes the frame's header, and has the caller append the bytes.

use super::super::error::ErrorCode;
use super::super::frame::{self, HEADER_BYTES};
use super::super::settings::DEFAULT_FRAME_BYTES;
use super::super::streams::{Response, StreamClosing, StreamKey};
use super::ServerConnection;

/// A client that leaves no larger window has the server send frames that are mostly header.
const TINY_WINDOW_BYTES: usize = 64;

/// The body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// None: the response ends with its header section, as to HEAD and with 204 and 304.
    Empty,
    /// The whole body. It is sent at once if possible; otherwise it is treated like `Length`.
    Bytes(&'a [u8]),
    /// A body of this length; the caller can supply its bytes whenever they are requested.
    Length(u64),
    /// A body whose length is not known yet: [`offer`](ServerConnection::offer) announces more bytes, and
    /// [`finish`](ServerConnection::finish) ends it.
    Stream,
}

/// The result of [`ServerConnection::respond`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Responded {
    /// The whole response is in the output. The stream is closed, unless its request may still end.
    Complete,
    /// The header section is in the output. [`next_data`](ServerConnection::next_data) will request the body
    /// from its first byte on, even if the body was passed as bytes.
    Queued,
    /// The stream is closed, or already has a response. Nothing was written.
    Gone,
}

/// A `DATA` frame whose header was written; the caller appends its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataFrame {
    /// The stream.
    pub stream: StreamKey,
    /// How many bytes of the body the caller must append: the next ones.
    pub length: usize,
    /// Whether these are the last bytes: no more of this body will be requested.
    pub is_last: bool,
}

impl ServerConnection {
    /// Responds to a request: appends the header section to `out`, and also the body if it is small and no
    /// window or more urgent response prevents it.
    ///
    /// `block` must be encoded without a dynamic table, as by
    /// [`encode_response_block`](super::super::hpack::encode_response_block).
    #[inline]
    pub fn respond(
        &mut self,
        stream: StreamKey,
        block: &[u8],
        body: Body<'_>,
        out: &mut Vec<u8>,
    ) -> Responded {
        let frame_bytes = self.send_frame_bytes();
        match body {
            Body::Bytes(bytes) if bytes.len() <= frame_bytes && block.len() <= frame_bytes => {
                let Some(open) = self.streams.get(stream) else { return Responded::Gone };
                let fits = open.response == Response::Awaited
                    && !bytes.is_empty()
                    && bytes.len() <= open.send_window.available()
                    && bytes.len() <= self.send_window.available()
                    && out.len() < self.limits.output_bytes
                    && self.scheduler.is_free_for(open.priority, open.takes_turns())
                    && !self.encoder.is_size_update_due();
                if !fits {
                    return self.respond_slowly(stream, block, body, out);
                }
                // An answer that is complete at once opens no tunnel, even if the client has requested one.
                open.is_tunnel = false;
                self.send_window.sent(bytes.len());
                if !self.control.is_empty() {
                    self.take_output(out);
                }
                out.reserve(2 * HEADER_BYTES + block.len() + bytes.len());
                frame::append_headers(stream.id(), block, false, frame_bytes, out);
                frame::append_data_header(stream.id(), bytes.len(), true, out);
                out.extend_from_slice(bytes);
                self.complete(stream.index() as u32);
                Responded::Complete
            }
            _ => self.respond_slowly(stream, block, body, out),
        }
    }

    /// Responds to a request. The fields are encoded for this connection, with its dynamic table. The result
    /// is shorter than what [`respond`](ServerConnection::respond) sends, but must be encoded each time.
    ///
    /// Names may be in any case. Names and values from outside must be checked before. `block` is a buffer
    /// that is used again and again.
    pub fn respond_with_fields<'a>(
        &mut self,
        stream: StreamKey,
        status: u16,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        body: Body<'_>,
        block: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Responded {
        // Nothing is encoded for a closed stream: a block that changes the encoder's table must be sent.
        if self.streams.get(stream).is_none_or(|open| open.response != Response::Awaited) {
            return Responded::Gone;
        }
        block.clear();
        self.encoder.encode_response(status, fields, block);
        self.respond(stream, block, body, out)
    }

    #[inline(never)]
    fn respond_slowly(
        &mut self,
        stream: StreamKey,
        block: &[u8],
        body: Body<'_>,
        out: &mut Vec<u8>,
    ) -> Responded {
        let Some(open) = self.streams.get(stream) else { return Responded::Gone };
        if open.response != Response::Awaited {
            return Responded::Gone;
        }
        open.response = Response::Started;
        let length = match body {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Length(length) => Some(length),
            Body::Stream => None,
        };
        open.ends = length.is_some();
        // An answer that is complete at once opens no tunnel, even if the client has requested one.
        open.is_tunnel &= !open.ends;
        open.unsent = length.unwrap_or(0);
        self.take_output(out);
        self.append_block(stream.id(), block, length == Some(0), out);
        if length == Some(0) {
            self.complete(stream.index() as u32);
            return Responded::Complete;
        }
        self.queue_if_ready(stream.index() as u32);
        Responded::Queued
    }

    /// Sends an interim response, such as 100 or 103, before the response itself. The block is like that of
    /// [`respond`](ServerConnection::respond). Returns false if it is too late.
    pub fn inform(&mut self, stream: StreamKey, block: &[u8], out: &mut Vec<u8>) -> bool {
        let may = self.streams.get(stream).is_some_and(|open| open.response == Response::Awaited);
        if may {
            self.take_output(out);
            self.append_block(stream.id(), block, false, out);
        }
        may
    }

    /// Makes `bytes` more available of a body that began as [`Body::Stream`]. Returns false if the stream is
    /// closed or the body has ended.
    pub fn offer(&mut self, stream: StreamKey, bytes: usize) -> bool {
        let Some(open) = self.streams.get(stream) else { return false };
        if open.response != Response::Started || open.ends {
            return false;
        }
        open.unsent += bytes as u64;
        self.queue_if_ready(stream.index() as u32);
        true
    }

    /// Ends a body that began as [`Body::Stream`]: all of it was offered. Trailers may follow: a block with
    /// only fields, as from [`encode_fields_block`](super::super::hpack::encode_fields_block).
    ///
    /// If no data is left to send, the end is appended to `out` and the stream is closed, as the result
    /// states.
    pub fn finish(&mut self, stream: StreamKey, trailers: Option<&[u8]>, out: &mut Vec<u8>) -> Responded {
        let Some(open) = self.streams.get(stream) else { return Responded::Gone };
        if open.response != Response::Started || open.ends {
            return Responded::Gone;
        }
        open.ends = true;
        if open.unsent > 0 {
            open.has_trailers = trailers.is_some();
            if let Some(trailers) = trailers {
                self.trailers.push((stream, trailers.to_vec()));
            }
            return Responded::Queued;
        }
        self.take_output(out);
        match trailers {
            Some(trailers) => self.append_block(stream.id(), trailers, true, out),
            None => frame::append_data_header(stream.id(), 0, true, out),
        }
        self.complete(stream.index() as u32);
        Responded::Complete
    }

    /// Plans the next `DATA` frame of at most `max_length` bytes: appends its header to `out` and returns the
    /// stream whose next bytes the caller must append. `None` if there is nothing to send, there is no
    /// window, or `out` already holds [`Limits::output_bytes`](super::super::Limits::output_bytes).
    ///
    /// Calling it until it returns `None` also appends all frames of the connection itself that wait to be
    /// sent.
    pub fn next_data(&mut self, max_length: usize, out: &mut Vec<u8>) -> Option<DataFrame> {
        self.take_output(out);
        if out.len() >= self.limits.output_bytes {
            return None;
        }
        let of_connection = self.send_window.available();
        let max_length = max_length.min(self.send_frame_bytes()).min(of_connection);
        if max_length == 0 {
            return None;
        }
        while let Some(slot) = self.scheduler.first() {
            let open = self.streams.slot(slot);
            let unsent = usize::try_from(open.unsent).unwrap_or(usize::MAX);
            let window = open.send_window.available();
            let length = max_length.min(window).min(unsent);
            if length == 0 {
                // The client made its window smaller after the stream was put into its queue.
                self.scheduler.remove(&mut self.streams, slot);
                continue;
            }
            let window = window.min(of_connection);
            if window < TINY_WINDOW_BYTES
                && window < unsent
                && let Err(error) = self.flood.tiny_window(&self.limits)
            {
                self.fail(error);
                self.take_output(out);
                return None;
            }
            open.unsent -= length as u64;
            open.send_window.sent(length);
            let is_last = open.ends && open.unsent == 0;
            let is_ready = open.unsent > 0 && open.send_window.available() > 0;
            let end_stream = is_last && !open.has_trailers;
            self.send_window.sent(length);
            let stream = self.streams.key(slot);
            frame::append_data_header(stream.id(), length, end_stream, out);
            self.scheduler.pass_turn(&mut self.streams, slot);
            if !is_ready {
                self.scheduler.remove(&mut self.streams, slot);
            }
            if is_last {
                self.end_response(stream, end_stream);
            }
            return Some(DataFrame { stream, length, is_last });
        }
        None
    }

    /// Appends the frames of the connection itself that wait to be sent: acknowledgements, window updates,
    /// resets and the like. All other methods that append to `out` do this first.
    #[inline]
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        if !self.control.is_empty() {
            out.append(&mut self.control);
        }
    }

    /// Whether a call of [`next_data`](ServerConnection::next_data) with an empty buffer would append
    /// anything.
    #[inline]
    pub fn has_data_to_send(&self) -> bool {
        !self.control.is_empty() || !self.scheduler.is_empty() && self.send_window.available() > 0
    }

    /// Whether there is data to send, but the windows are empty. A client that stays in this state occupies
    /// memory: a server limits the time for it, and then resets the streams or closes the connection.
    pub fn is_blocked(&self) -> bool {
        !self.has_data_to_send() && self.streams.any_unsent()
    }

    /// How many bytes of a stream's body were promised or offered, and not yet requested.
    pub fn unsent(&mut self, stream: StreamKey) -> u64 {
        self.streams.get(stream).map_or(0, |open| open.unsent)
    }

    /// How many more bytes than those already offered could be sent on a stream now. A caller that reads a
    /// body from elsewhere should read this much next.
    pub fn send_capacity(&mut self, stream: StreamKey) -> usize {
        let of_connection = self.send_window.available();
        self.streams.get(stream).map_or(0, |open| {
            let unsent = usize::try_from(open.unsent).unwrap_or(usize::MAX);
            of_connection.min(open.send_window.available()).saturating_sub(unsent)
        })
    }

    /// The largest frame that is sent. A frame larger than the default would only make other streams wait.
    #[inline]
    fn send_frame_bytes(&self) -> usize {
        self.peer.frame_bytes.min(DEFAULT_FRAME_BYTES) as usize
    }

    /// Appends a header block, and before it the size update that is due.
    fn append_block(&mut self, id: u32, block: &[u8], end_stream: bool, out: &mut Vec<u8>) {
        let frame_bytes = self.send_frame_bytes();
        if !self.encoder.is_size_update_due() {
            return frame::append_headers(id, block, end_stream, frame_bytes, out);
        }
        let mut updated = Vec::with_capacity(block.len() + 8);
        self.encoder.encode_size_update(&mut updated);
        updated.extend_from_slice(block);
        frame::append_headers(id, &updated, end_stream, frame_bytes, out);
    }

    /// Puts a stream into its queue if it has something to send and a window for it.
    #[inline]
    pub(super) fn queue_if_ready(&mut self, slot: u32) {
        let open = self.streams.slot(slot);
        if open.unsent > 0 && open.send_window.available() > 0 && !open.queue.is_queued {
            self.scheduler.push(&mut self.streams, slot);
        }
    }

    /// Called when the last bytes of a body were planned; trailers follow, if there are any.
    fn end_response(&mut self, stream: StreamKey, end_stream: bool) {
        if !end_stream && let Some(place) = self.trailers.iter().position(|(key, _)| *key == stream) {
            let (_, block) = self.trailers.swap_remove(place);
            let mut control = std::mem::take(&mut self.control);
            self.append_block(stream.id(), &block, true, &mut control);
            self.control = control;
        }
        self.complete(stream.index() as u32);
    }

    /// Called when everything of a response was sent or planned.
    #[inline]
    fn complete(&mut self, slot: u32) {
        self.flood.response_completed();
        let open = self.streams.slot(slot);
        open.response = Response::Complete;
        if open.request_ended {
            self.remove_stream(slot, StreamClosing::Known);
        } else if !open.is_tunnel {
            // Section 8.1: the client need not send the rest of its request.
            let window = u64::from(open.receive_window.available());
            let may_end = open.content_left.is_none_or(|left| left <= window);
            let stream = self.streams.key(slot);
            if self.limits.awaits_requests {
                self.answered_early.push(stream);
            }
            if !self.limits.awaits_requests || !may_end {
                self.stop_request(stream);
            }
        }
    }

    /// The streams whose responses have become complete since the last call, and whose requests had not
    /// ended. Those that are still open may end, see
    /// [`Limits::awaits_requests`](super::super::Limits::awaits_requests); the caller should stop them soon.
    pub fn take_answered_early(&mut self) -> impl Iterator<Item = StreamKey> {
        self.answered_early.drain(..)
    }

    /// Has the client send no more of a request whose response is complete, if the request has not ended.
    /// There is no event for it.
    pub fn stop_request(&mut self, stream: StreamKey) {
        let open = self.streams.get(stream);
        if open.is_some_and(|open| open.response == Response::Complete && !open.is_tunnel) {
            frame::append_reset_stream(stream.id(), ErrorCode::NO_ERROR, &mut self.control);
            self.remove_stream(stream.index() as u32, StreamClosing::ByReset);
        }
    }
}
