//! The server: sites, listeners, connections, configuration and logs.
//!
//! [`Server::bind`] checks and opens everything that can fail; [`Server::run`] then serves until a signal ends it.
//! The way of a request: `listener` accepts, `connection` reads, parses and answers what the cache has,
//! `static_files` answers the rest, `answer` is what it makes, [`log`] keeps the record.

pub mod access;
mod account;
mod admin;
mod admin_token;
use touchstone_interfaces::answer;

mod acme;
mod cgi;
mod clock;
pub mod config;
mod connection;
mod core;
mod core_loop;
mod deadline;
mod exchange;
mod handlers;
mod header_blocks;
mod http3;
mod includes;
mod interface;
mod listener;
pub mod log;
pub mod log_line;
pub mod metrics;
mod nsapi;
mod operator_view;
mod private_file;
mod programs;
pub mod request_id;
pub mod route;
mod server;
mod session;
mod site;
mod site_tls;
mod socket;
mod static_files;
mod sys;
// Its ends for QUIC, and what handlers and logs say of a session, are ready before those who will use them.
#[allow(dead_code)]
mod tls;
mod transport;
mod unusable;

pub use server::{Server, StartError};
