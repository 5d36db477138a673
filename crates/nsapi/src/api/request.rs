//! `request_*`: fields, facts about files, and internal requests.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use crate::abi::{ATTRIBUTE_INTERNAL, REQ_ABORTED, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::conf::Stage;
use crate::memory::{self, allocate, bytes};
use crate::pblock;
use crate::pipeline::{Pipeline, run_stage};
use crate::plugin_request::of_session;

pub unsafe extern "C" fn request_header(
    name: *mut c_char,
    value: *mut *mut c_char,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let (Some(request), false) = (request.as_ref(), value.is_null()) else { return REQ_ABORTED };
    // Names are stored in lower case; plug-ins may use upper case.
    let wanted = bytes(name).to_ascii_lowercase();
    let param = pblock::find_param(request.headers, &wanted);
    *value = if param.is_null() { ptr::null_mut() } else { (*param).value };
    REQ_PROCEED
}

pub unsafe extern "C" fn request_stat_path(path: *const c_char, request: *mut Request) -> *mut libc::stat {
    let Some(request) = request.as_mut() else { return ptr::null_mut() };
    let path = match path.is_null() {
        false => bytes(path),
        true => pblock::find(request.vars, b"path").unwrap_or_default(),
    };
    if !request.statpath.is_null() && bytes(request.statpath) == path {
        return request.finfo;
    }
    let facts = allocate(size_of::<libc::stat>()).cast::<libc::stat>();
    let Ok(c_path) = CString::new(path) else { return ptr::null_mut() };
    request.finfo = ptr::null_mut();
    request.staterr = ptr::null_mut();
    if facts.is_null() {
        return ptr::null_mut();
    }
    if libc::stat(c_path.as_ptr(), facts) != 0 {
        let error = std::io::Error::last_os_error();
        request.staterrno = error.raw_os_error().unwrap_or(0);
        request.staterr = memory::text(error.to_string().as_bytes());
        request.statpath = ptr::null_mut();
        return ptr::null_mut();
    }
    request.statpath = memory::text(path);
    request.finfo = facts;
    facts
}

pub unsafe extern "C" fn request_create() -> *mut Request {
    let plugin_request = crate::plugin_request::current::plugin_request();
    if plugin_request.is_null() {
        return ptr::null_mut();
    }
    let request = allocate(size_of::<Request>()).cast::<Request>();
    if request.is_null() {
        return request;
    }
    let mut new: Request = std::mem::zeroed();
    let block = || pblock::pblock_create(pblock::REQUEST_CHAINS as c_int);
    new.vars = block();
    new.reqpb = block();
    new.headers = block();
    new.srvhdrs = block();
    new.hostname = (*plugin_request).request.hostname;
    new.req_start = (*plugin_request).request.req_start;
    new.protv_num = (*plugin_request).request.protv_num;
    new.rq_attr = ATTRIBUTE_INTERNAL;
    new.os = Box::into_raw(Box::new(Pipeline::new())).cast();
    request.write(new);
    (*plugin_request).internal.push(request);
    request
}

/// Frees the parts of a request that are not in its plug-in request's memory.
///
/// # Safety
/// The request must be from [`request_create`], and its pipeline must not have been dropped.
pub unsafe fn drop_pipeline(request: *mut Request) {
    let pipeline = std::mem::replace(&mut (*request).os, ptr::null_mut());
    if !pipeline.is_null() {
        drop(Box::from_raw(pipeline.cast::<Pipeline>()));
    }
}

pub unsafe extern "C" fn request_free(request: *mut Request) {
    let plugin_request = crate::plugin_request::current::plugin_request();
    if plugin_request.is_null() || request.is_null() {
        return;
    }
    // The memory is freed with the plug-in request; the client's own request is kept.
    let internal = &mut (*plugin_request).internal;
    if let Some(position) = internal.iter().position(|known| *known == request) {
        internal.swap_remove(position);
        drop_pipeline(request);
    }
}

pub unsafe extern "C" fn request_restart_internal(uri: *const c_char, request: *mut Request) -> *mut Request {
    let plugin_request = crate::plugin_request::current::plugin_request();
    if plugin_request.is_null() {
        return ptr::null_mut();
    }
    let parent = if request.is_null() { &raw mut (*plugin_request).request } else { request };
    let new = request_create();
    let Some(made) = new.as_mut() else { return new };
    let text = bytes(uri);
    let mut parts = text.splitn(2, |byte| *byte == b'?');
    let path = parts.next().unwrap_or_default();
    let is_head = (*parent).method_num == 0;
    made.method_num = c_int::from(!is_head) as i16;
    made.orig_rq = if (*parent).orig_rq.is_null() { parent } else { (*parent).orig_rq };
    pblock::insert(made.reqpb, b"method", if is_head { b"HEAD" } else { b"GET" });
    pblock::insert(made.reqpb, b"uri", path);
    if let Some(query) = parts.next() {
        pblock::insert(made.reqpb, b"query", query);
    }
    let protocol = pblock::find((*parent).reqpb, b"protocol").unwrap_or(b"HTTP/1.1");
    pblock::insert(made.reqpb, b"protocol", protocol);
    pblock::insert(made.reqpb, b"clf-request", &[b"GET ", text, b" ", protocol].concat());
    pblock::pblock_copy((*parent).headers, made.headers);
    for name in [
        &b"content-length"[..],
        b"content-type",
        b"transfer-encoding",
        b"if-modified-since",
        b"if-none-match",
    ] {
        pblock::remove_all(made.headers, name);
    }
    new
}

pub unsafe extern "C" fn internal_request(request: *mut Request) -> c_int {
    request.as_ref().map_or(0, |request| c_int::from(request.rq_attr & ATTRIBUTE_INTERNAL != 0))
}

/// The file that a path is translated to, whether or not it exists.
pub unsafe extern "C" fn servact_translate_uri(uri: *mut c_char, session: *mut Session) -> *mut c_char {
    if of_session(session).is_null() {
        return ptr::null_mut();
    }
    let request = request_restart_internal(uri, ptr::null_mut());
    if request.is_null() {
        return ptr::null_mut();
    }
    let answer = run_stage(session, request, Stage::NameTrans);
    let path = match answer {
        REQ_PROCEED | REQ_NOACTION => pblock::find((*request).vars, b"path").map(<[u8]>::to_vec),
        _ => None,
    };
    request_free(request);
    path.map_or(ptr::null_mut(), |path| memory::text(&path))
}

pub unsafe extern "C" fn dns_set_hostent(
    _entry: *mut c_void,
    _session: *mut Session,
    _request: *mut Request,
) -> c_int {
    crate::engine::unsupported("dns_set_hostent");
    REQ_ABORTED
}

pub unsafe extern "C" fn acl_setup_eval(
    _list: *mut c_void,
    _session: *mut Session,
    _request: *mut Request,
    _rights: *mut *mut c_char,
    _generic: *mut *mut c_char,
    _user: *const c_char,
) -> c_int {
    crate::engine::unsupported("ACL_SetupEval");
    REQ_ABORTED
}
