//! The accelerator: a cache in front of programs and origins.
//!
//! - [`rules`] decide: RFC 9111 and its relatives as functions from values to decisions.
//! - [`store`] keeps: responses in memory within a budget of bytes, and each core's own view of them.
//! - [`disk`] keeps copies of that, which outlive the process.
//! - [`layer`] does: it stands before a handler, answers from the store what it can, and stores what comes.
//! - [`purge`] is what an operator wants removed, as it is written, and as keys of the store.

pub mod disk;
pub mod layer;
pub mod purge;
pub mod rules;
pub mod store;
