//! Calls an ASGI application (ASGI 3): in the first thread, which runs the event loop.
//!
//! The event loop watches the worker's descriptor. Each request gets a task whose first step runs at once: if
//! the application does not wait for anything, it has then answered, and the loop is not involved.
//!
//! | module | |
//! |---|---|
//! | `serve` | reads the rings in the event loop |
//! | `tasks` | the task of a request, whose first step runs at once |
//! | `loop_watch` | detects an event loop that does not return |
//! | `call` | a request of the application: `receive` and `send` |
//! | `scope` | a request as the dictionary of ASGI |
//! | `messages` | reads the messages of the application |
//! | `names` | objects that every request needs, made once |
//! | `websocket` | the frames of a WebSocket (RFC 6455) |

mod call;
mod loop_watch;
mod messages;
mod names;
mod scope;
mod serve;
mod tasks;
pub mod websocket;

pub use serve::run;
