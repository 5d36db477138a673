//! Decodes the body of an HTTP/1 request from received bytes (RFC 9112 sections 6 and 7). It does no input or
//! output and no waiting: [`super::request_body`] does that.

use std::io;
use std::ops::Range;

use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits};
use touchstone_http::request::RequestBody;

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyProblem {
    /// It breaks the chunked coding.
    Malformed,
    /// It is longer than allowed.
    TooLarge,
    /// The client was too slow.
    Timeout,
    /// The client has disconnected.
    Gone,
}

impl BodyProblem {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            BodyProblem::Malformed | BodyProblem::Gone => 400,
            BodyProblem::TooLarge => 413,
            BodyProblem::Timeout => 408,
        }
    }

    /// The error that the handler gets.
    pub fn error(self) -> io::Error {
        let (kind, message) = match self {
            BodyProblem::Malformed => (io::ErrorKind::InvalidData, "the request's body is not in chunks"),
            BodyProblem::TooLarge => (io::ErrorKind::FileTooLarge, "the request's body is too large"),
            BodyProblem::Timeout => (io::ErrorKind::TimedOut, "the client sent its body too slowly"),
            BodyProblem::Gone => (io::ErrorKind::ConnectionReset, "the client left while it sent its body"),
        };
        io::Error::new(kind, message)
    }
}

/// The state of decoding a body.
pub struct BodyDecoder {
    rest: Rest,
    /// The field lines after the body, once its end was found.
    trailers: Vec<u8>,
    /// The decoded bytes of a chunked body so far.
    decoded_bytes: u64,
}

/// How the rest of the body is framed.
enum Rest {
    /// The body is complete.
    Done,
    Counted(u64),
    Chunked(ChunkedDecoder),
    /// All bytes until the client's end, after a switch of protocols.
    Raw,
}

/// The element at the start of the input, with the number of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyItem {
    /// A piece of the body at this position; it may be empty.
    Piece(Range<usize>, usize),
    /// The end of the body.
    End(usize),
    /// More bytes are needed.
    Nothing,
}

impl BodyDecoder {
    /// A decoder for a body with this framing.
    pub fn new(body: RequestBody) -> BodyDecoder {
        let rest = match body {
            RequestBody::None => Rest::Done,
            RequestBody::Length(length) => Rest::Counted(length),
            RequestBody::Chunked => Rest::Chunked(ChunkedDecoder::new(ChunkedLimits::default())),
        };
        BodyDecoder { rest, trailers: Vec::new(), decoded_bytes: 0 }
    }

    /// A decoder for a request without a body.
    pub fn done() -> BodyDecoder {
        BodyDecoder::new(RequestBody::None)
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        matches!(self.rest, Rest::Done)
    }

    /// Whether the length of the rest is not known yet, and the rest may break the coding.
    pub fn is_chunked(&self) -> bool {
        matches!(self.rest, Rest::Chunked(_))
    }

    /// How many bytes are still to come: of the body, or at least of its present chunk.
    pub fn least_rest_bytes(&self) -> u64 {
        match &self.rest {
            Rest::Counted(remaining) => *remaining,
            Rest::Chunked(decoder) => decoder.chunk_remaining(),
            Rest::Done | Rest::Raw => 0,
        }
    }

    /// Whether the bytes have no framing, after a switch of protocols.
    pub fn is_raw(&self) -> bool {
        matches!(self.rest, Rest::Raw)
    }

    /// From now on every byte belongs to the body, without framing.
    pub fn switch_protocols(&mut self) {
        self.rest = Rest::Raw;
    }

    /// The body has ended.
    pub fn end(&mut self) {
        self.rest = Rest::Done;
    }

