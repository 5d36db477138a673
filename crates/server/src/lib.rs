//! The server: listeners and connections, and the way of a request.
//!
//! [`Server::bind`] checks and opens everything that can fail; [`Server::run`] then serves until a signal
//! ends it. A request comes through `connection` (`http3` for QUIC), which finds in the caches of its `core`
//! what is ready. All else is an `exchange`: routes, access rules, then `files` or a handler. `accounting`
//! counts and logs. Sites, routes and interfaces come from the crate `sites`.
//!
//! `process` opens what the server needs, runs the cores, and does what signals and the control socket ask
//! of it; the crate `lifecycle` has what it does so with.

mod accounting;
mod connection;
mod connection_number;
mod core;
mod exchange;
mod files;
mod http3;
mod process;
mod stream_head;

pub use process::server::Server;
