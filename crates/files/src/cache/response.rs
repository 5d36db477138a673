//! Cached responses: head and body ready to be written, and the facts in the head.

use std::sync::Arc;

use touchstone_http::content_coding::ContentCoding;
use touchstone_http::dictionary::DictionaryCoding;

use crate::dictionary::Pattern;
use crate::root::FileFacts;

/// Bodies up to this length are in one buffer with their head. A longer body is kept once, and a gathering
/// write sends it after the head, so that it is not copied every second. The small extra cost of that write
/// does not matter for a long body.
pub const WHOLE_BODY_BYTES: usize = 64 * 1024;

/// A body that the caller keeps.
pub enum SharedBody<'a> {
    /// It is copied after the head.
    Short(&'a [u8]),
    /// It is not copied, and is written after the head.
    Long(&'a Arc<[u8]>),
}

/// The form of head that an answer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionForm {
    /// The connection persists, which is the default of HTTP/1.1.
    Persistent = 0,
    /// The connection persists, and a field must state this to an HTTP/1.0 client.
    KeepAlive = 1,
    /// The connection ends after the answer.
    Close = 2,
}

impl ConnectionForm {
    /// The field line for it.
    pub fn connection_field(self) -> &'static [u8] {
        match self {
            ConnectionForm::Persistent => b"",
            ConnectionForm::KeepAlive => b"Connection: keep-alive\r\n",
            ConnectionForm::Close => b"Connection: close\r\n",
        }
    }
}

/// The current second and its text, made once a second by the caller.
#[derive(Debug, Clone, Copy)]
pub struct DateSecond {
    /// Seconds since 1970.
    pub unix_seconds: i64,
    /// The same as an IMF-fixdate.
    pub text: [u8; 29],
}

/// A response ready to be written, valid for one second.
#[derive(Debug)]
pub struct PreparedResponse {
    /// The head, then the body unless it is in `long_body`.
    bytes: Box<[u8]>,
    head_length: usize,
    long_body: Option<Arc<[u8]>>,
    pub(super) second: i64,
}

impl PreparedResponse {
    /// Prepares a response that is not a file's, with this head. A long body is not copied.
    pub fn assemble(head: &[u8], body: SharedBody<'_>, second: i64) -> PreparedResponse {
        let (in_buffer, long_body) = match body {
            SharedBody::Short(body) => (body, None),
            SharedBody::Long(body) => (&[][..], Some(body.clone())),
        };
        PreparedResponse {
            bytes: [head, in_buffer].concat().into_boxed_slice(),
            head_length: head.len(),
            long_body,
            second,
        }
    }

    /// The second for which it is valid.
    #[inline]
    pub fn second(&self) -> i64 {
        self.second
    }

    /// The first buffer to write: the whole response, or its head when [`PreparedResponse::second_buffer`]
    /// has the body.
    #[inline]
    pub fn first_buffer(&self) -> &[u8] {
        &self.bytes
    }

    /// The second buffer to write; empty when the first is the whole response.
    #[inline]
    pub fn second_buffer(&self) -> &[u8] {
        self.long_body.as_deref().unwrap_or_default()
    }

    /// Only the head.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head_length]
    }

    /// Only the body.
    pub fn body(&self) -> &[u8] {
        match &self.long_body {
            Some(body) => body,
            None => &self.bytes[self.head_length..],
        }
    }

    /// The bytes of memory that this buffer takes, without a long body, which all buffers of a representation
    /// share.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The body, to make another buffer from.
    pub(super) fn body_source(&self) -> BodySource<'_> {
        match &self.long_body {
            Some(long) => BodySource::Long(long.clone()),
            None => BodySource::Whole(self.body()),
        }
    }

    /// Length of the body.
    #[inline]
    pub fn body_length(&self) -> usize {
        self.body().len()
    }
}

