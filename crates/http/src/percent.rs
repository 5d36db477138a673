//! Percent-encoding (RFC 3986 section 2.1), for texts in which a wrong escape stands for itself. Paths of
//! requests are read by [`crate::path`], which refuses wrong escapes.

use std::borrow::Cow;

use crate::hexadecimal;

/// Decodes the escapes; `plus_is_space` is for application/x-www-form-urlencoded.
pub fn decode(text: &[u8], plus_is_space: bool) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', if plus_is_space { b'+' } else { b'%' }, text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match escape(rest).filter(|_| first == b'%') {
            Some(byte) => {
                decoded.push(byte);
                rest = &rest[2..];
            }
            None if first == b'+' && plus_is_space => decoded.push(b' '),
            None => decoded.push(first),
        }
    }
    Cow::Owned(decoded)
}

/// Appends a path with its escapes in one form: those that are not needed are decoded, and the digits of the
/// others are capital (RFC 3986 section 6.2.2). Dot segments stay.
pub fn append_normal(path: &[u8], out: &mut Vec<u8>) {
    let mut rest = path;
    while let Some(percent) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..percent]);
        let (escaped, behind) = (&rest[percent..], &rest[percent + 1..]);
        let length = match escape(behind) {
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') => {
                out.push(byte);
                3
            }
            Some(_) => {
                out.extend(escaped[..3].iter().map(u8::to_ascii_uppercase));
                3
            }
            None => {
                out.push(b'%');
                1
            }
        };
        rest = &escaped[length..];
    }
    out.extend_from_slice(rest);
}

/// The byte of the two digits at the beginning.
fn escape(digits: &[u8]) -> Option<u8> {
    let [high, low] = *digits.first_chunk::<2>()?;
    hexadecimal::byte(high, low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wrong_escapes_stand_for_themselves() {
        for (text, decoded) in
            [("a%20b+c", "a b+c"), ("%4g%4", "%4g%4"), ("%%41", "%A"), ("%", "%"), ("", "")]
        {
            assert_eq!(&*decode(text.as_bytes(), false), decoded.as_bytes(), "{text}");
        }
        assert_eq!(&*decode(b"a+b%2Bc", true), b"a b+c");
    }

    #[test]
    fn normal_paths() {
        for (path, normal) in
            [("/%7ea/%2f%e2/%41", "/~a/%2F%E2/A"), ("/a%", "/a%"), ("/%4g", "/%4g"), ("/%%41", "/%A")]
        {
            let mut out = Vec::new();
            append_normal(path.as_bytes(), &mut out);
            assert_eq!(out, normal.as_bytes(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(text: Vec<u8>, plus_is_space: bool) {
            let _ = decode(&text, plus_is_space);
            append_normal(&text, &mut Vec::new());
        }
    }
}
