//! An answer before it is written: status, fields, and a body made of parts that need not be in one place.
//!
//! Handlers make answers; the connection writes them, adds what belongs to the connection (Date, Connection) and
//! leaves the body out for HEAD.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use touchstone_files::cache::{DateSecond, Prepared, Variant};
use touchstone_http::status::reason;

/// One piece of a body.
pub enum Part {
    /// Bytes made for this answer.
    Bytes(Vec<u8>),
    /// A range of a cached file's content.
    Cached(Arc<Prepared>, Range<usize>),
    /// A range of an open file.
    File {
        /// The file.
        file: Arc<OwnedFd>,
        /// Where the piece begins.
        offset: u64,
        /// How long it is.
        length: u64,
    },
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Cached(_, range) => range.len() as u64,
            Part::File { length, .. } => *length,
        }
    }
}

/// An answer.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Field lines with their CRLF, without Date, Server, Content-Length and Connection.
    pub fields: Vec<u8>,
    /// The body's parts in order.
    pub body: Vec<Part>,
}

impl Answer {
    /// An answer without fields and body.
    pub fn new(status: u16) -> Answer {
        Answer { status, fields: Vec::new(), body: Vec::new() }
    }

    /// The error page of a status.
    pub fn error(status: u16) -> Answer {
        let reason = reason(status);
        let page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{status} {reason}</title></head>\n\
             <body><h1>{status} {reason}</h1></body></html>\n"
        );
        Answer::new(status)
            .field("Content-Type", "text/html; charset=utf-8")
            .part(Part::Bytes(page.into_bytes()))
    }

    /// A redirection to `location`, which must hold no control bytes.
    pub fn redirect(status: u16, location: &[u8]) -> Answer {
        let mut answer = Answer::error(status);
        answer.fields.extend_from_slice(b"Location: ");
        answer.fields.extend_from_slice(location);
        answer.fields.extend_from_slice(b"\r\n");
        answer
    }

    /// Adds a field line. Neither name nor value may come from outside unchecked.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Answer {
        for piece in [name, ": ", value, "\r\n"] {
            self.fields.extend_from_slice(piece.as_bytes());
        }
        self
    }

    /// Adds a part of the body.
    #[must_use]
    pub fn part(mut self, part: Part) -> Answer {
        self.body.push(part);
        self
    }

    /// Length of the whole body.
    pub fn body_length(&self) -> u64 {
        self.body.iter().map(Part::length).sum()
    }

    /// The head's bytes.
    pub fn head(&self, date: &DateSecond, variant: Variant) -> Vec<u8> {
        let mut head = Vec::with_capacity(256 + self.fields.len());
        head.extend_from_slice(format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status)).as_bytes());
        head.extend_from_slice(b"Server: touchstone\r\nDate: ");
        head.extend_from_slice(&date.text);
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(&self.fields);
        // RFC 9110 section 8.6: not in 204, and in 304 only if it is the 200's.
        if !matches!(self.status, 204 | 304) {
            head.extend_from_slice(format!("Content-Length: {}\r\n", self.body_length()).as_bytes());
        }
        head.extend_from_slice(variant.connection_field());
        head.extend_from_slice(b"\r\n");
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_what_the_connection_does() {
        let date = DateSecond { unix_seconds: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" };
        let head = Answer::redirect(301, b"/a/").head(&date, Variant::Close);
        let text = String::from_utf8(head).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 301 Moved Permanently\r\nServer: touchstone\r\nDate: Thu, 01 Jan")
        );
        assert!(text.contains("\r\nLocation: /a/\r\n"));
        assert!(text.ends_with("\r\nConnection: close\r\n\r\n"));
        let head = Answer::new(304).head(&date, Variant::Persistent);
        assert!(!String::from_utf8(head).unwrap().contains("Content-Length"));
    }
}
