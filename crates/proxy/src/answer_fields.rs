//! Rewrites the addresses in the fields of an origin's response for the client: `Location` and other fields
//! with a URL, and the paths and domains of cookies.

use super::origin_url::OriginSpec;

/// The rules for rewriting fields of responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerRules {
    /// The origin's own address is replaced by the path of the route.
    pub own_location: bool,
    /// Prefixes of addresses, and their replacements; the longest match is used.
    pub locations: Vec<(String, String)>,
    /// Prefixes of cookie paths, and their replacements.
    pub cookie_paths: Vec<(String, String)>,
    /// Domains of cookies, and their replacements; empty: the attribute is removed.
    pub cookie_domains: Vec<(String, String)>,
}

impl AnswerRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        !self.own_location
            && self.locations.is_empty()
            && self.cookie_paths.is_empty()
            && self.cookie_domains.is_empty()
    }

    /// Adds rules for the addresses of the origins; `prefix` is the prefix that is removed from paths of
    /// requests.
    #[must_use]
    pub fn with_origins(mut self, origins: &[OriginSpec], prefix: &str) -> AnswerRules {
        if self.own_location {
            let begin = format!("{}/", prefix.trim_end_matches('/'));
            for origin in origins.iter().filter(|origin| !origin.url.authority.is_empty()) {
                let scheme = if origin.url.is_tls { "https" } else { "http" };
                let base = format!("{scheme}://{}{}/", origin.url.authority, origin.url.base_path);
                self.locations.push((base, begin.clone()));
            }
        }
        // The longest prefix first.
        self.locations.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        self.cookie_paths.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        self
    }

    /// Rewrites field lines, each of which ends with CRLF.
    pub fn apply(&self, fields: &mut Vec<u8>) {
        let mut out = Vec::with_capacity(fields.len() + 32);
        for line in fields.split_inclusive(|byte| *byte == b'\n') {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(0);
            let (name, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let changed = match name {
                _ if is(name, "location") || is(name, "content-location") => self.location(value),
                _ if is(name, "refresh") => self.refresh(value),
                _ if is(name, "set-cookie") => self.cookie(value),
                _ => None,
            };
            match changed {
                Some(value) => {
                    for piece in [name, b": ", &value, b"\r\n"] {
                        out.extend_from_slice(piece);
                    }
                }
                None => out.extend_from_slice(line),
            }
        }
        *fields = out;
    }

    fn location(&self, value: &[u8]) -> Option<Vec<u8>> {
        self.locations.iter().find_map(|(from, to)| {
            let rest = match strip_address(value, from.as_bytes()) {
                Some(rest) => rest,
                // The origin's address without a path.
                None if from.ends_with('/') && from.contains("://") => {
                    let without = &from.as_bytes()[..from.len() - 1];
                    strip_address(value, without)
                        .filter(|rest| rest.is_empty() || b"?#".contains(&rest[0]))?
                }
                None => return None,
            };
            let to = to.as_bytes();
            // A path that begins with two slashes would be a URL with another host.
            let doubled = to.ends_with(b"/") && rest.starts_with(b"/");
            let rest = if doubled { without_slashes(rest) } else { rest };
            Some([to, rest].concat())
        })
    }

    /// Rewrites a value such as `5; url=http://...`.
    fn refresh(&self, value: &[u8]) -> Option<Vec<u8>> {
        let at = value.windows(4).position(|part| part.eq_ignore_ascii_case(b"url="))? + 4;
        Some([&value[..at], &self.location(&value[at..])?].concat())
    }

    fn cookie(&self, value: &[u8]) -> Option<Vec<u8>> {
        let mut is_changed = false;
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (index, part) in value.split(|byte| *byte == b';').enumerate() {
            let trimmed = part.trim_ascii();
            let equals = trimmed.iter().position(|byte| *byte == b'=');
            let (name, text) = equals.map_or((trimmed, &[][..]), |at| (&trimmed[..at], &trimmed[at + 1..]));
            let name = name.trim_ascii();
            let text = text.trim_ascii();
            // The first part is the cookie's name and value.
            let changed = match index {
                0 => None,
                _ if is(name, "path") => self.cookie_path(text).map(Some),
                _ if is(name, "domain") => self.cookie_domain(text),
                _ => None,
            };
            match changed {
                None => parts.push(part.to_vec()),
                Some(None) => is_changed = true,
                Some(Some(text)) => {
                    is_changed = true;
                    parts.push([&b" "[..], name, b"=", &text].concat());
                }
            }
        }
        is_changed.then(|| parts.join(&b';'))
    }

    fn cookie_path(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.cookie_paths.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from.as_bytes())?;
            Some([to.as_bytes(), rest].concat())
        })
    }

    /// `None`: the domain is unchanged; `Some(None)`: the attribute is removed.
    fn cookie_domain(&self, domain: &[u8]) -> Option<Option<Vec<u8>>> {
        let bare = |text: &[u8]| text.strip_prefix(b".").unwrap_or(text).to_ascii_lowercase();
        let found = self.cookie_domains.iter().find(|(from, _)| bare(from.as_bytes()) == bare(domain));
        found.map(|(_, to)| (!to.is_empty()).then(|| to.clone().into_bytes()))
    }
}

