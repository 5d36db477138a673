//! An answer before it is written: status, fields, and a body in parts, which may be stored in different
//! places.
//!
//! Handlers make answers. The connection writes them, adds its own fields (Date, Connection, the framing) and
//! leaves the body out for HEAD.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::cache::{ConnectionForm, DateSecond, PreparedResponse};
use touchstone_http::decimal;
use touchstone_http::status::reason;

use crate::pipe::Receiver;
use crate::reason_phrase::ReasonPhrase;

/// One piece of a body.
pub enum BodyPart {
    /// Bytes made for this answer.
    Bytes(Bytes),
    /// A range of a cached file's content.
    Cached(Arc<PreparedResponse>, Range<usize>),
    /// A range of an open file.
    File {
        /// The file.
        file: Arc<OwnedFd>,
        /// The position of the piece in the file.
        offset: u64,
        /// The length of the piece.
        length: u64,
    },
    /// The output of a program, sent as it arrives. It can only be the last part.
    Stream {
        /// The body.
        body: Receiver,
        /// Its length, if known; a body of another length is an error.
        length: Option<u64>,
    },
}

impl BodyPart {
    /// Its length, if known.
    pub fn length(&self) -> Option<u64> {
        match self {
            BodyPart::Bytes(bytes) => Some(bytes.len() as u64),
            BodyPart::Cached(_, range) => Some(range.len() as u64),
            BodyPart::File { length, .. } => Some(*length),
            BodyPart::Stream { length, .. } => *length,
        }
    }
}

/// A range of a cached file's content as bytes, which keep the content alive. Nothing is copied.
pub fn cached_bytes(prepared: Arc<PreparedResponse>, range: Range<usize>) -> Bytes {
    struct Content(Arc<PreparedResponse>, Range<usize>);

    impl AsRef<[u8]> for Content {
        fn as_ref(&self) -> &[u8] {
            self.0.body().get(self.1.clone()).unwrap_or_default()
        }
    }

    Bytes::from_owner(Content(prepared, range))
}

/// An answer.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The reason phrase of a program or an origin; `None`: the registered one. Only HTTP/1 has it.
    pub reason: Option<ReasonPhrase>,
    /// Field lines with their CRLF, without Date, Server, Content-Length, Transfer-Encoding and Connection.
    pub fields: Vec<u8>,
    /// The body's parts in order.
    pub body: Vec<BodyPart>,
    /// The value of Content-Length in an answer without a body: to HEAD, and with status 304.
    pub declared_length: Option<u64>,
    /// The body is the built-in page of an error, for which a site may have a page of its own.
    pub is_error_page: bool,
    /// The Date of the origin's answer; `None`: now.
    pub date: Option<[u8; 29]>,
    /// The result of a cache before the handler.
    pub cache: CacheResult,
    /// The next request like this one may be given to a [`Caller`](crate::handler::Caller).
    pub may_be_called: bool,
}

/// The result of a cache for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheResult {
    /// There is no cache.
    #[default]
    None,
    /// The cache had the answer.
    Hit,
    /// The cache had no usable answer.
    Miss,
    /// The cache had the answer, which was stale.
    Stale,
    /// The cache had the answer, and the origin has confirmed it.
    Revalidated,
    /// The cache was not searched.
    Bypass,
}

impl CacheResult {
    /// All values but `None`, in the order of their numbers.
    pub const ALL: [CacheResult; 5] = [
        CacheResult::Hit,
        CacheResult::Miss,
        CacheResult::Stale,
        CacheResult::Revalidated,
        CacheResult::Bypass,
    ];

    /// The word in logs and metrics; empty: there is no cache.
    pub fn word(self) -> &'static str {
        match self {
            CacheResult::None => "",
            CacheResult::Hit => "hit",
            CacheResult::Miss => "miss",
            CacheResult::Stale => "stale",
            CacheResult::Revalidated => "revalidated",
            CacheResult::Bypass => "bypass",
        }
    }
}

/// How HTTP/1 marks the end of a body (RFC 9112 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body: 1xx, 204 and 304.
    None,
    /// Content-Length.
    Length(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
    /// The end of the connection, for a client of HTTP/1.0.
    Close,
}

impl Answer {
    /// An answer without fields and body.
    pub fn new(status: u16) -> Answer {
        Answer {
            status,
            reason: None,
            fields: Vec::new(),
            body: Vec::new(),
            declared_length: None,
            is_error_page: false,
            date: None,
            cache: CacheResult::None,
            may_be_called: false,
        }
    }

