//! The state that all threads of a worker use.

use std::sync::Arc;
use std::time::Instant;

use super::hub::Hub;
use crate::settings::RouteSettings;

/// The state of a worker that its threads use.
pub struct Worker {
    /// The start of time for the rings.
    pub start: Instant,
    /// The shared state.
    pub hub: Arc<Hub>,
    /// The settings.
    pub settings: RouteSettings,
}
