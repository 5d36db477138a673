//! A bench whose load a fleet makes: a real broker, real agents, and what becomes of the run when one of them fails.

mod commands;
mod faults;
mod namespaces;
mod refusals;
mod rig;
mod slurm;
mod sums;
#[path = "../support/mod.rs"]
mod support;
mod target;
