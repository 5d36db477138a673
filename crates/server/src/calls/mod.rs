//! Threads that have connections and call programs: one beside each core, with the connections whose requests
//! keep going to programs that are called (servlets). It receives, parses, calls and sends, so that no
//! request is handed from thread to thread.
//!
//! ```text
//! core:    connection ──after some calls──► guest            a guest that is idle, asks for anything else, or is in a
//! thread:                  receive, parse, call, send ◄─┐    hurry to end goes back to its core, with what it has received
//!                                        └──────────────┘
//! ```
//!
//! What is called may take as long as it likes, because all but one of the guests of a thread wait for their
//! next request while it calls: where a call does not return soon, whoever watches it has them go back
//! ([`WayBack`]), and the one in the call as well; its core awaits the answer. Nothing that cannot be moved
//! so, such as a TLS session or a body under way, comes here.
//!
//! [`WayBack`]: touchstone_interfaces::handler::WayBack

mod callers;
mod home;
mod station;
mod thread;

pub use callers::Callers;
pub use home::{Calls, CallsSeed, LeftBehind};
pub use station::{CallOf, GoesOn, Return, ToDo};
