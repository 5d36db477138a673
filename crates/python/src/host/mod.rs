//! The server's side: worker processes, and the handler of a route.
//!
//! | module | |
//! |---|---|
//! | `registry` | all pools of the process |
//! | `message_log` | where workers and supervisors write what happens |
//! | `pool` | the workers of an application, as requests see them |
//! | `supervisor` | the thread that starts workers, watches them and replaces them |
//! | `child` | one worker process |
//! | `exchange` | a request that a worker has |
//! | `link` | a core's link to a worker |
//! | `turn` | the end of a core's turn, when workers are woken |
//! | `source` | from a request of the server to what a worker reads |
//! | `handler` | the handler of a route on a core |
//! | `interface` | a route's interface |

mod child;
mod exchange;
mod handler;
mod interface;
mod link;
mod message_log;
mod pool;
mod registry;
mod source;
mod supervisor;
mod turn;

pub use interface::Python;
pub use message_log::log_to;
pub use pool::{Counts, WorkerFacts};
pub use registry::{begin_configuration, stop, taken_up, workers_of_process};
