//! Threads that hold connections and call programs. There is one beside each core; it holds the connections
//! whose requests keep going to programs that are called (servlets). The thread receives, parses, calls and
//! sends, so that no request is handed from thread to thread.
//!
//! ```text
//! core:    connection ──after some calls──► guest
//! thread:                  receive, parse, call, send ◄─┐
//!                                        └──────────────┘
//! ```
//!
//! A guest goes back to its core, with the bytes that it has received, when it is idle, asks for anything
//! else, or must end soon.
//!
//! A call may take any time. While a thread is in a call, all its other guests wait for their next request.
//! If the call does not return soon, the watcher of the call sends them back ([`WayBack`]), and also the
//! guest in the call, whose core then awaits the answer. A connection that cannot be moved in this way, such
//! as one with a TLS session or a body under way, is never sent here.
//!
//! [`WayBack`]: touchstone_handler::handler::WayBack

mod callers;
mod home;
mod station;
mod thread;

pub use callers::Callers;
pub use home::{Calls, CallsSeed, LeftBehind};
pub use station::{CallOf, GoesOn, Return, ToDo};
