//! The exit codes of commands, which scripts rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the run or check failed.
    Failed,
    /// 2: it could not start: bad usage, configuration or environment.
    Usage,
    /// 3: it ran, and thresholds were not met.
    ThresholdsNotMet,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::ThresholdsNotMet => 3,
        })
    }
}
