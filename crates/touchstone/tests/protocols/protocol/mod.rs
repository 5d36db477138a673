//! The protocol, by table: the bytes that are sent, and the expected answers (RFC 9110, RFC 9112).
//!
//! One module per topic, one table per module. Every case runs on its own connection, at once, then one byte
//! at a time; those marked `split` also in two parts, cut at every position: how the bytes arrive must never
//! change the answer. A connection that must be kept is checked with another request; one that must be closed
//! must have an orderly end with no bytes before it.
//!
//! `TOUCHSTONE_TEST_PEER=ADDRESS,ROOT` runs the same cases against another server that already listens on
//! ADDRESS and serves the directory ROOT (which is filled first): a check of the cases themselves.

mod bodies;
mod case;
mod conditions;
mod connections;
mod expectations;
mod framing;
mod headers;
mod heads;
mod index_and_errors;
mod methods;
mod paths;
mod pipelining;
mod ranges;
mod request_lines;
