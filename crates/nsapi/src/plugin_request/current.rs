//! The state of the calling thread: its request, and the values behind `server_hostname` and similar names.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::PluginRequest;
use crate::abi::ConfGlobals;
use crate::memory::{self, Pool};

thread_local! {
    static PLUGIN_REQUEST: Cell<*mut PluginRequest> = const { Cell::new(ptr::null_mut()) };
}

/// Values for threads without a request.
static DEFAULT_GLOBALS: AtomicPtr<ConfGlobals> = AtomicPtr::new(ptr::null_mut());

/// The thread has entered a request until this is dropped.
pub struct RequestGuard {
    plugin_request: *mut PluginRequest,
    pool: *mut Pool,
}

/// Enters a request on this thread.
///
/// # Safety
/// The plug-in request must live, and only this thread may use it, until the result is dropped.
pub unsafe fn enter(plugin_request: *mut PluginRequest) -> RequestGuard {
    let pool = memory::set_current_pool(&raw mut (*plugin_request).pool);
    RequestGuard { plugin_request: PLUGIN_REQUEST.replace(plugin_request), pool }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        PLUGIN_REQUEST.set(self.plugin_request);
        memory::set_current_pool(self.pool);
    }
}

/// The request that the thread has entered, or null.
pub fn plugin_request() -> *mut PluginRequest {
    PLUGIN_REQUEST.get()
}

/// Sets the values for threads without a request; they are never freed.
pub fn set_default_globals(globals: ConfGlobals) {
    DEFAULT_GLOBALS.store(Box::into_raw(Box::new(globals)), Ordering::Release);
}

/// An all-zero structure of values.
pub fn blank_globals() -> ConfGlobals {
    // SAFETY: the structure holds integers and pointers only.
    unsafe { std::mem::zeroed() }
}

/// The values of the thread's request, or those for threads without one.
pub fn globals() -> *mut ConfGlobals {
    let plugin_request = PLUGIN_REQUEST.get();
    if !plugin_request.is_null() {
        // SAFETY: a request that a thread has entered lives until the thread has left it.
        return unsafe { &raw mut (*plugin_request).globals };
    }
    let default = DEFAULT_GLOBALS.load(Ordering::Acquire);
    if default.is_null() {
        set_default_globals(blank_globals());
        return DEFAULT_GLOBALS.load(Ordering::Acquire);
    }
    default
}

/// Enters a request on a plug-in's own thread, which works on it like the server's thread.
pub fn enter_thread(plugin_request: *mut PluginRequest) {
    PLUGIN_REQUEST.set(plugin_request);
}
