//! Frames (RFC 9114 section 7): a type and a length, both variable-length integers, and a payload.
//!
//! [`FrameReader`] takes a stream's bytes in pieces of any size, and returns the frames in steps. Payloads
//! are not stored here, so that the length of a frame costs no memory.

use super::varint;

/// The type of a frame. Those that are not known are ignored (section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameType(pub u64);

impl FrameType {
    /// Part of a body.
    pub const DATA: FrameType = FrameType(0x0);
    /// A field section.
    pub const HEADERS: FrameType = FrameType(0x1);
    /// A push is not needed.
    pub const CANCEL_PUSH: FrameType = FrameType(0x3);
    /// Parameters.
    pub const SETTINGS: FrameType = FrameType(0x4);
    /// The request that a push answers.
    pub const PUSH_PROMISE: FrameType = FrameType(0x5);
    /// The sender is leaving.
    pub const GOAWAY: FrameType = FrameType(0x7);
    /// How many pushes are allowed.
    pub const MAX_PUSH_ID: FrameType = FrameType(0xd);
    /// The priority of a request has changed (RFC 9218 section 7.2).
    pub const PRIORITY_UPDATE_REQUEST: FrameType = FrameType(0xf_0700);
    /// The priority of a push has changed.
    pub const PRIORITY_UPDATE_PUSH: FrameType = FrameType(0xf_0701);

    /// Whether it is a type of HTTP/2 that has no counterpart here and must not be sent (section 7.2.8).
    pub fn is_of_http2(self) -> bool {
        matches!(self.0, 0x2 | 0x6 | 0x8 | 0x9)
    }

    /// Whether it may occur on a control stream only.
    pub fn is_for_control(self) -> bool {
        matches!(
            self,
            FrameType::CANCEL_PUSH
                | FrameType::SETTINGS
                | FrameType::GOAWAY
                | FrameType::MAX_PUSH_ID
                | FrameType::PRIORITY_UPDATE_REQUEST
                | FrameType::PRIORITY_UPDATE_PUSH
        )
    }
}

/// Two integers of eight bytes.
const MOST_HEADER_BYTES: usize = 16;

/// Reads frames.
#[derive(Debug, Clone, Default)]
pub struct FrameReader {
    /// The beginning of an incomplete frame header.
    kept: [u8; MOST_HEADER_BYTES],
    kept_bytes: usize,
    /// Bytes of the payload that follow; `None` before a frame header.
    remaining: Option<u64>,
}

/// The next element of a stream of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameItem<'a> {
    /// A frame begins.
    Start {
        /// Its type.
        kind: FrameType,
        /// The length of its payload.
        length: u64,
    },
    /// A piece of its payload; a frame without payload has one empty piece.
    Payload {
        /// The bytes.
        bytes: &'a [u8],
        /// Whether the frame is complete.
        is_last: bool,
    },
}

impl FrameReader {
    /// A stream of which no frame has arrived.
    pub fn new() -> FrameReader {
        FrameReader::default()
    }

    /// Whether the input so far ends with a complete frame.
    pub fn is_between_frames(&self) -> bool {
        self.remaining.is_none() && self.kept_bytes == 0
    }

    /// Takes the next step from the front of `input`; `None` when more bytes are needed; all bytes were then
    /// taken.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<FrameItem<'a>> {
        let Some(remaining) = self.remaining else {
            let (kind, length) = self.header(input)?;
            self.remaining = Some(length);
            return Some(FrameItem::Start { kind: FrameType(kind), length });
        };
        if remaining > 0 && input.is_empty() {
            return None;
        }
        let count = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.len());
        let (bytes, rest) = input.split_at(count);
        *input = rest;
        let left = remaining - count as u64;
        self.remaining = (left > 0).then_some(left);
        Some(FrameItem::Payload { bytes, is_last: left == 0 })
    }

    #[inline]
    fn header(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        if self.kept_bytes == 0 {
            let mut rest = *input;
            if let (Some(kind), Some(length)) = (varint::take(&mut rest), varint::take(&mut rest)) {
                *input = rest;
                return Some((kind, length));
            }
        }
        self.header_in_pieces(input)
    }

    #[cold]
    fn header_in_pieces(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.kept[self.kept_bytes] = byte;
            self.kept_bytes += 1;
            let mut kept = &self.kept[..self.kept_bytes];
            if let (Some(kind), Some(length)) = (varint::take(&mut kept), varint::take(&mut kept)) {
                self.kept_bytes = 0;
                return Some((kind, length));
            }
        }
        None
    }
}

/// Appends the header of a frame whose payload has `length` bytes.
#[inline]
pub fn append_header(kind: FrameType, length: u64, out: &mut Vec<u8>) {
    varint::append(kind.0, out);
    varint::append(length, out);
}

/// Appends a frame.
pub fn append(kind: FrameType, payload: &[u8], out: &mut Vec<u8>) {
    append_header(kind, payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// Appends GOAWAY (section 5.2). From a server, `id` is the first request stream that is not and will not be
/// processed.
pub fn append_goaway(id: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(8);
    varint::append(id, &mut payload);
    append(FrameType::GOAWAY, &payload, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All frames in `pieces`, and whether the last is whole.
    fn read(pieces: &[&[u8]]) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut reader = FrameReader::new();
        let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(step) = reader.next(&mut input) {
                match step {
                    FrameItem::Start { kind, .. } => frames.push((kind.0, Vec::new())),
                    FrameItem::Payload { bytes, .. } => frames.last_mut().unwrap().1.extend_from_slice(bytes),
                }
            }
            assert!(input.is_empty());
        }
        (frames, reader.is_between_frames())
    }

    #[test]
    fn a_frame_in_steps() {
        let mut reader = FrameReader::new();
        let mut input = &[0x00, 0x03, b'a', b'b'][..];
        assert_eq!(reader.next(&mut input), Some(FrameItem::Start { kind: FrameType::DATA, length: 3 }));
        assert_eq!(reader.next(&mut input), Some(FrameItem::Payload { bytes: b"ab", is_last: false }));
        assert_eq!(reader.next(&mut input), None);
        assert!(!reader.is_between_frames());
        let mut input = &b"c"[..];
        assert_eq!(reader.next(&mut input), Some(FrameItem::Payload { bytes: b"c", is_last: true }));
        assert!(reader.is_between_frames());
    }

    #[test]
    fn a_frame_without_payload_ends_at_once() {
        let mut reader = FrameReader::new();
        let mut input = &[0x01, 0x00][..];
        assert_eq!(reader.next(&mut input), Some(FrameItem::Start { kind: FrameType::HEADERS, length: 0 }));
        assert_eq!(reader.next(&mut input), Some(FrameItem::Payload { bytes: b"", is_last: true }));
        assert_eq!(reader.next(&mut input), None);
        assert!(reader.is_between_frames());
    }

    #[test]
    fn goaway_carries_its_stream() {
        let mut out = Vec::new();
        append_goaway(400, &mut out);
        assert_eq!(read(&[&out]), (vec![(7, vec![0x41, 0x90])], true));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            frames in proptest::collection::vec(
                (0..varint::MAX, proptest::collection::vec(any::<u8>(), 0..80)),
                0..6,
            ),
            cuts in proptest::collection::vec(1usize..20, 1..40),
        ) {
            let mut bytes = Vec::new();
            for (kind, payload) in &frames {
                append(FrameType(*kind), payload, &mut bytes);
            }
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            prop_assert_eq!(read(&pieces), (frames, true));
        }

        #[test]
        fn never_panics_and_takes_everything(bytes in any::<Vec<u8>>()) {
            read(&[&bytes]);
        }
    }
}
