//! Reads the head of a response as a client does (RFC 9112 sections 4 and 5), and finds out how its body is
//! framed (section 6).
//!
//! [`parse_response_head`] fills a [`ResponseHead`], which is used again for the next response, so that
//! nothing is allocated once it has grown to the size of the heads. It is strict where two readers could
//! disagree about a message: bare LF, folded lines, white space before a colon, more than one length.
//!
//! A client that repeats a request usually gets the same head, byte for byte, until the second in its `Date`
//! changes. Such a head is not parsed: its bytes are compared with those of the previous head.

use std::fmt;

use crate::decimal;
use crate::grammar::{field_value_length, list_members, token_length, trim_optional_white_space};

/// The limits for a response head, and how strictly it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Bytes of the status line and the header section together, with the empty line at the end.
    pub head_bytes: u32,
    /// Field lines.
    pub fields: u32,
    /// Whether a line may end in a bare LF (RFC 9112 section 2.2).
    pub bare_line_feeds: bool,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        ResponseLimits { head_bytes: 64 * 1024, fields: 256, bare_line_feeds: false }
    }
}

/// Whether a head was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The head is this many bytes long; what follows is the body, or the next response.
    Complete(usize),
    /// The bytes are valid so far, but the head is not complete.
    Partial,
}

/// Why the bytes are not a response head. The connection cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// The status line is not `HTTP/1.x`, a space, three digits and a reason.
    StatusLine,
    /// The version is not 1.x.
    Version,
    /// A line ends in something other than CRLF.
    LineEnd,
    /// A field name is empty, holds a forbidden byte, or is not directly followed by a colon. A folded line
    /// gives this error too.
    FieldName,
    /// A field value holds a control byte.
    FieldValue,
    /// `Content-Length` is not one number, or occurs twice.
    ContentLength,
    /// `Transfer-Encoding` is something other than `chunked`, once, in HTTP/1.1.
    TransferEncoding,
    /// There are both `Content-Length` and `Transfer-Encoding`.
    TwoFramings,
    /// The head is longer than [`ResponseLimits::head_bytes`].
    TooLong,
    /// There are more field lines than [`ResponseLimits::fields`].
    TooManyFields,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ResponseError::StatusLine => "response does not begin with a valid status line",
            ResponseError::Version => "response is not HTTP/1.x",
            ResponseError::LineEnd => "line in the response head does not end in CRLF",
            ResponseError::FieldName => "response field name is malformed",
            ResponseError::FieldValue => "response field value holds a control byte",
            ResponseError::ContentLength => "Content-Length of the response is not one number",
            ResponseError::TransferEncoding => "Transfer-Encoding of the response is not chunked",
            ResponseError::TwoFramings => "response has both Content-Length and Transfer-Encoding",
            ResponseError::TooLong => "response head is too long",
            ResponseError::TooManyFields => "response has too many fields",
        })
    }
}

impl std::error::Error for ResponseError {}

/// How the body after a head ends (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body, even if the head has a length.
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The body is chunked; see [`crate::chunked`].
    Chunked,
    /// The end of the connection ends the body.
    UntilClose,
}

/// A response head. It owns a copy of its bytes.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// The status code, 100 to 999.
    pub status: u16,
    /// The digit after `HTTP/1.`.
    pub version_minor: u8,
    /// The value of `Content-Length`.
    pub content_length: Option<u64>,
    /// Whether `Transfer-Encoding` is `chunked`.
    pub chunked: bool,
    /// Whether `Connection` holds `close`.
    pub connection_close: bool,
    /// Whether `Connection` holds `keep-alive`.
    pub connection_keep_alive: bool,
    limits: ResponseLimits,
    reason: Span,
    fields: Vec<Field>,
    /// The bytes of the whole head; empty unless the last parse was complete.
    bytes: Vec<u8>,
}

/// A part of the bytes of a head.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        // The limit for the length of a head is a u32.
        Span { start: start as u32, end: end as u32 }
    }

    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// A field line.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
}

