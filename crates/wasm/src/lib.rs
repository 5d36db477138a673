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
//! | `settings` | the settings of a route's component |
//! | `shared` | what the components of a server share |
//! | `runtime` | the engines and their linkers, at most two for the process |
//! | `bucket` | keys and their values, shared by the instances of a site |
//! | `keyvalue` | the operations of an instance on buckets |
//! | `ticker` | the thread that counts time for all instances |
//! | `compiled` | machine code of components, on disk and in memory |
//! | `header` | the head of a file with machine code |
//! | `state` | the data of a store: limits, WASI, hooks |
//! | `hooks` | the requests of an instance to its core |
//! | `inflow` | a body that the core passes to an instance |
//! | `outflow` | a body that an instance of 0.2 writes |
//! | `http_types` | `wasi:http/types` for components of 0.2 |
//! | `streams` | `wasi:io/streams` for components of 0.2 |
//! | `guest` | one request in an instance |
//! | `threads` | threads for long computations, which would block a core |
//! | `instance_run` | one request on its core: drives the instance and moves bodies |
//! | `request_head` | the head of a request, for an instance |
//! | `message` | converts answers from wasi:http |
//! | `next` | the action that follows a component |
//! | `answer_body` | the body of an answer of this server, for an instance |
//! | `outgoing` | requests of instances, made by the server's own client |
//! | `output` | standard output and error, as lines of the log |
//! | `interface` | the interface and its handlers |
//!
//! An instance begins on the core that has the request. A computation that takes longer than a tick of the
//! ticker continues in a thread beside the cores, and further requests of its component begin there for a
//! while.

mod answer_body;
mod bucket;
mod compiled;
mod guest;
mod header;
mod hooks;
mod http_types;
mod inflow;
mod instance_run;
mod interface;
mod keyvalue;
mod message;
mod next;
mod outflow;
mod outgoing;
mod output;
mod request_head;
mod runtime;
mod settings;
mod shared;
mod state;
mod streams;
mod threads;
mod ticker;

pub use interface::Wasm;
pub use settings::{Limits, Origin, Settings};
pub use shared::WasmShared;
