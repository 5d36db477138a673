//! NameTrans: translates a path to a file or a program.

use std::ffi::c_int;

use crate::abi::{Pblock, REQ_ABORTED, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::api::escape::for_location;
use crate::api::protocol::set_status;
use crate::pattern::Pattern;
use crate::pblock;

/// Sets the path to `root` followed by `rest`.
unsafe fn set_path(request: *mut Request, root: &[u8], rest: &[u8]) -> c_int {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let path = [root, rest].concat();
    pblock::set((*request).vars, b"ntrans-base", root);
    pblock::set((*request).vars, b"ppath", &path);
    REQ_PROCEED
}

unsafe fn ppath<'a>(request: *mut Request) -> &'a [u8] {
    pblock::find((*request).vars, b"ppath").unwrap_or_default()
}

pub unsafe extern "C" fn document_root(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    match pblock::find(block, b"root") {
        Some(root) => set_path(request, root, ppath(request)),
        None => misconfigured("document-root needs root="),
    }
}

pub unsafe extern "C" fn pfx2dir(block: *mut Pblock, _session: *mut Session, request: *mut Request) -> c_int {
    let (Some(from), Some(dir)) = (pblock::find(block, b"from"), pblock::find(block, b"dir")) else {
        return misconfigured("pfx2dir needs from= and dir=");
    };
    let path = ppath(request).to_vec();
    let from = from.strip_suffix(b"/").unwrap_or(from);
    // The prefix must end at the end of a part of the path.
    let Some(rest) = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest[0] == b'/') else {
        return REQ_NOACTION;
    };
    if let Some(name) = pblock::find(block, b"name") {
        pblock::set((*request).vars, b"name", name);
    }
    if pblock::find(block, b"find-pathinfo-forward").is_some() {
        pblock::set((*request).vars, b"find-pathinfo-forward", b"");
    }
    set_path(request, dir, rest)
}

pub unsafe extern "C" fn assign_name(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let Some(name) = pblock::find(block, b"name") else { return misconfigured("assign-name needs name=") };
    if let Some(from) = pblock::find(block, b"from") {
        match Pattern::new(from) {
            Ok(pattern) if pattern.matches(ppath(request)) => {}
            Ok(_) => return REQ_NOACTION,
            Err(_) => return misconfigured("the pattern of from= is not valid"),
        }
    }
    if pblock::find((*request).vars, b"name").is_none() {
        pblock::set((*request).vars, b"name", name);
    }
    if pblock::find(block, b"find-pathinfo-forward").is_some() {
        pblock::set((*request).vars, b"find-pathinfo-forward", b"");
    }
    // The path must still be translated, unless there is `stop`.
    if pblock::find(block, b"stop").is_some() { REQ_PROCEED } else { REQ_NOACTION }
}

pub unsafe extern "C" fn redirect(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let path = ppath(request).to_vec();
    let mut rest = &path[..];
    if let Some(from) = pblock::find(block, b"from") {
        match Pattern::new(from) {
            Ok(pattern) if pattern.has_wildcards() && pattern.matches(&path) => {}
            Ok(pattern) if !pattern.has_wildcards() && path.starts_with(from) => rest = &path[from.len()..],
            Ok(_) => return REQ_NOACTION,
            Err(_) => return misconfigured("the pattern of from= is not valid"),
        }
    }
    let target = match (pblock::find(block, b"url"), pblock::find(block, b"url-prefix")) {
        (Some(url), _) => url.to_vec(),
        (None, Some(prefix)) => [prefix, rest].concat(),
        (None, None) => return misconfigured("redirect needs url= or url-prefix="),
    };
    let escaped = for_location(&target);
    set_status(&mut *request, 302, &[]);
    pblock::set((*request).srvhdrs, b"location", &escaped);
    REQ_ABORTED
}

