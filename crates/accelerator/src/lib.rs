//! The accelerator: a cache for the answers of programs and origins.
//!
//! - [`rules`] has the decisions: RFC 9111 and related documents as functions from values to decisions.
//! - [`store`] keeps responses in memory up to a limit of bytes, and has each core's own view of them.
//! - [`disk`] keeps copies of them, which survive the process.
//! - [`layer`] wraps a handler: it answers requests from the store if possible, and stores the handler's
//!   answers.
//! - [`purge`] has an operator's purges as text, and runs them on the store.

pub mod disk;
pub mod layer;
pub mod purge;
pub mod rules;
pub mod store;
