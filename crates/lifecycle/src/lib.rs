//! The life of the server's process: how operators and managers reach it, and how another process succeeds
//! it.
//!
//! - [`control`] is the control socket, with both of its ends.
//! - [`handover`] passes the listening sockets to a successor; [`inherited`] is what a process received so.
//! - [`systemd`] speaks the protocols of that manager; [`heartbeat`] holds the signs of life for its
//!   watchdog.
//! - [`privileges`] changes root to another user; [`pid_file`] and [`private_socket`] are files of the
//!   process.
//!
//! Nothing here knows sites, connections or requests.

pub mod control;
mod descriptor;
pub mod handover;
pub mod heartbeat;
pub mod inherited;
pub mod pid_file;
pub mod private_socket;
pub mod privileges;
pub mod start_error;
pub mod systemd;
