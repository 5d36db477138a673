//! The engine among the server's handlers.
//!
//! [`interface`] is the route's handler. It runs the functions on the core, and passes the request to one of
//! the `workers` if a function must not run there. `process` does the same in a child process, for plug-ins
//! that are not trusted to run in the server's process.

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
