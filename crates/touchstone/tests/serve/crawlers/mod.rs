//! Bots that sign their requests, and the check of other visitors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bots;
mod browser;
mod check;
#[allow(dead_code, reason = "the tests of servlets use all of it")]
#[path = "../../programs/servlet/devtools.rs"]
mod devtools;
mod versions;
mod visitor;
