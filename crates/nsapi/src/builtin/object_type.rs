//! ObjectType: finds the type of a file.

use std::ffi::c_int;

use super::path_check::{as_path, path};
use crate::abi::{Pblock, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::pattern::Pattern;
use crate::pblock;

unsafe fn set_once(request: *mut Request, name: &[u8], value: &[u8]) {
    if pblock::find((*request).srvhdrs, name).is_none() {
        pblock::set((*request).srvhdrs, name, value);
    }
}

/// The internal types of directories and of files with certain extensions.
pub const INTERNAL_TYPES: [&[u8]; 6] = [
    b"magnus-internal/cgi",
    b"magnus-internal/parsed-html",
    b"magnus-internal/imagemap",
    b"magnus-internal/jsp",
    b"magnus-internal/dyn-send",
    b"magnus-internal/directory",
];

pub unsafe extern "C" fn type_by_extension(
    _block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let Some(engine) = crate::engine::current() else { return REQ_NOACTION };
    let file = path(request);
    if file.ends_with(b"/") {
        set_once(request, b"content-type", b"magnus-internal/directory");
        return REQ_PROCEED;
    }
    // The types of the site come first: they may prevent the source of a program from being sent.
    if let Some(listed) = engine.types().listed(file) {
        set_once(request, b"content-type", listed.as_bytes());
        return REQ_PROCEED;
    }
    // Types by which obj.conf recognises programs. The mime.types of the original servers had them.
    let ending = file.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let internal: Option<&[u8]> = match ending.to_ascii_lowercase().as_slice() {
        b"cgi" | b"exe" | b"bat" => Some(b"magnus-internal/cgi"),
        b"shtml" => Some(b"magnus-internal/parsed-html"),
        b"map" => Some(b"magnus-internal/imagemap"),
        // The source of a page must not be sent.
        b"jsp" => Some(b"magnus-internal/jsp"),
        b"dyn-send" => Some(b"magnus-internal/dyn-send"),
        _ => None,
    };
    let known = engine.types().content_type(file);
    match internal {
        Some(internal) => set_once(request, b"content-type", internal),
        None if known != touchstone_files::mime::UNKNOWN => {
            set_once(request, b"content-type", known.as_bytes())
        }
        None => return REQ_NOACTION,
    }
    REQ_PROCEED
}

pub unsafe extern "C" fn force_type(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let mut did = REQ_NOACTION;
    for (parameter, field) in
        [(&b"type"[..], &b"content-type"[..]), (b"enc", b"content-encoding"), (b"lang", b"content-language")]
    {
        if let Some(value) = pblock::find(block, parameter) {
            let value = match (parameter, pblock::find(block, b"charset")) {
                (b"type", Some(charset)) => [value, b"; charset=", charset].concat(),
                _ => value.to_vec(),
            };
            set_once(request, field, &value);
            did = REQ_PROCEED;
        }
    }
    did
}

pub unsafe extern "C" fn change_type(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let now = pblock::find((*request).srvhdrs, b"content-type").unwrap_or_default();
    let is_meant = match pblock::find(block, b"if-type").map(Pattern::new) {
        None => true,
        Some(Ok(pattern)) => pattern.matches_any_case(now),
        Some(Err(_)) => false,
    };
    match pblock::find(block, b"type") {
        Some(new) if is_meant => {
            pblock::set((*request).srvhdrs, b"content-type", new);
            REQ_PROCEED
        }
        _ => REQ_NOACTION,
    }
}

pub unsafe extern "C" fn type_by_exp(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    match pblock::find(block, b"exp").map(Pattern::new) {
        Some(Ok(pattern)) if pattern.matches(path(request)) => force_type(block, session, request),
        _ => REQ_NOACTION,
    }
}

/// `.html` files that are executable are pages with includes.
pub unsafe extern "C" fn shtml_hacktype(
    _block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    use std::os::unix::fs::PermissionsExt;
    let file = path(request);
    let is_html = [&b".html"[..], b".htm"].iter().any(|ending| file.ends_with(ending));
    if is_html && std::fs::metadata(as_path(file)).is_ok_and(|facts| facts.permissions().mode() & 0o100 != 0)
    {
        set_once(request, b"content-type", b"magnus-internal/parsed-html");
        return REQ_PROCEED;
    }
    REQ_NOACTION
}

pub unsafe extern "C" fn set_cookie(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let Some(name) = pblock::find(block, b"name") else { return REQ_NOACTION };
    let mut cookie = [name, b"=", pblock::find(block, b"value").unwrap_or_default()].concat();
    for (parameter, attribute) in [
        (&b"path"[..], &b"; path="[..]),
        (b"domain", b"; domain="),
        (b"expires", b"; expires="),
        (b"max-age", b"; max-age="),
    ] {
        if let Some(value) = pblock::find(block, parameter) {
            cookie.extend_from_slice(&[attribute, value].concat());
        }
    }
    if pblock::find(block, b"secure").is_some() {
        cookie.extend_from_slice(b"; secure");
    }
    pblock::insert((*request).srvhdrs, b"set-cookie", &cookie);
    REQ_PROCEED
}