    /// The field lines after the body.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// Decodes the start of the input. A chunked body may have at most `most_bytes` bytes; the length of any
    /// other was checked with the head.
    pub fn next(&mut self, input: &[u8], most_bytes: u64) -> Result<BodyItem, BodyProblem> {
        match &mut self.rest {
            Rest::Done | Rest::Counted(0) => Ok(BodyItem::End(0)),
            _ if input.is_empty() => Ok(BodyItem::Nothing),
            Rest::Raw => Ok(BodyItem::Piece(0..input.len(), input.len())),
            Rest::Counted(remaining) => {
                let here = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= here as u64;
                Ok(BodyItem::Piece(0..here, here))
            }
            Rest::Chunked(decoder) => {
                let decoded = decoder.decode(input).map_err(|_| BodyProblem::Malformed)?;
                self.decoded_bytes = self.decoded_bytes.saturating_add(decoded.data.len() as u64);
                // A chunk whose size exceeds the limit is refused before it arrives.
                if self.decoded_bytes.saturating_add(decoder.chunk_remaining()) > most_bytes {
                    return Err(BodyProblem::TooLarge);
                }
                if decoded.done {
                    self.trailers = decoder.trailers().to_vec();
                }
                match decoded {
                    decoded if decoded.done && decoded.data.is_empty() => Ok(BodyItem::End(decoded.consumed)),
                    decoded if decoded.done => {
                        self.rest = Rest::Counted(0);
                        Ok(BodyItem::Piece(decoded.data, decoded.consumed))
                    }
                    decoded if decoded.consumed == 0 => Ok(BodyItem::Nothing),
                    decoded => Ok(BodyItem::Piece(decoded.data, decoded.consumed)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a body that arrives in pieces of this many bytes. Returns the rest of the input too.
    fn decode(
        body: RequestBody,
        input: &[u8],
        piece: usize,
        most: u64,
    ) -> Result<(Vec<u8>, Vec<u8>), BodyProblem> {
        let (mut decoder, mut received, mut out) = (BodyDecoder::new(body), Vec::new(), Vec::new());
        let mut pieces = input.chunks(piece);
        loop {
            match decoder.next(&received, most)? {
                BodyItem::Piece(range, consumed) => {
                    out.extend_from_slice(&received[range]);
                    received.drain(..consumed);
                }
                BodyItem::End(consumed) => {
                    received.drain(..consumed);
                    pieces.for_each(|piece| received.extend_from_slice(piece));
                    return Ok((out, received));
                }
                BodyItem::Nothing => match pieces.next() {
                    Some(piece) => received.extend_from_slice(piece),
                    None => return Ok((out, received)),
                },
            }
        }
    }

    #[test]
    fn a_body_ends_where_its_framing_says_so_however_it_arrives() {
        let chunked: &[u8] = b"3\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\nGET";
        for piece in 1..=chunked.len() {
            let expected = Ok((b"abcde".to_vec(), b"GET".to_vec()));
            assert_eq!(decode(RequestBody::Chunked, chunked, piece, 5), expected, "{piece}");
            assert_eq!(decode(RequestBody::Length(5), b"abcdeGET", piece, 5), expected, "{piece}");
        }
        assert_eq!(decode(RequestBody::None, b"GET", 3, 5), Ok((Vec::new(), b"GET".to_vec())));
    }

    #[test]
    fn a_chunked_body_above_its_limit_or_with_a_fault_is_refused() {
        let too_large = decode(RequestBody::Chunked, b"6\r\n", 4, 5);
        assert_eq!(too_large, Err(BodyProblem::TooLarge), "before the chunk arrives");
        assert_eq!(decode(RequestBody::Chunked, b"3\r\nabcX", 8, 5), Err(BodyProblem::Malformed));
    }

    #[test]
    fn after_a_switch_of_protocols_every_byte_belongs_to_the_body() {
        let mut decoder = BodyDecoder::done();
        decoder.switch_protocols();
        assert_eq!(decoder.next(b"GET", 0), Ok(BodyItem::Piece(0..3, 3)));
        assert_eq!(decoder.next(b"", 0), Ok(BodyItem::Nothing));
    }
}
