//! The state of the calling thread: its request, the values behind `server_hostname` and the like, and the
//! running function of a plug-in, for crash reports.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::ConfGlobals;
use crate::memory::{self, Pool};
use crate::plugin_request::PluginRequest;

thread_local! {
    static PLUGIN_REQUEST: Cell<*mut PluginRequest> = const { Cell::new(ptr::null_mut()) };
    static BREADCRUMB: Cell<Breadcrumb> = const { Cell::new(Breadcrumb::NONE) };
}

/// Values for threads without a request.
static DEFAULT_GLOBALS: AtomicPtr<ConfGlobals> = AtomicPtr::new(ptr::null_mut());

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

/// The thread has entered a request until this is dropped.
pub struct Entered {
    plugin_request: *mut PluginRequest,
    pool: *mut Pool,
}

/// Enters a request on this thread.
///
/// # Safety
/// The plug-in request must live, and only this thread may use it, until the result is dropped.
pub unsafe fn enter(plugin_request: *mut PluginRequest) -> Entered {
    let pool = memory::set_current_pool(&raw mut (*plugin_request).pool);
    Entered { plugin_request: PLUGIN_REQUEST.replace(plugin_request), pool }
}

impl Drop for Entered {
    fn drop(&mut self) {
        PLUGIN_REQUEST.set(self.plugin_request);
        memory::set_current_pool(self.pool);
    }
}

/// The request that the thread has entered, or null.
pub fn plugin_request() -> *mut PluginRequest {
    PLUGIN_REQUEST.get()
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

/// Sets the values for threads without a request; they are never freed.
pub fn set_default_globals(globals: ConfGlobals) {
    DEFAULT_GLOBALS.store(Box::into_raw(Box::new(globals)), Ordering::Release);
}

/// An all-zero structure of values.
pub fn blank_globals() -> ConfGlobals {
    // SAFETY: the structure holds integers and pointers only.
    unsafe { std::mem::zeroed() }
}

pub unsafe extern "C" fn conf_getglobals() -> *mut ConfGlobals {
    let plugin_request = PLUGIN_REQUEST.get();
    if !plugin_request.is_null() {
        return &raw mut (*plugin_request).globals;
    }
    let default = DEFAULT_GLOBALS.load(Ordering::Acquire);
    if default.is_null() {
        set_default_globals(blank_globals());
        return DEFAULT_GLOBALS.load(Ordering::Acquire);
    }
    default
}

pub unsafe extern "C" fn system_version() -> *mut c_char {
    concat!("Touchstone/", env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast::<c_char>().cast_mut()
}

pub unsafe extern "C" fn conf_get_server_string() -> *const c_char {
    system_version()
}

/// Called by a plug-in's own thread that works on a request: from then on it has entered that request, as the
/// server's thread has.
pub unsafe extern "C" fn prepare_nsapi_thread(
    _request: *mut crate::abi::Request,
    session: *mut crate::abi::Session,
) {
    let plugin_request = crate::plugin_request::of_session(session);
    PLUGIN_REQUEST.set(plugin_request);
}

pub unsafe extern "C" fn never_native(_name: *mut c_char, _flags: c_int) -> c_int {
    0
}
