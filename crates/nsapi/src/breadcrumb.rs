//! The running function of a plug-in on each thread, for crash reports and messages.

use std::cell::Cell;
use std::ffi::c_char;
use std::ptr;

thread_local! {
    static BREADCRUMB: Cell<Breadcrumb> = const { Cell::new(Breadcrumb::NONE) };
}

/// The running function and its plug-in: C texts that are never freed, or null.
#[derive(Clone, Copy)]
pub struct Breadcrumb {
    pub plugin: *const c_char,
    pub function: *const c_char,
}

impl Breadcrumb {
    /// No function runs.
    pub const NONE: Breadcrumb = Breadcrumb { plugin: ptr::null(), function: ptr::null() };
}

/// Sets the running function; returns the previous one.
#[inline]
pub fn set_breadcrumb(breadcrumb: Breadcrumb) -> Breadcrumb {
    BREADCRUMB.replace(breadcrumb)
}

/// The running function of this thread. May be called in a signal handler: the variable needs no
/// initialisation.
pub fn breadcrumb() -> Breadcrumb {
    BREADCRUMB.get()
}
