//! WebAssembly components of the worlds `wasi:http/proxy` (0.2) and `wasi:http/service` (0.3). wasmtime runs
//! them in the server's process.
//!
//! ```text
//! compiled: component file -> machine code, cached on disk -> Component -> instances
//! interface: request -> guest: instance in its store -> answer
//! ```
//!
//! | module | |
//! |---|---|
//! | `settings` | the settings of a route's component |
//! | `shared` | what the components of a server share |
//! | `runtime` | the engines and their linkers, at most two for the process |
//! | `bucket` | keys and values that the instances of a site share |
//! | `keyvalue` | the operations of an instance on buckets |
//! | `ticker` | the thread that increments the epoch of the engines |
//! | `compiled` | machine code of components, on disk and in memory |
//! | `header` | the head of a file with machine code |
//! | `state` | the data of a store: limits, WASI, hooks |
//! | `hooks` | passes outgoing requests of an instance to its core |
//! | `incoming_body` | a body that an instance reads |
//! | `outgoing_body` | a body that an instance of 0.2 writes |
//! | `http_types` | `wasi:http/types` for components of 0.2 |
//! | `streams` | `wasi:io/streams` for components of 0.2 |
//! | `guest` | one request in an instance |
//! | `threads` | threads for computations that would block a core |
//! | `instance_run` | one request on its core: polls the instance and transfers bodies |
//! | `request_head` | converts the head of a request to wasi:http |
//! | `message` | converts answers from wasi:http, and field lines |
//! | `next` | the action that follows a component |
//! | `answer_body` | the body of an answer of this server, as a source for an instance |
//! | `outgoing` | sends requests of instances through the server's client |
//! | `output` | logs standard output and error |
//! | `interface` | the interface and its handlers |
//!
//! An instance starts on the core that has the request. A computation that takes longer than a tick of the
//! ticker moves to a separate thread, and for a while further requests of its component start in a thread.

mod answer_body;
mod bucket;
mod compiled;
mod guest;
mod header;
mod hooks;
mod http_types;
mod incoming_body;
mod instance_run;
mod interface;
mod keyvalue;
mod message;
mod next;
mod outgoing;
mod outgoing_body;
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
pub use runtime::create_engines;
pub use settings::{Limits, Origin, Settings};
pub use shared::WasmShared;
