//! The server: listeners and connections, and the way of a request.
//!
//! [`Server::bind`] checks and opens everything that can fail; [`Server::run`] then serves until a signal
//! ends it. The way of a request: `listener` accepts, `connection` (`http3` for QUIC) reads and parses,
//! `cache_lookup` finds what is ready. All else is an `exchange`: routes, access rules, then `static_files`
//! or a handler. `accounting` counts and logs. Sites, routes and interfaces come from the crate `sites`.
//!
//! The life of the process: `server` starts it, `running` does what signals and the control socket ask of it;
//! the crate `lifecycle` has what it does so with.

mod accelerator;
mod accounting;
mod cache_lookup;
mod clock;
mod connection;
mod connection_count;
mod core;
mod core_loop;
mod deadline;
mod exchange;
mod file_request;
mod handlers;
mod header_blocks;
mod http3;
mod includes;
mod listener;
mod listening;
mod on_disk;
mod operator_view;
mod running;
mod server;
mod site_files;
mod static_files;
mod stream_head;
mod whole_file;
mod worker;

pub use server::Server;
