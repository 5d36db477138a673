//! The observable state of the server: logs, metrics, and the ids of requests.
//!
//! | module | |
//! |---|---|
//! | [`log`] | the access log and the error log, and the thread that writes them |
//! | [`log_line`] | one line of the access log |
//! | [`metrics`] | the counts of each core, and their sums as text |
//! | [`request_id`] | the id of each request |
//! | [`system_random`] | random bytes of the kernel |

pub mod log;
pub mod log_line;
pub mod metrics;
pub mod request_id;
pub mod system_random;
