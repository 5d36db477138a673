//! Conformance: the rules of RFC 9110, 9111, 9112, 9113 and 9114 as test cases, and the verdicts on a server.
//!
//! A [`case`] is data: the section, the bytes to send (for HTTP/2 and HTTP/3 frame by frame), and the allowed
//! answers. The [`client`] sends it and records every received byte in a [`Transcript`]; for a cache or a
//! proxy, the scripted [`origin`] records every byte that it receives. [`judge`] is a function from a case
//! and a transcript to a verdict, so that the verdicts of a result can be computed again from its
//! transcripts. [`run`] runs all cases on one server, and [`record`] is the part of a result.
//!
//! Servers are not trusted: their bytes go through the parsers of `touchstone-http`, with limits of time and
//! size, and no bytes cause a panic of the judge (a property test and the fuzz target `transcript` check
//! this).

pub mod case;
pub mod client;
pub mod judge;
pub mod origin;
pub mod record;
pub mod run;
pub mod transcript;

pub use case::{Case, Document, Level, Role};
pub use judge::{Verdict, judge};
pub use transcript::Transcript;
