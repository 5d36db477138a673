//! `cinfo_*`: the media types of files.

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::abi::Cinfo;
use crate::memory::{self, allocate, bytes};

/// The type of a file by its extension; null if the extension is unknown.
pub unsafe extern "C" fn cinfo_find(uri: *mut c_char) -> *mut Cinfo {
    let Some(engine) = crate::engine::current() else { return ptr::null_mut() };
    let path = bytes(uri);
    // In page.html.gz, the last extension names the coding, the one before it the type.
    let coded = |ending: &[u8]| path.strip_suffix(ending).filter(|rest| !rest.is_empty());
    let (named, encoding) = match (coded(b".gz"), coded(b".Z"), coded(b".br")) {
        (Some(rest), _, _) => (rest, Some("gzip")),
        (_, Some(rest), _) => (rest, Some("compress")),
        (_, _, Some(rest)) => (rest, Some("br")),
        _ => (path, None),
    };
    let media_type = match engine.types().content_type(named) {
        unknown if unknown == touchstone_files::mime::UNKNOWN => engine.types().content_type(path),
        known => known,
    };
    if media_type == touchstone_files::mime::UNKNOWN && encoding.is_none() {
        return ptr::null_mut();
    }
    let found = allocate(size_of::<Cinfo>()).cast::<Cinfo>();
    if !found.is_null() {
        found.write(Cinfo {
            r#type: memory::text(media_type.as_bytes()),
            encoding: encoding.map_or(ptr::null_mut(), |encoding| memory::text(encoding.as_bytes())),
            language: ptr::null_mut(),
        });
    }
    found
}

/// A type that is known by its own name only.
pub unsafe extern "C" fn cinfo_lookup(media_type: *mut c_char) -> *mut Cinfo {
    let found = allocate(size_of::<Cinfo>()).cast::<Cinfo>();
    if !found.is_null() && !media_type.is_null() {
        let r#type = memory::text(bytes(media_type));
        found.write(Cinfo { r#type, encoding: ptr::null_mut(), language: ptr::null_mut() });
    }
    found
}

/// The server owns the types, so there is nothing to initialise or to end.
pub unsafe extern "C" fn cinfo_nothing() {}

pub unsafe extern "C" fn cinfo_merge(_file: *mut c_char) -> *mut c_char {
    crate::engine::unsupported("cinfo_merge");
    memory::text(b"files of media types are not read: use mime_types of the site")
}

pub unsafe extern "C" fn cinfo_dump_database(_out: *mut c_void) {
    crate::engine::unsupported("cinfo_dump_database");
}
