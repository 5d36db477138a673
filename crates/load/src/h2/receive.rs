//! The receiving side of HTTP/2: frames are parsed in parts, and the bytes of bodies are not buffered.

use super::{ConnectionBroken, Http2, OPEN_AGAIN_BYTES, PeerTable, StreamEvent};
use crate::answer::Answer;
use crate::answer_head::AnswerHead;
use crate::body::SlotSink;
use touchstone_http::h2::error::ErrorCode;
use touchstone_http::h2::frame::{
    Frame, FrameHeader, FrameType, HEADER_BYTES, SettingsPayload, append_ping, append_reset_stream,
    append_settings_acknowledgement, append_window_update, flags,
};
use touchstone_http::h2::hpack::DEFAULT_TABLE_BYTES;
use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::settings::{DEFAULT_FRAME_BYTES, MAX_FRAME_BYTES, MAX_WINDOW_BYTES, SettingId};

/// The longest header block, in bytes.
const MAXIMUM_BLOCK_BYTES: usize = 256 * 1024;
/// The limits of a header section.
const LIST_LIMITS: ListLimits = ListLimits { bytes: MAXIMUM_BLOCK_BYTES, fields: 1000 };
/// The limit of pending output. The connection is closed when a server sends frames that require answers and
/// does not read them.
const MAXIMUM_OUTPUT_BYTES: usize = 64 * 1024 * 1024;

/// The received part of an incomplete frame.
#[derive(Debug, Default)]
pub(super) struct PartialFrame {
    /// The received part of a frame other than plain DATA.
    partial: Vec<u8>,
    /// The remaining part of a DATA frame.
    data: Option<Data>,
    /// A header block whose last frame has not been received.
    block: Option<Block>,
    /// The last decoded header block that did not change the table, and its content: usually the next one is
    /// equal.
    last_block: Vec<u8>,
    last_head: AnswerHead,
}

/// The remaining part of a DATA frame.
#[derive(Debug, Clone, Copy)]
struct Data {
    id: u32,
    /// `None`: the request was cancelled.
    slot: Option<usize>,
    remaining: usize,
    end_stream: bool,
}

/// A header block in several frames.
#[derive(Debug)]
struct Block {
    id: u32,
    end_stream: bool,
    bytes: Vec<u8>,
}

/// The destinations of received data.
pub(super) struct Sinks<'a, S: SlotSink> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) events: &'a mut Vec<StreamEvent>,
    /// Receives header sections and the parts of bodies, with their slots.
    pub(super) slots: &'a mut S,
}

