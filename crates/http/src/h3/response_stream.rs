//! The stream of a response as a client reads it (RFC 9114 section 4.1): interim responses, the header
//! section of the final one, a body, optional trailers.
//!
//! Anything that two programs could read differently is malformed, as in requests.

use std::ops::Range;

use super::control::Sender;
use super::error::{Error, ErrorCode, StreamError};
use super::message_stream::{MessageItem, MessageStream};
use super::qpack::SectionLimits;
use crate::decimal;
use crate::h2::Fields;
use crate::h2::hpack::{FieldList, KnownName};

/// Reads the stream of one response.
#[derive(Debug, Clone)]
pub struct ResponseStream {
    message: MessageStream,
    /// The request was HEAD: there is no body, whatever the length is.
    is_head: bool,
}

/// The first item that was found in the received bytes.
#[derive(Debug)]
pub enum ReceivedResponse {
    /// Nothing more.
    Nothing,
    /// An interim response; its fields are in the list that was given.
    Interim(ResponseHead),
    /// The head of the final response; its fields are in the list that was given.
    Head(ResponseHead),
    /// A piece of the body: its position in the input.
    Data(Range<usize>),
    /// The trailers: the fields that are now in the list. Only the end of the stream may follow.
    Trailers,
}

/// A response's head, together with the list that its fields are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status, from 100 to 999.
    pub status: u16,
    /// The value of Content-Length.
    pub content_length: Option<u64>,
}

impl ResponseHead {
    /// Its fields without `:status`.
    pub fn fields<'a>(&self, list: &'a FieldList) -> Fields<'a> {
        Fields::new(list, 1, list.len() as u32)
    }
}

impl ResponseStream {
    /// Before the first byte; `is_head` says whether the request was HEAD.
    pub fn new(limits: SectionLimits, is_head: bool) -> ResponseStream {
        ResponseStream { message: MessageStream::new(Sender::Server, limits), is_head }
    }

    /// Consumes `input` up to and including the first item; returns how many bytes that were. If there was no
    /// item, all were consumed. Fields are stored in `list`, which is cleared before.
    pub fn receive(
        &mut self,
        input: &[u8],
        list: &mut FieldList,
    ) -> Result<(usize, ReceivedResponse), Error> {
        let (taken, item) = self.message.receive(input, list)?;
        let received = match item {
            MessageItem::Nothing => ReceivedResponse::Nothing,
            MessageItem::Data(range) => ReceivedResponse::Data(range),
            MessageItem::Trailers => ReceivedResponse::Trailers,
            MessageItem::Head { is_too_large: true } => {
                let reason = "a header section that is larger than the limits";
                return Err(StreamError::new(ErrorCode::EXCESSIVE_LOAD, reason).into());
            }
            MessageItem::Head { is_too_large: false } => {
                let head = read_response(list)?;
                if head.status < 200 {
                    return Ok((taken, ReceivedResponse::Interim(head)));
                }
                let has_no_body = self.is_head || matches!(head.status, 204 | 304);
                self.message.begin_body(if has_no_body { Some(0) } else { head.content_length });
                ReceivedResponse::Head(head)
            }
        };
        Ok((taken, received))
    }

    /// The server has sent everything.
    pub fn finish(&self) -> Result<(), Error> {
        self.message.finish(StreamError::malformed("a stream that ends without a response"))
    }
}

