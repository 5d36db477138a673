//! The runs of the laboratory: systems under test, the load on them, and the monitor that watches.
//!
//! [`bench::run`] is the entry point: a suite is run on one or more systems under test
//! ([`system::Definition`]) while the [`monitor`] watches; the measurements become a result in a directory.
//! [`live`] shows a running bench, [`limit`] is the smallest possible server, which measures the limit of
//! this machine, [`remote`] measures systems on other machines.

pub mod bench;
pub mod limit;
pub mod live;
pub mod monitor;
pub mod placement;
mod probe;
pub mod programs;
pub mod remote;
pub mod system;
