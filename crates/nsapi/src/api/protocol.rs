//! `protocol_*`, which the tables call `http_*`: the status and the head of an answer.

use std::ffi::{c_char, c_int};
use std::ptr;

use touchstone_http::date::format_imf_fixdate;
use touchstone_http::status;

use crate::abi::{NSAPI_VERSION, Pblock, REQ_ABORTED, REQ_EXIT, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::memory::{self, bytes};
use crate::pblock;
use crate::plugin_request::of_session;

/// Sets the status of an answer; an empty reason gives the registered phrase.
///
/// # Safety
/// The request must be valid.
pub unsafe fn set_status(request: &mut Request, number: u16, reason: &[u8]) {
    request.status_num = number as i16;
    let known = match status::reason(number) {
        "Unknown" => "Because I felt like it.",
        known => known,
    };
    let reason = if reason.is_empty() { known.as_bytes() } else { reason };
    let line = [number.to_string().as_bytes(), b" ", reason].concat();
    pblock::set(request.srvhdrs, b"status", &line);
}

/// Functions that redirect set the variable `url` to the address, or `url-prefix` to its beginning, and set a
/// status.
///
/// # Safety
/// The request must be valid.
pub unsafe fn set_location(request: &mut Request) {
    let has_one =
        [&b"location"[..], b"Location"].iter().any(|name| pblock::find(request.srvhdrs, name).is_some());
    if has_one {
        return;
    }
    let path = pblock::find(request.reqpb, b"uri").unwrap_or_default();
    let target = match (pblock::find(request.vars, b"url"), pblock::find(request.vars, b"url-prefix")) {
        (Some(url), _) => url.to_vec(),
        (None, Some(prefix)) => [prefix, path].concat(),
        (None, None) => return,
    };
    pblock::set(request.srvhdrs, b"location", &super::escape::for_location(&target));
}

pub unsafe extern "C" fn http_status(
    _session: *mut Session,
    request: *mut Request,
    number: c_int,
    reason: *const c_char,
) {
    if let (Some(request), Ok(number)) = (request.as_mut(), u16::try_from(number)) {
        set_status(request, number, bytes(reason));
    }
}

pub unsafe extern "C" fn http_start_response(session: *mut Session, request: *mut Request) -> c_int {
    let Some(plugin_request) = of_session(session).as_mut() else { return REQ_ABORTED };
    // The answer of an internal request becomes the client's answer: its fields are copied to the client's
    // request.
    if !request.is_null() && request != &raw mut plugin_request.request && !plugin_request.has_written() {
        let to = plugin_request.request.srvhdrs;
        pblock::for_each((*request).srvhdrs, |name, _| pblock::remove_all(to, name));
        pblock::for_each((*request).srvhdrs, |name, value| {
            pblock::insert(to, name, value);
        });
        (*request).senthdrs = 1;
    }
    plugin_request.start_response()
}

pub unsafe extern "C" fn http_finish_request(_session: *mut Session, _request: *mut Request) {
    // The server finishes requests after their functions have returned.
}

pub unsafe extern "C" fn http_set_finfo(
    _session: *mut Session,
    request: *mut Request,
    facts: *mut libc::stat,
) -> c_int {
    let (Some(request), Some(facts)) = (request.as_mut(), facts.as_ref()) else { return REQ_ABORTED };
    let modified = format_imf_fixdate(facts.st_mtime);
    pblock::set(request.srvhdrs, b"last-modified", &modified);
    pblock::set(request.srvhdrs, b"content-length", facts.st_size.to_string().as_bytes());
    let tag = entity_tag(facts);
    pblock::set(request.srvhdrs, b"etag", tag.as_bytes());
    let conditions = Conditions::of(request, &tag, facts.st_mtime);
    if conditions.failed() {
        set_status(request, 412, &[]);
        pblock::remove_all(request.srvhdrs, b"content-length");
        return REQ_ABORTED;
    }
    if conditions.not_modified() {
        set_status(request, 304, &[]);
        pblock::remove_all(request.srvhdrs, b"content-length");
        return REQ_ABORTED;
    }
    REQ_PROCEED
}

/// The entity tag of a file in its present state.
fn entity_tag(facts: &libc::stat) -> String {
    format!("\"{:x}-{:x}-{:x}\"", facts.st_size, facts.st_mtime, facts.st_mtime_nsec)
}

/// The conditions of a request on a file (RFC 9110 section 13).
struct Conditions<'a> {
    tag: &'a str,
    modified: i64,
    if_match: Option<Vec<u8>>,
    if_none_match: Option<Vec<u8>>,
    if_modified_since: Option<i64>,
    if_unmodified_since: Option<i64>,
    is_read: bool,
}