/// One representation of one version of a file, as every answer about it describes it.
#[derive(Debug, Clone)]
pub struct Representation {
    /// The facts of the file when it was opened; of a coded representation: those of the original file.
    pub facts: FileFacts,
    /// The entity tag with its quotes; empty: none.
    pub etag: Box<[u8]>,
    /// The Last-Modified date; `None`: the file's date does not describe the content.
    pub last_modified: Option<[u8; 29]>,
    /// Whether the content is generated from the file. Ranges of such content are not served.
    pub is_made: bool,
    /// The content type.
    pub content_type: Box<str>,
    /// `Cache-Control`; empty: none.
    pub cache_control: Box<str>,
    /// The coding of the content, if it has one.
    pub content_coding: Option<ContentCoding>,
    /// The coding with a dictionary, if the content has one; then `content_coding` is the same without it.
    pub dictionary_coding: Option<DictionaryCoding>,
    /// The paths for which the content is a dictionary; `None`: it is none.
    pub dictionary_for: Option<Pattern>,
    /// `Vary`: the request fields on which the answer depends; empty: none.
    pub vary: &'static str,
    /// Field lines that the site adds to all its answers, each with its CRLF.
    pub site_fields: Arc<[u8]>,
}

impl Representation {
    /// Appends the fields that every answer about the representation has, a 304 too.
    pub fn write_validators(&self, out: &mut Vec<u8>) {
        let date = self.last_modified.as_ref().map_or(&[][..], |date| date);
        for (name, value) in [(&b"Last-Modified: "[..], date), (b"ETag: ", &self.etag)] {
            if !value.is_empty() {
                for part in [name, value, b"\r\n"] {
                    out.extend_from_slice(part);
                }
            }
        }
        for (name, value) in [("Cache-Control: ", &*self.cache_control), ("Vary: ", self.vary)] {
            if !value.is_empty() {
                for part in [name, value, "\r\n"] {
                    out.extend_from_slice(part.as_bytes());
                }
            }
        }
    }

    /// The name of the content's coding, if it has one.
    pub fn coding_token(&self) -> Option<&'static str> {
        let plain = self.content_coding?.token();
        Some(self.dictionary_coding.map_or(plain, DictionaryCoding::token))
    }

    /// Appends the fields that describe the content, for answers that have it.
    pub fn write_content_fields(&self, out: &mut Vec<u8>) {
        let mut line = |name: &str, value: &str| {
            for part in [name, value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        line("Content-Type: ", &self.content_type);
        match self.content_coding {
            Some(_) => line("Content-Encoding: ", self.coding_token().unwrap_or_default()),
            // Only the representation without a coding has ranges, because a coded body may be made again
            // with other bytes.
            None if self.is_made => {}
            None => line("Accept-Ranges: ", "bytes"),
        }
        if let Some(pattern) = &self.dictionary_for {
            line("Use-As-Dictionary: ", &format!("match=\"{}\"", pattern.text()));
        }
    }

    /// Appends the head of the 200 answer.
    pub fn write_ok_head(&self, length: u64, date: &[u8; 29], form: ConnectionForm, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nServer: touchstone\r\nDate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(format!("\r\nContent-Length: {length}\r\n").as_bytes());
        self.write_content_fields(out);
        self.write_validators(out);
        out.extend_from_slice(&self.site_fields);
        out.extend_from_slice(form.connection_field());
        out.extend_from_slice(b"\r\n");
    }
}

/// The source of the body for a new buffer.
pub(super) enum BodySource<'a> {
    Whole(&'a [u8]),
    Long(Arc<[u8]>),
}

impl<'a> BodySource<'a> {
    /// The source for a body that was just read or made.
    pub(super) fn new(body: &'a [u8]) -> BodySource<'a> {
        if body.len() <= WHOLE_BODY_BYTES {
            BodySource::Whole(body)
        } else {
            BodySource::Long(Arc::from(body))
        }
    }
}

/// Makes the response of one second.
pub(super) fn prepare(
    representation: &Representation,
    body: BodySource,
    form: ConnectionForm,
    date: &DateSecond,
) -> PreparedResponse {
    let (in_buffer, long_body) = match body {
        BodySource::Whole(body) => (body, None),
        BodySource::Long(body) => (&[][..], Some(body)),
    };
    let length = long_body.as_ref().map_or(in_buffer.len(), |body| body.len());
    let mut bytes = Vec::with_capacity(512 + in_buffer.len());
    representation.write_ok_head(length as u64, &date.text, form, &mut bytes);
    let head_length = bytes.len();
    bytes.extend_from_slice(in_buffer);
    PreparedResponse { bytes: bytes.into_boxed_slice(), head_length, long_body, second: date.unix_seconds }
}
