//! PathCheck: whether the client may access the file, and whether it exists.

use std::ffi::c_int;
use std::path::Path;

use crate::abi::{Pblock, REQ_ABORTED, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::api::escape::util_uri_is_evil;
use crate::api::protocol::set_status;
use crate::pattern::Pattern;
use crate::pblock;

/// The file that the path was translated to.
pub unsafe fn path<'a>(request: *mut Request) -> &'a [u8] {
    pblock::find((*request).vars, b"path").unwrap_or_default()
}

pub fn as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

unsafe fn refuse(request: *mut Request, status: u16) -> c_int {
    set_status(&mut *request, status, &[]);
    REQ_ABORTED
}

pub unsafe extern "C" fn uri_clean(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let text = crate::memory::text(path(request));
    let dots_are_right = pblock::find(block, b"dotdirok").is_some();
    if !dots_are_right && util_uri_is_evil(text) != 0 { refuse(request, 404) } else { REQ_NOACTION }
}

/// Splits the path into that of a file and the part after it.
pub unsafe extern "C" fn find_pathinfo(
    _block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let whole = path(request).to_vec();
    if whole.is_empty() || whole.ends_with(b"/") || as_path(&whole).exists() {
        return REQ_NOACTION;
    }
    let base = pblock::find((*request).vars, b"ntrans-base").map_or(0, <[u8]>::len);
    let mut end = whole.len();
    while let Some(slash) = whole[..end].iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > base)
    {
        end = slash;
        match std::fs::metadata(as_path(&whole[..end])) {
            Ok(facts) if facts.is_file() => {
                pblock::set((*request).vars, b"path-info", &whole[end..]);
                pblock::set((*request).vars, b"path", &whole[..end]);
                return REQ_PROCEED;
            }
            Ok(_) => return REQ_NOACTION,
            Err(_) => {}
        }
    }
    REQ_NOACTION
}

/// Appends the name of an index file to the path of a directory.
pub unsafe extern "C" fn find_index(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let directory = path(request).to_vec();
    if !directory.ends_with(b"/") {
        return REQ_NOACTION;
    }
    let names = pblock::find(block, b"index-names").unwrap_or(b"index.html");
    for name in names.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
        let candidate = [&directory, name].concat();
        if as_path(&candidate).is_file() {
            pblock::set((*request).vars, b"path", &candidate);
            return REQ_PROCEED;
        }
    }
    REQ_NOACTION
}

/// Uses another path of the site as the index of directories, or of those that `from` names.
pub unsafe extern "C" fn set_virtual_index(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let uri = pblock::find((*request).reqpb, b"uri").unwrap_or_default();
    let Some(index) = pblock::find(block, b"virtual-index") else { return REQ_NOACTION };
    let is_meant = match pblock::find(block, b"from") {
        Some(from) => from.split(|byte| *byte == b',').any(|named| named.trim_ascii() == uri),
        None => true,
    };
    if !uri.ends_with(b"/") || !is_meant {
        return REQ_NOACTION;
    }
    let target = if index.starts_with(b"/") { index.to_vec() } else { [uri, index].concat() };
    super::name_trans::restart_with(request, &target)
}

/// Refuses files that are reached through symbolic links: with `disable=s` (or `hs`).
pub unsafe extern "C" fn find_links(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let (Some(disable), whole) = (pblock::find(block, b"disable"), path(request).to_vec()) else {
        return REQ_NOACTION;
    };
    if let Some(directory) = pblock::find(block, b"dir") {
        match Pattern::new(directory) {
            Ok(pattern) if pattern.matches(&whole) || whole.starts_with(directory) => {}
            _ => return REQ_NOACTION,
        }
    }
    if !disable.iter().any(|letter| matches!(letter, b's' | b'o')) {
        return REQ_NOACTION;
    }
    let base = pblock::find((*request).vars, b"ntrans-base").map_or(0, <[u8]>::len);
    let ends = (base + 1..=whole.len()).filter(|end| *end == whole.len() || whole[*end] == b'/');
    for end in ends {
        if std::fs::symlink_metadata(as_path(&whole[..end])).is_ok_and(|facts| facts.is_symlink()) {
            return refuse(request, 404);
        }
    }
    REQ_NOACTION
}

pub unsafe extern "C" fn require_auth(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let vars = (*request).vars;
    if let Some(only) = pblock::find(block, b"path") {
        match Pattern::new(only) {
            Ok(pattern) if pattern.matches(path(request)) => {}
            Ok(_) => return REQ_NOACTION,
            Err(_) => return REQ_ABORTED,
        }
    }
    let allows = |value: Option<&[u8]>, wanted: Option<&[u8]>| match (value, wanted) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(value), Some(wanted)) => Pattern::new(wanted).is_ok_and(|pattern| pattern.matches(value)),
    };
    let user_is_right = allows(pblock::find(vars, b"auth-user"), pblock::find(block, b"auth-user"));
    let group = pblock::find(block, b"auth-group");
    let group_is_right = group.is_none() || allows(pblock::find(vars, b"auth-group"), group);
    if user_is_right && group_is_right {
        return REQ_PROCEED;
    }
    let realm =
        String::from_utf8_lossy(pblock::find(block, b"realm").unwrap_or(b"server")).replace(['"', '\\'], "");
    pblock::set((*request).srvhdrs, b"www-authenticate", format!("Basic realm=\"{realm}\"").as_bytes());
    refuse(request, 401)
}

pub unsafe extern "C" fn deny_existence(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    match pblock::find(block, b"path").map(Pattern::new) {
        None => refuse(request, 404),
        Some(Ok(pattern)) if pattern.matches(path(request)) => refuse(request, 404),
        Some(Ok(_)) => REQ_NOACTION,
        Some(Err(_)) => REQ_ABORTED,
    }
}

pub unsafe extern "C" fn ssl_check(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let bits = |text: Option<&[u8]>| {
        text.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.trim().parse::<u32>().ok())
    };
    let needed = bits(pblock::find(block, b"secret-keysize")).unwrap_or(1);
    let has = bits(pblock::find((*session).client, b"secret-keysize")).unwrap_or(0);
    if has >= needed { REQ_NOACTION } else { refuse(request, 403) }
}

pub unsafe extern "C" fn get_client_cert(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let is_required = pblock::find(block, b"require").is_none_or(crate::engine::is_true);
    let is_requested = pblock::find(block, b"dorequest").is_some_and(crate::engine::is_true);
    // The certificate is requested during the TLS handshake, according to the site's TLS keys.
    if is_requested && is_required && (*session).clientauth == 0 {
        refuse(request, 403)
    } else {
        REQ_NOACTION
    }
}

pub unsafe extern "C" fn set_cache_control(
    block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    if let Some(control) = pblock::find(block, b"control") {
        pblock::set((*request).srvhdrs, b"cache-control", control);
    }
    REQ_PROCEED
}