fn without_slashes(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| *byte != b'/').unwrap_or(text.len());
    &text[begin..]
}

/// Removes a prefix of an address; scheme and host are case-insensitive.
fn strip_address<'v>(value: &'v [u8], from: &[u8]) -> Option<&'v [u8]> {
    let authority = from.windows(3).position(|part| part == b"://").map_or(0, |at| {
        let path = from[at + 3..].iter().position(|byte| *byte == b'/');
        path.map_or(from.len(), |path| at + 3 + path)
    });
    let (begin, rest) = value.split_at_checked(from.len())?;
    let fits = begin[..authority].eq_ignore_ascii_case(&from[..authority])
        && begin[authority..] == from[authority..];
    fits.then_some(rest)
}

fn is(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules() -> AnswerRules {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect()
        };
        let origins = [OriginSpec::parse("http://127.0.0.1:3000/base").unwrap()];
        AnswerRules {
            own_location: true,
            locations: pairs(&[("http://other.internal/", "https://other.example.org/"), ("/", "/app/")]),
            cookie_paths: pairs(&[("/", "/app/")]),
            cookie_domains: pairs(&[("app.internal", "example.org"), ("host.internal", "")]),
        }
        .with_origins(&origins, "/shop")
    }

    #[test]
    fn addresses_and_cookies_are_rewritten() {
        for (line, expected) in [
            ("Location: http://127.0.0.1:3000/base/cart?a=b", "Location: /shop/cart?a=b"),
            ("Location: HTTP://127.0.0.1:3000/base", "Location: /shop/"),
            ("Location: http://127.0.0.1:3000/base//evil", "Location: /shop/evil"),
            ("Location: http://127.0.0.1:30001/base/x", "Location: http://127.0.0.1:30001/base/x"),
            ("location: http://Other.internal/x", "location: https://other.example.org/x"),
            ("Location: /login", "Location: /app/login"),
            ("Refresh: 5; url=/login", "Refresh: 5; url=/app/login"),
            ("Set-Cookie: path=/; Path=/; HttpOnly", "Set-Cookie: path=/; Path=/app/; HttpOnly"),
            ("Set-Cookie: a=1; Domain=.app.internal", "Set-Cookie: a=1; Domain=example.org"),
            ("Set-Cookie: a=1; domain=host.internal; Secure", "Set-Cookie: a=1; Secure"),
            ("X-Other: http://127.0.0.1:3000/base/", "X-Other: http://127.0.0.1:3000/base/"),
        ] {
            let mut fields = format!("{line}\r\n").into_bytes();
            rules().apply(&mut fields);
            assert_eq!(String::from_utf8(fields).unwrap(), format!("{expected}\r\n"));
        }
    }

    proptest! {
        #[test]
        fn lines_remain_lines(values in prop::collection::vec("[ -~]{0,40}", 0..5), name in 0..4usize) {
            let name = ["Location", "Set-Cookie", "Refresh", "X"][name];
            let mut fields: Vec<u8> =
                values.iter().flat_map(|value| format!("{name}: {value}\r\n").into_bytes()).collect();
            rules().apply(&mut fields);
            prop_assert_eq!(fields.iter().filter(|byte| **byte == b'\n').count(), values.len());
            prop_assert!(fields.is_empty() || fields.ends_with(b"\r\n"));
        }
    }
}