impl ResponseHead {
    /// An empty head, with the default limits.
    pub fn new() -> ResponseHead {
        ResponseHead::default()
    }

    /// An empty head with other limits.
    pub fn with_limits(limits: ResponseLimits) -> ResponseHead {
        ResponseHead { limits, ..ResponseHead::default() }
    }

    /// The reason phrase; may be empty.
    pub fn reason(&self) -> &[u8] {
        self.reason.of(&self.bytes)
    }

    /// The names and values of the fields, in their order; values without the white space around them.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// The value of the first field of that name, which is not case-sensitive.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields().find(|(field_name, _)| field_name.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Whether the server will keep the connection (RFC 9112 section 9.3). It cannot do so if the body is
    /// framed by [`BodyFraming::UntilClose`].
    pub fn is_persistent(&self) -> bool {
        !self.connection_close && (self.version_minor >= 1 || self.connection_keep_alive)
    }

    /// Makes the head empty, keeping its memory.
    fn clear(&mut self) {
        self.status = 0;
        self.version_minor = 0;
        self.content_length = None;
        self.chunked = false;
        self.connection_close = false;
        self.connection_keep_alive = false;
        self.reason = Span::default();
        self.fields.clear();
        self.bytes.clear();
    }
}

/// Reads the head at the beginning of `buffer` into `head`, which is valid only if the result is
/// [`Parsed::Complete`].
///
/// After [`Parsed::Partial`], call again with the same bytes followed by more. A status of 1xx is an interim
/// response, which another head follows (RFC 9110 section 15.2), except 101.
pub fn parse_response_head(buffer: &[u8], head: &mut ResponseHead) -> Result<Parsed, ResponseError> {
    // If the buffer begins with the bytes of the last head, it is the same head.
    if !head.bytes.is_empty() && buffer.starts_with(&head.bytes) {
        return Ok(Parsed::Complete(head.bytes.len()));
    }
    head.clear();
    let limit = head.limits.head_bytes as usize;
    // Bytes beyond the limit are not read, so that the result does not depend on how many were received at
    // once.
    let window = &buffer[..buffer.len().min(limit)];
    match head.parse(window) {
        Ok(Some(length)) => {
            head.bytes.extend_from_slice(&window[..length]);
            Ok(Parsed::Complete(length))
        }
        Ok(None) => {
            head.clear();
            if window.len() == limit { Err(ResponseError::TooLong) } else { Ok(Parsed::Partial) }
        }
        Err(error) => {
            head.clear();
            Err(error)
        }
    }
}

/// How the body after `head` is framed (RFC 9112 section 6.3).
///
/// A tunnel follows a successful answer to CONNECT instead of a body. The caller must handle that.
pub fn body_framing(request_is_head: bool, head: &ResponseHead) -> BodyFraming {
    if request_is_head || matches!(head.status, 100..=199 | 204 | 304) {
        BodyFraming::None
    } else if head.chunked {
        BodyFraming::Chunked
    } else if let Some(length) = head.content_length {
        BodyFraming::Length(length)
    } else {
        BodyFraming::UntilClose
    }
}

