//! `log_error` and `ereport`: messages of plug-ins for the error log.

use std::ffi::{c_char, c_int};

use crate::abi::{REQ_PROCEED, Request, Session};
use crate::memory::bytes;

/// Called by `shim/variadic.c` with the formatted text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn touchstone_nsapi_log(
    degree: c_int,
    function: *const c_char,
    session: *mut Session,
    request: *mut Request,
    text: *const c_char,
) -> c_int {
    let Some(engine) = crate::engine::current() else { return REQ_PROCEED };
    let mut line = String::new();
    if !function.is_null() {
        line.push_str(&String::from_utf8_lossy(bytes(function)));
        line.push_str(": ");
    }
    if let Some(session) = session.as_ref()
        && let Some(ip) = crate::pblock::find(session.client, b"ip")
    {
        line.push_str(&format!("for host {}: ", String::from_utf8_lossy(ip)));
    }
    if !request.is_null() && !(*request).reqpb.is_null() {
        let part = |name: &[u8]| {
            String::from_utf8_lossy(crate::pblock::find((*request).reqpb, name).unwrap_or(b"-"))
        };
        line.push_str(&format!("{} {}: ", part(b"method"), part(b"uri")));
    }
    // A message is always one line of the log.
    line.push_str(String::from_utf8_lossy(bytes(text)).trim_end());
    engine.log(degree, &line.replace(|letter: char| letter.is_control(), " "));
    REQ_PROCEED
}
