//! The Java virtual machine in this process: found, started, and called.
//!
//! A process can start one machine, once: it never ends, and the applications in it are replaced while it
//! runs.

pub mod find;
mod machine;
mod signals;

pub use machine::{AttachedThread, Machine, Memory, Start, text_of};
