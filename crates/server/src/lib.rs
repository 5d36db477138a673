//! The server: sites, listeners, connections, configuration and logs.
//!
//! [`Server::bind`] checks and opens everything that can fail; [`Server::run`] then serves until a signal ends it.
//! The way of a request: `listener` accepts, `connection` reads, parses and answers what the cache has,
//! `static_files` answers the rest, `answer` is what it makes, [`log`] keeps the record.

mod answer;
mod clock;
pub mod config;
mod connection;
mod core;
mod deadline;
mod listener;
pub mod log;
mod server;
mod site;
mod socket;
mod static_files;
mod sys;

pub use server::{Server, StartError};
