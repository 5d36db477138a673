//! Sessions for the load engine from the files of other tools.
//!
//! Each reader makes a [`Draft`]: requests in order, with the values that are taken from their answers.
//! [`Draft::text`] writes it as a file of sessions (`touchstone load --sessions`). What has no counterpart is
//! told in notes, each with its place; nothing is left out without a word.

mod draft;
mod evaluate;
mod javascript;
pub mod jmeter;
mod json_schema;
pub mod k6;
pub mod openapi;
pub mod postman;
mod variables;

pub use draft::{Draft, DraftRequest, DraftSession};
