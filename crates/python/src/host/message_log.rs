//! The function through which workers and their supervisors write log messages; the server provides it.

use std::sync::{Arc, OnceLock};

use touchstone_handler::handler::Level;

/// The function that writes log messages.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// The log messages of the workers of a server.
#[derive(Clone, Default)]
pub struct MessageLog(Arc<OnceLock<Log>>);

impl MessageLog {
    /// Sets the function that writes log messages. Only the first call has an effect.
    pub fn set(&self, log: Log) {
        _ = self.0.set(log);
    }

    /// Writes a message.
    pub fn write(&self, level: Level, message: &str) {
        if let Some(log) = self.0.get() {
            log(level, message);
        }
    }
}
