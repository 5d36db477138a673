//! Resolves the target of a redirect (RFC 9110, section 10.2.2; RFC 3986, section 5.2).

/// The path and query of a Location, if it is on the same server; `None` if it is on another server or is not
/// a valid request target. `base` is the target of the request that was answered.
pub fn resolve_location(location: &[u8], is_secure: bool, host: &str, base: &[u8]) -> Option<Vec<u8>> {
    let location = location.split(|&byte| byte == b'#').next().unwrap_or_default();
    let scheme: &[u8] = if is_secure { b"https" } else { b"http" };
    let rest = match scheme_length(location) {
        Some(length) if location[..length].eq_ignore_ascii_case(scheme) => &location[length + 1..],
        Some(_) => return None,
        None => location,
    };
    let path = match rest.strip_prefix(b"//") {
        Some(after) => {
            let end = after.iter().position(|byte| b"/?".contains(byte)).unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            if !is_same_host(authority, host, is_secure) {
                return None;
            }
            match path {
                [] => b"/".to_vec(),
                [b'?', ..] => [b"/", path].concat(),
                _ => path.to_vec(),
            }
        }
        // A scheme without an authority is not the address of a server.
        None if rest.len() != location.len() => return None,
        None => relative(rest, base),
    };
    let is_sendable = path.starts_with(b"/") && path.iter().all(|byte| byte.is_ascii_graphic());
    is_sendable.then(|| without_dots(&path))
}

/// The length of the scheme at the beginning (RFC 3986, section 3.1).
fn scheme_length(text: &[u8]) -> Option<usize> {
    let length = text.iter().position(|&byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)))?;
    (text[length] == b':' && text[0].is_ascii_alphabetic() && length > 0).then_some(length)
}

fn is_same_host(authority: &[u8], host: &str, is_secure: bool) -> bool {
    let usual = if is_secure { ":443" } else { ":80" };
    let plain = |text: &[u8]| {
        let text = text.to_ascii_lowercase();
        text.strip_suffix(usual.as_bytes()).map(<[u8]>::to_vec).unwrap_or(text)
    };
    plain(authority) == plain(host.as_bytes())
}

fn relative(reference: &[u8], base: &[u8]) -> Vec<u8> {
    let base = base.split(|&byte| byte == b'?').next().unwrap_or_default();
    match reference {
        [] => base.to_vec(),
        [b'/', ..] => reference.to_vec(),
        [b'?', ..] => [base, reference].concat(),
        _ => {
            let directory = base.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            [&base[..directory], reference].concat()
        }
    }
}

/// Removes dot segments (RFC 3986, section 5.2.4); the query is unchanged.
fn without_dots(target: &[u8]) -> Vec<u8> {
    let query_at = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(query_at);
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." if is_last => kept.push(b""),
            b"." => {}
            b".." => {
                kept.pop();
                if is_last {
                    kept.push(b"");
                }
            }
            other => kept.push(other),
        }
    }
    let mut out = Vec::with_capacity(target.len());
    for segment in &kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(query);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolved(location: &str) -> Option<String> {
        resolve_location(location.as_bytes(), false, "www.example:8080", b"/a/b?c=/d")
            .map(|path| String::from_utf8_lossy(&path).into_owned())
    }

    #[test]
    fn references_are_resolved_on_the_same_server() {
        for (location, wanted) in [
            ("/x?y#z", Some("/x?y")),
            ("x", Some("/a/x")),
            ("./x/../y/.", Some("/a/y/")),
            ("../../../x/..", Some("/")),
            ("?q", Some("/a/b?q")),
            ("", Some("/a/b")),
            ("http://www.example:8080/x", Some("/x")),
            ("HTTP://WWW.example:8080", Some("/")),
            ("http://www.example:8080?q", Some("/?q")),
            ("//www.example:8080/x", Some("/x")),
            ("http://www.example/x", None),
            ("https://www.example:8080/x", None),
            ("//other/x", None),
            ("mailto:a@b", None),
            ("/x y", None),
            ("/x\u{e9}", None),
        ] {
            assert_eq!(resolved(location).as_deref(), wanted, "{location}");
        }
        let path = resolve_location(b"https://h/x", true, "h:443", b"/");
        assert_eq!(path.as_deref(), Some(b"/x".as_slice()));
    }

    proptest! {
        #[test]
        fn a_resolved_target_is_valid(location: Vec<u8>) {
            if let Some(path) = resolve_location(&location, false, "h", b"/a/b") {
                prop_assert!(path.starts_with(b"/") && path.iter().all(u8::is_ascii_graphic));
                let before_query = path.split(|&byte| byte == b'?').next().expect("a first part");
                prop_assert!(!before_query.split(|&byte| byte == b'/').any(|part| part == b".."));
            }
        }
    }
}
