//! Reads one answer in parts: the head is parsed, and the body is only counted.
//!
//! The reader determines the end of an answer (RFC 9112, section 6.3) and whether the connection is
//! persistent (section 9.3). Each request of the plan has a [`ResponseHead`] of its own, because the parser
//! accepts a head that is identical to the previous one without parsing it again.

use crate::body::BodySink;
use touchstone_http::chunked::ChunkedDecoder;
use touchstone_http::response::{BodyFraming, Parsed, ResponseHead, body_framing, parse_response_head};

/// The answer is not HTTP, or violates HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedAnswer;

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The connection can carry another request.
    pub(crate) keeps_connection: bool,
    /// All received bytes of the answer: head, body, chunk sizes, interim answers.
    pub(crate) bytes: u64,
    /// The body without its transfer coding.
    pub(crate) body_bytes: u64,
}

/// The state of the answer when the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerAtClose {
    /// The end of the connection delimits the body: the answer is complete.
    Complete(Answer),
    /// No byte of the answer was received.
    Nothing,
    /// The connection ended within the head.
    InHead,
    /// The connection ended within the body.
    ShortBody,
}

/// Reads the answers of one connection, one after another.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    part: Part,
    /// The received part of an incomplete head; empty otherwise.
    partial_head: Vec<u8>,
    status: u16,
    keeps_connection: bool,
    /// It is the answer to HEAD: its head describes a body that is not sent.
    is_head: bool,
    bytes: u64,
    body_bytes: u64,
}

/// The part of the answer that the next byte belongs to.
#[derive(Debug)]
enum Part {
    Head,
    Length { remaining: u64 },
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl AnswerReader {
    pub(crate) fn new() -> AnswerReader {
        AnswerReader {
            part: Part::Head,
            partial_head: Vec::new(),
            status: 0,
            keeps_connection: false,
            is_head: false,
            bytes: 0,
            body_bytes: 0,
        }
    }

    /// Prepares for the answer to the next request; `is_head`: a HEAD request.
    pub(crate) fn reset(&mut self, is_head: bool) {
        self.part = Part::Head;
        self.is_head = is_head;
        self.partial_head.clear();
        self.bytes = 0;
        self.body_bytes = 0;
    }

    /// No byte of the answer has been received yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.bytes == 0
    }

    /// Processes received bytes; returns `Some` when the answer is complete. Bytes after the answer's end are
    /// malformed, because no request is open.
    pub(crate) fn receive(
        &mut self,
        received: &[u8],
        head: &mut ResponseHead,
        sink: &mut impl BodySink,
    ) -> Result<Option<Answer>, MalformedAnswer> {
        self.bytes += received.len() as u64;
        let mut rest = received;
        while let Part::Head = self.part {
            match self.receive_head(rest, head)? {
                Some(head_bytes) => rest = &rest[head_bytes..],
                None => return Ok(None),
            }
        }
        self.receive_body(rest, sink)
    }

    /// The same for a pipelined connection, where answers to other requests may follow; returns the number of
    /// bytes that belong to this answer.
    pub(crate) fn receive_next(
        &mut self,
        received: &[u8],
        head: &mut ResponseHead,
        sink: &mut impl BodySink,
    ) -> Result<(usize, Option<Answer>), MalformedAnswer> {
        let mut rest = received;
        while let Part::Head = self.part {
            match self.receive_head(rest, head)? {
                Some(head_bytes) => rest = &rest[head_bytes..],
                None => {
                    self.bytes += received.len() as u64;
                    return Ok((received.len(), None));
                }
            }
        }
        let body = match &mut self.part {
            Part::Length { remaining } => {
                let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(rest.len());
                &rest[..length]
            }
            Part::Chunked(decoder) => &rest[..chunked_length(&mut decoder.clone(), rest)?],
            Part::Head | Part::UntilClose => rest,
        };
        let length = received.len() - rest.len() + body.len();
        self.bytes += length as u64;
        Ok((length, self.receive_body(body, sink)?))
    }

    /// The server has ended the connection.
    pub(crate) fn at_close(&self) -> AnswerAtClose {
        match self.part {
            Part::Head if self.is_unanswered() => AnswerAtClose::Nothing,
            Part::Head => AnswerAtClose::InHead,
            Part::UntilClose => AnswerAtClose::Complete(self.answer()),
            Part::Length { .. } | Part::Chunked(_) => AnswerAtClose::ShortBody,
        }
    }

