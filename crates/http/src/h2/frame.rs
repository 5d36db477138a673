//! Reads and writes all frames of RFC 9113 section 6 and RFC 9218 section 7.
//!
//! [`FrameHeader::parse`] reads the nine bytes that begin every frame. [`Frame::parse`] reads a whole frame
//! and makes the checks that need only the frame: its size, its padding, and whether it belongs to a stream.
//! The connection makes the checks that depend on its state. The `append_` functions write frames.
//!
//! ```text
//! +-----------------------------------------------+
//! |                 Length (24)                   |
//! +---------------+---------------+---------------+
//! |   Type (8)    |   Flags (8)   |
//! +-+-------------+---------------+-------------------------------+
//! |R|                 Stream Identifier (31)                      |
//! +=+=============================================================+
//! |                   Frame Payload (0...)                      ...
//! +---------------------------------------------------------------+
//! ```

use super::error::{ConnectionError, ErrorCode};
use super::settings::SettingId;

/// The length of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// The bytes that a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest stream identifier.
pub const MAX_STREAM_ID: u32 = 0x7fff_ffff;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameType(pub u8);

impl FrameType {
    /// Part of a body.
    pub const DATA: FrameType = FrameType(0x0);
    /// The beginning of a field section.
    pub const HEADERS: FrameType = FrameType(0x1);
    /// Priorities of RFC 7540, which are obsolete.
    pub const PRIORITY: FrameType = FrameType(0x2);
    /// The reset of a stream.
    pub const RST_STREAM: FrameType = FrameType(0x3);
    /// Parameters of the connection.
    pub const SETTINGS: FrameType = FrameType(0x4);
    /// A stream that the server begins.
    pub const PUSH_PROMISE: FrameType = FrameType(0x5);
    /// A check whether the peer answers.
    pub const PING: FrameType = FrameType(0x6);
    /// An announcement that the connection will end.
    pub const GOAWAY: FrameType = FrameType(0x7);
    /// Permission to send more.
    pub const WINDOW_UPDATE: FrameType = FrameType(0x8);
    /// More of a field section.
    pub const CONTINUATION: FrameType = FrameType(0x9);
    /// A change of a response's priority (RFC 9218).
    pub const PRIORITY_UPDATE: FrameType = FrameType(0x10);
}

/// Flags of frames. The meaning of a bit depends on the frame's type.
pub mod flags {
    /// The last frame of a stream in its direction (`DATA`, `HEADERS`).
    pub const END_STREAM: u8 = 0x01;
    /// An answer (`SETTINGS`, `PING`).
    pub const ACK: u8 = 0x01;
    /// The field section is complete (`HEADERS`, `PUSH_PROMISE`, `CONTINUATION`).
    pub const END_HEADERS: u8 = 0x04;
    /// There is padding (`DATA`, `HEADERS`, `PUSH_PROMISE`).
    pub const PADDED: u8 = 0x08;
    /// There are priority fields (`HEADERS`).
    pub const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the payload.
    pub length: usize,
    /// The frame's type.
    pub frame_type: FrameType,
    /// The frame's flags.
    pub flags: u8,
    /// The stream, 0 being the connection as a whole. The reserved bit is ignored.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads the header of a frame.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> FrameHeader {
        let [a, b, c, frame_type, flags, s, t, u, v] = *bytes;
        FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            frame_type: FrameType(frame_type),
            flags,
            stream: u32::from_be_bytes([s, t, u, v]) & MAX_STREAM_ID,
        }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.frame_type.0, self.flags, s, t, u, v]
    }

    /// Whether a flag of [`flags`] is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The priority fields of RFC 7540. The server only checks that a stream does not depend on itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeprecatedPriority {
    /// The stream that this one depends on.
    pub dependency: u32,
    /// Whether it is the only one that depends on that stream.
    pub exclusive: bool,
    /// Its weight minus one.
    pub weight: u8,
}

