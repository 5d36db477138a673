//! Pages with directives: which files are such pages, and how they are answered.
//!
//! The language is in `touchstone_includes`; this module connects it to the server. `static_files` finds the
//! file; `SiteIncludes` of the crate `sites` determines whether it is a page; [`answer()`] evaluates it.
//! Included paths pass through routes and access rules as if the client had requested them ([`host`]).
//!
//! | module | |
//! |---|---|
//! | `load` | parses the page in a file, and stores it until the file changes |
//! | `answer` | makes an answer of a page: cached for its second if all clients get the same, else streamed |
//! | `from_program` | answers of programs and origins that are pages |
//! | `host` | the functions of the server for a page |
//! | `resolve` | resolves an included path |
//! | `variables` | the variables of a request |
//! | `command` | programs of `exec cmd` |

mod answer;
mod command;
mod from_program;
mod host;
mod load;
mod resolve;
mod variables;

pub use answer::{FoundPage, PageAnswer, answer};
pub use from_program::{evaluate, request_plain_page};
pub use load::{LoadError, kept, load};
