//! Lines for the server's error log, from Java and from the threads that call it.

use std::sync::{Arc, Mutex, PoisonError};

/// Takes lines of the log: 0 error, 1 warning, 2 information, 3 debug.
pub type Log = Arc<dyn Fn(i32, &str) + Send + Sync>;

static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// Sets the function that takes lines of the log.
pub fn log_to(log: Log) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Writes a line of the log.
pub fn log(level: i32, message: &str) {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(log) = log {
        log(level, message);
    }
}
