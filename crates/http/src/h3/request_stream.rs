//! The stream of a request (RFC 9114 section 4.1): a header section, a body, optional trailers.

use std::ops::Range;

use super::control::Sender;
use super::error::{Error, ErrorCode, StreamError};
use super::message_stream::{MessageItem, MessageStream};
use super::qpack::SectionLimits;
use crate::h2::hpack::FieldList;
use crate::h2::request::{self, read_request};
use crate::h2::{Fields, StreamRequest};

/// Reads the stream of one request.
#[derive(Debug, Clone)]
pub struct RequestStream {
    message: MessageStream,
}

/// The first item that was found in the received bytes.
#[derive(Debug)]
pub enum Received {
    /// Nothing more.
    Nothing,
    /// The request; its fields are in the list that was passed.
    Head(RequestHead),
    /// A piece of the body: its position in the input.
    Data(Range<usize>),
    /// The trailers: the fields that are now in the list. Only the end of the stream may follow.
    Trailers,
}

/// A request's head, together with the list that its fields are in.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead(request::RequestHead);

impl RequestHead {
    /// The contents of the request.
    pub fn view<'a>(&'a self, list: &'a FieldList) -> StreamRequest<'a> {
        StreamRequest::new(&self.0, list)
    }
}

/// The fields of trailers that are in `list`.
pub fn trailers(list: &FieldList) -> Fields<'_> {
    Fields::new(list, 0, list.len() as u32)
}

impl RequestStream {
    /// A stream of which no byte has arrived.
    pub fn new(limits: SectionLimits) -> RequestStream {
        RequestStream { message: MessageStream::new(Sender::Client, limits) }
    }

    /// Consumes `input` up to and including the first item; returns how many bytes that were. If there was no
    /// item, all were consumed. Fields are stored in `list`, which is cleared before.
    pub fn receive(&mut self, input: &[u8], list: &mut FieldList) -> Result<(usize, Received), Error> {
        let (taken, item) = self.message.receive(input, list)?;
        let received = match item {
            MessageItem::Nothing => Received::Nothing,
            MessageItem::Data(range) => Received::Data(range),
            MessageItem::Trailers => Received::Trailers,
            MessageItem::Head { is_too_large } => {
                let head = read_request(list, 0, true, is_too_large)
                    .map_err(|error| StreamError::malformed(error.reason))?;
                // The directions of a tunnel end independently of each other, and a length has no meaning.
                self.message.begin_body(if head.is_tunnel() { None } else { head.content_length });
                Received::Head(RequestHead(head))
            }
        };
        Ok((taken, received))
    }

