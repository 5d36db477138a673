//! Calls an ASGI application (ASGI 3): in the first thread, which runs the event loop.
//!
//! The loop hears of requests as of any descriptor that can be read. Each gets a task whose first step runs
//! at once: an application that waits for nothing has answered when that returns, and the loop never hears
//! of it.
//!
//! | module | |
//! |---|---|
//! | `serve` | reads the rings in the event loop |
//! | `loop_watch` | notices an event loop that does not come back |
//! | `call` | a request that the application has: `receive` and `send` |
//! | `scope` | a request as the dictionary of ASGI |
//! | `messages` | what the application sends, read |
//! | `names` | objects that every request needs, made once |
//! | `websocket` | the frames of a WebSocket (RFC 6455) |

mod call;
mod loop_watch;
mod messages;
mod names;
mod scope;
mod serve;
pub mod websocket;

pub use serve::run;
