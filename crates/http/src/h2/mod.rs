//! HTTP/2 (RFC 9113) as data: frames, header compression, streams, flow control and priorities, without a
//! socket, a clock or a thread.
//!
//! [`ServerConnection`] is the state of one connection. Bytes that came from the client go in and become
//! [`Event`]s; responses go in and become bytes for the client. It serves ALPN `h2` and, where
//! [`detect_preface`] recognises it, HTTP/2 without TLS ("prior knowledge") alike.
//!
//! | part | what it is |
//! |---|---|
//! | [`connection`] | the state of a connection, seen from the server |
//! | [`events`], [`stream_request`] | what was received: requests, bodies, resets |
//! | [`frame`] | reading and writing all types of frame |
//! | [`hpack`] | header compression (RFC 7541) |
//! | [`limits`] | what a connection may cost, and the known attacks |
//! | [`priority`] | priorities (RFC 9218) |
//! | [`settings`], [`error`], [`streams`] | parameters, error codes, the table of open streams |
//!
//! Frames, header compression, settings, windows and priorities know nothing of which side they are on; a
//! client is a second connection type on the same parts.
//!
//! # How a server drives it
//!
//! ```
//! use touchstone_http::h2::hpack::ResponseBlock;
//! use touchstone_http::h2::{Body, Event, Events, Limits, Responded, ServerConnection, frame};
//!
//! // Once for each core: the buffers that all its connections share.
//! let mut events = Events::new();
//! let mut out: Vec<u8> = Vec::new();
//! // Once for each cached response, and again when its date changes.
//! let mut block = ResponseBlock::new(200, [
//!     (&b"date"[..], &b"Fri, 20 Nov 2026 12:00:00 GMT"[..]),
//!     (b"content-length", b"5"),
//! ]);
//! block.set_date(b"Fri, 20 Nov 2026 12:00:01 GMT");
//!
//! // Once for each connection.
//! let mut connection = ServerConnection::new(Limits::default());
//! // By stream index: bodies that did not go out at once, and how much of them did.
//! let mut sending: Vec<Option<(&[u8], usize)>> = Vec::new();
//!
//! // Whenever bytes have come. These are what a client might begin with.
//! let mut input = frame::PREFACE.to_vec();
//! frame::append_settings(&[], &mut input);
//! frame::append_headers(1, b"\x82\x87\x84\x41\x01h", true, 16_384, &mut input);
//!
//! let consumed = match connection.receive(&input, &mut events) {
//!     Ok(consumed) => consumed,
//!     Err(error) => {
//!         connection.take_output(&mut out);
//!         // Send `out`, close the connection, log the error.
//!         panic!("{error}");
//!     }
//! };
//! for event in events.iter() {
//!     match event {
//!         Event::Request(request) => {
//!             assert_eq!((request.authority(), request.path()), (&b"h"[..], &b"/"[..]));
//!             let (stream, body) = (request.stream(), &b"hello"[..]);
//!             let responded = connection.respond(stream, block.bytes(), Body::Bytes(body), &mut out);
//!             if responded == Responded::Queued {
//!                 sending.resize(sending.len().max(stream.index() + 1), None);
//!                 sending[stream.index()] = Some((body, 0));
//!             }
//!         }
//!         Event::Data { stream, range, .. } => {
//!             // The bytes are in `input`. When they are done with, the client may send as many again.
//!             connection.release(stream, range.len());
//!         }
//!         Event::Reset { stream, .. } => {
//!             if let Some(place) = sending.get_mut(stream.index()) {
//!                 *place = None;
//!             }
//!         }
//!         _ => {}
//!     }
//! }
//! input.drain(..consumed);
//!
//! // Whatever the windows allow, in the order of priorities, until the buffer is full enough.
//! while let Some(frame) = connection.next_data(usize::MAX, &mut out) {
//!     let Some((body, sent)) = &mut sending[frame.stream.index()] else { unreachable!() };
//!     out.extend_from_slice(&body[*sent..*sent + frame.length]);
//!     *sent += frame.length;
//!     if frame.is_last {
//!         sending[frame.stream.index()] = None;
//!     }
//! }
//! // Now `out` is to be written, or encrypted: one buffer for all responses.
//! assert!(out.ends_with(b"hello"));
//! ```
//!
//! ## Receiving
//! - Bytes that [`receive`](ServerConnection::receive) did not consume are the beginning of a frame. They
//!   stay at the beginning of the input buffer, which must have room for a whole frame
//!   ([`Limits::frame_bytes`] and nine bytes).
//! - The state of a connection is ahead of its events: a stream that was requested and reset in one input is
//!   closed when the event of the request is looked at, and [`respond`](ServerConnection::respond) says
//!   [`Gone`](Responded::Gone). Before work that costs much, ask [`is_open`](ServerConnection::is_open).
//! - A [`StreamKey`] stays valid for as long as its stream is open. Its index is small and used again, so
//!   that what belongs to a stream can lie in a plain vector. A stream's place in it becomes free with
//!   [`Responded::Complete`], with the [`DataFrame`] that is the last, with [`Event::Reset`], and with
//!   [`reset`](ServerConnection::reset); with a tunnel (CONNECT), when both directions have ended.
//! - Do not receive while `out` holds more than [`Limits::output_bytes`]: write first. A client that does not
//!   read its responses is then not read from either, and costs no more than this.
//!
//! ## Sending
//! - Header sections go out at once. A small body goes with it if the windows and more urgent responses let
//!   it; otherwise it is asked for by [`next_data`](ServerConnection::next_data) later on. Bodies are never
//!   copied into the connection: it knows their lengths, the caller keeps their bytes.
//! - A body whose length is not known is a [`Body::Stream`]: [`offer`](ServerConnection::offer) what there
//!   is, [`finish`](ServerConnection::finish) it with or without trailers.
//!   [`send_capacity`](ServerConnection::send_capacity) says how much more is worth getting. There is no
//!   event for a window that opens: after each `receive`, look at
//!   [`wants_to_send`](ServerConnection::wants_to_send), or call `next_data`.
//! - What a cached response needs for its header section is a [`hpack::ResponseBlock`], the same on every
//!   connection. What is made anew for each request can go through
//!   [`respond_with_fields`](ServerConnection::respond_with_fields), which compresses better.
//! - [`take_output`](ServerConnection::take_output) gives the frames of the connection's own. All calls that
//!   take `out` begin with it, so that everything is in order.
//!
//! ## Time
//! The connection has no clock. A server that has one
//! - calls [`replenish`](ServerConnection::replenish) about once a second;
//! - gives a client only some time for its preface and for each header block
//!   ([`is_within_header_block`](ServerConnection::is_within_header_block)), to acknowledge settings
//!   ([`settings_are_acknowledged`](ServerConnection::settings_are_acknowledged)), to open its windows
//!   ([`is_blocked`](ServerConnection::is_blocked)), to send the body that it has begun, and to have no
//!   stream open at all ([`open_streams`](ServerConnection::open_streams)); then it calls
//!   [`close`](ServerConnection::close), [`shut_down`](ServerConnection::shut_down) or
//!   [`reset`](ServerConnection::reset).
//!
//! ## Ending
//! [`shut_down`](ServerConnection::shut_down) begins a graceful end in two steps that loses no request;
//! [`is_finished`](ServerConnection::is_finished) says when the connection can be closed. After `GOAWAY`,
//! close for writing first and read until the client closes, as with HTTP/1 (RFC 9112 section 9.6): a
//! connection that is closed with bytes unread is reset by the system, and what was sent last may be lost.
//!
//! # What is deliberately different
//! - Streams without any priority signal take turns, as if they were incremental. RFC 9218 makes the order of
//!   requests the default, for clients that speak of priorities; others expect to be served alike.
//! - The priorities of RFC 7540 are ignored, as RFC 9113 section 5.3.2 allows;
//!   `SETTINGS_NO_RFC7540_PRIORITIES` says so. A stream that depends on itself is a connection error still,
//!   as it was a stream error then.
//! - There is no server push, which clients have given up, and no upgrade from HTTP/1.1, which RFC 9113 has.
//! - A frame that is too large is always a connection error.

pub mod connection;
pub mod error;
pub mod events;
pub(crate) mod flow;
pub mod frame;
pub mod hpack;
pub mod limits;
pub mod priority;
pub(crate) mod request;
pub(crate) mod scheduler;
pub mod settings;
pub mod stream_request;
pub mod streams;

pub use connection::{Body, DataFrame, Preface, Responded, ServerConnection, detect_preface};
pub use error::{ConnectionError, ErrorCode};
pub use events::{Event, Events, Request};
pub use limits::Limits;
pub use priority::Priority;
pub use stream_request::{FieldView, Fields, StreamRequest};
pub use streams::StreamKey;
