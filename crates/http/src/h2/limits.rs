//! The limits for the cost of one connection (RFC 9113 section 10.5).
//!
//! [`Limits`] are the figures, each of them announced to the client where the protocol has a setting for it.
//! `FloodGuard` counts what costs the server more than the client: streams that are reset as soon as they are
//! opened (CVE-2023-44487), streams that the client makes the server reset (CVE-2025-8671), settings and
//! pings that must be answered (CVE-2019-9512, CVE-2019-9515), windows that grow by a byte (CVE-2019-9511),
//! and frames without content (CVE-2019-9518). A `SETTINGS` frame has few values (CVE-2020-11080).
//! Other limits stop the other known attacks: the limits on the size and the frames of a header block stop
//! endless `CONTINUATION` frames (CVE-2024-27316), and the limit on the list stops a header block that
//! decodes to a large list.

use super::error::ConnectionError;
use super::hpack::DEFAULT_TABLE_BYTES;
use super::hpack::decoder::ListLimits;
use super::settings::{
    DEFAULT_FRAME_BYTES, DEFAULT_WINDOW_BYTES, MAX_FRAME_BYTES, MAX_WINDOW_BYTES, SettingId,
};

/// Space for header blocks that are too large and get an answer: about the default limit for the frames of
/// one block.
const TOO_LARGE_BLOCK_BYTES: usize = 256 * 1024;

/// The limits of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Streams that a client may have open at once; more are refused (`SETTINGS_MAX_CONCURRENT_STREAMS`).
    pub concurrent_streams: u32,
    /// Bytes of a request body that may be in transit or unconsumed on one stream
    /// (`SETTINGS_INITIAL_WINDOW_SIZE`), at most 2^31-1.
    pub stream_window_bytes: u32,
    /// Bytes of request bodies that may be in transit or unconsumed on the connection, from 65,535 to 2^31-1.
    pub connection_window_bytes: u32,
    /// The largest frame that is accepted (`SETTINGS_MAX_FRAME_SIZE`), from 16,384 to 16,777,215. The input
    /// buffer must have room for one, and nine bytes more.
    pub frame_bytes: u32,
    /// The largest header section, each field counted with 32 bytes more (`SETTINGS_MAX_HEADER_LIST_SIZE`). A
    /// request with a larger one can still be answered, with 431.
    pub header_list_bytes: u32,
    /// The most fields of a header section, pseudo-header fields among them; more are treated like too many
    /// bytes.
    pub header_fields: u32,
    /// The most `CONTINUATION` frames of one header block.
    pub continuation_frames: u32,
    /// The dynamic table that header blocks of requests may use (`SETTINGS_HEADER_TABLE_SIZE`).
    pub decoder_table_bytes: u32,
    /// The dynamic table for header blocks of responses that are encoded for the connection, at most; 0 for
    /// none.
    pub encoder_table_bytes: u32,
    /// Whether CONNECT requests may have a `:protocol`, for WebSockets and others
    /// (`SETTINGS_ENABLE_CONNECT_PROTOCOL`, RFC 8441).
    pub extended_connect: bool,
    /// Whether a client may still end a request whose response is complete. Its stream stays open until then,
    /// or until the caller [stops](super::ServerConnection::stop_request) the request. Otherwise, and if the
    /// rest of the request does not fit into the window of its stream, the stream is reset at once.
    pub awaits_requests: bool,
    /// The output buffer is not filled beyond this size.
    pub output_bytes: usize,
    /// Streams reset before their response is complete, in one [period](super::ServerConnection::replenish)
    /// and beyond one for each response that was completed.
    pub resets: u32,
    /// Frames that must be answered or only noted (`SETTINGS`, `PING`, `PRIORITY`, `PRIORITY_UPDATE` and
    /// unknown ones), and `DATA` frames for which the client leaves a window of some bytes, in one period, in
    /// addition to one for each response that was completed.
    pub control_frames: u32,
    /// The most values of a `SETTINGS` frame.
    pub settings: u32,
    /// Frames without content that do not end anything, in one period.
    pub empty_frames: u32,
    /// Answers to such frames that wait to be sent, bytes.
    pub control_output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrent_streams: 128,
            stream_window_bytes: 256 * 1024,
            connection_window_bytes: 1024 * 1024,
            frame_bytes: DEFAULT_FRAME_BYTES,
            header_list_bytes: 64 * 1024,
            header_fields: 256,
            continuation_frames: 16,
            decoder_table_bytes: DEFAULT_TABLE_BYTES,
            encoder_table_bytes: DEFAULT_TABLE_BYTES,
            extended_connect: false,
            awaits_requests: false,
            output_bytes: 128 * 1024,
            resets: 200,
            control_frames: 1000,
            settings: 32,
            empty_frames: 100,
            control_output_bytes: 64 * 1024,
        }
    }
}

impl Limits {
    /// The same limits with those that the protocol bounds brought within its bounds.
    pub(crate) fn within_bounds(mut self) -> Limits {
        self.stream_window_bytes = self.stream_window_bytes.min(MAX_WINDOW_BYTES);
        self.connection_window_bytes =
            self.connection_window_bytes.clamp(DEFAULT_WINDOW_BYTES, MAX_WINDOW_BYTES);
        self.frame_bytes = self.frame_bytes.clamp(DEFAULT_FRAME_BYTES, MAX_FRAME_BYTES);
        self
    }

