//! A bench whose load a fleet makes: a real broker, real agents, and what becomes of the run when one of them
//! fails.

#![allow(clippy::print_stdout, reason = "what was measured is printed with --nocapture")]

mod commands;
mod faults;
mod load_command;
mod namespaces;
mod refusals;
mod rig;
mod slurm;
mod ssh;
mod sums;
#[path = "../support/mod.rs"]
mod support;
mod target;
mod thousand;
