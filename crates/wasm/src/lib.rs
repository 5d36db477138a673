//! WebAssembly components of the world `wasi:http/proxy` (0.2) and `wasi:http/service` (0.3), run by wasmtime
//! in the server's process.
//!
//! ```text
//! compiled: a file -> machine code, kept on disk -> Component, ready to be instantiated
//! interface: a request -> guest: an instance in its store -> the answer
//! ```
//!
//! | module | |
//! |---|---|
//! | `settings` | what a route says of its component |
//! | `runtime` | the engine and its linker, one for the process |
//! | `bucket` | keys and their values, shared by the instances of a site |
//! | `keyvalue` | what an instance may do with buckets |
//! | `ticker` | the thread that counts time for all instances |
//! | `compiled` | machine code of components, on disk and in memory |
//! | `header` | the head of a file with machine code |
//! | `state` | what a store holds: limits, WASI, hooks |
//! | `hooks` | what an instance asks of its core: outgoing requests |
//! | `inflow` | a body on its way from the core to an instance |
//! | `guest` | one request in an instance |
//! | `threads` | threads for computations that would hold up a core |
//! | `exchange` | one request on its core: drives the instance and moves bodies |
//! | `message` | requests and answers in the form of wasi:http, and back |
//! | `next` | what a component stands before |
//! | `answer_body` | the body of an answer of this server, for an instance |
//! | `outgoing` | requests of instances, made by the server's own client |
//! | `output` | standard output and error, as lines of the log |
//! | `interface` | the interface and its handlers |
//!
//! An instance begins on the core that has the request. A computation that takes longer than a tick of the
//! ticker goes on in a thread beside the cores, and its component begins there for a while.

mod answer_body;
mod bucket;
mod compiled;
mod exchange;
mod guest;
mod header;
mod hooks;
mod inflow;
mod interface;
mod keyvalue;
mod message;
mod next;
mod outgoing;
mod output;
mod runtime;
mod settings;
mod state;
mod threads;
mod ticker;

pub use interface::Wasm;
pub use settings::{Limits, Origin, Settings};
