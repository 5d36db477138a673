//! Service: sends files, and passes requests to other parts of the server.

use std::ffi::c_int;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use super::path_check::{as_path, path};
use crate::abi::{LOG_WARN, Pblock, REQ_ABORTED, REQ_EXIT, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::api::protocol::{after_start, http_set_finfo, set_status};
use crate::api::request::request_stat_path;
use crate::connection::{Delegate, DelegatedRequest};
use crate::pblock;
use crate::plugin_request::of_session;

/// The largest file that is read on a core.
const SMALL_FILE_BYTES: libc::off_t = 256 * 1024;

/// Bytes of a file that are sent at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Whether the file of a request is small enough to be read on a core without delaying other requests.
pub unsafe fn is_small_file(request: *mut Request) -> bool {
    let facts = request_stat_path(std::ptr::null(), request);
    facts.as_ref().is_none_or(|facts| facts.st_size <= SMALL_FILE_BYTES)
}

pub unsafe extern "C" fn send_file(
    _block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let file_path = path(request).to_vec();
    let facts = request_stat_path(std::ptr::null(), request);
    let is_file = facts.as_ref().is_some_and(|facts| facts.st_mode & libc::S_IFMT == libc::S_IFREG);
    // A path after a regular file that is not a program names nothing.
    if !is_file || file_path.ends_with(b"/") || pblock::find((*request).vars, b"path-info").is_some() {
        let is_directory = facts.as_ref().is_some_and(|facts| facts.st_mode & libc::S_IFMT == libc::S_IFDIR);
        if is_directory && !file_path.ends_with(b"/") {
            return redirect_to_directory(request);
        }
        set_status(&mut *request, 404, &[]);
        return REQ_ABORTED;
    }
    // The file may have been replaced by a pipe, which must not block the server.
    let opened =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(as_path(&file_path));
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => {
            let status = if error.kind() == std::io::ErrorKind::PermissionDenied { 403 } else { 404 };
            set_status(&mut *request, status, &[]);
            return REQ_ABORTED;
        }
    };
    if http_set_finfo(session, request, facts) == REQ_ABORTED {
        if (*request).status_num != 304 {
            return REQ_ABORTED;
        }
    } else if (*request).status_num == 0 {
        set_status(&mut *request, 200, &[]);
    }
    let Some(plugin_request) = of_session(session).as_mut() else { return REQ_ABORTED };
    if let Some(answer) = after_start(crate::api::protocol::http_start_response(session, request)) {
        return answer;
    }
    let mut left = (*facts).st_size.max(0) as u64;
    let mut piece = vec![0u8; PIECE_BYTES.min(left.max(1) as usize)];
    while left > 0 {
        let wanted = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match file.read(&mut piece[..wanted]) {
            Ok(read) if read > 0 => {
                if plugin_request.write(&piece[..read]).is_err() {
                    return REQ_EXIT;
                }
                left -= read as u64;
            }
            // The file became shorter: the connection is closed, so that the client notices.
            _ => return REQ_EXIT,
        }
    }
    REQ_PROCEED
}

unsafe fn redirect_to_directory(request: *mut Request) -> c_int {
    let uri = pblock::find((*request).reqpb, b"uri").unwrap_or(b"/").to_vec();
    let mut location = Vec::with_capacity(uri.len() + 1);
    for byte in uri.iter().chain(b"/") {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                location.push(*byte)
            }
            byte => location.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    pblock::set((*request).srvhdrs, b"location", &location);
    set_status(&mut *request, 301, &[]);
    REQ_ABORTED
}

/// Uses one program for all requests of the directive.
pub unsafe extern "C" fn query_handler(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let Some(program) = pblock::find(block, b"path").map(<[u8]>::to_vec) else { return REQ_NOACTION };
    pblock::set((*request).vars, b"path", &program);
    delegate(Delegate::Cgi, session, request)
}

pub unsafe extern "C" fn too_busy(
    _block: *mut Pblock,
    _session: *mut Session,
    _request: *mut Request,
) -> c_int {
    crate::abi::REQ_TOOBUSY
}

pub unsafe extern "C" fn key_too_small(
    _block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    set_status(&mut *request, 403, &[]);
    REQ_ABORTED
}

unsafe fn delegate(to: Delegate, session: *mut Session, request: *mut Request) -> c_int {
    let plugin_request = of_session(session);
    if plugin_request.is_null() || request != &raw mut (*plugin_request).request {
        if let Some(engine) = crate::engine::current() {
            engine.log(LOG_WARN, "an internal request can only be for a file");
        }
        set_status(&mut *request, 501, &[]);
        return REQ_ABORTED;
    }
    // For AddLog functions: the server's answer follows later.
    if (*request).status_num == 0 {
        set_status(&mut *request, 200, &[]);
    }
    let mut fields = Vec::new();
    pblock::for_each((*request).srvhdrs, |name, value| {
        if !matches!(name, b"status" | b"clf-status" | b"content-type" | b"content-length") {
            fields.push((name.to_vec(), value.to_vec()));
        }
    });
    let path_info = pblock::find((*request).vars, b"path-info").unwrap_or_default().to_vec();
    let delegated = DelegatedRequest { to, path: path(request).to_vec(), path_info, fields };
    (*plugin_request).pipeline.delegated = Some(delegated);
    REQ_PROCEED
}

pub unsafe extern "C" fn send_cgi(
    _block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    delegate(Delegate::Cgi, session, request)
}

pub unsafe extern "C" fn parse_html(
    _block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    delegate(Delegate::Includes, session, request)
}

pub unsafe extern "C" fn index(_block: *mut Pblock, session: *mut Session, request: *mut Request) -> c_int {
    delegate(Delegate::Listing, session, request)
}
