//! Sessions for the load engine from the files of other tools.
//!
//! Each reader returns a [`Draft`]: requests in order, with the variables that are extracted from their
//! answers. [`Draft::text`] writes it as a session file (`touchstone load --sessions`). Notes describe each
//! omitted part with its position.

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
