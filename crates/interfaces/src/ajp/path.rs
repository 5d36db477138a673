//! The path of a request in the form in which a servlet container interprets it.
//!
//! A container removes the text after a semicolon in each segment (path parameters, Servlet specification
//! section 3.5) before it resolves `..`. No other server does this: `/shop/..;/manager/` is below `/shop/`
//! for a server, and means `/manager/` for a container. So routes and access rules must judge the path
//! without parameters, and the path that is sent is written again from it: it contains no escape, no dot
//! segment and no repeated slash that could be read in two ways.

use touchstone_http::target::normalise_path;
use touchstone_upstream::path_parameters::split_parameters;

/// A path, split from its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServletPath {
    /// In its normal form, decoded, without parameters: rules must judge this form.
    pub path: Vec<u8>,
    /// The form that is sent: encoded, with its parameters.
    pub uri: Vec<u8>,
}

/// The path cannot be sent: it is not a path, leads above the root, or holds a backslash or an escaped slash,
/// which containers read in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmbiguousPath;

impl ServletPath {
    /// Reads a path as it was sent.
    ///
    /// # Errors
    /// The path could mean one thing to the server and another to the container.
    pub fn of(encoded_path: &[u8]) -> Result<ServletPath, AmbiguousPath> {
        let segments = encoded_path.strip_prefix(b"/").ok_or(AmbiguousPath)?.split(|&byte| byte == b'/');
        let segments: Vec<(&[u8], &[u8])> = segments.map(split_parameters).collect();
        let mut bare = Vec::with_capacity(encoded_path.len());
        for (name, _) in &segments {
            bare.push(b'/');
            bare.extend_from_slice(name);
        }
        let mut path = Vec::with_capacity(bare.len());
        normalise_path(&bare, &mut path).map_err(|_| AmbiguousPath)?;
        if path.contains(&b'\\') {
            return Err(AmbiguousPath);
        }
        let uri = if bare.len() == encoded_path.len() {
            encoded(&path)
        } else {
            with_parameters(&segments).ok_or(AmbiguousPath)?
        };
        Ok(ServletPath { path, uri })
    }
}

/// The path, written again, with the parameters of the segments that remain.
fn with_parameters(segments: &[(&[u8], &[u8])]) -> Option<Vec<u8>> {
    let mut kept: Vec<(Vec<u8>, &[u8])> = Vec::with_capacity(segments.len());
    // Parameters after a slash at the end: `/shop/;jsessionid=1`.
    let mut behind_slash = None;
    for (raw, parameters) in segments {
        let name = decoded(raw)?;
        behind_slash = None;
        match name.as_slice() {
            b"" => behind_slash = Some(*parameters),
            b"." => behind_slash = Some(&[][..]),
            b".." => {
                kept.pop();
                behind_slash = Some(&[]);
            }
            _ => kept.push((name, parameters)),
        }
    }
    let mut uri = Vec::new();
    for (name, parameters) in &kept {
        uri.push(b'/');
        uri.extend_from_slice(&encoded(name));
        push_parameters(parameters, &mut uri);
    }
    if let Some(parameters) = behind_slash {
        uri.push(b'/');
        push_parameters(parameters, &mut uri);
    }
    Some(uri)
}

/// Escapes are kept.
fn push_parameters(parameters: &[u8], out: &mut Vec<u8>) {
    for &byte in parameters {
        if matches!(byte, b';' | b'%' | b'=') || is_path_byte(byte) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

fn encoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        if byte == b'/' || is_path_byte(byte) { out.push(byte) } else { push_escape(byte, &mut out) }
    }
    out
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Bytes that need no escape in a segment (RFC 3986 section 3.3), except the semicolon.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte)
}

fn decoded(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = behind.first_chunk::<2>()?.map(|digit| char::from(digit).to_digit(16));
        let [Some(high), Some(low)] = digits else { return None };
        out.push((high * 16 + low) as u8);
        rest = &behind[2..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(path: &str) -> Option<(String, String)> {
        let read = ServletPath::of(path.as_bytes()).ok()?;
        Some((String::from_utf8_lossy(&read.path).into_owned(), String::from_utf8(read.uri).unwrap()))
    }

    #[test]
    fn paths_as_a_container_sees_them() {
        for (path, normal, uri) in [
            ("/", "/", "/"),
            ("/shop/a%20b/c", "/shop/a b/c", "/shop/a%20b/c"),
            ("/shop/a+b,(c)!~", "/shop/a+b,(c)!~", "/shop/a+b,(c)!~"),
            ("/shop/%C3%A9%25", "/shop/\u{e9}%", "/shop/%C3%A9%25"),
            ("/shop//a/./b/../c/", "/shop/a/c/", "/shop/a/c/"),
            ("/shop/%2e%2e/x", "/x", "/x"),
            ("/shop/a;jsessionid=1.a", "/shop/a", "/shop/a;jsessionid=1.a"),
            ("/shop/;jsessionid=1", "/shop/", "/shop/;jsessionid=1"),
            ("/shop;x=%2F;y/a;z/", "/shop/a/", "/shop;x=%2F;y/a;z/"),
            // Segments with a semicolon must be judged too.
            ("/shop/..;/manager/html", "/manager/html", "/manager/html"),
            ("/shop/..;x=y/..;z", "", ""),
            ("/shop/%2e%2E;/manager", "/manager", "/manager"),
            ("/shop/.;/x", "/shop/x", "/shop/x"),
            ("/shop/a;/../b", "/shop/b", "/shop/b"),
            ("/shop/;/x", "/shop/x", "/shop/x"),
            ("/shop/..%3b/x", "/shop/..;/x", "/shop/..%3B/x"),
            ("/shop/a;\u{e9}<", "/shop/a", "/shop/a;%C3%A9%3C"),
        ] {
            let expected = (!normal.is_empty()).then(|| (normal.to_string(), uri.to_string()));
            assert_eq!(read(path), expected, "{path}");
        }
        for path in
            ["", "shop", "/..", "/a%2fb", "/a%5Cb", "/a\\b", "/a%zz", "/a%0a", "/a/..;/..;/b", "/a;/%2F"]
        {
            assert_eq!(read(path), None, "{path}");
        }
    }

    proptest! {
        /// The path that is sent has the same meaning for the container: it contains no dot segment, no
        /// repeated slash and no parameter that the container would resolve.
        #[test]
        fn what_is_sent_means_the_same(path in "(/|[a-z]|\\.|;|%2[eE]|%3[bB]|%25|=|\u{e9}){0,24}") {
            let path = format!("/{path}");
            if let Ok(read) = ServletPath::of(path.as_bytes()) {
                let again = ServletPath::of(&read.uri).unwrap();
                prop_assert_eq!(&again, &read);
                let segments = read.uri.split(|&byte| byte == b'/');
                let bare: Vec<u8> =
                    segments.map(|segment| split_parameters(segment).0).collect::<Vec<_>>().join(&b'/');
                prop_assert_eq!(decoded(&bare).unwrap(), read.path);
            }
        }
    }
}