/// Section 4.3.2: `:status`, once and first, and no other pseudo-header field.
fn read_response(list: &FieldList) -> Result<ResponseHead, StreamError> {
    let malformed = |reason| Err(StreamError::malformed(reason));
    let Some((first, fields)) = list.fields().split_first() else {
        return malformed("a response without :status");
    };
    let status = match list.value(first) {
        digits if first.known == KnownName::Status && digits.len() == 3 => decimal::parse(digits),
        _ => None,
    };
    let Some(status) = status.and_then(|status| u16::try_from(status).ok()).filter(|status| *status >= 100)
    else {
        return malformed("a response that does not begin with :status and three digits");
    };
    if status == 101 {
        return malformed("a response with the status 101, which HTTP/3 has not");
    }
    let mut head = ResponseHead { status, content_length: None };
    for field in fields {
        if list.name(field).first() == Some(&b':') {
            return malformed("a pseudo-header field twice, behind other fields, or of requests");
        }
        if !field.is_valid {
            return malformed("a field whose name or value holds bytes that it may not hold");
        }
        if field.known.is_connection_specific() {
            return malformed("a field that belongs to a single HTTP/1 connection");
        }
        if field.known == KnownName::ContentLength {
            let Some(length) = decimal::parse(list.value(field)) else {
                return malformed("a Content-Length that is not a number, or too large");
            };
            if head.content_length.replace(length).is_some() {
                return malformed("a response with several Content-Length fields");
            }
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::super::frame::{self, FrameType};
    use super::super::{qpack, request_stream};
    use super::*;
    use proptest::prelude::*;

    const LIMITS: SectionLimits = SectionLimits { bytes: 2000, fields: 20 };

    /// What a stream says, as text: `103 link: x`, `200 a: b`, `body`, `trailers c: d`.
    fn receive(bytes: &[u8], piece_bytes: usize, is_head: bool) -> Result<Vec<String>, Error> {
        let (mut stream, mut list) = (ResponseStream::new(LIMITS, is_head), FieldList::new());
        let (mut said, mut body) = (Vec::new(), Vec::new());
        let text = |fields: Fields<'_>| fields.map(|field| format!(" {field:?}")).collect::<String>();
        for piece in bytes.chunks(piece_bytes) {
            let mut rest = piece;
            loop {
                let (taken, received) = stream.receive(rest, &mut list)?;
                match received {
                    ReceivedResponse::Nothing => break,
                    ReceivedResponse::Interim(head) | ReceivedResponse::Head(head) => {
                        said.push(format!("{}{}", head.status, text(head.fields(&list))));
                    }
                    ReceivedResponse::Data(range) => body.extend_from_slice(&rest[range]),
                    ReceivedResponse::Trailers => {
                        said.push(format!("trailers{}", text(request_stream::trailers(&list))));
                    }
                }
                rest = &rest[taken..];
            }
        }
        stream.finish()?;
        said.push(body.escape_ascii().to_string());
        Ok(said)
    }

    fn frame(kind: FrameType, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::append(kind, payload, &mut bytes);
        bytes
    }

    /// A section with exactly these fields, also such as an encoder leaves out or writes in lower case.
    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = vec![0, 0];
        for (name, value) in fields {
            // A literal with a literal name, without Huffman code.
            block.push(0x27);
            assert!((7..127 + 7).contains(&name.len()) || name.len() < 7);
            match name.len() {
                short @ 0..7 => *block.last_mut().unwrap() = 0x20 | short as u8,
                long => block.push((long - 7) as u8),
            }
            block.extend_from_slice(name.as_bytes());
            match value.len() {
                short @ 0..127 => block.push(short as u8),
                long => {
                    block.extend_from_slice(&[0x7f, ((long - 127) & 0x7f) as u8 | 0x80]);
                    block.push(((long - 127) >> 7) as u8);
                }
            }
            block.extend_from_slice(value.as_bytes());
        }
        frame(FrameType::HEADERS, &block)
    }

    fn head(status: &str, more: &[(&str, &str)]) -> Vec<u8> {
        section(&[&[(":status", status)], more].concat())
    }

    fn data(bytes: &[u8]) -> Vec<u8> {
        frame(FrameType::DATA, bytes)
    }

    fn code(parts: &[Vec<u8>]) -> (ErrorCode, bool) {
        match receive(&parts.concat(), usize::MAX, false).unwrap_err() {
            Error::Stream(error) => (error.code, false),
            Error::Connection(error) => (error.code, true),
        }
    }

    #[test]
    fn a_response_in_any_pieces() {
        let bytes = [
            frame(FrameType(0x21), b"grease"),
            head("103", &[("link", "</a>")]),
            head("100", &[]),
            head("200", &[("content-length", "7"), ("x-y", "z")]),
            data(b"one"),
            data(b""),
            frame(FrameType(0x21), b""),
            data(b"four"),
            section(&[("checksum", "1")]),
        ]
        .concat();
        for piece_bytes in [1, 2, 3, 7, 1000] {
            let received = receive(&bytes, piece_bytes, false).unwrap();
            let expected =
                ["103 link: </a>", "100", "200 content-length: 7 x-y: z", "trailers checksum: 1", "onefour"];
            assert_eq!(received, expected);
        }
        let mut qpack = Vec::new();
        qpack::encode_response(404, [(&b"Server"[..], &b"x"[..])], &mut qpack);
        let received = receive(&frame(FrameType::HEADERS, &qpack), 5, false).unwrap();
        assert_eq!(received, ["404 server: x", ""]);
    }

    #[test]
    fn responses_without_a_body() {
        let five = |status| head(status, &[("content-length", "5")]);
        assert!(receive(&five("200"), 99, true).is_ok());
        for status in ["204", "304"] {
            assert!(receive(&five(status), 99, false).is_ok());
            assert_eq!(code(&[five(status), data(b"five5")]), (ErrorCode::MESSAGE_ERROR, false));
        }
        assert!(receive(&[five("200"), data(b"five5")].concat(), 99, true).is_err());
        assert_eq!(code(&[five("200")]), (ErrorCode::MESSAGE_ERROR, false));
        assert_eq!(code(&[five("200"), data(b"four")]), (ErrorCode::MESSAGE_ERROR, false));
        assert_eq!(code(&[five("200"), data(b"sixsix")]), (ErrorCode::MESSAGE_ERROR, false));
    }

    #[test]
    fn malformed_heads_end_the_stream() {
        let long = "x".repeat(1900);
        let many: Vec<_> = std::iter::repeat_n(("a", "b"), 21).collect();
        for (bytes, expected) in [
            (vec![], ErrorCode::MESSAGE_ERROR),
            (head("103", &[]), ErrorCode::MESSAGE_ERROR),
            (section(&[]), ErrorCode::MESSAGE_ERROR),
            (section(&[("a", "b")]), ErrorCode::MESSAGE_ERROR),
            (section(&[("a", "b"), (":status", "200")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[(":status", "200")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[(":path", "/")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[(":unknown", "x")]), ErrorCode::MESSAGE_ERROR),
            (head("101", &[]), ErrorCode::MESSAGE_ERROR),
            (head("099", &[]), ErrorCode::MESSAGE_ERROR),
            (head("20", &[]), ErrorCode::MESSAGE_ERROR),
            (head("2000", &[]), ErrorCode::MESSAGE_ERROR),
            (head("+20", &[]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("Upper", "x")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("x", "a\nb")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("connection", "close")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("transfer-encoding", "chunked")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("content-length", "-1")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("content-length", "1"), ("content-length", "1")]), ErrorCode::MESSAGE_ERROR),
            (head("200", &[("a", &long), ("b", &long)]), ErrorCode::EXCESSIVE_LOAD),
            (head("200", &many), ErrorCode::EXCESSIVE_LOAD),
            ([head("200", &[]), head("200", &[])].concat(), ErrorCode::MESSAGE_ERROR),
        ] {
            assert_eq!(code(std::slice::from_ref(&bytes)), (expected, false), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn wrong_frames_end_the_connection() {
        let good = || head("200", &[]);
        let trailers = || section(&[("a", "b")]);
        for (parts, expected) in [
            (vec![data(b"x")], ErrorCode::FRAME_UNEXPECTED),
            (vec![head("103", &[]), data(b"x")], ErrorCode::FRAME_UNEXPECTED),
            (vec![good(), trailers(), data(b"x")], ErrorCode::FRAME_UNEXPECTED),
            (vec![good(), trailers(), trailers()], ErrorCode::FRAME_UNEXPECTED),
            (vec![good(), frame(FrameType::SETTINGS, b"")], ErrorCode::FRAME_UNEXPECTED),
            (vec![good(), frame(FrameType::GOAWAY, b"\x00")], ErrorCode::FRAME_UNEXPECTED),
            (vec![good(), frame(FrameType(0x2), b"")], ErrorCode::FRAME_UNEXPECTED),
            (vec![good(), frame(FrameType::PUSH_PROMISE, b"\x00")], ErrorCode::ID_ERROR),
            (vec![good()[..4].to_vec()], ErrorCode::FRAME_ERROR),
            (vec![good(), data(b"four")[..3].to_vec()], ErrorCode::FRAME_ERROR),
            (vec![vec![0x01, 0x02, 0x01, 0x00]], ErrorCode::QPACK_DECOMPRESSION_FAILED),
        ] {
            assert_eq!(code(&parts), (expected, true), "{}", parts.concat().escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_pieces_make_no_difference(
            mut bytes in any::<Vec<u8>>(),
            is_after_head in any::<bool>(),
            is_head in any::<bool>(),
            piece_bytes in 1usize..30,
        ) {
            if is_after_head {
                bytes = [head("200", &[("content-length", "9")]), bytes].concat();
            }
            let at_once = receive(&bytes, usize::MAX, is_head);
            prop_assert_eq!(receive(&bytes, piece_bytes, is_head), at_once);
        }
    }
}
