//! The function through which pools write log messages; the server provides it.

use std::sync::Arc;

use touchstone_handler::handler::Level;

/// The function through which a pool writes log messages.
pub type PoolLog = Arc<dyn Fn(Level, &'static str, &str) + Send + Sync>;
