//! The frames of a message on its stream (RFC 9114 section 4.1): header sections, a body, optional trailers.
//! [`RequestStream`](super::RequestStream) and [`ResponseStream`](super::ResponseStream) read the sections.

use std::ops::Range;

use super::control::Sender;
use super::error::{ConnectionError, Error, ErrorCode, StreamError};
use super::frame::{FrameItem, FrameReader, FrameType};
use super::qpack::{self, QpackError, SectionLimits};
use crate::h2::hpack::FieldList;
use crate::h2::request::check_trailers;

/// Reads the frames of one message.
#[derive(Debug, Clone)]
pub(super) struct MessageStream {
    sender: Sender,
    frames: FrameReader,
    limits: SectionLimits,
    phase: Phase,
    kind: Kind,
    /// The encoded field section that is being gathered, up to the limit.
    section: Vec<u8>,
    /// The section is longer than the limit, and the rest of it was dropped.
    section_is_cut: bool,
    /// How many bytes of the body are still to come according to Content-Length.
    missing: Option<u64>,
}

/// What has been read of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    Trailers,
}

/// The frame that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Section,
    Ignored,
}

/// The first item that was found in the received bytes.
#[derive(Debug)]
pub(super) enum MessageItem {
    /// Nothing more.
    Nothing,
    /// A header section before the body; its fields are in the list that was given.
    Head {
        /// It is larger than the limits, and fields are missing.
        is_too_large: bool,
    },
    /// A piece of the body: its position in the input.
    Data(Range<usize>),
    /// The trailers: the fields that are now in the list. Only the end of the stream may follow.
    Trailers,
}

impl MessageStream {
    /// A stream of which no byte has arrived.
    pub(super) fn new(sender: Sender, limits: SectionLimits) -> MessageStream {
        MessageStream {
            sender,
            frames: FrameReader::new(),
            limits,
            phase: Phase::Head,
            kind: Kind::Ignored,
            section: Vec::new(),
            section_is_cut: false,
            missing: None,
        }
    }

    /// Consumes `input` up to and including the first item; returns how many bytes that were. If there was no
    /// item, all were consumed. Fields are stored in `list`, which is cleared before.
    pub(super) fn receive(
        &mut self,
        input: &[u8],
        list: &mut FieldList,
    ) -> Result<(usize, MessageItem), Error> {
        let mut rest = input;
        while let Some(step) = self.frames.next(&mut rest) {
            match step {
                FrameItem::Start { kind, length } => self.begin(kind, length)?,
                FrameItem::Payload { bytes, is_last } => {
                    let taken = input.len() - rest.len();
                    match self.kind {
                        Kind::Ignored => {}
                        Kind::Data => {
                            if let Some(missing) = &mut self.missing {
                                *missing -= bytes.len() as u64;
                            }
                            if !bytes.is_empty() {
                                return Ok((taken, MessageItem::Data(taken - bytes.len()..taken)));
                            }
                        }
                        Kind::Section => {
                            self.gather(bytes);
                            if is_last {
                                return Ok((taken, self.section(list)?));
                            }
                        }
                    }
                }
            }
        }
        Ok((input.len(), MessageItem::Nothing))
    }

    /// The head is complete, and the body follows, with this length if it is known. Until then, each section
    /// is another head.
    pub(super) fn begin_body(&mut self, length: Option<u64>) {
        self.phase = Phase::Body;
        self.missing = length;
    }

    /// The peer has sent everything. `without_head` is the error if that was no head.
    pub(super) fn finish(&self, without_head: StreamError) -> Result<(), Error> {
        if !self.frames.is_between_frames() {
            let reason = "a stream that ends within a frame";
            return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, reason).into());
        }
        if self.phase == Phase::Head {
            return Err(without_head.into());
        }
        if self.missing.is_some_and(|missing| missing > 0) {
            return Err(StreamError::malformed("a body that is shorter than its Content-Length").into());
        }
        Ok(())
    }

    /// Checks whether the frame may occur here.
    fn begin(&mut self, kind: FrameType, length: u64) -> Result<(), Error> {
        self.kind = match kind {
            FrameType::DATA if self.phase == Phase::Body => Kind::Data,
            FrameType::HEADERS if self.phase != Phase::Trailers => Kind::Section,
            FrameType::DATA => {
                let reason = "DATA before a header section or behind trailers";
                return Err(ConnectionError::unexpected(reason).into());
            }
            FrameType::HEADERS => return Err(ConnectionError::unexpected("HEADERS behind trailers").into()),
            FrameType::PUSH_PROMISE => return Err(self.sender.unwanted_push().into()),
            _ if kind.is_for_control() || kind.is_of_http2() => {
                return Err(ConnectionError::unexpected("a frame that may not be on a request stream").into());
            }
            _ => Kind::Ignored,
        };
        if self.kind == Kind::Data && self.missing.is_some_and(|missing| length > missing) {
            return Err(StreamError::malformed("a body that is longer than its Content-Length").into());
        }
        Ok(())
    }

    fn gather(&mut self, bytes: &[u8]) {
        let room = self.limits.bytes.saturating_sub(self.section.len());
        self.section_is_cut |= bytes.len() > room;
        self.section.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Decodes the collected section.
    fn section(&mut self, list: &mut FieldList) -> Result<MessageItem, Error> {
        list.clear();
        let section = std::mem::take(&mut self.section);
        let is_cut = std::mem::take(&mut self.section_is_cut);
        let is_too_large = match qpack::decode(&section, self.limits, list) {
            // A section that was cut ends in the middle.
            Err(QpackError::Truncated) if is_cut => true,
            decoded => decoded.map_err(QpackError::connection_error)? || is_cut,
        };
        if self.phase == Phase::Head {
            return Ok(MessageItem::Head { is_too_large });
        }
        self.phase = Phase::Trailers;
        if is_too_large {
            return Err(StreamError::new(ErrorCode::EXCESSIVE_LOAD, "trailers larger than the limits").into());
        }
        check_trailers(list, 0).map_err(|error| StreamError::malformed(error.reason))?;
        Ok(MessageItem::Trailers)
    }
}
