//! `util_*` for paths and URLs.

use std::ffi::{c_char, c_int};
use std::ptr;

use touchstone_http::hexadecimal;

use crate::memory::{self, bytes};

/// Overwrites a C text with a text that is at most as long.
unsafe fn put(to: *mut c_char, text: &[u8]) {
    ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), text.len());
    *to.add(text.len()) = 0;
}

/// Removes `.`, `..` and repeated slashes from a path.
pub unsafe extern "C" fn util_uri_parse(uri: *mut c_char) {
    if !uri.is_null() {
        let parsed = without_dots(bytes(uri));
        put(uri, &parsed);
    }
}

fn without_dots(path: &[u8]) -> Vec<u8> {
    let is_absolute = path.first() == Some(&b'/');
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut ends_with_slash = path.last() == Some(&b'/');
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    ends_with_slash |= path.ends_with(b"/.") || path.ends_with(b"/..");
    let mut parsed = if is_absolute { b"/".to_vec() } else { Vec::new() };
    parsed.extend_from_slice(&parts.join(&b'/'));
    if ends_with_slash && !parts.is_empty() {
        parsed.push(b'/');
    }
    parsed
}

/// Returns 1 if a path holds `.`, `..` or an empty part.
pub unsafe extern "C" fn util_uri_is_evil(uri: *const c_char) -> c_int {
    let path = bytes(uri);
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let inner = &parts[1.min(parts.len())..parts.len().max(2) - 1];
    let is_evil =
        parts.iter().any(|part| matches!(*part, b"." | b"..")) || inner.iter().any(|part| part.is_empty());
    c_int::from(is_evil)
}

pub unsafe extern "C" fn util_uri_unescape(str: *mut c_char) {
    if !str.is_null() {
        let unescaped = unescape(bytes(str));
        put(str, &unescaped);
    }
}

/// Decodes escapes, except that of NUL.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let digit =
        |byte: Option<&u8>| byte.and_then(|byte| (*byte as char).to_digit(16)).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut position = 0;
    while position < text.len() {
        match (text[position], digit(text.get(position + 1)), digit(text.get(position + 2))) {
            // A NUL would end the text, and is not part of a path.
            (b'%', Some(high), Some(low)) if high * 16 + low != 0 => {
                out.push(high * 16 + low);
                position += 3;
            }
            (byte, _, _) => {
                out.push(byte);
                position += 1;
            }
        }
    }
    out
}

pub unsafe extern "C" fn util_uri_escape(to: *mut c_char, from: *const c_char) -> *mut c_char {
    escape(to, from, is_path_byte)
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~/!*'(),:@&=+$;".contains(&byte)
}

/// A path with escapes for characters that are not allowed in a path.
pub fn escaped_path(path: &[u8]) -> Vec<u8> {
    escaped(path, is_path_byte)
}

fn escaped(text: &[u8], stays: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in text {
        if stays(*byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes());
        }
    }
    out
}

/// Like `util_uri_escape`, except for a whole address: `?`, `#` and `%` are not escaped.
pub unsafe extern "C" fn util_url_escape(to: *mut c_char, from: *const c_char) -> *mut c_char {
    escape(to, from, |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
}

unsafe fn escape(to: *mut c_char, from: *const c_char, stays: impl Fn(u8) -> bool) -> *mut c_char {
    let out = escaped(bytes(from), stays);
    if to.is_null() {
        return memory::text(&out);
    }
    put(to, &out);
    to
}

/// Adds a backslash before every character that is special in a shell.
pub unsafe extern "C" fn util_sh_escape(str: *mut c_char) -> *mut c_char {
    let mut out = Vec::new();
    for byte in bytes(str) {
        if b"&;`'\"|*?~<>^()[]{}$\\ #!\n\t".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    memory::text(&out)
}

pub unsafe extern "C" fn util_is_url(url: *const c_char) -> c_int {
    let url = bytes(url);
    let scheme = url.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(url.len());
    c_int::from(scheme > 0 && url.get(scheme) == Some(&b':'))
}

pub unsafe extern "C" fn util_chdir2path(path: *mut c_char) -> c_int {
    // All threads share one current directory: the path is only cut; the directory is not changed.
    let text = bytes(path);
    match text.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => {
            *path.add(slash) = 0;
            0
        }
        None => -1,
    }
}

/// Whether a browser is a Mozilla of at least this version.
pub unsafe extern "C" fn util_is_mozilla(
    agent: *mut c_char,
    major: *mut c_char,
    minor: *mut c_char,
) -> c_int {
    let number = |text: &[u8]| -> u32 {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&text[..digits]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let Some(version) = bytes(agent).strip_prefix(b"Mozilla/") else { return 0 };
    let mut parts = version.splitn(2, |byte| *byte == b'.');
    let has = (number(parts.next().unwrap_or_default()), number(parts.next().unwrap_or_default()));
    c_int::from(has >= (number(bytes(major)), number(bytes(minor))))
}

/// Writes a boundary line for a multipart answer; returns the length of the text.
pub unsafe extern "C" fn util_mime_separator(separator: *mut c_char) -> c_int {
    let mut random = [0u8; 12];
    super::md5::fill_random(&mut random);
    let mut text = b"\r\n--".to_vec();
    text.extend_from_slice(hexadecimal::encode(&random).as_bytes());
    put(separator, &text);
    text.len() as c_int
}

pub unsafe extern "C" fn util_itoa(number: c_int, str: *mut c_char) -> c_int {
    let text = number.to_string();
    put(str, text.as_bytes());
    text.len() as c_int
}

pub unsafe extern "C" fn util_strtok(
    str: *mut c_char,
    separators: *const c_char,
    rest: *mut *mut c_char,
) -> *mut c_char {
    libc::strtok_r(str, separators, rest)
}

/// Paths arrive decoded; characters that are not allowed in a header are escaped.
pub fn for_location(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    for byte in target {
        match byte {
            b'!'..=b'~' if !b"\"<>\\^`{|}".contains(byte) => out.push(*byte),
            byte => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_cleaned_and_distinguished_from_clean_ones() {
        for (path, cleaned, is_evil) in [
            ("/a/b", "/a/b", 0),
            ("/a/../b", "/b", 1),
            ("/../../etc", "/etc", 1),
            ("/a//b/", "/a/b/", 1),
            ("/a/.", "/a/", 1),
            ("/", "/", 0),
            ("/a/", "/a/", 0),
            ("", "", 0),
        ] {
            assert_eq!(without_dots(path.as_bytes()), cleaned.as_bytes(), "{path}");
            let text = std::ffi::CString::new(path).unwrap();
            // SAFETY: the text is valid.
            assert_eq!(unsafe { util_uri_is_evil(text.as_ptr()) }, is_evil, "{path}");
        }
        assert_eq!(unescape(b"a%20b%2"), b"a b%2");
        assert_eq!(unescape(b"a%00b"), b"a%00b");
    }

    proptest! {
        #[test]
        fn cleaned_paths_stay_clean_and_grow_never(path: Vec<u8>) {
            let cleaned = without_dots(&path);
            prop_assert!(cleaned.len() <= path.len());
            prop_assert_eq!(without_dots(&cleaned), cleaned);
            prop_assert!(unescape(&path).len() <= path.len());
        }
    }
}