    /// Reads a head and sets the part that follows it; returns the number of bytes that belong to the head.
    fn receive_head(
        &mut self,
        bytes: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Option<usize>, MalformedAnswer> {
        let before = self.partial_head.len();
        let parsed = if before == 0 {
            parse_response_head(bytes, head)
        } else {
            // The head is parsed from its beginning each time. Malformed bytes are then found at once,
            // however the head is split, and the parser's limit bounds the repeated work.
            self.partial_head.extend_from_slice(bytes);
            parse_response_head(&self.partial_head, head)
        };
        match parsed.map_err(|_| MalformedAnswer)? {
            Parsed::Complete(length) => {
                self.partial_head.clear();
                self.begin_body(head)?;
                length.checked_sub(before).map(Some).ok_or(MalformedAnswer)
            }
            Parsed::Partial => {
                if before == 0 {
                    self.partial_head.extend_from_slice(bytes);
                }
                Ok(None)
            }
        }
    }

    /// Sets the part after the head. An interim answer (RFC 9110, section 15.2) has no body, and another head
    /// follows; 101 is malformed, because the client did not request another protocol.
    fn begin_body(&mut self, head: &ResponseHead) -> Result<(), MalformedAnswer> {
        match head.status {
            101 => return Err(MalformedAnswer),
            100..=199 => return Ok(()),
            _ => {}
        }
        self.status = head.status;
        self.keeps_connection = head.is_persistent();
        self.part = match body_framing(self.is_head, head) {
            BodyFraming::None => Part::Length { remaining: 0 },
            BodyFraming::Length(remaining) => Part::Length { remaining },
            BodyFraming::Chunked => Part::Chunked(ChunkedDecoder::default()),
            BodyFraming::UntilClose => {
                self.keeps_connection = false;
                Part::UntilClose
            }
        };
        Ok(())
    }

    fn receive_body(
        &mut self,
        bytes: &[u8],
        sink: &mut impl BodySink,
    ) -> Result<Option<Answer>, MalformedAnswer> {
        let complete = match &mut self.part {
            Part::Head => false,
            Part::Length { remaining } => {
                let length = bytes.len() as u64;
                *remaining = remaining.checked_sub(length).ok_or(MalformedAnswer)?;
                sink.take(bytes);
                self.body_bytes += length;
                *remaining == 0
            }
            Part::Chunked(decoder) => {
                let (length, complete) = take_chunks(decoder, bytes, sink)?;
                self.body_bytes += length;
                complete
            }
            Part::UntilClose => {
                sink.take(bytes);
                self.body_bytes += bytes.len() as u64;
                false
            }
        };
        Ok(complete.then(|| self.answer()))
    }

    /// The received part of an answer that the client ends.
    pub(crate) fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            keeps_connection: self.keeps_connection,
            bytes: self.bytes,
            body_bytes: self.body_bytes,
        }
    }
}

/// The number of bytes that belong to the chunked body.
fn chunked_length(decoder: &mut ChunkedDecoder, bytes: &[u8]) -> Result<usize, MalformedAnswer> {
    let mut used = 0;
    while used < bytes.len() {
        let decoded = decoder.decode(&bytes[used..]).map_err(|_| MalformedAnswer)?;
        used += decoded.consumed;
        if decoded.done {
            break;
        }
    }
    Ok(used)
}

/// Returns the number of data bytes, and whether the body is complete.
fn take_chunks(
    decoder: &mut ChunkedDecoder,
    bytes: &[u8],
    sink: &mut impl BodySink,
) -> Result<(u64, bool), MalformedAnswer> {
    let (mut rest, mut data_bytes) = (bytes, 0);
    while !rest.is_empty() {
        let decoded = decoder.decode(rest).map_err(|_| MalformedAnswer)?;
        data_bytes += decoded.data.len() as u64;
        sink.take(&rest[decoded.data.clone()]);
        rest = &rest[decoded.consumed..];
        if decoded.done && !rest.is_empty() {
            return Err(MalformedAnswer);
        }
    }
    Ok((data_bytes, decoder.is_done()))
}

#[cfg(test)]
mod tests;
