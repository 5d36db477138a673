//! What [`ServerConnection::receive`](super::ServerConnection::receive) found in its input.
//!
//! [`Events`] holds them and all the fields of all the requests in a few buffers, which are filled again by the next
//! call. One `Events` serves all connections of a core.

use std::fmt;
use std::ops::Range;

use super::error::ErrorCode;
use super::hpack::{Field, FieldList, KnownName};
use super::priority::Priority;
use super::request::RequestHead;
use super::streams::StreamKey;
use crate::request::{Expectation, KnownField, Method};

/// Something that the caller must know of.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A request. Its stream is open until the response is complete, or an [`Event::Reset`] says otherwise.
    Request(Request<'a>),
    /// Part of a request body. What is not needed any more is given back with
    /// [`release`](super::ServerConnection::release), without which the client will stop.
    Data {
        /// The stream.
        stream: StreamKey,
        /// Where the bytes stand in the input of the call that gave the event.
        range: Range<usize>,
        /// Whether the body is complete.
        end_of_stream: bool,
    },
    /// The trailers of a request, with which its body is complete.
    Trailers {
        /// The stream.
        stream: StreamKey,
        /// The fields.
        fields: Fields<'a>,
    },
    /// A stream of which there was a [`Event::Request`] ended before its time: nothing more comes from it, and nothing
    /// more can be sent on it.
    Reset {
        /// The stream, which is closed already.
        stream: StreamKey,
        /// Why.
        code: ErrorCode,
        /// What the client did wrong, for the error log; absent when it was the client who reset the stream.
        reason: Option<&'static str>,
    },
    /// A request was refused, and its stream reset, before it became an [`Event::Request`]. This is for the log.
    Refused {
        /// The stream identifier.
        stream_id: u32,
        /// What the client was told.
        code: ErrorCode,
        /// What was wrong.
        reason: &'static str,
    },
    /// The client is leaving: it makes no more requests, but waits for the responses to those it made.
    GoAway {
        /// Why.
        code: ErrorCode,
    },
    /// The answer to [`ping`](super::ServerConnection::ping).
    Pong {
        /// What was sent with it.
        payload: [u8; 8],
    },
}

/// A request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    stream: StreamKey,
    end_of_stream: bool,
    head: &'a RequestHead,
    list: &'a FieldList,
}

impl<'a> Request<'a> {
    /// The stream on which it came, and on which to respond.
    #[inline]
    pub fn stream(&self) -> StreamKey {
        self.stream
    }

    /// Whether it has no body. Otherwise [`Event::Data`] and perhaps [`Event::Trailers`] follow.
    #[inline]
    pub fn end_of_stream(&self) -> bool {
        self.end_of_stream
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as it was sent.
    #[inline]
    pub fn method_text(&self) -> &'a [u8] {
        self.list.text(self.head.method_text)
    }

    /// The scheme, most often `https` or `http`; empty for CONNECT.
    #[inline]
    pub fn scheme(&self) -> &'a [u8] {
        self.list.text(self.head.scheme)
    }

    /// Host and perhaps port, from `:authority` or, where that is absent, from `Host`; [valid](crate::host), and empty
    /// only with schemes other than those of HTTP.
    #[inline]
    pub fn authority(&self) -> &'a [u8] {
        self.list.text(self.head.authority)
    }

    /// Path and query, beginning with a slash; `*` for OPTIONS of the whole server, empty for CONNECT.
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        self.list.text(self.head.path)
    }

    /// What an extended CONNECT asks for, such as `websocket` (RFC 8441).
    pub fn protocol(&self) -> Option<&'a [u8]> {
        (!self.head.protocol.is_empty()).then(|| self.list.text(self.head.protocol))
    }

    /// The value of Content-Length. The body is held to it: a stream with more or less is reset.
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        self.head.content_length
    }

    /// What Expect asked for.
    #[inline]
    pub fn expectation(&self) -> Expectation {
        self.head.expectation
    }

    /// Whether there is a precondition or a Range field.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        self.head.is_conditional
    }

    /// The priority that the `priority` field asked for, if there was one.
    pub fn priority(&self) -> Option<Priority> {
        self.head.priority
    }

    /// Whether the header section was larger than the limits: fields are missing, pseudo-header fields perhaps among
    /// them. The request should be answered with 431 (RFC 6585).
    #[inline]
    pub fn is_header_section_too_large(&self) -> bool {
        self.head.is_too_large
    }

    /// Its fields without pseudo-header fields; `host` is not among them, and there is at most one `cookie`.
    #[inline]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.list, self.head.fields_start, self.head.fields_end)
    }

    /// The values of a field, in order.
    pub fn values(&self, name: KnownName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields().filter(move |field| field.known == name).map(|field| field.value)
    }

    /// The values of a field by the name that HTTP/1 gives it; [`KnownField::Other`] finds nothing.
    pub fn values_of(&self, name: KnownField) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let matches = move |field: &FieldView| name != KnownField::Other && field.known.known_field() == name;
        self.fields().filter(matches).map(|field| field.value)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &[u8]| text.escape_ascii().to_string();
        formatter
            .debug_struct("Request")
            .field("stream", &self.stream)
            .field("method", &text(self.method_text()))
            .field("scheme", &text(self.scheme()))
            .field("authority", &text(self.authority()))
            .field("path", &text(self.path()))
            .field("protocol", &self.protocol().map(text))
            .field("fields", &self.fields())
            .field("end_of_stream", &self.end_of_stream)
            .finish()
    }
}

