//! The runs of the laboratory: systems under test, the load on them, and the monitor that watches.
//!
//! [`bench::run`] is the way through it: a suite is run on one or more systems under test
//! ([`system::Definition`]) while the [`monitor`] watches; what was measured becomes a result in a directory.
//! [`live`] shows a running bench, [`limit`] is the least that a server could do on this machine,
//! [`remote`] measures systems on other machines.

pub mod bench;
pub mod limit;
pub mod live;
pub mod monitor;
pub mod placement;
mod probe;
pub mod programs;
pub mod remote;
pub mod system;
