//! Receives the frames of the client and changes the state of the connection and its streams (RFC 9113
//! sections 5 and 6).

use super::super::error::{ConnectionError, ErrorCode, StreamError};
use super::super::events::{Events, Record};
use super::super::flow::{ReceiveWindow, SendWindow};
use super::super::frame::{
    self, DeprecatedPriority, Frame, FrameHeader, FrameType, HEADER_BYTES, PREFACE, SettingsPayload,
};
use super::super::priority::Priority;
use super::super::request::{check_trailers, read_request};
use super::super::settings::{DEFAULT_WINDOW_BYTES, SettingId};
use super::super::streams::{QueueLinks, Response, Stream, StreamClosing};
use super::shutdown::{SHUTDOWN_PING, Shutdown};
use super::{Phase, ServerConnection, UnfinishedBlock};

/// Whether a connection without TLS begins as HTTP/2 (RFC 9113 section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preface {
    /// It begins as HTTP/2.
    Http2,
    /// It may be HTTP/2; more bytes are needed.
    Partial,
    /// It does not begin as HTTP/2.
    Other,
}

/// Checks the first bytes of a connection.
pub fn detect_preface(bytes: &[u8]) -> Preface {
    let length = bytes.len().min(PREFACE.len());
    match &bytes[..length] {
        received if *received != PREFACE[..length] => Preface::Other,
        received if received.len() < PREFACE.len() => Preface::Partial,
        _ => Preface::Http2,
    }
}

impl ServerConnection {
    /// Processes received bytes and returns how many of them were consumed. The rest is the beginning of a
    /// frame; the input of the next call must begin with it, followed by more bytes. The caller's buffer
    /// needs room for one whole frame: [`Limits::frame_bytes`](super::super::Limits::frame_bytes) and nine
    /// bytes.
    ///
    /// `events` is cleared and filled. Frames that the connection itself sends in reply are in the output
    /// afterwards.
    ///
    /// After an error, `GOAWAY` is in the output. The caller must send it and close the connection. The
    /// events up to the error are useful only for the log.
    pub fn receive(&mut self, input: &[u8], events: &mut Events) -> Result<usize, ConnectionError> {
        events.clear();
        let received = self.receive_frames(input, events);
        if let Err(error) = received {
            self.fail(error);
        }
        received
    }

    fn receive_frames(&mut self, input: &[u8], events: &mut Events) -> Result<usize, ConnectionError> {
        let mut at = 0;
        if self.phase != Phase::Frames {
            match self.phase {
                Phase::Failed(error) => return Err(error),
                Phase::Preface => match detect_preface(input) {
                    Preface::Http2 => {
                        at = PREFACE.len();
                        self.phase = Phase::FirstSettings;
                    }
                    Preface::Partial => return Ok(0),
                    Preface::Other => {
                        return Err(ConnectionError::protocol(
                            "the first bytes are not the preface of HTTP/2",
                        ));
                    }
                },
                Phase::FirstSettings | Phase::Frames => {}
            }
        }
        while let Some(header) = input.get(at..).and_then(|rest| rest.first_chunk()) {
            let header = FrameHeader::parse(header);
            if header.length > self.limits.frame_bytes as usize {
                return Err(ConnectionError::frame_size("a frame larger than SETTINGS_MAX_FRAME_SIZE"));
            }
            let start = at + HEADER_BYTES;
            let Some(payload) = input.get(start..start + header.length) else { break };
            if self.phase == Phase::FirstSettings {
                self.begin(header)?;
            }
            self.receive_frame(header, payload, start, events)?;
            at = start + header.length;
        }
        Ok(at)
    }

