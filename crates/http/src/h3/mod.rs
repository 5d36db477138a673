//! HTTP/3 (RFC 9114) as data: frames, field section compression and the rules of streams, without a socket, a
//! clock or QUIC itself.
//!
//! A QUIC connection (RFC 9000) has many streams, each a sequence of bytes in order. The bytes of a stream
//! are passed to the reader of its kind, which returns events, or an error with the code that ends the stream
//! or the connection:
//!
//! | stream | reader |
//! |---|---|
//! | bidirectional, from the client | [`RequestStream`]: a request, its body, its trailers |
//! | bidirectional, from the server | [`ResponseStream`]: interim responses, the response, body, trailers |
//! | unidirectional | [`UnidirectionalStream`]: its type, control and QPACK frames |
//!
//! For the other direction there are functions that append bytes: [`frame`], [`qpack`] and [`settings`].
//!
//! | part | contents |
//! |---|---|
//! | [`varint`] | QUIC's variable-length integers |
//! | [`frame`] | reading and writing frames |
//! | [`qpack`] | field section compression (RFC 9204), with the static table alone |
//! | [`settings`] | parameters |
//! | [`request_stream`], [`response_stream`], [`unidirectional`], [`control`] | the streams |
//! | [`error`] | error codes, and the two sizes of error |
//!
//! The rules for the fields of a request are HTTP/2's ([`crate::h2::stream_request`]): RFC 9114 section 4.3
//! has the same ones.
//!
//! # Deliberate omissions
//! - No dynamic table in either direction. It would save a client some bytes of each request, but requests
//!   would wait for each other, which HTTP/3 is there to avoid; this side would also have to keep a table for
//!   each connection.
//! - No push: clients no longer support it.

pub mod control;
pub mod error;
pub mod frame;
mod message_stream;
pub mod qpack;
pub mod request_stream;
pub mod response_stream;
pub mod settings;
pub mod unidirectional;
pub mod varint;

pub use control::{ControlEvent, ControlStream, Sender};
pub use error::{ConnectionError, Error, ErrorCode, StreamError};
pub use qpack::SectionLimits;
pub use request_stream::{Received, RequestHead, RequestStream, trailers};
pub use response_stream::{ReceivedResponse, ResponseHead, ResponseStream};
pub use settings::PeerSettings;
pub use unidirectional::{CriticalStreams, UnidirectionalStream};
