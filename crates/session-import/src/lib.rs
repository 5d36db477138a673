//! Sessions for the load engine from the files of other tools.
//!
//! Each reader makes a [`Draft`]: requests in order, with the values that are taken from their answers.
//! [`Draft::text`] writes it as a file of sessions (`touchstone load --sessions`). Notes describe each part
//! without a counterpart, with its place; no part is omitted silently.

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