impl ResponseHead {
    /// The length of the head at the beginning of `bytes`; `None` if more bytes are needed.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, ResponseError> {
        let Some(mut position) = self.parse_status_line(bytes)? else { return Ok(None) };
        loop {
            match &bytes[position..] {
                [b'\r', b'\n', ..] => {
                    self.check_framing()?;
                    return Ok(Some(position + 2));
                }
                [] | [b'\r'] => return Ok(None),
                [b'\n', ..] if self.limits.bare_line_feeds => {
                    self.check_framing()?;
                    return Ok(Some(position + 1));
                }
                [b'\r' | b'\n', ..] => return Err(ResponseError::LineEnd),
                _ => match self.parse_field_line(bytes, position)? {
                    Some(next) => position = next,
                    None => return Ok(None),
                },
            }
        }
    }

    /// `HTTP-version SP status-code [ SP [ reason-phrase ] ] CRLF`; returns the position of the next line.
    ///
    /// The space after the code is required even without a reason (RFC 9112 section 4), but many servers
    /// leave it out.
    fn parse_status_line(&mut self, bytes: &[u8]) -> Result<Option<usize>, ResponseError> {
        let Some(start) = bytes.first_chunk::<12>() else {
            return check_status_line_start(bytes).map(|()| None);
        };
        let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', hundreds, tens, ones] = start else {
            return Err(check_status_line_start(bytes).err().unwrap_or(ResponseError::StatusLine));
        };
        check_status_line_start(start)?;
        self.version_minor = minor - b'0';
        self.status =
            [hundreds, tens, ones].iter().fold(0, |code, &digit| code * 10 + u16::from(digit - b'0'));

        let reason_start = match bytes.get(12) {
            None => return Ok(None),
            Some(b' ') => 13,
            Some(b'\r') => 12,
            Some(b'\n') if self.limits.bare_line_feeds => 12,
            Some(b'\n') => return Err(ResponseError::LineEnd),
            Some(_) => return Err(ResponseError::StatusLine),
        };
        let reason_end = reason_start + field_value_length(&bytes[reason_start..]);
        self.reason = Span::new(reason_start, reason_end);
        self.line_end(bytes, reason_end, ResponseError::StatusLine)
    }

    /// `field-name ":" OWS field-value OWS CRLF` (RFC 9112 section 5); returns the position of the next line.
    fn parse_field_line(&mut self, bytes: &[u8], start: usize) -> Result<Option<usize>, ResponseError> {
        let colon = start + token_length(&bytes[start..]);
        match bytes.get(colon) {
            None => return Ok(None),
            Some(b':') if colon > start => {}
            Some(b'\n') => return Err(ResponseError::LineEnd),
            Some(_) => return Err(ResponseError::FieldName),
        }
        let end = colon + 1 + field_value_length(&bytes[colon + 1..]);
        let Some(next) = self.line_end(bytes, end, ResponseError::FieldValue)? else { return Ok(None) };

        if self.fields.len() >= self.limits.fields as usize {
            return Err(ResponseError::TooManyFields);
        }
        let with_space = &bytes[colon + 1..end];
        let value = trim_optional_white_space(with_space);
        // The value begins after the leading white space.
        let value_start = colon + 1 + leading_white_space(with_space);
        self.fields.push(Field {
            name: Span::new(start, colon),
            value: Span::new(value_start, value_start + value.len()),
        });
        self.note_field(&bytes[start..colon], value)?;
        Ok(Some(next))
    }

    /// The position of the next line, if the text of this line ends at the given position; `None` if more
    /// bytes are needed. `error` is returned if there is no line end.
    #[inline]
    fn line_end(
        &self,
        bytes: &[u8],
        end: usize,
        error: ResponseError,
    ) -> Result<Option<usize>, ResponseError> {
        match &bytes[end..] {
            [b'\r', b'\n', ..] => Ok(Some(end + 2)),
            [] | [b'\r'] => Ok(None),
            [b'\n', ..] if self.limits.bare_line_feeds => Ok(Some(end + 1)),
            [b'\r' | b'\n', ..] => Err(ResponseError::LineEnd),
            _ => Err(error),
        }
    }

    /// Notes the framing of the message if the field states it.
    fn note_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), ResponseError> {
        // The length is compared first, because it distinguishes most names.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in list_members(value) {
                    self.connection_close |= option.eq_ignore_ascii_case(b"close");
                    self.connection_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = decimal::parse(value).ok_or(ResponseError::ContentLength)?;
                if self.content_length.replace(length).is_some() {
                    return Err(ResponseError::ContentLength);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ResponseError::TransferEncoding);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the framing of the whole head (RFC 9112 sections 6.1 and 6.3).
    fn check_framing(&self) -> Result<(), ResponseError> {
        match (self.chunked, self.content_length) {
            (true, Some(_)) => Err(ResponseError::TwoFramings),
            // HTTP/1.0 has no transfer codings: an intermediary has forwarded the field without understanding
            // it.
            (true, None) if self.version_minor == 0 => Err(ResponseError::TransferEncoding),
            _ => Ok(()),
        }
    }
}

