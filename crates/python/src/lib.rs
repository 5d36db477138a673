//! Python applications: WSGI (PEP 3333) and ASGI 3, in worker processes that share memory with the server.
//!
//! ```text
//! core ── host::link ══ shared memory: requests, answers ══ worker ── the application
//! ```
//!
//! | module | |
//! |---|---|
//! | `settings` | what a route asks for |
//! | `interpreter` | finds the Python of the machine or of a virtual environment |
//! | `shared` | what the server and a worker write to each other |
//! | `host` | the server's side: worker processes, and the handler of a route |
//! | `status` | how the applications are, for operators |
//! | `worker` | the worker's side: the process with the application |
//! | `api` | the C interface of Python, opened at run time |
//!
//! Why workers and not threads, and why shared memory, is in decision 0042.

#![deny(unsafe_op_in_unsafe_fn)]

mod api;
mod host;
mod interpreter;
pub mod settings;
mod shared;
pub mod status;
mod worker;

pub use host::{Python, RouteNames, begin_configuration, log_to, stop, taken_up};

pub use interpreter::Interpreter;
pub use worker::run as run_worker;

/// How the applications of the present configuration are now.
pub fn status_of_server() -> status::Status {
    status::Status { applications: host::applications() }
}

/// Reads bytes as a request, as the head of an answer, as a ring that another process has written, and as
/// what a client of a WebSocket sends. The fuzz target calls this, and nothing else does.
pub fn read_anything(bytes: &[u8]) {
    shared::read_anything(bytes);
    worker::read_anything(bytes);
}
