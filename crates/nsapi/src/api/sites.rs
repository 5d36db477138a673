//! `vs_*` and `conf_get*`: virtual servers, which are sites, and settings.
//!
//! A plug-in sees one virtual server: the site of its request. Its handle is the engine.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::abi::{REQ_PROCEED, Request};
use crate::engine::{Engine, current, is_true};
use crate::memory::{self, bytes};

/// The data of plug-ins: for each slot, by virtual server.
static SLOTS: Mutex<Vec<Vec<(usize, usize)>>> = Mutex::new(Vec::new());

unsafe fn engine<'a>(site: *const c_void) -> Option<&'a Engine> {
    match site.is_null() {
        false => site.cast::<Engine>().as_ref(),
        true => current(),
    }
}

pub unsafe extern "C" fn vs_register_cb(
    init: Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>,
    _destroy: Option<unsafe extern "C" fn(*const c_void)>,
) -> c_int {
    // The site exists already, so the plug-in is notified of it at once.
    match (init, current()) {
        (Some(init), Some(engine)) => init(engine.as_virtual_server(), ptr::null()),
        _ => REQ_PROCEED,
    }
}

pub unsafe extern "C" fn vs_get_id(site: *const c_void) -> *const c_char {
    engine(site).map_or(ptr::null(), |engine| engine.server_name().as_ptr())
}

pub unsafe extern "C" fn vs_lookup_config_var(site: *const c_void, name: *const c_char) -> *const c_char {
    let text = String::from_utf8_lossy(bytes(name)).into_owned();
    match engine(site).and_then(|engine| engine.setting(&text)) {
        Some(value) => memory::text(value.as_bytes()),
        None => ptr::null(),
    }
}

pub unsafe extern "C" fn vs_alloc_slot() -> c_int {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.push(Vec::new());
    slots.len() as c_int - 1
}

pub unsafe extern "C" fn vs_set_data(
    site: *const c_void,
    slot: *mut c_int,
    data: *mut c_void,
) -> *mut c_void {
    if *slot == -1 {
        *slot = vs_alloc_slot();
    }
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(kept) = usize::try_from(*slot).ok().and_then(|slot| slots.get_mut(slot)) else {
        return ptr::null_mut();
    };
    kept.retain(|(of, _)| *of != site as usize);
    kept.push((site as usize, data as usize));
    data
}

pub unsafe extern "C" fn vs_get_data(site: *const c_void, slot: c_int) -> *mut c_void {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = usize::try_from(slot).ok().and_then(|slot| slots.get(slot));
    let found = kept.and_then(|kept| kept.iter().find(|(of, _)| *of == site as usize));
    found.map_or(ptr::null_mut(), |(_, data)| *data as *mut c_void)
}

pub unsafe extern "C" fn request_get_vs(_request: *mut Request) -> *const c_void {
    current().map_or(ptr::null(), Engine::as_virtual_server)
}

pub unsafe extern "C" fn vs_get_doc_root(site: *const c_void) -> *mut c_char {
    engine(site).map_or(ptr::null_mut(), |engine| memory::text(engine.document_root()))
}

pub unsafe extern "C" fn vs_translate_uri(_site: *const c_void, uri: *const c_char) -> *mut c_char {
    let plugin_request = crate::plugin_request::current::plugin_request();
    if plugin_request.is_null() {
        return ptr::null_mut();
    }
    super::request::servact_translate_uri(uri.cast_mut(), &raw mut (*plugin_request).session)
}

pub unsafe extern "C" fn vs_get_mime_type(site: *const c_void, uri: *const c_char) -> *mut c_char {
    let Some(engine) = engine(site) else { return ptr::null_mut() };
    memory::text(engine.types().content_type(bytes(uri)).as_bytes())
}

pub unsafe extern "C" fn vs_is_default_vs(_site: *const c_void) -> c_int {
    1
}

/// There are no access control lists: the access rules of the site and its routes were applied before.
pub unsafe extern "C" fn vs_get_acllist(_site: *const c_void) -> *mut c_void {
    ptr::null_mut()
}

pub unsafe extern "C" fn vs_set_acllist(_site: *mut c_void, _list: *mut c_void) {
    crate::engine::unsupported("vs_set_acllist");
}

pub unsafe extern "C" fn vs_directive_register_cb(
    _function: *const c_void,
    _init: *const c_void,
    _destroy: *const c_void,
) -> c_int {
    crate::engine::unsupported("vs_directive_register_cb");
    -1
}

/// Replaces `$NAME` by the settings of magnus.conf; unknown names are unchanged.
pub unsafe extern "C" fn vs_substitute_vars(site: *const c_void, text: *const c_char) -> *mut c_char {
    let text = String::from_utf8_lossy(bytes(text)).into_owned();
    let Some(engine) = engine(site) else { return memory::text(text.as_bytes()) };
    let mut out = String::new();
    let mut pieces = text.split('$');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(piece.len());
        match engine.setting(&piece[..end]) {
            Some(value) => out.push_str(value),
            None => out.extend(["$", &piece[..end]]),
        }
        out.push_str(&piece[end..]);
    }
    memory::text(out.as_bytes())
}

unsafe fn setting(name: *const c_char) -> Option<String> {
    let name = String::from_utf8_lossy(bytes(name)).into_owned();
    current()?.setting(&name).map(str::to_string)
}

pub unsafe extern "C" fn conf_getfilename() -> *const c_char {
    c"magnus.conf".as_ptr()
}

pub unsafe extern "C" fn conf_getstring(name: *const c_char, otherwise: *const c_char) -> *const c_char {
    match setting(name) {
        // Plug-ins call it once or twice while they start, so the text is never freed.
        Some(value) => CString::new(value).map_or(otherwise, |value| value.into_raw().cast_const()),
        None => otherwise,
    }
}

pub unsafe extern "C" fn conf_getboolean(name: *const c_char, otherwise: c_int) -> c_int {
    setting(name).map_or(otherwise, |value| c_int::from(is_true(value.as_bytes())))
}

pub unsafe extern "C" fn conf_getinteger(name: *const c_char, otherwise: c_int) -> c_int {
    setting(name).and_then(|value| value.trim().parse().ok()).unwrap_or(otherwise)
}

pub unsafe extern "C" fn conf_getboundedinteger(
    name: *const c_char,
    least: c_int,
    most: c_int,
    otherwise: c_int,
) -> c_int {
    let value = conf_getinteger(name, otherwise);
    if least <= most { value.clamp(least, most) } else { otherwise }
}
