//! Reads streams of HTTP/3 with the parsers of `touchstone-http`.

use super::observed::{Answer, ParsedTranscript};
use crate::transcript::{EndState, Part, Transcript};
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::SectionLimits;
use touchstone_http::h3::error::ErrorCode;
use touchstone_http::h3::frame::{FrameItem, FrameReader, FrameType};
use touchstone_http::h3::qpack;
use touchstone_http::h3::unidirectional::CONTROL;
use touchstone_http::h3::varint;

/// The maximum number of fields of an answer.
const LIMITS: SectionLimits = SectionLimits { bytes: 64 * 1024, fields: 500 };

/// Reads all streams.
pub(super) fn observe(transcript: &Transcript) -> ParsedTranscript {
    let mut observed = ParsedTranscript {
        // A close without an error is like NO_ERROR in HTTP/2: the connection has only ended.
        closed: transcript.connection_close.is_some(),
        connection_error: transcript
            .connection_close
            .filter(|&code| code != ErrorCode::NO_ERROR.0)
            .map(|code| ErrorCode(code).name().to_owned()),
        ..ParsedTranscript::default()
    };
    for part in &transcript.parts {
        // The two lowest bits: the side that opened it, and whether it has only one direction (RFC 9000
        // section 2.1).
        match part.id & 3 {
            0 => request(part, &mut observed),
            3 => unidirectional(part, &mut observed),
            _ => {}
        }
    }
    observed
}

fn request(part: &Part, observed: &mut ParsedTranscript) {
    let mut whole = Vec::new();
    for (kind, payload) in frames(&part.bytes.0) {
        match kind {
            FrameType::HEADERS => {
                let mut list = FieldList::new();
                match qpack::decode(&payload, LIMITS, &mut list) {
                    Ok(_) => observed.head(part.id, &list),
                    Err(error) => observed.malformed = Some(error.explanation().to_owned()),
                }
            }
            FrameType::DATA => whole.extend(payload),
            _ => {}
        }
    }
    if let Some(answer) = observed.answers.iter_mut().find(|answer: &&mut Answer| answer.stream == part.id) {
        answer.body = whole;
        answer.complete = part.ending == EndState::Closed;
    }
    if let EndState::Reset(code) = part.ending {
        observed.resets.push((part.id, ErrorCode(code).name().to_owned()));
    }
}

fn unidirectional(part: &Part, observed: &mut ParsedTranscript) {
    let mut rest = &part.bytes.0[..];
    if varint::take(&mut rest) != Some(CONTROL) {
        return;
    }
    observed.settings_first = frames(rest).first().is_some_and(|(kind, _)| *kind == FrameType::SETTINGS);
}

/// The complete frames of a stream.
fn frames(bytes: &[u8]) -> Vec<(FrameType, Vec<u8>)> {
    let (mut reader, mut rest, mut frames) = (FrameReader::new(), bytes, Vec::new());
    let mut open: Option<(FrameType, Vec<u8>)> = None;
    while let Some(step) = reader.next(&mut rest) {
        match step {
            FrameItem::Start { kind, .. } => open = Some((kind, Vec::new())),
            FrameItem::Payload { bytes, is_last } => {
                if let Some((_, payload)) = &mut open {
                    payload.extend_from_slice(bytes);
                }
                if is_last {
                    frames.extend(open.take());
                }
            }
        }
    }
    frames
}
