//! Conformance: the rules of RFC 9110, 9111, 9112, 9113 and 9114 as cases, and what a server does with them.
//!
//! A [`case`] is data: the section, what is sent byte for byte (for HTTP/2 and HTTP/3 frame by frame), and
//! what may come back. The [`client`] sends it and keeps every byte that comes back, a [`Transcript`]; behind
//! a cache or a proxy stands the scripted [`origin`], which keeps every byte that it was sent. [`judge`] is a
//! function from a case and a transcript to a verdict, so that the verdicts of a result can be found again
//! from its transcripts. [`run`] tries all cases on one server, [`record`] is what a result holds of it.
//!
//! Servers are not trusted: what they send goes through the parsers of `touchstone-http`, with limits of time
//! and bytes, and nothing that they send makes the judge panic (a property test and the fuzz target
//! `transcript`).

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
