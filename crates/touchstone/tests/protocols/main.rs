//! The protocols from the outside: the rules of HTTP in every version, and what readers of other languages
//! make of what the server sends on.
//!
//! One program for all of them: a new file is a module here, and takes what it needs from `crate::support`.
//! `cargo test -p touchstone --test protocols NAME` runs the tests whose path contains NAME.

#[path = "../support/mod.rs"]
mod support;

mod browser_fields;
mod early_answers;
mod floods;
mod http3;
mod protocol;
mod random_requests;
mod readers;
mod refusal_pages;