/// A frame that has passed the checks which need only the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `DATA`; the whole payload, with padding, counts for flow control.
    Data {
        /// The stream.
        stream: u32,
        /// The data without padding.
        data: &'a [u8],
        /// Whether it ends the stream.
        end_stream: bool,
    },
    /// `HEADERS`
    Headers {
        /// The stream.
        stream: u32,
        /// Its part of the block.
        fragment: &'a [u8],
        /// Priority fields, if there are any.
        priority: Option<DeprecatedPriority>,
        /// Whether it ends the stream.
        end_stream: bool,
        /// Whether the block is complete.
        end_headers: bool,
    },
    /// `PRIORITY`. A wrong size is only an error of the stream.
    Priority {
        /// The stream.
        stream: u32,
        /// The fields; `None` if the size is wrong.
        priority: Option<DeprecatedPriority>,
    },
    /// `RST_STREAM`
    ResetStream {
        /// The stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// `SETTINGS`
    Settings(SettingsPayload<'a>),
    /// `SETTINGS` with `ACK`
    SettingsAcknowledgement,
    /// `PUSH_PROMISE`
    PushPromise {
        /// The stream of the request.
        stream: u32,
        /// The stream of the promised response.
        promised_stream: u32,
        /// Its part of the block.
        fragment: &'a [u8],
        /// Whether the block is complete.
        end_headers: bool,
    },
    /// `PING`
    Ping {
        /// The bytes to send back.
        payload: [u8; 8],
        /// Whether it is an answer.
        acknowledgement: bool,
    },
    /// `GOAWAY`
    GoAway {
        /// The last stream that the sender processed or will process.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
        /// More about it.
        debug_data: &'a [u8],
    },
    /// `WINDOW_UPDATE`
    WindowUpdate {
        /// The stream, or 0 for the connection.
        stream: u32,
        /// The number of bytes. It may be 0, which the connection treats as an error.
        increment: u32,
    },
    /// `CONTINUATION`
    Continuation {
        /// The stream.
        stream: u32,
        /// Its part of the block.
        fragment: &'a [u8],
        /// Whether the block is complete.
        end_headers: bool,
    },
    /// `PRIORITY_UPDATE` (RFC 9218)
    PriorityUpdate {
        /// The stream whose priority it is.
        prioritized_stream: u32,
        /// The priority field value.
        value: &'a [u8],
    },
    /// An unknown type, which must be ignored.
    Unknown(FrameType),
}

impl<'a> Frame<'a> {
    /// Reads a frame. `payload` must have the length in its header.
    #[inline]
    pub fn parse(header: FrameHeader, payload: &'a [u8]) -> Result<Frame<'a>, ConnectionError> {
        let stream = header.stream;
        match header.frame_type {
            FrameType::DATA => {
                of_stream(stream, "a DATA frame without a stream")?;
                let data = without_padding(header, payload)?;
                Ok(Frame::Data { stream, data, end_stream: header.has(flags::END_STREAM) })
            }
            FrameType::HEADERS => parse_headers(header, payload),
            FrameType::CONTINUATION => {
                of_stream(stream, "a CONTINUATION frame without a stream")?;
                let end_headers = header.has(flags::END_HEADERS);
                Ok(Frame::Continuation { stream, fragment: payload, end_headers })
            }
            FrameType::WINDOW_UPDATE => {
                let bytes = exactly(payload, "a WINDOW_UPDATE frame that is not 4 bytes long")?;
                Ok(Frame::WindowUpdate { stream, increment: number(bytes) & 0x7fff_ffff })
            }
            FrameType::RST_STREAM => {
                of_stream(stream, "a RST_STREAM frame without a stream")?;
                let bytes = exactly(payload, "a RST_STREAM frame that is not 4 bytes long")?;
                Ok(Frame::ResetStream { stream, code: ErrorCode(number(bytes)) })
            }
            _ => parse_others(header, payload),
        }
    }
}

#[inline]
fn parse_headers(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, ConnectionError> {
    of_stream(header.stream, "a HEADERS frame without a stream")?;
    let mut fragment = without_padding(header, payload)?;
    let mut priority = None;
    if header.has(flags::PRIORITY) {
        let too_short = ConnectionError::frame_size("a HEADERS frame too short for its priority fields");
        let (fields, rest) = fragment.split_first_chunk().ok_or(too_short)?;
        priority = Some(parse_priority(fields));
        fragment = rest;
    }
    Ok(Frame::Headers {
        stream: header.stream,
        fragment,
        priority,
        end_stream: header.has(flags::END_STREAM),
        end_headers: header.has(flags::END_HEADERS),
    })
}

/// Reads the frames that are not part of a request.
fn parse_others(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, ConnectionError> {
    let stream = header.stream;
    match header.frame_type {
        FrameType::SETTINGS => parse_settings(header, payload),
        FrameType::PING => {
            of_connection(stream, "a PING frame for a stream")?;
            let payload = *exactly(payload, "a PING frame that is not 8 bytes long")?;
            Ok(Frame::Ping { payload, acknowledgement: header.has(flags::ACK) })
        }
        FrameType::PRIORITY => {
            of_stream(stream, "a PRIORITY frame without a stream")?;
            let priority = <&[u8; 5]>::try_from(payload).ok().map(parse_priority);
            Ok(Frame::Priority { stream, priority })
        }
        FrameType::GOAWAY => {
            of_connection(stream, "a GOAWAY frame for a stream")?;
            let too_short = ConnectionError::frame_size("a GOAWAY frame that is shorter than 8 bytes");
            let (last_stream, rest) = payload.split_first_chunk().ok_or(too_short)?;
            let (code, debug_data) = rest.split_first_chunk().ok_or(too_short)?;
            let last_stream = number(last_stream) & MAX_STREAM_ID;
            Ok(Frame::GoAway { last_stream, code: ErrorCode(number(code)), debug_data })
        }
        FrameType::PUSH_PROMISE => {
            of_stream(stream, "a PUSH_PROMISE frame without a stream")?;
            let payload = without_padding(header, payload)?;
            let too_short = ConnectionError::frame_size("a PUSH_PROMISE frame that is too short");
            let (promised, fragment) = payload.split_first_chunk().ok_or(too_short)?;
            let promised_stream = number(promised) & MAX_STREAM_ID;
            let end_headers = header.has(flags::END_HEADERS);
            Ok(Frame::PushPromise { stream, promised_stream, fragment, end_headers })
        }
        FrameType::PRIORITY_UPDATE => {
            of_connection(stream, "a PRIORITY_UPDATE frame for a stream")?;
            let too_short =
                ConnectionError::frame_size("a PRIORITY_UPDATE frame that is shorter than 4 bytes");
            let (prioritized, value) = payload.split_first_chunk().ok_or(too_short)?;
            Ok(Frame::PriorityUpdate { prioritized_stream: number(prioritized) & MAX_STREAM_ID, value })
        }
        other => Ok(Frame::Unknown(other)),
    }
}

fn parse_settings(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, ConnectionError> {
    of_connection(header.stream, "a SETTINGS frame for a stream")?;
    if header.has(flags::ACK) {
        return match payload {
            [] => Ok(Frame::SettingsAcknowledgement),
            _ => Err(ConnectionError::frame_size("an acknowledgement of SETTINGS that is not empty")),
        };
    }
    match payload.as_chunks() {
        (entries, []) => Ok(Frame::Settings(SettingsPayload { entries })),
        _ => Err(ConnectionError::frame_size("a SETTINGS frame whose length is not a multiple of 6")),
    }
}

/// The parameters of a `SETTINGS` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsPayload<'a> {
    entries: &'a [[u8; 6]],
}

impl SettingsPayload<'_> {
    /// The parameters in order.
    pub fn iter(&self) -> impl Iterator<Item = (SettingId, u32)> {
        self.entries.iter().map(|[a, b, value @ ..]| (SettingId(u16::from_be_bytes([*a, *b])), number(value)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[inline]
fn number(bytes: &[u8; 4]) -> u32 {
    u32::from_be_bytes(*bytes)
}

#[inline]
fn of_stream(stream: u32, otherwise: &'static str) -> Result<(), ConnectionError> {
    if stream != 0 { Ok(()) } else { Err(ConnectionError::protocol(otherwise)) }
}

#[inline]
fn of_connection(stream: u32, otherwise: &'static str) -> Result<(), ConnectionError> {
    if stream == 0 { Ok(()) } else { Err(ConnectionError::protocol(otherwise)) }
}

#[inline]
fn exactly<'a, const LENGTH: usize>(
    payload: &'a [u8],
    otherwise: &'static str,
) -> Result<&'a [u8; LENGTH], ConnectionError> {
    payload.try_into().map_err(|_| ConnectionError::frame_size(otherwise))
}

/// The payload without the padding and the byte with its length.
#[inline]
fn without_padding(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !header.has(flags::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) =
        payload.split_first().ok_or(ConnectionError::frame_size("a padded frame that is empty"))?;
    let length = rest
        .len()
        .checked_sub(usize::from(padding))
        .ok_or(ConnectionError::protocol("more padding than the frame is long"))?;
    Ok(&rest[..length])
}

fn parse_priority(bytes: &[u8; 5]) -> DeprecatedPriority {
    let [a, b, c, d, weight] = *bytes;
    let word = u32::from_be_bytes([a, b, c, d]);
    DeprecatedPriority { dependency: word & MAX_STREAM_ID, exclusive: word > MAX_STREAM_ID, weight }
}

/// Appends the header of a frame, whose payload the caller appends.
#[inline]
pub fn append_header(length: usize, frame_type: FrameType, flags: u8, stream: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHeader { length, frame_type, flags, stream }.bytes());
}

/// Appends the header of a `DATA` frame, whose data the caller appends.
#[inline]
pub fn append_data_header(stream: u32, length: usize, end_stream: bool, out: &mut Vec<u8>) {
    append_header(length, FrameType::DATA, if end_stream { flags::END_STREAM } else { 0 }, stream, out);
}

/// Appends a block as a `HEADERS` frame, followed by `CONTINUATION` frames if it is longer than
/// `max_frame_bytes`.
#[inline]
pub fn append_headers(
    stream: u32,
    block: &[u8],
    end_stream: bool,
    max_frame_bytes: usize,
    out: &mut Vec<u8>,
) {
    let end_stream = if end_stream { flags::END_STREAM } else { 0 };
    if block.len() <= max_frame_bytes {
        append_header(block.len(), FrameType::HEADERS, end_stream | flags::END_HEADERS, stream, out);
        out.extend_from_slice(block);
    } else {
        append_long_headers(stream, block, end_stream, max_frame_bytes, out);
    }
}

#[cold]
fn append_long_headers(stream: u32, block: &[u8], end_stream: u8, max_frame_bytes: usize, out: &mut Vec<u8>) {
    let (first, mut rest) = block.split_at(max_frame_bytes);
    append_header(first.len(), FrameType::HEADERS, end_stream, stream, out);
    out.extend_from_slice(first);
    while !rest.is_empty() {
        let (fragment, after) = rest.split_at(rest.len().min(max_frame_bytes));
        let end_headers = if after.is_empty() { flags::END_HEADERS } else { 0 };
        append_header(fragment.len(), FrameType::CONTINUATION, end_headers, stream, out);
        out.extend_from_slice(fragment);
        rest = after;
    }
}

/// Appends a `RST_STREAM` frame.
pub fn append_reset_stream(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    append_header(4, FrameType::RST_STREAM, 0, stream, out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends a `SETTINGS` frame.
pub fn append_settings(settings: &[(SettingId, u32)], out: &mut Vec<u8>) {
    append_header(6 * settings.len(), FrameType::SETTINGS, 0, 0, out);
    for (id, value) in settings {
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends an acknowledgement of `SETTINGS`.
pub fn append_settings_acknowledgement(out: &mut Vec<u8>) {
    append_header(0, FrameType::SETTINGS, flags::ACK, 0, out);
}

/// Appends a `PING` frame.
pub fn append_ping(payload: [u8; 8], acknowledgement: bool, out: &mut Vec<u8>) {
    append_header(8, FrameType::PING, if acknowledgement { flags::ACK } else { 0 }, 0, out);
    out.extend_from_slice(&payload);
}

/// Appends a `GOAWAY` frame.
pub fn append_goaway(last_stream: u32, code: ErrorCode, debug_data: &[u8], out: &mut Vec<u8>) {
    append_header(8 + debug_data.len(), FrameType::GOAWAY, 0, 0, out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug_data);
}

/// Appends a `WINDOW_UPDATE` frame.
pub fn append_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    append_header(4, FrameType::WINDOW_UPDATE, 0, stream, out);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends a `PRIORITY_UPDATE` frame.
pub fn append_priority_update(prioritized_stream: u32, value: &[u8], out: &mut Vec<u8>) {
    append_header(4 + value.len(), FrameType::PRIORITY_UPDATE, 0, 0, out);
    out.extend_from_slice(&prioritized_stream.to_be_bytes());
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(frame_type: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Result<Frame<'_>, ErrorCode> {
        let header = FrameHeader { length: payload.len(), frame_type, flags, stream };
        Frame::parse(header, payload).map_err(|error| error.code)
    }

    /// Reads the frames that were written.
    fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
        let mut rest = bytes;
        let mut frames = Vec::new();
        while let Some((header, after)) = rest.split_first_chunk() {
            let header = FrameHeader::parse(header);
            let (payload, after) = after.split_at(header.length);
            frames.push(Frame::parse(header, payload).unwrap());
            rest = after;
        }
        assert!(rest.is_empty());
        frames
    }

    #[test]
    fn sizes_and_streams() {
        const SIZE: Result<Frame<'static>, ErrorCode> = Err(ErrorCode::FRAME_SIZE_ERROR);
        const PROTOCOL: Result<Frame<'static>, ErrorCode> = Err(ErrorCode::PROTOCOL_ERROR);
        for (frame_type, flags, stream, payload, expected) in [
            (FrameType::DATA, 0, 0, &b""[..], PROTOCOL),
            (FrameType::DATA, flags::PADDED, 1, b"", SIZE),
            (FrameType::DATA, flags::PADDED, 1, b"\x01", PROTOCOL),
            (FrameType::DATA, flags::PADDED, 1, b"\x03ab", PROTOCOL),
            (FrameType::HEADERS, 0, 0, b"", PROTOCOL),
            (FrameType::HEADERS, flags::PRIORITY, 1, b"\0\0\0\0", SIZE),
            (FrameType::HEADERS, flags::PRIORITY | flags::PADDED, 1, b"\x02\0\0\0\0\0\0", SIZE),
            (FrameType::HEADERS, flags::PADDED, 1, b"\x01", PROTOCOL),
            (FrameType::PRIORITY, 0, 0, b"\0\0\0\0\0", PROTOCOL),
            (FrameType::RST_STREAM, 0, 0, b"\0\0\0\0", PROTOCOL),
            (FrameType::RST_STREAM, 0, 1, b"\0\0\0", SIZE),
            (FrameType::RST_STREAM, 0, 1, b"\0\0\0\0\0", SIZE),
            (FrameType::SETTINGS, 0, 1, b"", PROTOCOL),
            (FrameType::SETTINGS, 0, 0, b"\0\0\0\0\0", SIZE),
            (FrameType::SETTINGS, flags::ACK, 0, b"\0\0\0\0\0\0", SIZE),
            (FrameType::PUSH_PROMISE, 0, 0, b"\0\0\0\x02", PROTOCOL),
            (FrameType::PUSH_PROMISE, 0, 1, b"\0\0\0", SIZE),
            (FrameType::PING, 0, 1, b"12345678", PROTOCOL),
            (FrameType::PING, 0, 0, b"1234567", SIZE),
            (FrameType::PING, 0, 0, b"123456789", SIZE),
            (FrameType::GOAWAY, 0, 1, b"\0\0\0\0\0\0\0\0", PROTOCOL),
            (FrameType::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0", SIZE),
            (FrameType::WINDOW_UPDATE, 0, 0, b"\0\0\x01", SIZE),
            (FrameType::WINDOW_UPDATE, 0, 1, b"\0\0\0\0\x01", SIZE),
            (FrameType::CONTINUATION, 0, 0, b"", PROTOCOL),
            (FrameType::PRIORITY_UPDATE, 0, 1, b"\0\0\0\x01u=1", PROTOCOL),
            (FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\0", SIZE),
        ] {
            let found = parse(frame_type, flags, stream, payload);
            assert_eq!(found, expected, "{frame_type:?} {flags} {stream} {payload:?}");
        }
    }

    #[test]
    fn contents() {
        let padded = flags::PADDED | flags::END_STREAM;
        assert_eq!(
            parse(FrameType::DATA, padded, 1, b"\x02abc\0\0"),
            Ok(Frame::Data { stream: 1, data: b"abc", end_stream: true })
        );
        assert_eq!(
            parse(FrameType::DATA, flags::PADDED, 1, b"\x02\0\0"),
            Ok(Frame::Data { stream: 1, data: b"", end_stream: false })
        );
        assert_eq!(
            parse(FrameType::HEADERS, flags::PADDED | flags::PRIORITY, 3, b"\x01\x80\0\0\x05\x09xy\0"),
            Ok(Frame::Headers {
                stream: 3,
                fragment: b"xy",
                priority: Some(DeprecatedPriority { dependency: 5, exclusive: true, weight: 9 }),
                end_stream: false,
                end_headers: false,
            })
        );
        assert_eq!(
            parse(FrameType::PRIORITY, 0, 1, b"\0\0\0\0"),
            Ok(Frame::Priority { stream: 1, priority: None })
        );
        assert_eq!(
            parse(FrameType::PUSH_PROMISE, flags::END_HEADERS, 1, b"\x80\0\0\x02x"),
            Ok(Frame::PushPromise { stream: 1, promised_stream: 2, fragment: b"x", end_headers: true })
        );
        assert_eq!(
            parse(FrameType::GOAWAY, 0, 0, b"\x80\0\0\x07\0\0\0\x0bwhy"),
            Ok(Frame::GoAway { last_stream: 7, code: ErrorCode::ENHANCE_YOUR_CALM, debug_data: b"why" })
        );
        // The reserved bit of the increment, flags that a type does not have, and unknown types.
        assert_eq!(
            parse(FrameType::WINDOW_UPDATE, 0xff, 0, b"\x80\0\0\x01"),
            Ok(Frame::WindowUpdate { stream: 0, increment: 1 })
        );
        assert_eq!(parse(FrameType(0xaa), 0xff, 9, b"x"), Ok(Frame::Unknown(FrameType(0xaa))));
        let header = FrameHeader::parse(b"\xff\xff\xff\x01\x05\xff\xff\xff\xff");
        assert_eq!((header.length, header.stream), (0xff_ffff, MAX_STREAM_ID));
    }

    #[test]
    fn reads_what_it_writes() {
        let mut out = Vec::new();
        append_settings(&[(SettingId::ENABLE_PUSH, 0), (SettingId(0xabcd), u32::MAX)], &mut out);
        append_settings_acknowledgement(&mut out);
        append_ping(*b"12345678", true, &mut out);
        append_reset_stream(5, ErrorCode::CANCEL, &mut out);
        append_goaway(7, ErrorCode::NO_ERROR, b"bye", &mut out);
        append_window_update(0, 9, &mut out);
        append_priority_update(11, b"u=1", &mut out);
        append_data_header(13, 2, true, &mut out);
        out.extend_from_slice(b"hi");
        let found = frames(&out);
        let Frame::Settings(settings) = found[0] else { panic!("{found:?}") };
        assert_eq!(
            settings.iter().collect::<Vec<_>>(),
            [(SettingId::ENABLE_PUSH, 0), (SettingId(0xabcd), u32::MAX)]
        );
        assert_eq!(
            found[1..],
            [
                Frame::SettingsAcknowledgement,
                Frame::Ping { payload: *b"12345678", acknowledgement: true },
                Frame::ResetStream { stream: 5, code: ErrorCode::CANCEL },
                Frame::GoAway { last_stream: 7, code: ErrorCode::NO_ERROR, debug_data: b"bye" },
                Frame::WindowUpdate { stream: 0, increment: 9 },
                Frame::PriorityUpdate { prioritized_stream: 11, value: b"u=1" },
                Frame::Data { stream: 13, data: b"hi", end_stream: true },
            ]
        );
    }

    proptest! {
        #[test]
        fn a_block_is_cut_into_frames_and_whole_again(
            block in proptest::collection::vec(any::<u8>(), 0..100),
            max_frame_bytes in 1usize..40,
            end in any::<bool>(),
        ) {
            let mut out = Vec::new();
            append_headers(1, &block, end, max_frame_bytes, &mut out);
            let mut whole = Vec::new();
            let mut ended = false;
            for (index, frame) in frames(&out).into_iter().enumerate() {
                prop_assert!(!ended);
                let (fragment, end_headers) = match frame {
                    Frame::Headers { fragment, end_headers, end_stream, .. } if index == 0 => {
                        prop_assert_eq!(end_stream, end);
                        (fragment, end_headers)
                    }
                    Frame::Continuation { fragment, end_headers, .. } if index > 0 => (fragment, end_headers),
                    other => panic!("{other:?}"),
                };
                prop_assert!(fragment.len() <= max_frame_bytes);
                whole.extend_from_slice(fragment);
                ended = end_headers;
            }
            prop_assert!(ended);
            prop_assert_eq!(whole, block);
        }

        #[test]
        fn headers_are_read_as_they_are_written(
            length in 0usize..1 << 24,
            frame_type in any::<u8>(),
            flags in any::<u8>(),
            stream in 0u32..1 << 31,
        ) {
            let header = FrameHeader { length, frame_type: FrameType(frame_type), flags, stream };
            prop_assert_eq!(FrameHeader::parse(&header.bytes()), header);
        }

        #[test]
        fn never_panics(
            frame_type in 0u8..18,
            flags in any::<u8>(),
            stream in 0u32..3,
            payload in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let _ = parse(FrameType(frame_type), flags, stream, &payload);
        }
    }
}
