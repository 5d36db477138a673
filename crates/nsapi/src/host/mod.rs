//! The engine among the server's handlers.
//!
//! [`interface`] is the route's handler: it tries the request on the core, and hands it to one of the
//! `workers` where a function must not run there. `process` does the same in a child process, for plug-ins
//! that nobody trusts with the server's own.

mod answer;
mod bridge;
pub mod child;
pub mod counts;
pub mod interface;
mod known_length;
mod process;
mod wire;
mod workers;

pub use process::check_in_child;
