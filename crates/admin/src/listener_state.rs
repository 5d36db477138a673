//! The state that the threads of an admin listener share.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, RwLock};

use super::ControlFunction;
use super::gate::Gate;
use super::pages::Pages;

/// The state that the threads of a listener share.
pub(super) struct ListenerState {
    /// The rules for clients; a reload replaces them.
    pub(super) gate: RwLock<Arc<Gate>>,
    /// The sources of the pages.
    pub(super) pages: Pages,
    /// Carries out requests to the control API.
    pub(super) control: ControlFunction,
    /// Set when no more requests may be answered.
    pub(super) ended: AtomicBool,
    /// The number of open connections.
    pub(super) open: AtomicUsize,
}