    /// The first frame must be `SETTINGS` (section 3.4).
    #[cold]
    fn begin(&mut self, header: FrameHeader) -> Result<(), ConnectionError> {
        if header.frame_type != FrameType::SETTINGS || header.has(frame::flags::ACK) {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        // The phase changes when the settings were processed.
        Ok(())
    }

    /// Processes one frame, whose payload begins at `start` of the input.
    #[inline]
    fn receive_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        start: usize,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        let frame = Frame::parse(header, payload)?;
        if let Some(block) = self.unfinished_block {
            return self.receive_continuation(block, frame, events);
        }
        match frame {
            Frame::Headers { stream, fragment, priority, end_stream, end_headers } => {
                self.check_dependency(stream, priority)?;
                if end_headers {
                    self.receive_header_block(stream, fragment, end_stream, events)
                } else {
                    self.begin_header_block(stream, fragment, end_stream)
                }
            }
            Frame::Data { stream, data, end_stream } => {
                // The data begins after the length of the padding and ends before the padding.
                let data_start = start + usize::from(header.has(frame::flags::PADDED));
                let range = (data_start, data_start + data.len());
                self.receive_data(stream, range, header.length, end_stream, events)
            }
            Frame::WindowUpdate { stream: 0, increment } => self.receive_connection_window(increment),
            Frame::WindowUpdate { stream, increment } => {
                self.receive_stream_window(stream, increment, events)
            }
            Frame::ResetStream { stream, code } => self.receive_reset(stream, code, events),
            other => self.receive_other(other, events),
        }
    }

    /// Processes the frames that are not part of a request.
    fn receive_other(&mut self, frame: Frame<'_>, events: &mut Events) -> Result<(), ConnectionError> {
        // A client may send the other frames without end, so they are counted.
        match frame {
            Frame::GoAway { .. } | Frame::SettingsAcknowledgement => {}
            _ => self.flood.control_frame(&self.limits)?,
        }
        match frame {
            Frame::Settings(settings) => self.receive_settings(settings)?,
            Frame::SettingsAcknowledgement => self.receive_settings_acknowledgement()?,
            Frame::Ping { payload, acknowledgement: false } => {
                frame::append_ping(payload, true, &mut self.control);
            }
            Frame::Ping { payload: SHUTDOWN_PING, .. } if self.shutdown == Shutdown::Announced => {
                self.refuse_new_streams();
            }
            Frame::Ping { payload, .. } => events.push(Record::Pong { payload }),
            Frame::GoAway { code, .. } => {
                self.client_is_leaving = true;
                events.push(Record::GoAway { code });
            }
            Frame::Priority { stream, priority } => self.receive_priority(stream, priority, events)?,
            Frame::PriorityUpdate { prioritized_stream, value } => {
                self.receive_priority_update(prioritized_stream, value)?;
            }
            Frame::PushPromise { .. } => {
                return Err(ConnectionError::protocol("a PUSH_PROMISE frame from a client"));
            }
            Frame::Continuation { .. } => {
                return Err(ConnectionError::protocol(
                    "a CONTINUATION frame without a header block before it",
                ));
            }
            _ => {}
        }
        if self.control.len() > self.limits.control_output_bytes {
            return Err(ConnectionError::too_much("answers are not read"));
        }
        Ok(())
    }

    // ---- header blocks

    fn begin_header_block(
        &mut self,
        stream: u32,
        fragment: &[u8],
        end_stream: bool,
    ) -> Result<(), ConnectionError> {
        self.block.clear();
        self.unfinished_block = Some(UnfinishedBlock { stream, end_stream, continuation_frames: 0 });
        self.add_fragment(fragment)
    }

