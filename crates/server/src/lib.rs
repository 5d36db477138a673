//! The server: listeners and connections, and the path of a request.
//!
//! [`Server::bind`] does all checks, and opens all files and sockets; [`Server::run`] then serves until a
//! signal ends it. `connection` (`http3` for QUIC) receives a request, and searches for a ready answer in the
//! caches of its core. All other requests pass through the steps of the crate `exchange`: routes, access
//! rules, then a file or a handler. `accounting` counts and logs, `spans` traces. The crate `sites` has the
//! sites, routes and interfaces.
//!
//! `process` opens what the server needs, runs the cores, and handles signals and the control socket, with
//! functions of the crate `lifecycle`.

mod accounting;
mod answered;
mod connection;
mod http3;
mod process;
mod spans;
mod stream_head;

pub use process::server::Server;