/// Checks the part of `HTTP/1.1 200` that has arrived.
#[inline]
fn check_status_line_start(bytes: &[u8]) -> Result<(), ResponseError> {
    for (index, &byte) in bytes.iter().enumerate().take(12) {
        let (is_good, error) = match index {
            0..=4 => (byte == b"HTTP/"[index], ResponseError::StatusLine),
            5 => (byte == b'1', ResponseError::Version),
            6 => (byte == b'.', ResponseError::Version),
            8 => (byte == b' ', ResponseError::StatusLine),
            9 => (matches!(byte, b'1'..=b'9'), ResponseError::StatusLine),
            _ => (byte.is_ascii_digit(), ResponseError::StatusLine),
        };
        if !is_good {
            return Err(error);
        }
    }
    Ok(())
}

fn leading_white_space(value: &[u8]) -> usize {
    value.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<(Parsed, ResponseHead), ResponseError> {
        let mut head = ResponseHead::new();
        parse_response_head(bytes, &mut head).map(|parsed| (parsed, head))
    }

    fn complete(text: &str) -> ResponseHead {
        match parse(text.as_bytes()) {
            Ok((Parsed::Complete(length), head)) if length == text.len() => head,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn lines_may_end_in_lf_alone_where_that_is_allowed() {
        let limits = ResponseLimits { bare_line_feeds: true, ..ResponseLimits::default() };
        for text in [
            "HTTP/1.1 200 OK\nA: b\nContent-Length: 5\n\nhello",
            "HTTP/1.1 200\nContent-Length: 5\r\n\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello",
            "HTTP/1.1 200 OK\nContent-Length: 5\n",
        ] {
            let length = text.find("hello");
            let mut head = ResponseHead::with_limits(limits);
            let parsed = parse_response_head(text.as_bytes(), &mut head);
            assert_eq!(parsed, Ok(length.map_or(Parsed::Partial, Parsed::Complete)), "{text:?}");
            assert_eq!(head.content_length, length.map(|_| 5));
            assert!(length.is_none() || parse(text.as_bytes()).is_err(), "{text:?}");
        }
        for text in
            ["HTTP/1.1 200 OK\nA: b\rc\n\n", "HTTP/1.1 200 OK\nA: b\n c\n\n", "HTTP/1.1 200 OK\r\r\n\n"]
        {
            let parsed = parse_response_head(text.as_bytes(), &mut ResponseHead::with_limits(limits));
            assert!(parsed.is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_head_with_everything() {
        let head = complete(
            "HTTP/1.1 206 Partial Content\r\nServer: touchstone\r\nContent-Length:\t 6250 \r\n\
             CONNECTION: Keep-Alive, x\r\nEmpty:\r\nX: a\tb \u{e9}: c\r\nx: second\r\n\r\n",
        );
        assert_eq!((head.status, head.version_minor), (206, 1));
        assert_eq!(head.reason(), b"Partial Content");
        assert_eq!(head.content_length, Some(6250));
        assert!(!head.chunked && !head.connection_close && head.connection_keep_alive);
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(
            fields,
            [
                (b"Server".as_slice(), b"touchstone".as_slice()),
                (b"Content-Length", b"6250"),
                (b"CONNECTION", b"Keep-Alive, x"),
                (b"Empty", b""),
                (b"X", "a\tb \u{e9}: c".as_bytes()),
                (b"x", b"second"),
            ]
        );
        assert_eq!(head.field(b"server"), Some(b"touchstone".as_slice()));
        assert_eq!(head.field(b"X"), Some("a\tb \u{e9}: c".as_bytes()));
        assert_eq!(head.field(b"absent"), None);
    }

    #[test]
    fn status_lines() {
        for (line, minor, status, reason) in [
            ("HTTP/1.1 200 OK", 1, 200, "OK"),
            ("HTTP/1.0 404 Not Found", 0, 404, "Not Found"),
            ("HTTP/1.9 999 ", 9, 999, ""),
            ("HTTP/1.1 200", 1, 200, ""),
            ("HTTP/1.1 200  two  spaces ", 1, 200, " two  spaces "),
            ("HTTP/1.1 100 Continue", 1, 100, "Continue"),
        ] {
            let head = complete(&format!("{line}\r\n\r\n"));
            assert_eq!((head.version_minor, head.status), (minor, status), "{line}");
            assert_eq!(head.reason(), reason.as_bytes(), "{line}");
        }
    }

    #[test]
    fn bad_heads() {
        use ResponseError::*;
        let table = [
            ("\r\nHTTP/1.1 200 OK\r\n\r\n", StatusLine),
            (" HTTP/1.1 200 OK\r\n\r\n", StatusLine),
            ("http/1.1 200 OK\r\n\r\n", StatusLine),
            ("<html>", StatusLine),
            ("H2", StatusLine),
            ("HTTP/2.0 200 OK\r\n\r\n", Version),
            ("HTTP/2", Version),
            ("HTTP/2 200\r\n\r\n", Version),
            ("HTTP/11", Version),
            ("HTTP/0.9 200 OK\r\n\r\n", Version),
            ("HTTP/1.x 200 OK\r\n\r\n", StatusLine),
            ("HTTP/1.10 200 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1  200 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1\t200 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 20 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 2000 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 099 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 +20 OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 20x OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 200\tOK\r\n\r\n", StatusLine),
            ("HTTP/1.1 200OK\r\n\r\n", StatusLine),
            ("HTTP/1.1 200 O\0K\r\n\r\n", StatusLine),
            ("HTTP/1.1 200 OK\n\r\n", LineEnd),
            ("HTTP/1.1 200\n\r\n", LineEnd),
            ("HTTP/1.1 200 OK\rX: y\r\n\r\n", LineEnd),
            ("HTTP/1.1 200 OK\r\n\n", LineEnd),
            ("HTTP/1.1 200 OK\r\n\rX", LineEnd),
            ("HTTP/1.1 200 OK\r\nX: y\n\r\n", LineEnd),
            ("HTTP/1.1 200 OK\r\nX: y\rZ: a\r\n\r\n", LineEnd),
            ("HTTP/1.1 200 OK\r\nX: y\r\r\n\r\n", LineEnd),
            ("HTTP/1.1 200 OK\r\nX\n\r\n", LineEnd),
            ("HTTP/1.1 200 OK\r\n X: y\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\n: y\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\nX\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\nX(: y\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\nX\0: y\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\n\u{e9}: y\r\n\r\n", FieldName),
            ("HTTP/1.1 200 OK\r\nX: y\0\r\n\r\n", FieldValue),
            ("HTTP/1.1 200 OK\r\nX: y\x7f\r\n\r\n", FieldValue),
            ("HTTP/1.1 200 OK\r\nX: y\x0b\r\n\r\n", FieldValue),
            ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", ContentLength),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: \r\n\r\n", TransferEncoding),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", TransferEncoding),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", TransferEncoding),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", TransferEncoding),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                TransferEncoding,
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", TransferEncoding),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n", TransferEncoding),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncoding),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", TwoFramings),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", TwoFramings),
        ];
        for (text, error) in table {
            assert_eq!(parse(text.as_bytes()).map(|(parsed, _)| parsed), Err(error), "{text:?}");
        }
    }

    #[test]
    fn framing() {
        use BodyFraming::*;
        let length = "Content-Length: 5\r\n";
        let chunked = "Transfer-Encoding: Chunked\r\n";
        for (status, fields, to_get, to_head) in [
            (200, length, Length(5), None),
            (200, "Content-Length: 0\r\n", Length(0), None),
            (200, chunked, Chunked, None),
            (200, "", UntilClose, None),
            (404, length, Length(5), None),
            (304, length, None, None),
            (304, chunked, None, None),
            (204, "", None, None),
            (204, length, None, None),
            (100, "", None, None),
            (101, "", None, None),
            (199, length, None, None),
            (205, "", UntilClose, None),
            (600, "", UntilClose, None),
        ] {
            let head = complete(&format!("HTTP/1.1 {status} R\r\n{fields}\r\n"));
            assert_eq!(body_framing(false, &head), to_get, "{status} {fields}");
            assert_eq!(body_framing(true, &head), to_head, "{status} {fields}");
        }
    }

    #[test]
    fn persistence() {
        for (minor, connection, expected) in [
            (1, "", true),
            (1, "Connection: close\r\n", false),
            (1, "Connection: x, CLOSE ,y\r\n", false),
            (1, "Connection: keep-alive\r\n", true),
            (1, "Connection: keep-alive\r\nConnection: close\r\n", false),
            (1, "Connection: closed\r\n", true),
            (0, "", false),
            (0, "Connection: Keep-Alive\r\n", true),
            (0, "Connection: keep-alive, close\r\n", false),
        ] {
            let head = complete(&format!("HTTP/1.{minor} 200 OK\r\n{connection}\r\n"));
            assert_eq!(head.is_persistent(), expected, "1.{minor} {connection}");
        }
    }

    #[test]
    fn limits() {
        let mut head =
            ResponseHead::with_limits(ResponseLimits { head_bytes: 30, fields: 2, ..Default::default() });
        let mut parse = |text: &str| parse_response_head(text.as_bytes(), &mut head);
        let exact = "HTTP/1.1 200 OK\r\nX: 45678\r\n\r\n";
        assert_eq!(exact.len(), 29);
        assert_eq!(parse(exact), Ok(Parsed::Complete(29)));
        assert_eq!(parse("HTTP/1.1 200 OK\r\nX: 456789\r\n\r\n"), Ok(Parsed::Complete(30)));
        assert_eq!(parse("HTTP/1.1 200 OK\r\nX: 4567890\r\n\r\n"), Err(ResponseError::TooLong));
        assert_eq!(parse("HTTP/1.1 200 OK\r\nX: 456789\r\n\r"), Ok(Parsed::Partial));
        assert_eq!(parse("HTTP/1.1 200 OK\r\nX: 4567890\r\n\r"), Err(ResponseError::TooLong));
        assert_eq!(parse("HTTP/1.1 200 OK\r\na:\r\nb:\r\n\r\n"), Ok(Parsed::Complete(27)));
        assert_eq!(parse("HTTP/1.1 200\r\na:\r\nb:\r\nc:\r\n\r\n"), Err(ResponseError::TooManyFields));
    }

    #[test]
    fn the_next_response_is_not_mistaken_for_the_last() {
        let mut head = ResponseHead::new();
        let first = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(parse_response_head(first, &mut head), Ok(Parsed::Complete(38)));
        assert_eq!(parse_response_head(first, &mut head), Ok(Parsed::Complete(38)));
        assert_eq!((head.status, head.content_length), (200, Some(5)));
        let other = b"HTTP/1.1 200 OK\r\nContent-Length: 55\r\n\r\nhello";
        assert_eq!(parse_response_head(other, &mut head), Ok(Parsed::Complete(39)));
        assert_eq!(head.content_length, Some(55));
        assert_eq!(parse_response_head(&first[..37], &mut head), Ok(Parsed::Partial));
        assert_eq!((head.status, head.fields().count()), (0, 0));
        assert_eq!(parse_response_head(first, &mut head), Ok(Parsed::Complete(38)));
        assert_eq!((head.status, head.content_length), (200, Some(5)));
        assert_eq!(parse_response_head(b"HTTP/1.1 200 OK\n", &mut head), Err(ResponseError::LineEnd));
        assert_eq!((head.status, head.fields().count(), head.reason()), (0, 0, b"".as_slice()));
    }

    /// The result of a parse, for comparison.
    fn outcome(bytes: &[u8], head: &mut ResponseHead) -> impl PartialEq + fmt::Debug + use<> {
        let parsed = parse_response_head(bytes, head);
        let fields: Vec<_> = head.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let framing =
            (head.status, head.version_minor, head.content_length, head.chunked, head.is_persistent());
        (parsed, framing, head.reason().to_vec(), fields)
    }

    /// Bytes that are often, but not always, a response head.
    fn nearly_a_head() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("HTTP/1.1 200 OK\r\n".to_owned()),
            Just("Content-Length: 5\r\n".to_owned()),
            Just("Transfer-Encoding: chunked\r\n".to_owned()),
            Just("Connection: close\r\n".to_owned()),
            Just("\r\n".to_owned()),
            "[A-Za-z-]{1,12}: ?[ -~\t]{0,20}\r\n",
            "[ \t:\r\n\0]{1,2}",
            any::<char>().prop_map(String::from),
        ];
        proptest::collection::vec(piece, 0..6)
            .prop_map(|pieces| format!("HTTP/1.1 200 OK\r\n{}\r\n", pieces.concat()).into_bytes())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            status in 100u16..1000, minor in 0u8..10, reason in "[ -~\t]{0,20}",
            fields in proptest::collection::vec(
                // Name, value, white space before and after it.
                (
                    "[!#$%&'*+.^_`|~0-9a-z-]{1,20}",
                    "([!-~]([ -~\t]{0,20}[!-~])?)?",
                    "[ \t]{0,3}",
                    "[ \t]{0,3}",
                ),
                0..12,
            ),
            body in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let special = ["connection", "content-length", "transfer-encoding"];
            prop_assume!(fields.iter().all(|(name, ..)| !special.contains(&name.as_str())));
            let lines: String = fields
                .iter()
                .map(|(name, value, before, after)| format!("{name}:{before}{value}{after}\r\n"))
                .collect();
            let mut bytes = format!("HTTP/1.{minor} {status} {reason}\r\n{lines}\r\n").into_bytes();
            let length = bytes.len();
            bytes.extend_from_slice(&body);
            let (parsed, head) = parse(&bytes).expect("a good head");
            prop_assert_eq!(parsed, Parsed::Complete(length));
            prop_assert_eq!((head.status, head.version_minor), (status, minor));
            prop_assert_eq!(head.reason(), reason.as_bytes());
            let read: Vec<_> = head.fields().collect();
            let written: Vec<_> =
                fields.iter().map(|(name, value, ..)| (name.as_bytes(), value.as_bytes())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn the_beginning_of_a_good_head_is_partial(bytes in nearly_a_head()) {
            let parsed = |end: usize| parse(&bytes[..end]).map(|(parsed, _)| parsed);
            if let Ok(Parsed::Complete(length)) = parsed(bytes.len()) {
                for end in 0..length {
                    prop_assert_eq!(parsed(end), Ok(Parsed::Partial), "{}", end);
                }
                prop_assert_eq!(parsed(length), Ok(Parsed::Complete(length)));
            }
        }

        #[test]
        fn an_error_stays_whatever_follows(
            bytes in nearly_a_head(), more in proptest::collection::vec(any::<u8>(), 0..10),
        ) {
            if let Err(error) = parse(&bytes) {
                prop_assert_eq!(parse(&[bytes, more].concat()).map(|(parsed, _)| parsed), Err(error));
            }
        }

        #[test]
        fn a_used_head_gives_what_a_new_one_gives(
            inputs in proptest::collection::vec(nearly_a_head(), 1..5),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 1..12),
        ) {
            let mut used = ResponseHead::new();
            for index in order {
                let bytes = index.get(&inputs);
                prop_assert_eq!(outcome(bytes, &mut used), outcome(bytes, &mut ResponseHead::new()));
            }
        }

        #[test]
        fn never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            after_a_status_line in any::<bool>(), head_bytes in 0u32..80, fields in 0u32..4,
        ) {
            let start: &[u8] = if after_a_status_line { b"HTTP/1.1 200 OK\r\n" } else { b"" };
            let limits = ResponseLimits { head_bytes, fields, ..Default::default() };
            let mut head = ResponseHead::with_limits(limits);
            let _ = outcome(&[start, &bytes].concat(), &mut head);
        }
    }
}
