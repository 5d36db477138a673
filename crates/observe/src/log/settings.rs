//! What the logs are told: where their lines go, their form, and the least that is written.

use std::path::PathBuf;

use crate::log_line::LineFormat;

/// `[access_log]`
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogConfig {
    /// Where the lines go.
    pub destination: LogDestination,
    /// Their form.
    pub format: LineFormat,
}

/// Where log lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogDestination {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, made if missing, appended to, opened again on SIGUSR1.
    File(PathBuf),
}

/// `[error_log]`
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorLogConfig {
    /// Where the lines go.
    pub destination: LogDestination,
    /// The least that is written.
    pub level: LogLevel,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For finding faults.
    Debug,
    /// Normal events: start, reload, stop.
    Info,
    /// Something was refused or lost, and the server goes on.
    Warning,
    /// Something that the operator must mend.
    Error,
}

impl From<touchstone_handler::handler::Level> for LogLevel {
    fn from(level: touchstone_handler::handler::Level) -> LogLevel {
        use touchstone_handler::handler::Level;
        match level {
            Level::Error => LogLevel::Error,
            Level::Warning => LogLevel::Warning,
            Level::Information => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        }
    }
}
