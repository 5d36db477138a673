//! HTTP without input and output: parsing, writing, dates, ranges, conditions.
//!
//! Nothing here reads a socket, a file or a clock; every function takes bytes and returns values, so that
//! each rule of RFC 9110 and RFC 9112 can be tested by table and fuzzed.
//!
//! A request goes through [`request`] (the head), [`target`] and [`host`] (the resource and the server that
//! it names), [`chunked`] (its body), [`conditional`] with [`entity_tag`] and [`date`] (whether to answer in
//! full) and [`range`] (which part); [`content_coding`] and [`accept`] with [`weight`] determine the
//! representation that the client prefers, [`status`] names the answer. [`request_view`] is a request of any
//! version as rules use it. [`response`] is the other side: the head as a client reads it. [`added_fields`]
//! are fields that a server adds to answers, [`field_lines`] checks those of programs. [`trace_context`] is
//! the trace that a request belongs to. [`grammar`], [`decimal`], [`hexadecimal`] and [`percent`] are used by
//! all of them; [`addresses`] are those to which pages send browsers. [`split_mix`] makes numbers that look
//! random.
//! [`h2`] is HTTP/2 as a whole, from frames to priorities; [`h3`] is HTTP/3, on the streams of QUIC.
//!
//! # Fuzzing
//! The parsers have cargo-fuzz targets in `fuzz/`: `request_head`, `response_head`, `chunked`, `target`,
//! `range`, `trace_context`, `h2_hpack`, `h2_connection`, `h3_streams`. From this crate's directory, with a
//! nightly toolchain and `cargo install cargo-fuzz`:
//!
//! ```text
//! cargo +nightly fuzz run request_head -- -dict=fuzz/http.dict -max_total_time=60
//! ```

pub mod accept;
pub mod added_fields;
pub mod addresses;
pub mod authorization;
pub mod chunked;
pub mod conditional;
pub mod content_coding;
pub mod cookie;
pub mod date;
pub mod decimal;
pub mod dictionary;
pub mod entity_tag;
pub mod field_lines;
pub mod forged_fields;
pub mod forwarded;
pub mod grammar;
pub mod h2;
pub mod h3;
pub mod hexadecimal;
pub mod host;
pub mod ip_text;
pub mod path;
pub mod percent;
pub mod range;
pub mod request;
pub mod request_view;
pub mod response;
pub mod split_mix;
pub mod status;
pub mod target;
pub mod trace_context;
pub mod weight;