impl<'a> Conditions<'a> {
    unsafe fn of(request: &Request, tag: &'a str, modified: i64) -> Conditions<'a> {
        let field = |name: &[u8]| pblock::find(request.headers, name).map(<[u8]>::to_vec);
        let date = |name: &[u8]| {
            field(name).and_then(|value| touchstone_http::date::parse_http_date(&value, request.req_start))
        };
        Conditions {
            tag,
            modified,
            if_match: field(b"if-match"),
            if_none_match: field(b"if-none-match"),
            if_modified_since: date(b"if-modified-since"),
            if_unmodified_since: date(b"if-unmodified-since"),
            is_read: matches!(request.method_num, 0 | 1),
        }
    }

    fn failed(&self) -> bool {
        match (&self.if_match, self.if_unmodified_since) {
            (Some(tags), _) => !self.names(tags),
            (None, Some(date)) => self.modified > date,
            (None, None) => self.if_none_match.as_ref().is_some_and(|tags| !self.is_read && self.names(tags)),
        }
    }

    fn not_modified(&self) -> bool {
        self.is_read
            && match (&self.if_none_match, self.if_modified_since) {
                (Some(tags), _) => self.names(tags),
                (None, Some(date)) => self.modified <= date,
                (None, None) => false,
            }
    }

    fn names(&self, tags: &[u8]) -> bool {
        tags.trim_ascii() == b"*"
            || touchstone_http::grammar::list_members(tags)
                .any(|tag| tag.strip_prefix(b"W/").unwrap_or(tag) == self.tag.as_bytes())
    }
}

/// Returns the version of the interface for an empty line; only the server parses requests.
pub unsafe extern "C" fn http_parse_request(
    line: *mut c_char,
    request: *mut Request,
    session: *mut Session,
) -> c_int {
    if request.is_null() && session.is_null() && bytes(line).is_empty() {
        return NSAPI_VERSION;
    }
    crate::engine::unsupported("http_parse_request");
    -1
}

/// The fields of a request as variables of a program's environment.
pub unsafe extern "C" fn http_hdrs2env(headers: *mut Pblock) -> *mut *mut c_char {
    let mut texts = Vec::new();
    pblock::for_each(headers, |name, value| {
        // RFC 3875 section 4.1.18: passwords are left out. A field "proxy" is left out, because programs
        // would take its variable for the address of a proxy.
        if matches!(
            name,
            b"proxy" | b"authorization" | b"proxy-authorization" | b"content-type" | b"content-length"
        ) || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        {
            return;
        }
        let variable: Vec<u8> =
            name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }).collect();
        texts.push([&b"HTTP_"[..], &variable, b"=", value].concat());
    });
    super::env::list_of(&texts)
}

/// Writes a block as lines of a head after `*position` of `str`, which is enlarged if needed.
pub unsafe extern "C" fn http_dump822(
    block: *mut Pblock,
    str: *mut c_char,
    position: *mut c_int,
    size: c_int,
) -> *mut c_char {
    let mut lines = Vec::new();
    pblock::for_each(block, |name, value| {
        for piece in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(piece);
        }
    });
    let begin = (*position).max(0) as usize;
    let needed = begin + lines.len() + 1;
    let str = if needed > size.max(0) as usize { memory::reallocate(str.cast(), needed).cast() } else { str };
    if !str.is_null() {
        ptr::copy_nonoverlapping(lines.as_ptr(), str.add(begin).cast(), lines.len());
        *str.add(begin + lines.len()) = 0;
        *position += lines.len() as c_int;
    }
    str
}

pub unsafe extern "C" fn http_uri2url(prefix: *const c_char, suffix: *const c_char) -> *mut c_char {
    url(prefix, suffix, ptr::null())
}

pub unsafe extern "C" fn http_uri2url_dynamic(
    prefix: *const c_char,
    suffix: *const c_char,
    _session: *mut Session,
    request: *mut Request,
) -> *mut c_char {
    url(prefix, suffix, request)
}

/// An address at this server, for a path.
unsafe fn url(prefix: *const c_char, suffix: *const c_char, request: *const Request) -> *mut c_char {
    let globals = &*crate::plugin_request::current::globals();
    let (scheme, usual_port) = if globals.security_active != 0 { ("https", 443) } else { ("http", 80) };
    let host = match request.as_ref() {
        Some(request) if !bytes(request.hostname).is_empty() => bytes(request.hostname),
        _ => bytes(globals.server_hostname),
    };
    let port = match globals.port {
        port if port == usual_port || port == 0 => String::new(),
        port => format!(":{port}"),
    };
    let url = [scheme.as_bytes(), b"://", host, port.as_bytes(), bytes(prefix), bytes(suffix)].concat();
    memory::text(&url)
}

pub unsafe extern "C" fn http_set_keepalive_timeout(_seconds: c_int) {
    // The configuration limits how long connections are kept.
}

/// The result of a Service function after the answer has begun: HEAD needs no more.
pub fn after_start(answer: c_int) -> Option<c_int> {
    match answer {
        REQ_NOACTION => Some(REQ_PROCEED),
        REQ_PROCEED => None,
        _ => Some(REQ_EXIT),
    }
}
