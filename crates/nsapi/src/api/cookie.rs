//! `util_cookie_*`: the pairs of a Cookie field, and their attributes, cut out in place.

use std::ffi::c_char;
use std::ptr;

use crate::memory::bytes;

/// The value of a cookie. A NUL is written at its end.
pub unsafe extern "C" fn util_cookie_find(cookie: *mut c_char, name: *const c_char) -> *mut c_char {
    let (mut rest, wanted) = (cookie, bytes(name).to_vec());
    while !rest.is_null() {
        let (mut found, mut value) = (ptr::null_mut(), ptr::null_mut());
        rest = util_cookie_next(rest, &mut found, &mut value);
        if !found.is_null() && bytes(found) == wanted {
            return value;
        }
    }
    ptr::null_mut()
}

/// The next pair; returns the position after it, or null if there was none.
pub unsafe extern "C" fn util_cookie_next(
    cookie: *mut c_char,
    name: *mut *mut c_char,
    value: *mut *mut c_char,
) -> *mut c_char {
    if cookie.is_null() {
        return cookie;
    }
    let text = bytes(cookie);
    let begin =
        text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b';' | b',')).unwrap_or(text.len());
    if begin == text.len() {
        return ptr::null_mut();
    }
    let end = begin + text[begin..].iter().position(|byte| *byte == b';').unwrap_or(text.len() - begin);
    let has_more = end < text.len();
    let pair = &text[begin..end];
    let pair_length = pair.trim_ascii_end().len();
    let equals = pair[..pair_length].iter().position(|byte| *byte == b'=');
    let at = cookie.add(begin);
    *at.add(pair_length) = 0;
    if has_more {
        *cookie.add(end) = 0;
    }
    *name = at;
    *value = match equals {
        Some(equals) => {
            *at.add(equals) = 0;
            unquoted(at.add(equals + 1))
        }
        None => at.add(pair_length),
    };
    cookie.add(end + usize::from(has_more))
}

/// Like [`util_cookie_next`]: attributes have the same form as pairs.
pub unsafe extern "C" fn util_cookie_next_av_pair(
    cookie: *mut c_char,
    name: *mut *mut c_char,
    value: *mut *mut c_char,
) -> *mut c_char {
    util_cookie_next(cookie, name, value)
}

unsafe fn unquoted(value: *mut c_char) -> *mut c_char {
    let text = bytes(value);
    if text.len() >= 2 && text[0] == b'"' && text[text.len() - 1] == b'"' {
        *value.add(text.len() - 1) = 0;
        return value.add(1);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found() {
        for (name, expected) in
            [(c"b", Some("two")), (c"a", Some("1")), (c"q", Some("x y")), (c"e", Some("")), (c"z", None)]
        {
            let mut text = b"a=1; b=two ;q=\"x y\"; e\0".to_vec();
            // SAFETY: the text is valid, and may be changed.
            unsafe {
                let value = util_cookie_find(text.as_mut_ptr().cast(), name.as_ptr());
                let found = (!value.is_null()).then(|| String::from_utf8_lossy(bytes(value)).into_owned());
                assert_eq!(found.as_deref(), expected, "{name:?}");
            }
        }
    }
}
