//! Java servlets inside the server: a virtual machine in its process, with an unmodified Tomcat that has no
//! sockets.
//!
//! ```text
//! core: request -> flat -> pool ─────────► thread: one call of Java ─► Tomcat ─► servlet
//!       answer  ◄─ core queue ◄──────────          what it has written, in memory that both share
//! ```
//!
//! | module | |
//! |---|---|
//! | `interface` | the handler: from a request to an answer, on a core |
//! | `engine` | the one machine of a process: starts it, then opens and closes routes |
//! | `class_archive` | the archive of classes that halves the start time |
//! | `java_runtime` | what all threads share that call Java |
//! | `route`, `routes` | the applications of a route and their state, `route_state`; the routes of a server |
//! | `pool`, `java_thread` | the threads of a route, and their work |
//! | `java_call` | one request and its answer, between a core and Java's threads |
//! | `caller` | short calls on the thread of the connection itself |
//! | `call_durations` | which calls are short |
//! | `end_of_turn` | wakes threads once for all requests that a core has read in a turn |
//! | `core_queue`, `monitor` | wakes cores once for many answers, and makes sure that none is lost |
//! | `slab` | buffers that Java and the server share |
//! | `flat`, `head` | the forms of a request and of an answer's head in these buffers |
//! | `answers` | makes answers for clients from them |
//! | `isolated`, `host_process` | the same in a child process: the server's side, and the child |
//! | `path_parameters` | semicolons in paths, which Tomcat reads differently from other servers |
//! | `jvm`, `natives` | the machine, and the functions that it may call |
//! | `server_log` | lines for the error log |
//! | `status` | the state of applications, for operators |
//! | `before_start` | checks before the start of Java |

mod answers;
pub mod before_start;
mod call_durations;
mod caller;
mod class_archive;
mod core_queue;
mod directory;
mod end_of_turn;
mod engine;
mod flat;
mod head;
mod host_process;
pub mod interface;
mod isolated;
mod java_call;
mod java_runtime;
mod java_thread;
mod jvm;
mod monitor;
mod natives;
mod path_parameters;
mod pool;
mod route;
mod route_state;
mod routes;
mod server_log;
pub mod settings;
mod slab;
pub mod status;

/// Reads bytes as the output of Java, and as frames of another process: for fuzzing.
#[doc(hidden)]
pub fn read_anything(bytes: &[u8]) {
    let _ = head::read(bytes);
    isolated::read_anything(bytes);
}

pub use host_process::run as run_isolated;
pub use routes::ServletRoutes;
pub use server_log::{Log, log_to};
