//! Processes that the server starts.
//!
//! | module | |
//! |---|---|
//! | `pool` | programs that the server starts, watches and starts again |
//! | `orphans` | processes that end with the server |
//! | `user` | the user that a process runs as |
//! | `watched` | a process whose end and output the server waits for |

pub mod orphans;
pub mod pool;
pub mod user;
pub mod watched;
