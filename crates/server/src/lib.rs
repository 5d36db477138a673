//! The server: sites, listeners and connections.
//!
//! [`Server::bind`] checks and opens everything that can fail; [`Server::run`] then serves until a signal
//! ends it. The way of a request: `listener` accepts, `connection` (`http3` for QUIC) reads and parses,
//! `cache_lookup` finds what is ready. All else is an `exchange`: `route`, access rules, then `static_files`
//! or a handler, which `interface` makes. `account` counts and logs.
//! The life of the process: `server` starts it, `running` does what signals and [`control`] ask of it,
//! `handover` makes another process its successor, `systemd` hears of all that.

pub mod accelerator;
mod account;
mod admin;
mod admin_token;
mod cache_lookup;
mod calls;
mod cgi;
mod clock;
mod compression;
mod connection;
pub mod control;
mod core;
mod core_loop;
mod deadline;
mod exchange;
mod file_request;
mod handlers;
mod handover;
mod header_blocks;
mod heartbeat;
mod hidden_names;
mod http3;
mod includes;
mod inherited;
mod interface;
mod listener;
mod listening;
mod nsapi;
mod on_disk;
mod operator_view;
mod pid_file;
mod private_socket;
mod privileges;
mod programs;
mod proxy;
pub mod route;
mod running;
mod server;
mod servlet;
mod session;
mod site;
mod site_tls;
mod socket;
mod start_error;
mod static_files;
mod surroundings;
mod sys;
mod systemd;
mod transport;
mod unusable;
mod whole_file;

pub use inherited::Inheritance;
pub use server::Server;
pub use start_error::StartError;
pub use surroundings::check_surroundings;
