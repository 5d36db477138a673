//! The accelerator and the parts behind it: the cache, origins, the proxy.
//!
//! One program for all of them: a new file is a module here, and takes what it needs from `crate::support`.
//! `cargo test -p touchstone --test accelerate NAME` runs the tests whose path contains NAME.

#[path = "../support/mod.rs"]
mod support;

mod accelerator;
mod accelerator_suites;
mod origins;
mod proxy;