    /// The error page of a status.
    pub fn error(status: u16) -> Answer {
        let reason = reason(status);
        let page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>{status} {reason}</title></head>\n\
             <body><h1>{status} {reason}</h1></body></html>\n"
        );
        let answer = Answer::new(status)
            .field("Content-Type", "text/html; charset=utf-8")
            .part(BodyPart::Bytes(page.into()));
        Answer { is_error_page: true, ..answer }
    }

    /// A redirection to `location`, which must not hold control bytes.
    pub fn redirect(status: u16, location: &[u8]) -> Answer {
        let mut answer = Answer::error(status);
        answer.fields.extend_from_slice(b"Location: ");
        answer.fields.extend_from_slice(location);
        answer.fields.extend_from_slice(b"\r\n");
        answer
    }

    /// Adds a field line. A name or value from outside must be checked before.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Answer {
        for piece in [name, ": ", value, "\r\n"] {
            self.fields.extend_from_slice(piece.as_bytes());
        }
        self
    }

    /// Adds a part of the body.
    #[must_use]
    pub fn part(mut self, part: BodyPart) -> Answer {
        self.body.push(part);
        self
    }

    /// The length of the whole body, if known.
    pub fn body_length(&self) -> Option<u64> {
        self.body.iter().map(BodyPart::length).sum()
    }

    /// Whether the body is the output of a program, sent as it arrives.
    pub fn streams(&self) -> bool {
        matches!(self.body.last(), Some(BodyPart::Stream { .. }))
    }

    /// Whether the handler takes over the connection: both bodies are bytes without framing (RFC 9110 section
    /// 15.2.2).
    pub fn switches_protocols(&self) -> bool {
        self.status == 101
    }

    /// How the body's end is marked, depending on whether the client supports chunks.
    pub fn framing(&self, is_head: bool, understands_chunks: bool) -> Framing {
        // RFC 9110 section 8.6: 204 has no length, and 304 only that of the answer with status 200. The
        // length of an answer to HEAD without a body and a declared length is unknown, which is not 0.
        let is_unknown = is_head && self.body.is_empty() && self.declared_length.is_none();
        match (self.status, self.body_length()) {
            (101 | 204 | 304, _) => Framing::None,
            _ if is_unknown => Framing::None,
            (_, Some(length)) => Framing::Length(length),
            (_, None) if understands_chunks => Framing::Chunked,
            (_, None) => Framing::Close,
        }
    }

    /// The value of `Content-Length`: the declared length, otherwise that of the body; `None` if neither is
    /// known.
    pub fn content_length(&self, framing: Framing) -> Option<u64> {
        let of_body = match framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        self.declared_length.or(of_body)
    }

    /// The head's bytes. `form`: whether the connection stays open.
    pub fn head(&self, date: &DateSecond, form: ConnectionForm, framing: Framing) -> Vec<u8> {
        let mut head = Vec::with_capacity(256 + self.fields.len());
        self.append_head(date, form, framing, &mut head);
        head
    }

    /// Appends the head to a buffer.
    pub fn append_head(&self, date: &DateSecond, form: ConnectionForm, framing: Framing, head: &mut Vec<u8>) {
        head.extend_from_slice(b"HTTP/1.1 ");
        decimal::append(self.status.into(), head);
        head.push(b' ');
        match &self.reason {
            Some(reason) => head.extend_from_slice(reason.as_bytes()),
            None => head.extend_from_slice(reason(self.status).as_bytes()),
        }
        head.extend_from_slice(b"\r\nServer: touchstone\r\nDate: ");
        head.extend_from_slice(self.date.as_ref().unwrap_or(&date.text));
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(&self.fields);
        match (self.content_length(framing), framing) {
            (Some(length), _) => {
                head.extend_from_slice(b"Content-Length: ");
                decimal::append(length, head);
                head.extend_from_slice(b"\r\n");
            }
            (None, Framing::Chunked) => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            (None, _) => {}
        }
        if !self.switches_protocols() {
            head.extend_from_slice(form.connection_field());
        }
        head.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_states_whether_the_connection_persists() {
        let date = DateSecond { unix_seconds: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" };
        let head = Answer::redirect(301, b"/a/").head(&date, ConnectionForm::Close, Framing::Length(7));
        let text = String::from_utf8(head).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 301 Moved Permanently\r\nServer: touchstone\r\nDate: Thu, 01 Jan")
        );
        assert!(text.contains("\r\nLocation: /a/\r\n"));
        assert!(text.ends_with("\r\nConnection: close\r\n\r\n"));
        let answer = Answer { reason: ReasonPhrase::new(404, b"Gone fishing"), ..Answer::new(404) };
        let head = answer.head(&date, ConnectionForm::Close, Framing::None);
        assert!(head.starts_with(b"HTTP/1.1 404 Gone fishing\r\nServer: "));
        let head =
            Answer::new(304).head(&date, ConnectionForm::Persistent, Answer::new(304).framing(false, true));
        assert!(!String::from_utf8(head).unwrap().contains("Content-Length"));
    }

    #[test]
    fn an_unknown_length_is_not_0() {
        let empty = || Answer::new(200);
        let declared = Answer { declared_length: Some(7), ..empty() };
        assert_eq!(empty().framing(true, true), Framing::None);
        assert_eq!(empty().framing(false, true), Framing::Length(0));
        assert_eq!(declared.framing(true, true), Framing::Length(0));
        assert_eq!(empty().part(BodyPart::Bytes(Bytes::new())).framing(true, true), Framing::Length(0));
    }
}
