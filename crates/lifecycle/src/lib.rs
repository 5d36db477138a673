//! The life of the server's process: how operators and service managers control it, and how another process
//! replaces it.
//!
//! - [`control`] is the control socket, with both of its sides.
//! - [`handover`] passes the listening sockets to a successor; [`inherited`] is what a process received in
//!   this way.
//! - [`systemd`] implements the protocols of that manager; [`heartbeat`] has the signs of life for its
//!   watchdog.
//! - [`unix_socket`] makes and removes the unix sockets of sites and streams.
//! - [`privileges`] changes root to another user; [`pid_file`] and [`private_socket`] are files of the
//!   process.
//!
//! This crate does not know sites, connections or requests.

pub mod control;
mod descriptor;
pub mod handover;
pub mod heartbeat;
pub mod inherited;
pub mod pid_file;
pub mod private_socket;
pub mod privileges;
mod stale_socket;
pub mod start_error;
pub mod systemd;
pub mod unix_socket;
