//! The protocol, by table: what is sent, byte for byte, and what must come back (RFC 9110, RFC 9112).
//!
//! One module a topic, one table a module. Every case runs on a connection of its own, whole, then one byte
//! at a time; those marked `split` also cut in two at every position: how the bytes arrive must never change
//! the answer. A connection that a case says is kept proves it by answering another request; one that is
//! closed proves it by an orderly end with nothing before it.
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
