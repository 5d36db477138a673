//! From a request to its answer, for all versions of HTTP.
//!
//! | module | |
//! |---|---|
//! | `core` | one core: its state, its caches, the look-up of prepared responses, its worker of servlets |
//! | `steps` | the steps of an exchange: site, routes and rewrites, access rules, file or handler |
//! | `files` | answers from the disk: files, listings, pages with directives |
//! | `connection_number` | the number of a connection |
//!
//! The crate `server` accepts connections, reads requests and writes answers.

pub mod connection_number;
pub mod core;
pub mod files;
pub mod steps;
