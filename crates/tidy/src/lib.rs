//! Checks of the sources themselves.
//!
//! The test of this crate reads every source file and reports what breaks a rule of CONTRIBUTING.md. What
//! broke a rule before the rule existed is listed in `exceptions/RULE.txt`. These lists may only become
//! shorter: an entry that is no longer needed fails the test too.
//!
//! `make tidy` prints the imports between crates and between the modules of each crate.

pub mod commits;
pub mod exceptions;
pub mod imports;
pub mod patches;
pub mod picture;
pub mod rules;
pub mod rust;
pub mod tree;
pub mod workspace;
