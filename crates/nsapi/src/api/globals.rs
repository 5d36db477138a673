//! The values of the server and of the calling thread's request.

use std::ffi::{c_char, c_int};

use crate::abi::{ConfGlobals, Request, Session};
use crate::plugin_request::{current, of_session};

pub unsafe extern "C" fn conf_getglobals() -> *mut ConfGlobals {
    current::globals()
}

pub unsafe extern "C" fn system_version() -> *mut c_char {
    concat!("Touchstone/", env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast::<c_char>().cast_mut()
}

pub unsafe extern "C" fn conf_get_server_string() -> *const c_char {
    system_version()
}

/// Called by a plug-in's own thread that works on a request: from then on it has entered that request, as the
/// server's thread has.
pub unsafe extern "C" fn prepare_nsapi_thread(_request: *mut Request, session: *mut Session) {
    current::enter_thread(of_session(session));
}

pub unsafe extern "C" fn never_native(_name: *mut c_char, _flags: c_int) -> c_int {
    0
}