impl Http2 {
    /// Processes received bytes. Events of requests are appended to `events`, and output to `out`; header
    /// sections and the bytes of bodies are passed to `slots`.
    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<StreamEvent>,
        slots: &mut impl SlotSink,
    ) -> Result<(), ConnectionBroken> {
        let mut sinks = Sinks { out, events, slots };
        let mut rest = self.complete_partial(input, &mut sinks)?;
        loop {
            if let Some(data) = self.receiving.data {
                let length = data.remaining.min(rest.len());
                let (part, after) = rest.split_at(length);
                self.take_data(data, part, &mut sinks);
                rest = after;
                if self.receiving.data.is_some() {
                    return Ok(());
                }
            }
            let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() else { break };
            let header = FrameHeader::parse(header);
            if is_plain_data(&header) {
                self.begin_data(&header, &mut sinks)?;
                rest = after;
                continue;
            }
            let Some((payload, after)) = after.split_at_checked(header.length) else { break };
            self.take_frame(header, payload, &mut sinks)?;
            rest = after;
        }
        if let Some(header) = rest.first_chunk::<HEADER_BYTES>()
            && FrameHeader::parse(header).length > DEFAULT_FRAME_BYTES as usize
        {
            return Err(ConnectionBroken);
        }
        self.receiving.partial.extend_from_slice(rest);
        if sinks.out.len() > MAXIMUM_OUTPUT_BYTES { Err(ConnectionBroken) } else { Ok(()) }
    }

    /// Completes the stored part of a frame; returns the bytes after the frame, none if it is still
    /// incomplete.
    fn complete_partial<'a, S: SlotSink>(
        &mut self,
        input: &'a [u8],
        sinks: &mut Sinks<'_, S>,
    ) -> Result<&'a [u8], ConnectionBroken> {
        let mut rest = input;
        while !self.receiving.partial.is_empty() {
            let partial = &mut self.receiving.partial;
            let header = partial.first_chunk::<HEADER_BYTES>().map(FrameHeader::parse);
            let needed = match &header {
                None => HEADER_BYTES,
                Some(header) if header.length > DEFAULT_FRAME_BYTES as usize => return Err(ConnectionBroken),
                Some(header) if is_plain_data(header) => HEADER_BYTES,
                Some(header) => HEADER_BYTES + header.length,
            };
            if let Some(header) = header
                && partial.len() == needed
            {
                let frame = std::mem::take(partial);
                if is_plain_data(&header) {
                    self.begin_data(&header, sinks)?;
                } else {
                    self.take_frame(header, &frame[HEADER_BYTES..], sinks)?;
                }
                self.receiving.partial = frame;
                self.receiving.partial.clear();
                break;
            }
            let (more, after) = rest.split_at((needed - partial.len()).min(rest.len()));
            if more.is_empty() {
                break;
            }
            partial.extend_from_slice(more);
            rest = after;
        }
        Ok(rest)
    }

    fn take_frame<S: SlotSink>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        if header.length > DEFAULT_FRAME_BYTES as usize {
            return Err(ConnectionBroken);
        }
        let parsed = Frame::parse(header, payload).map_err(|_| ConnectionBroken)?;
        // No other frame is allowed between the frames of a header block (RFC 9113, section 6.10).
        if self.receiving.block.is_some() != matches!(parsed, Frame::Continuation { .. }) {
            return Err(ConnectionBroken);
        }
        match parsed {
            Frame::Headers { stream, fragment, end_stream, end_headers, .. } => {
                self.count_bytes(stream, header.length);
                if end_headers {
                    return self.take_block(stream, end_stream, fragment, sinks);
                }
                self.receiving.block = Some(Block { id: stream, end_stream, bytes: fragment.to_vec() });
            }
            Frame::Continuation { stream, fragment, end_headers } => {
                self.count_bytes(stream, header.length);
                return self.take_continuation(stream, fragment, end_headers, sinks);
            }
            Frame::Data { data, .. } => {
                self.begin_data(&header, sinks)?;
                // The padding is not part of the body.
                if let Some(data_frame) = self.receiving.data {
                    self.take_data(Data { remaining: data.len(), ..data_frame }, data, sinks);
                }
            }
            Frame::ResetStream { stream, code } => self.take_reset(stream, code, sinks)?,
            Frame::Settings(settings) => self.take_settings(&settings, sinks)?,
            Frame::Ping { payload, acknowledgement: false } => append_ping(payload, true, sinks.out),
            Frame::GoAway { last_stream, .. } => self.take_goaway(last_stream, sinks),
            Frame::WindowUpdate { stream, increment } => self.take_window_update(stream, increment, sinks)?,
            // Server push is disabled.
            Frame::PushPromise { .. } => return Err(ConnectionBroken),
            _ => {}
        }
        Ok(())
    }

    fn count_bytes(&mut self, id: u32, payload_bytes: usize) {
        if let Some(slot) = self.slot_of(id) {
            self.slots[slot].bytes += (HEADER_BYTES + payload_bytes) as u64;
        }
    }

    // ---- bodies

    /// Begins a DATA frame. All of its payload counts for flow control, even if the request was cancelled.
    fn begin_data<S: SlotSink>(
        &mut self,
        header: &FrameHeader,
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        if header.stream == 0
            || header.length > DEFAULT_FRAME_BYTES as usize
            || self.receiving.block.is_some()
        {
            return Err(ConnectionBroken);
        }
        let slot = self.known_slot(header.stream)?;
        let (length, end_stream) = (header.length, header.has(flags::END_STREAM));
        self.received += length as u32;
        if self.received >= OPEN_AGAIN_BYTES {
            append_window_update(0, std::mem::take(&mut self.received), sinks.out);
        }
        if let Some(slot) = slot {
            let stream = &mut self.slots[slot];
            stream.bytes += (HEADER_BYTES + length) as u64;
            stream.received += length as u32;
            if stream.received >= OPEN_AGAIN_BYTES && !end_stream {
                append_window_update(stream.id, std::mem::take(&mut stream.received), sinks.out);
            }
        }
        let data = Data { id: header.stream, slot, remaining: length, end_stream };
        self.receiving.data = Some(data);
        if length == 0 {
            self.take_data(data, &[], sinks);
        }
        Ok(())
    }

    fn take_data<S: SlotSink>(&mut self, data: Data, part: &[u8], sinks: &mut Sinks<'_, S>) {
        let remaining = data.remaining - part.len();
        self.receiving.data = (remaining > 0).then_some(Data { remaining, ..data });
        // The request may have been cancelled since the frame began, and its slot reused.
        let Some(slot) = data.slot.filter(|&slot| self.slots[slot].id == data.id) else { return };
        let stream = &mut self.slots[slot];
        // A body before the head, or in an answer to HEAD.
        if (stream.status == 0 || stream.is_head) && !part.is_empty() {
            self.receiving.data = (remaining > 0).then_some(Data { remaining, slot: None, ..data });
            return self.end_malformed(slot, sinks);
        }
        stream.body_bytes += part.len() as u64;
        sinks.slots.body(slot, part);
        if remaining == 0 && data.end_stream {
            self.end(slot, sinks);
        }
    }

    // ---- heads

    fn take_continuation<S: SlotSink>(
        &mut self,
        id: u32,
        fragment: &[u8],
        end_headers: bool,
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        let Some(mut block) = self.receiving.block.take() else { return Err(ConnectionBroken) };
        block.bytes.extend_from_slice(fragment);
        if block.id != id || block.bytes.len() > MAXIMUM_BLOCK_BYTES {
            return Err(ConnectionBroken);
        }
        if end_headers {
            return self.take_block(id, block.end_stream, &block.bytes, sinks);
        }
        self.receiving.block = Some(block);
        Ok(())
    }

    fn take_block<S: SlotSink>(
        &mut self,
        id: u32,
        end_stream: bool,
        block: &[u8],
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        let head = self.read_block(block)?;
        let Some(slot) = self.known_slot(id)? else { return Ok(()) };
        let stream = &mut self.slots[slot];
        match head.status {
            _ if !head.is_valid => {
                self.end_malformed(slot, sinks);
                return Ok(());
            }
            // An interim answer (RFC 9110, section 15.2): the final answer follows.
            Some(100..=199) if stream.status == 0 && !end_stream => return Ok(()),
            Some(status @ 200..) if stream.status == 0 => {
                stream.status = status;
                stream.content_length = head.content_length;
            }
            // Trailers.
            None if stream.status != 0 && end_stream => {}
            _ => {
                self.end_malformed(slot, sinks);
                return Ok(());
            }
        }
        // The list contains the last decoded block, which is this block or an equal one.
        sinks.slots.section(slot, &self.fields);
        if end_stream {
            self.end(slot, sinks);
        }
        Ok(())
    }

    /// Reads a header block. A block with the same bytes as the last one has the same content, unless the
    /// table has changed.
    fn read_block(&mut self, block: &[u8]) -> Result<AnswerHead, ConnectionBroken> {
        let receiving = &mut self.receiving;
        if !receiving.last_block.is_empty() && receiving.last_block == block {
            return Ok(receiving.last_head);
        }
        self.fields.clear();
        let decoded =
            self.decoder.decode(block, LIST_LIMITS, &mut self.fields).map_err(|_| ConnectionBroken)?;
        let head = AnswerHead::of(&self.fields, !decoded.is_too_large);
        receiving.last_block.clear();
        if !decoded.changes_table {
            receiving.last_block.extend_from_slice(block);
            receiving.last_head = head;
        }
        Ok(head)
    }

    // ---- the end of requests

    /// The slot of a stream that the client opened; `None` if its request has ended. Other stream identifiers
    /// are a connection error.
    fn known_slot(&self, id: u32) -> Result<Option<usize>, ConnectionBroken> {
        if id.is_multiple_of(2) || id >= self.next_stream {
            Err(ConnectionBroken)
        } else {
            Ok(self.slot_of(id))
        }
    }

    /// Ends a request whose answer is complete.
    fn end<S: SlotSink>(&mut self, slot: usize, sinks: &mut Sinks<'_, S>) {
        let stream = &self.slots[slot];
        let has_body = !stream.is_head && !matches!(stream.status, 204 | 304);
        let is_whole = !has_body || stream.content_length.is_none_or(|length| length == stream.body_bytes);
        let (bytes, body_bytes, status) = (stream.bytes, stream.body_bytes, stream.status);
        if status == 0 {
            return self.end_malformed(slot, sinks);
        }
        if stream.body.is_some() {
            // The answer was complete before the request's body was sent; the rest of the body is not needed.
            append_reset_stream(stream.id, ErrorCode::NO_ERROR, sinks.out);
        }
        self.free(slot);
        sinks.events.push(if is_whole {
            StreamEvent::Answered {
                slot,
                answer: Answer { status, keeps_connection: true, bytes, body_bytes },
            }
        } else {
            StreamEvent::ShortBody { slot }
        });
    }

    fn end_malformed<S: SlotSink>(&mut self, slot: usize, sinks: &mut Sinks<'_, S>) {
        append_reset_stream(self.slots[slot].id, ErrorCode::PROTOCOL_ERROR, sinks.out);
        self.free(slot);
        sinks.events.push(StreamEvent::Malformed { slot });
    }

    fn take_reset<S: SlotSink>(
        &mut self,
        id: u32,
        code: ErrorCode,
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        if let Some(slot) = self.known_slot(id)? {
            self.free(slot);
            sinks.events.push(match code {
                ErrorCode::REFUSED_STREAM => StreamEvent::Unprocessed { slot },
                _ => StreamEvent::Reset { slot },
            });
        }
        Ok(())
    }

    fn take_goaway<S: SlotSink>(&mut self, last_stream: u32, sinks: &mut Sinks<'_, S>) {
        self.is_ending = true;
        for slot in 0..self.slots.len() {
            if self.slots[slot].id > last_stream {
                self.free(slot);
                sinks.events.push(StreamEvent::Unprocessed { slot });
            }
        }
    }

    // ---- settings and windows

    fn take_settings<S: SlotSink>(
        &mut self,
        settings: &SettingsPayload<'_>,
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        for (id, value) in settings.iter() {
            match id {
                SettingId::HEADER_TABLE_SIZE
                    if value < DEFAULT_TABLE_BYTES && self.table != PeerTable::Unused =>
                {
                    self.table = PeerTable::Refused;
                }
                SettingId::MAX_CONCURRENT_STREAMS => self.peer.concurrent_streams = value as usize,
                SettingId::INITIAL_WINDOW_SIZE if value > MAX_WINDOW_BYTES => return Err(ConnectionBroken),
                SettingId::INITIAL_WINDOW_SIZE => {
                    let difference = i64::from(value) - self.peer.initial_window;
                    self.peer.initial_window = i64::from(value);
                    self.slots.iter_mut().for_each(|stream| stream.send_window += difference);
                }
                SettingId::MAX_FRAME_SIZE if !(DEFAULT_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&value) => {
                    return Err(ConnectionBroken);
                }
                SettingId::MAX_FRAME_SIZE => self.peer.frame_bytes = value as usize,
                _ => {}
            }
        }
        append_settings_acknowledgement(sinks.out);
        self.send_bodies(sinks.out);
        Ok(())
    }

    fn take_window_update<S: SlotSink>(
        &mut self,
        id: u32,
        increment: u32,
        sinks: &mut Sinks<'_, S>,
    ) -> Result<(), ConnectionBroken> {
        if id == 0 {
            self.send_window += i64::from(increment);
            if increment == 0 || self.send_window > i64::from(MAX_WINDOW_BYTES) {
                return Err(ConnectionBroken);
            }
        } else if let Some(slot) = self.known_slot(id)? {
            self.slots[slot].send_window += i64::from(increment);
        }
        self.send_bodies(sinks.out);
        Ok(())
    }

    fn send_bodies(&mut self, out: &mut Vec<u8>) {
        if self.sending > 0 {
            (0..self.slots.len()).for_each(|slot| self.send_body(slot, out));
        }
    }
}

/// Whether it is a DATA frame without padding, which needs no buffer.
fn is_plain_data(header: &FrameHeader) -> bool {
    header.frame_type == FrameType::DATA && !header.has(flags::PADDED)
}
