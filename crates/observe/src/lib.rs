//! What is seen of the server from outside: logs, metrics, and the ids of requests.
//!
//! | module | |
//! |---|---|
//! | [`log`] | the access log and the error log, and the thread that writes them |
//! | [`log_line`] | one line of the access log |
//! | [`metrics`] | what each core counts, and the sums as text |
//! | [`request_id`] | the id of each request |

pub mod log;
pub mod log_line;
pub mod metrics;
pub mod request_id;
