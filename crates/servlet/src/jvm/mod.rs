//! The Java virtual machine in this process: found, started, and called.
//!
//! A process can have one machine, once: it is never ended, and what changes without it ending are the
//! applications in it.

pub mod find;
mod machine;
mod signals;

pub use machine::{Attached, Machine, Memory, Start, text_of};