    /// The settings that announce the limits to the client.
    pub(crate) fn settings(&self) -> Vec<(SettingId, u32)> {
        let mut settings = vec![
            (SettingId::MAX_CONCURRENT_STREAMS, self.concurrent_streams),
            (SettingId::INITIAL_WINDOW_SIZE, self.stream_window_bytes),
            (SettingId::MAX_HEADER_LIST_SIZE, self.header_list_bytes),
            (SettingId::NO_RFC7540_PRIORITIES, 1),
        ];
        if self.frame_bytes != DEFAULT_FRAME_BYTES {
            settings.push((SettingId::MAX_FRAME_SIZE, self.frame_bytes));
        }
        if self.decoder_table_bytes != DEFAULT_TABLE_BYTES {
            settings.push((SettingId::HEADER_TABLE_SIZE, self.decoder_table_bytes));
        }
        if self.extended_connect {
            settings.push((SettingId::ENABLE_CONNECT_PROTOCOL, 1));
        }
        settings
    }

    /// The limits for a decoded field section.
    #[inline]
    pub(crate) fn list(&self) -> ListLimits {
        ListLimits { bytes: self.header_list_bytes as usize, fields: self.header_fields as usize }
    }

    /// The largest header block before it is decoded. It is larger than a list may be, so that a request with
    /// too large a list can be answered: a block that is not decoded ends the connection (section 4.3) with
    /// all its requests.
    #[inline]
    pub(crate) fn header_block_bytes(&self) -> usize {
        2 * self.header_list_bytes as usize + TOO_LARGE_BLOCK_BYTES
    }
}

/// Counts frames that cost the server more than the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FloodGuard {
    resets: u32,
    control_frames: u32,
    empty_frames: u32,
}

impl FloodGuard {
    /// The client caused the end of a stream before its response was complete.
    pub(crate) fn reset(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        count(&mut self.resets, limits.resets, "too many streams that were reset or refused")
    }

    /// A frame arrived that must be answered or noted.
    pub(crate) fn control_frame(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        count(
            &mut self.control_frames,
            limits.control_frames,
            "too many SETTINGS, PING, PRIORITY or unknown frames",
        )
    }

    /// A window had room for some bytes only, although there was more to send.
    #[cold]
    pub(crate) fn tiny_window(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        count(&mut self.control_frames, limits.control_frames, "windows of some bytes only")
    }

    /// A frame without content that does not end anything.
    pub(crate) fn empty_frame(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        count(&mut self.empty_frames, limits.empty_frames, "too many frames without content")
    }

    /// A response was completed, so the client makes normal use of the connection.
    #[inline]
    pub(crate) fn response_completed(&mut self) {
        self.resets = self.resets.saturating_sub(1);
        self.control_frames = self.control_frames.saturating_sub(1);
    }

    /// A new period begins.
    pub(crate) fn replenish(&mut self) {
        *self = FloodGuard::default();
    }
}

fn count(counter: &mut u32, limit: u32, reason: &'static str) -> Result<(), ConnectionError> {
    *counter = counter.saturating_add(1);
    if *counter > limit { Err(ConnectionError::too_much(reason)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_count() {
        let limits = Limits { resets: 2, control_frames: 3, empty_frames: 1, ..Limits::default() };
        let mut guard = FloodGuard::default();
        assert!(guard.reset(&limits).is_ok() && guard.reset(&limits).is_ok());
        assert!((0..2).all(|_| guard.control_frame(&limits).is_ok()));
        assert!(guard.tiny_window(&limits).is_ok());
        assert!(guard.empty_frame(&limits).is_ok());
        guard.response_completed();
        assert!(guard.reset(&limits).is_ok() && guard.control_frame(&limits).is_ok());
        assert!(guard.reset(&limits).is_err() && guard.control_frame(&limits).is_err());
        assert!(guard.empty_frame(&limits).is_err());
        guard.replenish();
        assert!(guard.reset(&limits).is_ok() && guard.empty_frame(&limits).is_ok());
    }

    #[test]
    fn bounds_of_the_protocol_hold() {
        let limits = Limits {
            stream_window_bytes: u32::MAX,
            connection_window_bytes: 1,
            frame_bytes: 1,
            ..Limits::default()
        }
        .within_bounds();
        assert_eq!(limits.stream_window_bytes, MAX_WINDOW_BYTES);
        assert_eq!(limits.connection_window_bytes, DEFAULT_WINDOW_BYTES);
        assert_eq!(limits.frame_bytes, DEFAULT_FRAME_BYTES);
        assert!(!limits.settings().iter().any(|(id, _)| *id == SettingId::MAX_FRAME_SIZE));
        let limits = Limits { frame_bytes: u32::MAX, ..Limits::default() }.within_bounds();
        assert!(limits.settings().contains(&(SettingId::MAX_FRAME_SIZE, MAX_FRAME_BYTES)));
    }
}
