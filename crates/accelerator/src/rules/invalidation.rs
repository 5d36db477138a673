//! The responses that an unsafe request makes stale (RFC 9111 section 4.4).

use touchstone_http::host::split_port;

/// Whether an answer with this status means that the request has changed something.
pub fn is_success(status: u16) -> bool {
    (200..400).contains(&status)
}

/// The path and query of a `Location` or `Content-Location`, if it has the same origin as the request. `path`
/// is that of the request, for relative references.
pub fn same_origin_target(
    reference: &[u8],
    is_secure: bool,
    host: &[u8],
    path: &[u8],
) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let without_fragment = reference.split(|&byte| byte == b'#').next().unwrap_or_default();
    let (scheme, rest) = match split_scheme(without_fragment) {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, without_fragment),
    };
    if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(if is_secure { b"https" } else { b"http" })) {
        return None;
    }
    let target: Vec<u8> = if let Some(rest) = rest.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        if !is_same_authority(&rest[..end], host, is_secure) {
            return None;
        }
        match &rest[end..] {
            target if target.starts_with(b"/") => target.to_vec(),
            target => [b"/", target].concat(),
        }
    } else if scheme.is_some() {
        return None;
    } else if rest.starts_with(b"/") {
        rest.to_vec()
    } else if rest.is_empty() {
        return None;
    } else if rest.starts_with(b"?") {
        [path, rest].concat()
    } else {
        let directory =
            path.iter().rposition(|&byte| byte == b'/').map_or(&b"/"[..], |slash| &path[..=slash]);
        [directory, rest].concat()
    };
    let mark = memchr::memchr(b'?', &target);
    let (target_path, query) = match mark {
        Some(mark) => (&target[..mark], Some(target[mark + 1..].to_vec())),
        None => (&target[..], None),
    };
    Some((without_dot_segments(target_path), query))
}

/// Splits a URI into a scheme and the rest after its colon.
fn split_scheme(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', reference)?;
    let scheme = &reference[..colon];
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then(|| (scheme, &reference[colon + 1..]))
}

fn is_same_authority(one: &[u8], other: &[u8], is_secure: bool) -> bool {
    let default = if is_secure { 443 } else { 80 };
    let ((one, one_port), (other, other_port)) = (split_port(one), split_port(other));
    one.eq_ignore_ascii_case(other) && one_port.unwrap_or(default) == other_port.unwrap_or(default)
}

/// Removes dot segments (RFC 3986 section 5.2.4).
fn without_dot_segments(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut parts = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(segment) = parts.next() {
        let is_last = parts.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    segments.pop();
                }
                if is_last {
                    segments.push(b"");
                }
            }
            _ => segments.push(segment),
        }
    }
    let mut whole = Vec::with_capacity(path.len());
    for segment in segments {
        whole.push(b'/');
        whole.extend_from_slice(segment);
    }
    if whole.is_empty() { b"/".to_vec() } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_are_resolved_within_the_origin() {
        for (reference, expected) in [
            ("/b", Some("/b")),
            ("/b?q=1#f", Some("/b?q=1")),
            ("c", Some("/a/c")),
            ("../c/./d/..", Some("/c/")),
            ("?q", Some("/a/b?q")),
            ("http://ex.org/x", Some("/x")),
            ("HTTP://EX.org:80", Some("/")),
            ("//ex.org?q", Some("/?q")),
            ("https://ex.org/x", None),
            ("http://other/x", None),
            ("http://ex.org:81/x", None),
            ("mailto:a@b", None),
            ("", None),
        ] {
            let found =
                same_origin_target(reference.as_bytes(), false, b"ex.org", b"/a/b").map(|(path, query)| {
                    let query = query.map(|query| [b"?", &query[..]].concat()).unwrap_or_default();
                    String::from_utf8([path, query].concat()).unwrap()
                });
            assert_eq!(found.as_deref(), expected, "{reference}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_lead_to_a_path_or_nowhere(reference in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some((path, _)) = same_origin_target(&reference, false, b"h", b"/a") {
                prop_assert!(path.starts_with(b"/"));
            }
        }
    }
}
