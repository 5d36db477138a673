//! Addresses and forms: writes them, and checks where a browser may be sent.

/// The longest path with query that a browser is sent back to.
pub const LONGEST_RETURN: usize = 2048;

/// Percent-encodes text for a query or a form.
pub fn encoded(text: &str) -> String {
    crate::path::escaped_for_query(text.as_bytes())
}

/// Parameters as `application/x-www-form-urlencoded`.
pub fn form<'p>(parameters: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let pairs = parameters.into_iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// An address with these parameters added to its query.
pub fn with_parameters(address: &str, parameters: &str) -> String {
    let joint = match address.split_once('?') {
        None => "?",
        Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
        Some(_) => "&",
    };
    format!("{address}{joint}{parameters}")
}

/// Decodes a value of a query; `None`: it is not encoded text.
pub fn decoded(value: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(*bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

/// A parameter of a query appears twice, or is not encoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadParameter;

/// The value of a parameter of a query; the error: it appears twice, or is not encoded text.
pub fn parameter(query: &[u8], name: &str) -> Result<Option<String>, BadParameter> {
    let mut found = None;
    for pair in query.split(|&byte| byte == b'&') {
        let (key, value) = match pair.iter().position(|&byte| byte == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        };
        if decoded(key).as_deref() != Some(name) {
            continue;
        }
        if found.is_some() {
            return Err(BadParameter);
        }
        found = Some(decoded(value).ok_or(BadParameter)?);
    }
    Ok(found)
}

/// Whether this is a path, perhaps with a query, that no browser can take for another host: `//host`,
/// `/\host`, and both with control characters between, which browsers remove.
pub fn is_local_path(path: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'#');
    path.len() <= LONGEST_RETURN
        && path.first() == Some(&b'/')
        && path.get(1) != Some(&b'/')
        && path.iter().all(is_plain)
}

/// Whether a host is this machine, where HTTP without TLS is not seen by others.
pub fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_paths_of_the_site_are_returned_to() {
        for good in ["/", "/a/b?c=d&e=%2F", "/a//b", "/a:b@c", "/?u=https://a.example/"] {
            assert!(is_local_path(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "a",
            "//evil.example/",
            "/\\evil.example",
            "/\t/evil.example",
            "https://evil.example/",
            "/ a",
            "/a\\b",
            "/a#b",
            "/a\r\nX: y",
            "/\u{e9}",
            "/<script>",
        ] {
            assert!(!is_local_path(bad.as_bytes()), "{bad:?}");
        }
        assert!(!is_local_path(format!("/{}", "a".repeat(LONGEST_RETURN)).as_bytes()));
    }

    #[test]
    fn parameters_are_added_to_a_query() {
        assert_eq!(with_parameters("https://a/b", "c=d"), "https://a/b?c=d");
        assert_eq!(with_parameters("https://a/b?", "c=d"), "https://a/b?c=d");
        assert_eq!(with_parameters("https://a/b?e=f", "c=d"), "https://a/b?e=f&c=d");
        assert_eq!(form([("a b", "c&d"), ("e", "")]), "a%20b=c%26d&e=");
    }

    #[test]
    fn a_parameter_stands_once() {
        assert_eq!(parameter(b"a=b&c=d%20e+f", "c"), Ok(Some("d e f".to_string())));
        assert_eq!(parameter(b"a=b", "c"), Ok(None));
        for bad in [&b"c=1&c=2"[..], b"c=1&%63=2", b"c=%2", b"c=%zz", b"c=%ff"] {
            assert_eq!(parameter(bad, "c"), Err(BadParameter));
        }
    }

    #[test]
    fn this_machine_has_few_names() {
        for good in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.0.1:8080", "[::1]", "[::1]:443"] {
            assert!(is_this_machine(good), "{good}");
        }
        for bad in ["", "localhost.example.org", "127.0.0.1.example.org", "10.0.0.1", "[::2]", "[::1"] {
            assert!(!is_this_machine(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(text in ".{0,100}") {
            prop_assert_eq!(decoded(encoded(&text).as_bytes()), Some(text.clone()));
            prop_assert_eq!(parameter(form([("a", &*text)]).as_bytes(), "a"), Ok(Some(text)));
        }
    }
}