    /// Only frames of the same block may follow until the block is complete (section 4.3).
    fn receive_continuation(
        &mut self,
        block: UnfinishedBlock,
        frame: Frame<'_>,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        let Frame::Continuation { stream, fragment, end_headers } = frame else {
            return Err(ConnectionError::protocol("a frame of another type within a header block"));
        };
        if stream != block.stream {
            return Err(ConnectionError::protocol(
                "a CONTINUATION frame for another stream than its header block",
            ));
        }
        let continuation_frames = block.continuation_frames + 1;
        if continuation_frames > self.limits.continuation_frames {
            return Err(ConnectionError::too_much("a header block in too many CONTINUATION frames"));
        }
        self.add_fragment(fragment)?;
        if !end_headers {
            self.unfinished_block = Some(UnfinishedBlock { continuation_frames, ..block });
            return Ok(());
        }
        self.unfinished_block = None;
        let bytes = std::mem::take(&mut self.block);
        let received = self.receive_header_block(stream, &bytes, block.end_stream, events);
        // Blocks in several frames are rare, so their memory is freed.
        received
    }

    fn add_fragment(&mut self, fragment: &[u8]) -> Result<(), ConnectionError> {
        if fragment.is_empty() {
            self.flood.empty_frame(&self.limits)?;
        }
        if self.block.len() + fragment.len() > self.limits.header_block_bytes() {
            return Err(ConnectionError::too_much("a header block that is too large"));
        }
        self.block.extend_from_slice(fragment);
        Ok(())
    }

    /// Processes a whole block: a request, or its trailers. It is always decoded, so that the dynamic tables
    /// of both sides stay the same.
    #[inline]
    fn receive_header_block(
        &mut self,
        id: u32,
        block: &[u8],
        end_stream: bool,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        let fields_before = events.list.len();
        let text_before = events.list.text_end();
        let decoded = self
            .decoder
            .decode(block, self.limits.list(), &mut events.list)
            .map_err(|error| ConnectionError::new(ErrorCode::COMPRESSION_ERROR, error.explanation()))?;
        let taken_up = if id > self.highest_stream && id & 1 == 1 {
            self.highest_stream = id;
            self.receive_request(id, fields_before, decoded.is_too_large, end_stream, events)
        } else {
            self.receive_trailers(id, fields_before, decoded.is_too_large, end_stream, events)
        };
        if !matches!(taken_up, Ok(true)) {
            events.list.fields_mut().truncate(fields_before);
            events.list.truncate_text(text_before);
        }
        taken_up.map(|_| ())
    }

    /// Processes a request. Returns false if its fields are not needed.
    #[inline]
    fn receive_request(
        &mut self,
        id: u32,
        fields_start: usize,
        is_too_large: bool,
        end_of_stream: bool,
        events: &mut Events,
    ) -> Result<bool, ConnectionError> {
        if matches!(self.shutdown, Shutdown::Final(_)) {
            // The last GOAWAY informs the client that the request was ignored (section 6.8).
            return Ok(false);
        }
        if self.streams.open() >= self.limits.concurrent_streams as usize {
            let error = StreamError::new(ErrorCode::REFUSED_STREAM, "more streams at once than are allowed");
            return self.refuse(id, error, events);
        }
        let head =
            match read_request(&mut events.list, fields_start, self.limits.extended_connect, is_too_large) {
                Ok(head) => head,
                Err(error) => return self.refuse(id, error, events),
            };
        let is_tunnel = head.is_tunnel();
        let content_left = if is_tunnel { None } else { head.content_length };
        if end_of_stream && content_left.is_some_and(|length| length > 0) {
            let error =
                StreamError::malformed("a request without the body that its Content-Length announces");
            return self.refuse(id, error, events);
        }
        let update = if self.early_priorities.is_empty() { None } else { self.take_early_priority(id) };
        let priority = update.or(head.priority);
        let slot = self.streams.insert(Stream {
            id,
            send_window: SendWindow::new(self.peer.initial_window_bytes),
            receive_window: ReceiveWindow::new(self.initial_receive_window()),
            unsent: 0,
            content_left,
            response: Response::Awaited,
            request_ended: end_of_stream,
            ends: false,
            has_trailers: false,
            is_tunnel,
            priority: priority.unwrap_or_default(),
            priority_is_default: priority.is_none(),
            queue: QueueLinks::NOT_QUEUED,
        });
        events.push(Record::Request { stream: self.streams.key(slot), end_of_stream, head });
        Ok(true)
    }

    /// The window of a new stream. A client may use the default until it has acknowledged the settings.
    #[inline]
    fn initial_receive_window(&self) -> u32 {
        match self.unacknowledged_settings {
            0 => self.limits.stream_window_bytes,
            _ => self.limits.stream_window_bytes.max(DEFAULT_WINDOW_BYTES),
        }
    }

    /// Resets a stream that was not opened.
    #[cold]
    fn refuse(&mut self, id: u32, error: StreamError, events: &mut Events) -> Result<bool, ConnectionError> {
        frame::append_reset_stream(id, error.code, &mut self.control);
        self.closed.remember(id, StreamClosing::ByReset);
        events.push(Record::Refused { stream_id: id, code: error.code, reason: error.reason });
        self.flood.reset(&self.limits)?;
        Ok(false)
    }

    /// Processes trailers. Returns false if they are not needed.
    fn receive_trailers(
        &mut self,
        id: u32,
        fields_start: usize,
        is_too_large: bool,
        end_of_stream: bool,
        events: &mut Events,
    ) -> Result<bool, ConnectionError> {
        let Some(slot) = self.streams.find(id) else {
            self.check_headers_of_closed_stream(id)?;
            return Ok(false);
        };
        let stream = self.streams.slot(slot);
        let error = if stream.request_ended {
            Some(StreamError::new(ErrorCode::STREAM_CLOSED, "a HEADERS frame behind the end of its stream"))
        } else if !end_of_stream {
            Some(StreamError::malformed("a second HEADERS frame that does not end its stream"))
        } else if stream.content_left.is_some_and(|left| left > 0) {
            Some(StreamError::malformed("a body shorter than its Content-Length"))
        } else if is_too_large {
            Some(StreamError::new(ErrorCode::ENHANCE_YOUR_CALM, "trailers that are too large"))
        } else {
            check_trailers(&events.list, fields_start).err()
        };
        if let Some(error) = error {
            self.reset_for_error(slot, error, events)?;
            return Ok(false);
        }
        let (start, end) = (fields_start as u32, events.list.len() as u32);
        events.push(Record::Trailers { stream: self.streams.key(slot), start, end });
        self.end_request(slot);
        Ok(true)
    }

    /// Checks a `HEADERS` frame for a stream that is not open. After a reset by this side, frames may still
    /// arrive; on other closed streams they are an error (section 5.1). Identifiers must grow (section
    /// 5.1.1).
    #[cold]
    fn check_headers_of_closed_stream(&mut self, id: u32) -> Result<(), ConnectionError> {
        match self.closed.recall(id) {
            _ if id & 1 == 0 => {
                Err(ConnectionError::protocol("a stream from a client with an even identifier"))
            }
            Some(StreamClosing::ByReset) => self.flood.control_frame(&self.limits),
            _ if self.is_ignored(id) => self.flood.control_frame(&self.limits),
            Some(StreamClosing::Known) => {
                Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "a HEADERS frame for a closed stream"))
            }
            None => Err(ConnectionError::protocol("a stream identifier lower than one before it")),
        }
    }

    /// Whether a stream was excluded by the last `GOAWAY`.
    fn is_ignored(&self, id: u32) -> bool {
        matches!(self.shutdown, Shutdown::Final(last_stream) if id > last_stream)
    }

    /// Whether no frame was ever sent on a stream.
    fn is_idle(&self, id: u32) -> bool {
        id > self.highest_stream || id & 1 == 0
    }

    /// Called when the client has sent the whole request.
    #[inline]
    fn end_request(&mut self, slot: u32) {
        let stream = self.streams.slot(slot);
        stream.request_ended = true;
        if stream.response == Response::Complete {
            self.remove_stream(slot, StreamClosing::Known);
        }
    }

    // ---- bodies

    /// Processes `DATA`: bytes `range.0` to `range.1` of the input; `length` includes the padding.
    fn receive_data(
        &mut self,
        id: u32,
        range: (usize, usize),
        length: usize,
        end_of_stream: bool,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        let flow_length = length as u32;
        if !self.receive_window.receive(flow_length) {
            return Err(ConnectionError::flow_control("more data than the connection's window allows"));
        }
        let data_length = range.1 - range.0;
        if data_length == 0 && !end_of_stream {
            self.flood.empty_frame(&self.limits)?;
        }
        let Some(slot) = self.streams.find(id) else {
            self.release_of_connection(flow_length);
            return self.receive_data_of_closed_stream(id);
        };
        let target = self.limits.stream_window_bytes;
        let stream = self.streams.slot(slot);
        if stream.request_ended || !stream.receive_window.receive(flow_length) {
            let error = if stream.request_ended {
                StreamError::new(ErrorCode::STREAM_CLOSED, "a DATA frame behind the end of its stream")
            } else {
                StreamError::new(ErrorCode::FLOW_CONTROL_ERROR, "more data than the stream's window allows")
            };
            // The stream's window does not count these bytes, so only the connection's window gets them back.
            self.release_of_connection(flow_length);
            return self.reset_for_error(slot, error, events);
        }
        if let Some(error) = count_content(&mut stream.content_left, data_length as u64, end_of_stream) {
            return self.reset_for_error(slot, error, events);
        }
        // Padding is consumed as soon as it is received.
        let padding = (length - data_length) as u32;
        if padding > 0 {
            let increment = stream.receive_window.consume(padding, target);
            if let Some(increment) = increment
                && !end_of_stream
            {
                frame::append_window_update(id, increment, &mut self.control);
            }
            self.release_of_connection(padding);
        }
        if data_length > 0 || end_of_stream {
            let stream = self.streams.key(slot);
            events.push(Record::Data { stream, start: range.0, end: range.1, end_of_stream });
        }
        if end_of_stream {
            self.end_request(slot);
        }
        Ok(())
    }

    #[cold]
    fn receive_data_of_closed_stream(&mut self, id: u32) -> Result<(), ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::protocol("a DATA frame for a stream that was not opened"));
        }
        if self.closed.recall(id) != Some(StreamClosing::ByReset) && !self.is_ignored(id) {
            frame::append_reset_stream(id, ErrorCode::STREAM_CLOSED, &mut self.control);
            self.flood.reset(&self.limits)?;
        }
        Ok(())
    }

    fn receive_reset(
        &mut self,
        id: u32,
        code: ErrorCode,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::protocol("a RST_STREAM frame for a stream that was not opened"));
        }
        let Some(slot) = self.streams.find(id) else {
            // It crossed the end of the stream, or a reset by this side. The client will send nothing more on
            // the stream.
            if self.closed.recall(id).is_some() {
                self.closed.remember(id, StreamClosing::Known);
            }
            return self.flood.control_frame(&self.limits);
        };
        let stream = self.streams.key(slot);
        self.remove_stream(slot, StreamClosing::Known);
        events.push(Record::Reset { stream, code, reason: None });
        self.flood.reset(&self.limits)
    }

    // ---- windows

    fn receive_connection_window(&mut self, increment: u32) -> Result<(), ConnectionError> {
        if increment == 0 {
            return Err(ConnectionError::protocol("a WINDOW_UPDATE frame of 0 for the connection"));
        }
        self.send_window
            .open(increment)
            .map_err(|_| ConnectionError::flow_control("the connection's window becomes larger than 2^31-1"))
    }

    fn receive_stream_window(
        &mut self,
        id: u32,
        increment: u32,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        let Some(slot) = self.streams.find(id) else {
            return if self.is_idle(id) {
                Err(ConnectionError::protocol("a WINDOW_UPDATE frame for a stream that was not opened"))
            } else {
                Ok(())
            };
        };
        let stream = self.streams.slot(slot);
        let error = if increment == 0 {
            StreamError::malformed("a WINDOW_UPDATE frame of 0")
        } else if stream.send_window.open(increment).is_err() {
            StreamError::new(ErrorCode::FLOW_CONTROL_ERROR, "a stream's window becomes larger than 2^31-1")
        } else {
            self.queue_if_ready(slot);
            return Ok(());
        };
        self.reset_for_error(slot, error, events)
    }

    // ---- settings

    fn receive_settings(&mut self, settings: SettingsPayload<'_>) -> Result<(), ConnectionError> {
        let is_first = self.phase == Phase::FirstSettings;
        self.phase = Phase::Frames;
        for (number, (id, value)) in settings.iter().enumerate() {
            if number >= self.limits.settings as usize {
                return Err(ConnectionError::too_much("a SETTINGS frame with too many values"));
            }
            let window_before = self.peer.initial_window_bytes;
            self.peer.apply(id, value, is_first)?;
            match id {
                SettingId::INITIAL_WINDOW_SIZE => self.adjust_send_windows(window_before)?,
                SettingId::HEADER_TABLE_SIZE => self.encoder.set_peer_limit(value),
                _ => {}
            }
        }
        frame::append_settings_acknowledgement(&mut self.control);
        Ok(())
    }

    /// Changes the windows of open streams when the initial window changes (section 6.9.2).
    fn adjust_send_windows(&mut self, window_before: u32) -> Result<(), ConnectionError> {
        let difference = i64::from(self.peer.initial_window_bytes) - i64::from(window_before);
        if difference == 0 {
            return Ok(());
        }
        for slot in 0..self.streams.slots() {
            if !self.streams.is_used(slot) {
                continue;
            }
            self.streams.slot(slot).send_window.adjust(difference).map_err(|_| {
                ConnectionError::flow_control(
                    "SETTINGS_INITIAL_WINDOW_SIZE makes a window larger than 2^31-1",
                )
            })?;
            self.queue_if_ready(slot);
        }
        Ok(())
    }

    fn receive_settings_acknowledgement(&mut self) -> Result<(), ConnectionError> {
        self.unacknowledged_settings = self
            .unacknowledged_settings
            .checked_sub(1)
            .ok_or(ConnectionError::protocol("an acknowledgement of SETTINGS that were not sent"))?;
        self.decoder.set_table_limit(self.limits.decoder_table_bytes);
        Ok(())
    }

    // ---- priorities

    /// Refuses a stream that depends on itself (RFC 7540 section 5.3.1). Dependencies are otherwise ignored.
    #[inline]
    fn check_dependency(
        &self,
        stream: u32,
        priority: Option<DeprecatedPriority>,
    ) -> Result<(), ConnectionError> {
        match priority {
            Some(priority) if priority.dependency == stream => {
                Err(ConnectionError::protocol("a stream that depends on itself"))
            }
            _ => Ok(()),
        }
    }

    fn receive_priority(
        &mut self,
        id: u32,
        priority: Option<DeprecatedPriority>,
        events: &mut Events,
    ) -> Result<(), ConnectionError> {
        self.check_dependency(id, priority)?;
        if priority.is_some() {
            return Ok(());
        }
        // This is only an error of the stream (section 6.3). A stream that is not open cannot be reset.
        let error =
            StreamError::new(ErrorCode::FRAME_SIZE_ERROR, "a PRIORITY frame that is not 5 bytes long");
        match self.streams.find(id) {
            Some(slot) => self.reset_for_error(slot, error, events),
            None => Err(ConnectionError::frame_size(error.reason)),
        }
    }

    /// Processes `PRIORITY_UPDATE` (RFC 9218 section 7.1), which may also be for a future stream.
    fn receive_priority_update(&mut self, id: u32, value: &[u8]) -> Result<(), ConnectionError> {
        if id == 0 {
            return Err(ConnectionError::protocol("a PRIORITY_UPDATE frame for no stream"));
        }
        if id & 1 == 0 {
            return Err(ConnectionError::protocol(
                "a PRIORITY_UPDATE frame for a push that was not promised",
            ));
        }
        let priority = Priority::parse_quickly(value);
        if let Some(slot) = self.streams.find(id) {
            self.scheduler.set_priority(&mut self.streams, slot, priority);
        } else if self.is_idle(id) {
            self.early_priorities.retain(|(other, _)| *other != id);
            // An update that does not fit is dropped. It is a hint, which most clients repeat in the request.
            if self.early_priorities.len() < self.limits.concurrent_streams as usize {
                self.early_priorities.push((id, priority));
            }
        }
        Ok(())
    }

    /// The priority that was announced for a stream. Those of skipped streams are dropped.
    #[cold]
    fn take_early_priority(&mut self, id: u32) -> Option<Priority> {
        let found =
            self.early_priorities.iter().find(|(other, _)| *other == id).map(|(_, priority)| *priority);
        self.early_priorities.retain(|(other, _)| *other > id);
        found
    }

    /// The key of an open stream, for tests.
    #[cfg(test)]
    pub(super) fn key_of(&self, id: u32) -> Option<super::StreamKey> {
        self.streams.find(id).map(|slot| self.streams.key(slot))
    }
}

/// Checks the length of a body against its `Content-Length` (section 8.1.1).
fn count_content(content_left: &mut Option<u64>, length: u64, end_of_stream: bool) -> Option<StreamError> {
    let left = content_left.as_mut()?;
    match left.checked_sub(length) {
        None => return Some(StreamError::malformed("a body longer than its Content-Length")),
        Some(rest) => *left = rest,
    }
    (end_of_stream && *left > 0).then(|| StreamError::malformed("a body shorter than its Content-Length"))
}
