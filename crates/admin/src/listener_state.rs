//! What the threads of an admin listener share.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, RwLock};

use super::gate::Gate;
use super::pages::Pages;

/// What the threads of a listener share.
pub(super) struct ListenerState {
    /// Who may ask; replaced by a reload.
    pub(super) gate: RwLock<Arc<Gate>>,
    /// What is shown.
    pub(super) pages: Pages,
    /// No more requests are answered.
    pub(super) ended: AtomicBool,
    /// How many connections are open.
    pub(super) open: AtomicUsize,
}