    /// The client has sent everything.
    pub fn finish(&self) -> Result<(), Error> {
        let reason = "a stream that ends without a request";
        self.message.finish(StreamError::new(ErrorCode::REQUEST_INCOMPLETE, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{self, FrameType};
    use super::super::qpack;
    use super::*;
    use proptest::prelude::*;

    const LIMITS: SectionLimits = SectionLimits { bytes: 2000, fields: 20 };

    /// A request, its body and its trailers, as text.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Message {
        head: Option<String>,
        too_large: bool,
        body: Vec<u8>,
        trailers: Option<String>,
    }

    fn text(fields: Fields<'_>) -> String {
        fields.map(|field| format!("{field:?}")).collect::<Vec<_>>().join("|")
    }

    fn receive(bytes: &[u8], piece_bytes: usize) -> Result<Message, Error> {
        let mut stream = RequestStream::new(LIMITS);
        let mut list = FieldList::new();
        let mut message = Message::default();
        for piece in bytes.chunks(piece_bytes) {
            let mut rest = piece;
            loop {
                let (taken, received) = stream.receive(rest, &mut list)?;
                match received {
                    Received::Nothing => break,
                    Received::Head(head) => {
                        let view = head.view(&list);
                        message.too_large = view.is_header_section_too_large();
                        let line = [view.method_text(), view.path(), view.authority()]
                            .map(|text| text.escape_ascii().to_string());
                        message.head = Some(format!("{} {}", line.join(" "), text(view.fields())));
                    }
                    Received::Data(range) => message.body.extend_from_slice(&rest[range]),
                    Received::Trailers => message.trailers = Some(text(trailers(&list))),
                }
                rest = &rest[taken..];
            }
        }
        stream.finish()?;
        Ok(message)
    }

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        qpack::encode_fields(
            fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            &mut block,
        );
        let mut frame = Vec::new();
        frame::append(FrameType::HEADERS, &block, &mut frame);
        frame
    }

    fn request(method: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let first = [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", "/x?y")];
        section(&[&first, more].concat())
    }

    fn data(bytes: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        frame::append(FrameType::DATA, bytes, &mut frame);
        frame
    }

    fn code(parts: &[Vec<u8>]) -> (ErrorCode, bool) {
        match receive(&parts.concat(), usize::MAX).unwrap_err() {
            Error::Stream(error) => (error.code, false),
            Error::Connection(error) => (error.code, true),
        }
    }

    #[test]
    fn a_request_with_body_and_trailers_in_any_pieces() {
        let grease = {
            let mut frame = Vec::new();
            frame::append(FrameType(0x1f * 9 + 0x21), b"grease", &mut frame);
            frame
        };
        let bytes = [
            grease.clone(),
            request("POST", &[("content-length", "7"), ("x-y", "z")]),
            data(b""),
            data(b"one"),
            grease.clone(),
            data(b"four"),
            section(&[("checksum", "1")]),
            grease,
        ]
        .concat();
        for piece_bytes in [1, 2, 3, 7, 1000] {
            let message = receive(&bytes, piece_bytes).unwrap();
            assert_eq!(message.head.as_deref(), Some("POST /x?y a content-length: 7|x-y: z"));
            assert_eq!(message.body, b"onefour");
            assert_eq!(message.trailers.as_deref(), Some("checksum: 1"));
        }
    }

    #[test]
    fn frames_that_may_not_be_there_end_the_connection() {
        let get = || request("GET", &[]);
        assert_eq!(code(&[data(b"x")]), (ErrorCode::FRAME_UNEXPECTED, true));
        let trailers = || section(&[("a", "b")]);
        assert_eq!(code(&[get(), trailers(), trailers()]), (ErrorCode::FRAME_UNEXPECTED, true));
        assert_eq!(code(&[get(), trailers(), data(b"x")]), (ErrorCode::FRAME_UNEXPECTED, true));
        for kind in [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf_0700, 0xf_0701] {
            let mut frame = get();
            frame::append(FrameType(kind), b"\x00", &mut frame);
            assert_eq!(code(&[frame]), (ErrorCode::FRAME_UNEXPECTED, true), "{kind:x}");
        }
        let mut cut = get();
        cut.pop();
        assert_eq!(code(&[cut]), (ErrorCode::FRAME_ERROR, true));
        assert_eq!(code(&[vec![0x01, 0x02, 0x01, 0x00]]), (ErrorCode::QPACK_DECOMPRESSION_FAILED, true));
    }

    #[test]
    fn malformed_messages_end_the_stream() {
        assert_eq!(code(&[vec![]]), (ErrorCode::REQUEST_INCOMPLETE, false));
        // The encoder leaves out what belongs to a connection of HTTP/1, so that is written by hand.
        let mut with_connection = Vec::new();
        let get = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        qpack::encode_fields(
            get.map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            &mut with_connection,
        );
        with_connection.extend_from_slice(b"\x27\x03connection\x05close");
        let mut frame = Vec::new();
        frame::append(FrameType::HEADERS, &with_connection, &mut frame);
        for wrong in [
            frame,
            section(&[(":method", "GET")]),
            request("GET", &[("te", "gzip")]),
            request("GET", &[(":status", "200")]),
            request("G T", &[]),
        ] {
            assert_eq!(code(&[wrong]), (ErrorCode::MESSAGE_ERROR, false));
        }
        let five = || request("POST", &[("content-length", "5")]);
        assert_eq!(code(&[five(), data(b"four")]), (ErrorCode::MESSAGE_ERROR, false));
        assert_eq!(code(&[five(), data(b"sixsix")]), (ErrorCode::MESSAGE_ERROR, false));
        assert_eq!(code(&[five()]), (ErrorCode::MESSAGE_ERROR, false));
        assert_eq!(
            code(&[five(), data(b"five5"), section(&[(":path", "/")])]),
            (ErrorCode::MESSAGE_ERROR, false)
        );
    }

    #[test]
    fn a_head_over_the_limits_is_marked() {
        let long = "x".repeat(3000);
        for bytes in [request("GET", &[("a", &long)]), request("GET", &[("a", ""); 30])] {
            let message = receive(&bytes, 100).unwrap();
            assert!(message.too_large);
            assert!(message.head.unwrap().starts_with("GET /x?y a"));
        }
        let trailers = section(&[("a", &long)]);
        assert_eq!(code(&[request("GET", &[]), trailers]), (ErrorCode::EXCESSIVE_LOAD, false));
    }

    proptest! {
        #[test]
        fn never_panics_and_pieces_make_no_difference(
            mut bytes in any::<Vec<u8>>(),
            is_after_head in any::<bool>(),
            piece_bytes in 1usize..30,
        ) {
            if is_after_head {
                bytes = [request("POST", &[("content-length", "9")]), bytes].concat();
            }
            prop_assert_eq!(receive(&bytes, piece_bytes), receive(&bytes, usize::MAX));
        }
    }
}
