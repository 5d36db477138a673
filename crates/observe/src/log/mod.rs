//! The logs: one line for each request ([`access`]), and messages for the operator ([`error`]).
//!
//! Every request writes to the access log, so this costs only one copy into a buffer of the core: no lock, no
//! allocation, no system call. One thread writes the buffers of all cores. The error log is small and rare,
//! so each line is written at once.

pub mod access;
mod destination;
pub mod error;
mod journal;
mod line_budget;
mod message_lines;
mod message_socket;
mod messages;
mod settings;
mod syslog;
mod writer;

pub use crate::log_line::LogClock;
pub use line_budget::LineBudget;
pub use message_lines::message_lines;
pub use settings::{
    AccessLogConfig, ErrorLogConfig, FACILITIES, LogDestination, LogIdentity, LogLevel, SyslogServer,
};