/// A field of a request or of its trailers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldView<'a> {
    /// The name, in lower case.
    pub name: &'a [u8],
    /// The value, without white space around it.
    pub value: &'a [u8],
    /// Which name it is, if it is recognised.
    pub known: KnownName,
    /// The client wants it never to be stored in a table of a connection further on (RFC 7541 section 7.1.3).
    pub is_never_indexed: bool,
}

impl fmt::Debug for FieldView<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name.escape_ascii(), self.value.escape_ascii())
    }
}

/// Fields in order.
#[derive(Clone)]
pub struct Fields<'a> {
    list: &'a FieldList,
    fields: std::slice::Iter<'a, Field>,
}

impl<'a> Fields<'a> {
    fn new(list: &'a FieldList, start: u32, end: u32) -> Fields<'a> {
        Fields { list, fields: list.fields().get(start as usize..end as usize).unwrap_or_default().iter() }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldView<'a>;

    #[inline]
    fn next(&mut self) -> Option<FieldView<'a>> {
        self.fields.next().map(|field| FieldView {
            name: self.list.name(field),
            value: self.list.value(field),
            known: field.known,
            is_never_indexed: field.is_never_indexed,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.clone()).finish()
    }
}

/// An event as it is kept.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Request { stream: StreamKey, end_of_stream: bool, head: RequestHead },
    Data { stream: StreamKey, start: usize, end: usize, end_of_stream: bool },
    Trailers { stream: StreamKey, start: u32, end: u32 },
    Reset { stream: StreamKey, code: ErrorCode, reason: Option<&'static str> },
    Refused { stream_id: u32, code: ErrorCode, reason: &'static str },
    GoAway { code: ErrorCode },
    Pong { payload: [u8; 8] },
}

/// The events of one call.
#[derive(Clone, Default)]
pub struct Events {
    records: Vec<Record>,
    pub(crate) list: FieldList,
}

impl Events {
    /// No events yet.
    pub fn new() -> Events {
        Events::default()
    }

    /// Forgets all events. [`receive`](super::ServerConnection::receive) does so itself.
    #[inline]
    pub fn clear(&mut self) {
        self.records.clear();
        self.list.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The events in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        self.records.iter().map(|record| self.view(record))
    }

    #[inline]
    pub(crate) fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    #[inline]
    fn view<'a>(&'a self, record: &'a Record) -> Event<'a> {
        match record {
            Record::Request { stream, end_of_stream, head } => Event::Request(Request {
                stream: *stream,
                end_of_stream: *end_of_stream,
                head,
                list: &self.list,
            }),
            Record::Data { stream, start, end, end_of_stream } => {
                Event::Data { stream: *stream, range: *start..*end, end_of_stream: *end_of_stream }
            }
            Record::Trailers { stream, start, end } => {
                Event::Trailers { stream: *stream, fields: Fields::new(&self.list, *start, *end) }
            }
            Record::Reset { stream, code, reason } => {
                Event::Reset { stream: *stream, code: *code, reason: *reason }
            }
            Record::Refused { stream_id, code, reason } => {
                Event::Refused { stream_id: *stream_id, code: *code, reason }
            }
            Record::GoAway { code } => Event::GoAway { code: *code },
            Record::Pong { payload } => Event::Pong { payload: *payload },
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}
