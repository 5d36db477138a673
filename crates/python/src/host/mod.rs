//! The server's side: worker processes, and the handler of a route.
//!
//! | module | |
//! |---|---|
//! | `registry` | all pools of a server |
//! | `message_log` | log messages of workers and supervisors |
//! | `pool` | the workers of an application, as requests see them |
//! | `restarts` | counts replaced workers by reason |
//! | `supervisor` | the thread that starts workers, watches them and replaces them |
//! | `child` | one worker process |
//! | `body` | the body of a request that is sent to a worker |
//! | `request_events` | a request that was sent to a worker |
//! | `link` | a core's link to a worker |
//! | `end_of_turn` | the end of a core's turn, when workers are woken |
//! | `source` | converts a request to the worker's form |
//! | `handler` | the handler of a route on a core |
//! | `interface` | a route's interface |

mod body;
mod child;
mod end_of_turn;
mod handler;
mod interface;
mod link;
mod message_log;
mod pool;
mod registry;
mod request_events;
mod restarts;
mod source;
mod supervisor;

pub use interface::Python;
pub use pool::RouteNames;
pub use registry::PythonPools;
