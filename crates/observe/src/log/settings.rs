//! The settings of the logs: the destinations and the form of their lines, and the least level that is
//! written.

use std::path::PathBuf;

use touchstone_expression::Condition;

use crate::log_line::LineFormat;

/// `access_log`
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogConfig {
    /// The destination of the lines.
    pub destination: LogDestination,
    /// Their form.
    pub format: LineFormat,
    /// Which requests have a line; `None`: all.
    pub when: Option<Condition>,
    /// One in this many of them has a line; 1: all.
    pub sample: u64,
    /// The facts about the sender for syslog and journald.
    pub identity: LogIdentity,
}

/// The destination of log lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogDestination {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, made if missing, appended to, opened again on SIGUSR1.
    File(PathBuf),
    /// A syslog server (RFC 5424).
    Syslog(SyslogServer),
    /// The journal of systemd, at this socket.
    Journal(PathBuf),
}

/// How a syslog server is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyslogServer {
    /// By datagrams to a unix socket.
    Unix(PathBuf),
    /// By UDP (RFC 5426), with this host and port.
    Udp(String),
    /// By TCP with counted octets (RFC 6587 section 3.4.1).
    Tcp(String),
}

/// The facts about the sender for syslog and journald.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogIdentity {
    /// The number of the facility, 0 to 23.
    pub facility: u8,
    /// The name of the application.
    pub tag: String,
}

impl Default for LogIdentity {
    fn default() -> LogIdentity {
        LogIdentity { facility: 3, tag: "touchstone".to_string() }
    }
}

/// The facilities of RFC 5424 section 6.2.1, by their numbers.
pub const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// `error_log`
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorLogConfig {
    /// The destination of the lines.
    pub destination: LogDestination,
    /// The least level that is written.
    pub level: LogLevel,
    /// Each line is a JSON object.
    pub is_json: bool,
    /// The facts about the sender for syslog and journald.
    pub identity: LogIdentity,
}

impl ErrorLogConfig {
    /// A log of plain lines.
    pub fn new(destination: LogDestination, level: LogLevel) -> ErrorLogConfig {
        ErrorLogConfig { destination, level, is_json: false, identity: LogIdentity::default() }
    }
}

impl AccessLogConfig {
    /// A log of all requests.
    pub fn new(destination: LogDestination, format: LineFormat) -> AccessLogConfig {
        AccessLogConfig { destination, format, when: None, sample: 1, identity: LogIdentity::default() }
    }
}

/// The importance of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details for finding faults.
    Debug,
    /// Normal events: start, reload, stop.
    Info,
    /// Something was refused or lost, and the server continues.
    Warning,
    /// A fault that the operator must correct.
    Error,
}

impl LogLevel {
    /// The word in a line.
    pub fn word(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
        }
    }

    /// The severity of RFC 5424 section 6.2.1.
    pub fn severity(self) -> u8 {
        match self {
            LogLevel::Debug => 7,
            LogLevel::Info => 6,
            LogLevel::Warning => 4,
            LogLevel::Error => 3,
        }
    }
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
