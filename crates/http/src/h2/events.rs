//! What [`ServerConnection::receive`](super::ServerConnection::receive) found in its input.
//!
//! [`Events`] holds the events and all fields of all requests in a few buffers, which the next call fills
//! again. One `Events` serves all connections of a core.

use std::fmt;
use std::ops::{Deref, Range};

use super::error::ErrorCode;
use super::hpack::FieldList;
use super::request::RequestHead;
pub use super::stream_request::{FieldView, Fields, StreamRequest};
use super::streams::StreamKey;

/// An event that the caller must handle.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A request. Its stream is open until the response is complete, or until an [`Event::Reset`].
    Request(Request<'a>),
    /// Part of a request body. The caller releases processed bytes with
    /// [`release`](super::ServerConnection::release); otherwise the client stops sending.
    Data {
        /// The stream.
        stream: StreamKey,
        /// The position of the bytes in the input of the call that gave the event.
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
    /// A stream for which there was an [`Event::Request`] has ended early: nothing more is received from it,
    /// and nothing more can be sent on it.
    Reset {
        /// The stream, which is closed already.
        stream: StreamKey,
        /// Why.
        code: ErrorCode,
        /// The client's fault, for the error log; absent when the client reset the stream.
        reason: Option<&'static str>,
    },
    /// A request was refused, and its stream reset, before it became an [`Event::Request`]. This is for the
    /// log.
    Refused {
        /// The stream identifier.
        stream_id: u32,
        /// The code that was sent to the client.
        code: ErrorCode,
        /// The fault.
        reason: &'static str,
    },
    /// The client is leaving: it makes no more requests, but waits for the responses to those it made.
    GoAway {
        /// Why.
        code: ErrorCode,
    },
    /// The answer to [`ping`](super::ServerConnection::ping).
    Pong {
        /// The payload of the ping.
        payload: [u8; 8],
    },
}

/// A request; its contents are in its [`StreamRequest`].
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    stream: StreamKey,
    end_of_stream: bool,
    view: StreamRequest<'a>,
}

impl Request<'_> {
    /// The stream of the request and of its response.
    #[inline]
    pub fn stream(&self) -> StreamKey {
        self.stream
    }

    /// Whether it has no body. Otherwise [`Event::Data`] and perhaps [`Event::Trailers`] follow.
    #[inline]
    pub fn end_of_stream(&self) -> bool {
        self.end_of_stream
    }
}

impl<'a> Deref for Request<'a> {
    type Target = StreamRequest<'a>;

    #[inline]
    fn deref(&self) -> &StreamRequest<'a> {
        &self.view
    }
}

/// An event as it is stored.
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

    /// Removes all events. [`receive`](super::ServerConnection::receive) does so itself.
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
                view: StreamRequest::new(head, &self.list),
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