/// Sets another path or root for requests whose path matches `from`.
pub unsafe extern "C" fn rewrite(block: *mut Pblock, _session: *mut Session, request: *mut Request) -> c_int {
    if let Some(from) = pblock::find(block, b"from") {
        match Pattern::new(from) {
            Ok(pattern) if pattern.matches(ppath(request)) => {}
            Ok(_) => return REQ_NOACTION,
            Err(_) => return misconfigured("the pattern of from= is not valid"),
        }
    }
    if let Some(name) = pblock::find(block, b"name") {
        pblock::set((*request).vars, b"name", name);
    }
    let path = pblock::find(block, b"path").unwrap_or(ppath(request)).to_vec();
    match pblock::find(block, b"root") {
        Some(root) => set_path(request, root, &path),
        None => {
            pblock::set((*request).vars, b"ppath", &path);
            REQ_NOACTION
        }
    }
}

/// Restarts the request with another path, which may have a query.
pub unsafe extern "C" fn restart(block: *mut Pblock, _session: *mut Session, request: *mut Request) -> c_int {
    if let Some(from) = pblock::find(block, b"from") {
        match Pattern::new(from) {
            Ok(pattern) if pattern.matches(ppath(request)) => {}
            Ok(_) => return REQ_NOACTION,
            Err(_) => return misconfigured("the pattern of from= is not valid"),
        }
    }
    match pblock::find(block, b"uri") {
        Some(uri) if uri.starts_with(b"/") => restart_with(request, uri),
        _ => misconfigured("restart needs uri=, a path"),
    }
}

/// Restarts a request with another path, which may have a query.
pub unsafe fn restart_with(request: *mut Request, uri: &[u8]) -> c_int {
    let mut parts = uri.splitn(2, |byte| *byte == b'?');
    pblock::set((*request).reqpb, b"uri", parts.next().unwrap_or_default());
    if let Some(query) = parts.next() {
        pblock::set((*request).reqpb, b"query", query);
    }
    crate::abi::REQ_RESTART
}

pub unsafe extern "C" fn home_page(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    if ppath(request) != b"/" {
        return REQ_NOACTION;
    }
    let Some(path) = pblock::find(block, b"path") else { return misconfigured("home-page needs path=") };
    match path.first() {
        Some(b'/') => set_path(request, b"", path),
        _ => {
            let relative = [b"/", path].concat();
            pblock::set((*request).vars, b"ppath", &relative);
            REQ_NOACTION
        }
    }
}

pub unsafe extern "C" fn strip_params(
    _block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let stripped: Vec<&[u8]> = ppath(request)
        .split(|byte| *byte == b'/')
        .map(|part| part.split(|byte| *byte == b';').next().unwrap_or_default())
        .collect();
    let path = stripped.join(&b'/');
    pblock::set((*request).vars, b"ppath", &path);
    REQ_NOACTION
}

pub unsafe extern "C" fn unix_home(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let from = pblock::find(block, b"from").unwrap_or(b"/~");
    let path = ppath(request).to_vec();
    let Some(rest) = path.strip_prefix(from) else { return REQ_NOACTION };
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let Ok(user) = std::ffi::CString::new(&rest[..end]) else { return REQ_NOACTION };
    let mut entry: libc::passwd = std::mem::zeroed();
    let mut texts = vec![0; 16 * 1024];
    let mut found = std::ptr::null_mut();
    let result = libc::getpwnam_r(user.as_ptr(), &mut entry, texts.as_mut_ptr(), texts.len(), &mut found);
    if end == 0 || result != 0 || found.is_null() {
        return REQ_NOACTION;
    }
    let home = crate::memory::bytes(entry.pw_dir);
    let subdirectory = pblock::find(block, b"subdir").unwrap_or(b"public_html");
    if let Some(name) = pblock::find(block, b"name") {
        pblock::set((*request).vars, b"name", name);
    }
    set_path(request, &[home, b"/", subdirectory].concat(), &rest[end..])
}

/// Logs which parameter of a directive is missing, and ends the request.
pub fn misconfigured(message: &str) -> c_int {
    if let Some(engine) = crate::engine::current() {
        engine.log(crate::abi::LOG_MISCONFIG, message);
    }
    REQ_ABORTED
}
