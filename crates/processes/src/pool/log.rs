//! Where pools tell what happens; the server gives it.

use std::sync::Arc;

use touchstone_handler::handler::Level;

/// Where a pool tells what happens.
pub type PoolLog = Arc<dyn Fn(Level, &'static str, &str) + Send + Sync>;
