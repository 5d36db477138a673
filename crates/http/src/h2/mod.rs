//! HTTP/2 (RFC 9113) as data: frames, header compression, streams, flow control and priorities, without a
//! socket, a clock or a thread.
//!
//! [`ServerConnection`] is the state of one connection. It converts bytes of the client to [`Event`]s, and
//! responses to bytes for the client. It serves ALPN `h2` and, where [`detect_preface`] recognises it, HTTP/2
//! without TLS ("prior knowledge").
//!
//! | part | contents |
//! |---|---|
//! | [`connection`] | the state of a connection, seen from the server |
//! | [`events`], [`stream_request`] | received requests, bodies and resets |
//! | [`frame`] | reading and writing all types of frame |
//! | [`hpack`] | header compression (RFC 7541) |
//! | [`limits`] | the limits of a connection, and the known attacks |
//! | [`priority`] | priorities (RFC 9218) |
//! | [`settings`], [`error`], [`streams`] | parameters, error codes, the table of open streams |
//!
//! Frames, header compression, settings, windows and priorities are the same for both sides; a client is a
//! second connection type that uses these modules.
//!
//! # How a server drives it
//!
//! ```
//! use touchstone_http::h2::hpack::encode_response_block;
//! use touchstone_http::h2::{Body, Event, Events, Limits, Responded, ServerConnection, frame};
//!
//! // Once for each core: the buffers that all its connections share.
//! let mut events = Events::new();
//! let mut out: Vec<u8> = Vec::new();
//! // Once for each cached response, and again when its date changes.
//! let fields = [(&b"date"[..], &b"Fri, 20 Nov 2026 12:00:00 GMT"[..]), (b"content-length", b"5")];
//! let mut block = Vec::new();
//! encode_response_block(200, fields, &mut block);
//!
//! // Once for each connection.
//! let mut connection = ServerConnection::new(Limits::default());
//! // By stream index: bodies that did not go out at once, and how much of them did.
//! let mut sending: Vec<Option<(&[u8], usize)>> = Vec::new();
//!
//! // Whenever bytes have arrived. These could be the first bytes of a client.
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
//!             let responded = connection.respond(stream, &block, Body::Bytes(body), &mut out);
//!             if responded == Responded::Queued {
//!                 sending.resize(sending.len().max(stream.index() + 1), None);
//!                 sending[stream.index()] = Some((body, 0));
//!             }
//!         }
//!         Event::Data { stream, range, .. } => {
//!             // The bytes are in `input`. Once they are processed, the client may send as many again.
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
//! // As much as the windows allow, in the order of priorities, until the buffer is full enough.
//! while let Some(frame) = connection.next_data(usize::MAX, &mut out) {
//!     let Some((body, sent)) = &mut sending[frame.stream.index()] else { unreachable!() };
//!     out.extend_from_slice(&body[*sent..*sent + frame.length]);
//!     *sent += frame.length;
//!     if frame.is_last {
//!         sending[frame.stream.index()] = None;
//!     }
//! }
//! // Now write or encrypt `out`: one buffer for all responses.
//! assert!(out.ends_with(b"hello"));
//! ```
//!
//! ## Receiving
//! - Bytes that [`receive`](ServerConnection::receive) did not consume are the beginning of a frame. They
//!   must stay at the beginning of the input buffer, which needs room for a whole frame
//!   ([`Limits::frame_bytes`] and nine bytes).
//! - The state of a connection can be ahead of its events: if a stream was requested and reset in one input,
//!   it is already closed when the caller sees the event of the request, and
//!   [`respond`](ServerConnection::respond) returns [`Gone`](Responded::Gone). Before expensive work, check
//!   [`is_open`](ServerConnection::is_open).
//! - A [`StreamKey`] stays valid for as long as its stream is open. Its index is small and is used again, so
//!   that data of a stream can be stored in a plain vector. A stream's entry in it becomes free with
//!   [`Responded::Complete`], with the last [`DataFrame`], with [`Event::Reset`], and with
//!   [`reset`](ServerConnection::reset); with a tunnel (CONNECT), when both directions have ended.
//! - Do not receive while `out` holds more than [`Limits::output_bytes`]: write first. A client that does not
//!   read its responses is then not read from either, and its memory stays within this limit.
//!
//! ## Sending
//! - Header sections are sent at once. A small body is sent with them if the windows and more urgent
//!   responses allow it; otherwise [`next_data`](ServerConnection::next_data) requests it later. Bodies are
//!   never copied into the connection: it knows their lengths, the caller keeps their bytes.
//! - A body whose length is not known is a [`Body::Stream`]: [`offer`](ServerConnection::offer) the
//!   available bytes, [`finish`](ServerConnection::finish) it with or without trailers.
//!   [`send_capacity`](ServerConnection::send_capacity) returns how many more bytes could be sent. There
//!   is no event for a window that opens: after each `receive`, check
//!   [`has_data_to_send`](ServerConnection::has_data_to_send), or call `next_data`.
//! - The header section of a cached response is encoded once ([`hpack::encode_response_block`]), because it
//!   is the same on every connection. A response that is made for each request can use
//!   [`respond_with_fields`](ServerConnection::respond_with_fields), which compresses better.
//! - [`take_output`](ServerConnection::take_output) returns the frames of the connection itself. All calls
//!   that take `out` begin with it, so that everything is in order.
//!
//! ## Time
//! The connection has no clock. A server with a clock
//! - calls [`replenish`](ServerConnection::replenish) about once a second;
//! - limits the time of a client for its preface and for each header block
//!   ([`is_within_header_block`](ServerConnection::is_within_header_block)), to acknowledge settings
//!   ([`settings_are_acknowledged`](ServerConnection::settings_are_acknowledged)), to open its windows
//!   ([`is_blocked`](ServerConnection::is_blocked)), to send the body that it has begun, and to have no
//!   stream open at all ([`open_streams`](ServerConnection::open_streams)); then it calls
//!   [`close`](ServerConnection::close), [`shut_down`](ServerConnection::shut_down) or
//!   [`reset`](ServerConnection::reset).
//!
//! ## Ending
//! [`shut_down`](ServerConnection::shut_down) begins a graceful end in two steps that loses no request;
//! [`is_finished`](ServerConnection::is_finished) returns whether the connection can be closed. After
//! `GOAWAY`, close for writing first and read until the client closes, as with HTTP/1 (RFC 9112 section 9.6):
//! a connection that is closed with bytes unread is reset by the system, and the last bytes sent may be lost.
//!
//! # Deliberate differences
//! - Streams without any priority signal take turns, as if they were incremental. RFC 9218 makes the order of
//!   requests the default for clients that use priorities; other clients expect equal service.
//! - The priorities of RFC 7540 are ignored, as RFC 9113 section 5.3.2 allows;
//!   `SETTINGS_NO_RFC7540_PRIORITIES` announces this. A stream that depends on itself is a connection error;
//!   it was a stream error in RFC 7540.
//! - There is no server push, which clients no longer support, and no upgrade from HTTP/1.1, which RFC 9113
//!   made obsolete.
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
