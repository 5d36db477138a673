//! Reads answers of HTTP/1 with the parsers of `touchstone-http`.

use super::observed::{Answer, ParsedTranscript, latin1};
use crate::transcript::{EndState, Part, Transcript};
use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits};
use touchstone_http::response::{BodyFraming, Parsed, ResponseHead, body_framing, parse_response_head};

/// Reads the answers of all connections; `methods` are those of the requests of each.
pub(super) fn observe(transcript: &Transcript, methods: &[Vec<String>]) -> ParsedTranscript {
    let mut observed = ParsedTranscript {
        origin: transcript.origin.iter().map(|bytes| latin1(&bytes.0).to_ascii_lowercase()).collect(),
        ..ParsedTranscript::default()
    };
    for (number, part) in transcript.parts.iter().enumerate() {
        connection(part, methods.get(number).map_or(&[][..], Vec::as_slice), &mut observed);
        observed.closed = part.ending != EndState::Open;
    }
    observed
}

fn connection(part: &Part, methods: &[String], observed: &mut ParsedTranscript) {
    let mut rest = &part.bytes.0[..];
    let mut head = ResponseHead::new();
    let mut number = 0;
    while !rest.is_empty() {
        let length = match parse_response_head(rest, &mut head) {
            Ok(Parsed::Complete(length)) => length,
            Ok(Parsed::Partial) => return,
            Err(error) => {
                observed.malformed = Some(error.to_string());
                return;
            }
        };
        rest = &rest[length..];
        if (100..200).contains(&head.status) && head.status != 101 {
            observed.interim.push(head.status);
            continue;
        }
        let method = methods.get(number).map_or("GET", String::as_str);
        number += 1;
        let framing = match (method, head.status) {
            ("CONNECT", 200..=299) => BodyFraming::UntilClose,
            _ => body_framing(method == "HEAD", &head),
        };
        let field = |(name, value): (&[u8], &[u8])| (latin1(name).to_ascii_lowercase(), latin1(value));
        let (body, length, complete) = body(rest, framing, part.ending != EndState::Open);
        observed.answers.push(Answer {
            stream: part.id,
            status: head.status,
            fields: head.fields().map(field).collect(),
            body,
            complete,
        });
        rest = &rest[length..];
        if !complete {
            return;
        }
    }
}

/// The body at the beginning of the bytes, its length in the bytes, and whether it is complete.
fn body(bytes: &[u8], framing: BodyFraming, closed: bool) -> (Vec<u8>, usize, bool) {
    match framing {
        BodyFraming::None => (Vec::new(), 0, true),
        BodyFraming::Length(length) => {
            let taken = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
            (bytes[..taken].to_vec(), taken, taken as u64 == length)
        }
        BodyFraming::UntilClose => (bytes.to_vec(), bytes.len(), closed),
        BodyFraming::Chunked => chunked(bytes),
    }
}

fn chunked(bytes: &[u8]) -> (Vec<u8>, usize, bool) {
    let mut decoder = ChunkedDecoder::new(ChunkedLimits::default());
    let (mut body, mut taken) = (Vec::new(), 0);
    while taken < bytes.len() {
        match decoder.decode(&bytes[taken..]) {
            Ok(decoded) => {
                body.extend_from_slice(&bytes[taken..][decoded.data]);
                taken += decoded.consumed;
                if decoded.done {
                    return (body, taken, true);
                }
                if decoded.consumed == 0 {
                    break;
                }
            }
            Err(_) => return (body, bytes.len(), false),
        }
    }
    (body, taken, false)
}
