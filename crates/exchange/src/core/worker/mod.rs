//! Workers: threads that hold connections and call programs. There is one beside each core; it holds the
//! connections whose requests repeatedly go to programs that are called (servlets). A worker receives,
//! parses, calls and sends, so that no request is passed from thread to thread.
//!
//! ```text
//! core:    connection ──after some calls──► migrated connection
//! worker:                  receive, parse, call, send ◄─┐
//!                                        └──────────────┘
//! ```
//!
//! A migrated connection returns to its core, with the bytes that it has received, when it is idle, requests
//! anything else, or must end soon.
//!
//! A call may take any time. While a worker is in a call, all its other connections wait for their next
//! request. If the call does not return soon, the monitor of the call hands them back ([`ConnectionReturn`]),
//! and also the connection in the call, whose core then awaits the answer. A connection that cannot be moved
//! in this way, for example with a TLS session or an incomplete body, is never sent here.
//!
//! This module has the parts that both sides share, and the core's handle. `worker_start` and `worker_thread`
//! of the module `connection` run the worker.
//!
//! [`ConnectionReturn`]: touchstone_handler::handler::ConnectionReturn

mod callers;
mod handle;
mod link;
mod socket_end;

pub use callers::Callers;
pub use handle::{CallerThread, CoreEntries, WorkerSeed};
pub use link::{
    Arrival, CalledRequest, PendingCall, ReturnStep, ReturnedConnection, WorkerLink, WorkerOrder,
    WorkerReport,
};
pub use socket_end::SocketEnd;
