//! Reads frames of HTTP/2 with the parsers of `touchstone-http`.

use super::observed::{Answer, ParsedTranscript, latin1};
use crate::transcript::{EndState, Transcript};
use touchstone_http::h2::ErrorCode;
use touchstone_http::h2::frame::{Frame, FrameHeader, HEADER_BYTES};
use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::hpack::{Decoder, FieldList};

/// The maximum number of fields of an answer.
const LIMITS: ListLimits = ListLimits { bytes: 64 * 1024, fields: 500 };

/// Reads the frames of the connection.
pub(super) fn observe(transcript: &Transcript) -> ParsedTranscript {
    let mut reader = Reader {
        observed: ParsedTranscript::default(),
        decoder: Decoder::new(),
        block: Vec::new(),
        said_goodbye: false,
    };
    let Some(part) = transcript.parts.first() else { return reader.observed };
    let mut rest = &part.bytes.0[..];
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let header = FrameHeader::parse(header);
        let length = header.length;
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        rest = after;
        reader.observed.frames.push(header.frame_type.0);
        match Frame::parse(header, payload) {
            Ok(frame) => reader.frame(&frame, header.stream),
            Err(error) => {
                reader.observed.malformed = Some(error.reason.to_owned());
                break;
            }
        }
    }
    let said_goodbye = reader.said_goodbye;
    let mut observed = reader.observed;
    observed.settings_first = observed.frames.first() == Some(&4);
    observed.closed = part.ending != EndState::Open;
    if observed.closed && observed.connection_error.is_none() {
        let error = if said_goodbye { "NO_ERROR" } else { "closed without GOAWAY" };
        observed.connection_error = Some(error.to_owned());
    }
    observed
}

struct Reader {
    observed: ParsedTranscript,
    decoder: Decoder,
    /// The incomplete field block.
    block: Vec<u8>,
    /// Whether a GOAWAY without an error was received.
    said_goodbye: bool,
}

impl Reader {
    fn frame(&mut self, frame: &Frame<'_>, id: u32) {
        match frame {
            Frame::Headers { fragment, end_stream, end_headers, .. } => {
                self.block = fragment.to_vec();
                if *end_headers {
                    self.fields(u64::from(id));
                }
                if *end_stream {
                    self.end(u64::from(id));
                }
            }
            Frame::Continuation { fragment, end_headers, .. } => {
                self.block.extend_from_slice(fragment);
                if *end_headers {
                    self.fields(u64::from(id));
                }
            }
            Frame::Data { data, end_stream, .. } => {
                if let Some(answer) = self.answer(u64::from(id)) {
                    answer.body.extend_from_slice(data);
                }
                if *end_stream {
                    self.end(u64::from(id));
                }
            }
            Frame::ResetStream { stream, code } => {
                self.observed.resets.push((u64::from(*stream), code.name().to_owned()));
            }
            Frame::GoAway { code, .. } if *code != ErrorCode::NO_ERROR => {
                self.observed.connection_error.get_or_insert_with(|| code.name().to_owned());
            }
            Frame::GoAway { .. } => self.said_goodbye = true,
            Frame::Settings(settings) => {
                self.observed.settings.extend(settings.iter().map(|(id, value)| (id.0, value)));
            }
            Frame::SettingsAcknowledgement => self.observed.settings_acks += 1,
            Frame::Ping { payload, acknowledgement: true } => self.observed.pongs.push(*payload),
            _ => {}
        }
    }

    /// Reads a complete block: the head of an answer, or its trailers.
    fn fields(&mut self, stream: u64) {
        let mut list = FieldList::new();
        if self.decoder.decode(&self.block, LIMITS, &mut list).is_err() {
            self.observed.malformed = Some("the server's block cannot be decoded".to_owned());
            return;
        }
        self.observed.head(stream, &list);
    }

    fn answer(&mut self, stream: u64) -> Option<&mut Answer> {
        self.observed.answers.iter_mut().find(|answer| answer.stream == stream)
    }

    fn end(&mut self, stream: u64) {
        if let Some(answer) = self.answer(stream) {
            answer.complete = true;
        }
    }
}

impl ParsedTranscript {
    /// Reads the fields of a block: an interim answer, a final one, or trailers, which are ignored.
    pub(super) fn head(&mut self, stream: u64, list: &FieldList) {
        let text = |bytes: &[u8]| latin1(bytes);
        let fields: Vec<(String, String)> =
            list.fields().iter().map(|field| (text(list.name(field)), text(list.value(field)))).collect();
        let status =
            fields.iter().find(|(name, _)| name == ":status").and_then(|(_, value)| value.parse().ok());
        match status {
            Some(status @ 100..=199) => self.interim.push(status),
            Some(status) => {
                self.answers.push(Answer { stream, status, fields, body: Vec::new(), complete: false });
            }
            None if self.answers.iter().any(|answer| answer.stream == stream) => {}
            None => self.malformed = Some("an answer without :status".to_owned()),
        }
    }
}
