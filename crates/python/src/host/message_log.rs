//! The function through which workers and their supervisors write log messages; the server provides it.

use std::sync::{Arc, Mutex, PoisonError};

use touchstone_handler::handler::Level;

/// The function that writes log messages.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;

static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// Sets the function that writes log messages.
pub fn log_to(log: Log) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Writes a message.
pub fn log(level: Level, message: &str) {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(log) = log {
        log(level, message);
    }
}
