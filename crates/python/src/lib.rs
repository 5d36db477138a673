//! Python applications: WSGI (PEP 3333) and ASGI 3, in worker processes that share memory with the server.
//!
//! ```text
//! core ── host::link ══ shared memory: requests, answers ══ worker ── the application
//! ```
//!
//! | module | |
//! |---|---|
//! | `settings` | the settings of a route |
//! | `interpreter` | finds the Python of the machine or of a virtual environment |
//! | `shared` | the shared memory of server and worker, and the forms of data in it |
//! | `host` | the server's side: worker processes, and the handler of a route |
//! | `status` | the state of the applications, for operators |
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

pub use host::{Python, PythonPools, RouteNames};

pub use interpreter::Interpreter;
pub use worker::run as run_worker;

/// Reads bytes as a request, as the head of an answer, as a ring of another process, and as the frames of a
/// WebSocket client. Only the fuzz target calls this.
pub fn read_anything(bytes: &[u8]) {
    shared::read_anything(bytes);
    worker::read_anything(bytes);
}
