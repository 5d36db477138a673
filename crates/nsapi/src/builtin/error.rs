//! Error: error pages.

use std::ffi::c_int;

use touchstone_http::status;

use super::path_check::as_path;
use crate::abi::{Pblock, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::api::protocol::after_start;
use crate::pblock;
use crate::plugin_request::{PluginRequest, of_session};

/// The longest error page.
const LONGEST_PAGE_BYTES: u64 = 1024 * 1024;

/// Sends the file that `path` names; the status is unchanged.
pub unsafe extern "C" fn send_error(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let Some(path) = pblock::find(block, b"path") else { return REQ_NOACTION };
    let is_right = std::fs::metadata(as_path(path))
        .is_ok_and(|facts| facts.is_file() && facts.len() <= LONGEST_PAGE_BYTES);
    let (true, Ok(page)) = (is_right, std::fs::read(as_path(path))) else { return REQ_NOACTION };
    let Some(plugin_request) = of_session(session).as_mut() else { return REQ_NOACTION };
    let media_type = match crate::engine::current() {
        Some(engine) => engine.types().content_type(path).into_owned(),
        None => "text/html".to_string(),
    };
    pblock::set((*request).srvhdrs, b"content-type", media_type.as_bytes());
    pblock::set((*request).srvhdrs, b"content-length", page.len().to_string().as_bytes());
    if let Some(answer) = after_start(crate::api::protocol::http_start_response(session, request)) {
        return answer;
    }
    // If the client has disconnected, this is noticed when the request ends.
    let _ = plugin_request.write(&page);
    REQ_PROCEED
}

/// The page of a status if no function has answered.
pub fn send_page(plugin_request: &mut PluginRequest) {
    let number = match plugin_request.request.status_num {
        number if (200..=999).contains(&number) => number as u16,
        _ => 500,
    };
    let reason = status::reason(number);
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>{number} {reason}</title></head>\n\
         <body><h1>{number} {reason}</h1></body></html>\n"
    );
    // SAFETY: the blocks are those of the request that the thread has entered.
    unsafe {
        pblock::set(plugin_request.request.srvhdrs, b"content-type", b"text/html; charset=utf-8");
        pblock::set(plugin_request.request.srvhdrs, b"content-length", page.len().to_string().as_bytes());
        if number == 304 {
            pblock::remove_all(plugin_request.request.srvhdrs, b"content-type");
            pblock::remove_all(plugin_request.request.srvhdrs, b"content-length");
        }
    }
    if plugin_request.start_response() == REQ_PROCEED {
        // If the client has disconnected, this is noticed when the request ends.
        let _ = plugin_request.write(page.as_bytes());
    }
}
