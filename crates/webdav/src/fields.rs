//! Header fields of WebDAV (RFC 4918 section 10): Depth, Overwrite, Timeout, Lock-Token, Destination.

use std::time::Duration;

use touchstone_handler::request::Request;
use touchstone_http::host::split_port;
use touchstone_http::path::{PathRules, needs_escapes};
use touchstone_http::target::{RequestTarget, parse_target};

use crate::failure::{Failure, Result};

/// `Depth`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The resource alone.
    Zero,
    /// The resource and its members.
    One,
    /// The whole tree.
    Infinity,
}

/// The value of a field that may occur once.
pub fn single<'a>(request: &'a Request, name: &'static str) -> Result<Option<&'a [u8]>> {
    let mut values = request.received.values(name);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Failure::new(400)),
    }
}

/// The value of Depth; `absent` where there is none.
pub fn depth(value: Option<&[u8]>, absent: Depth) -> Result<Depth> {
    match value {
        None => Ok(absent),
        Some(b"0") => Ok(Depth::Zero),
        Some(b"1") => Ok(Depth::One),
        Some(value) if value.eq_ignore_ascii_case(b"infinity") => Ok(Depth::Infinity),
        Some(_) => Err(Failure::new(400)),
    }
}

/// The value of Overwrite, which is true where there is none.
pub fn overwrite(value: Option<&[u8]>) -> Result<bool> {
    match value {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(_) => Err(Failure::new(400)),
    }
}

/// The time of a lock: the first time of the list that can be read, at most `longest`, which is also used for
/// `Infinite`, for no list and for one that cannot be read (section 10.7).
pub fn timeout(value: Option<&[u8]>, longest: Duration) -> Duration {
    let mut times = value.unwrap_or_default().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let seconds = times.find_map(|time| {
        if time.eq_ignore_ascii_case(b"infinite") {
            return Some(u64::MAX);
        }
        let digits = time.get(7..).filter(|_| time[..7].eq_ignore_ascii_case(b"second-"))?;
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
        Some(text.parse().unwrap_or(u64::MAX))
    });
    // A lock without a time would have no effect.
    seconds.map_or(longest, |seconds| Duration::from_secs(seconds.max(1)).min(longest))
}

/// The token of Lock-Token, without its brackets.
pub fn lock_token(value: Option<&[u8]>) -> Result<String> {
    let token = value.and_then(|value| value.strip_prefix(b"<")?.strip_suffix(b">"));
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    token.map(str::to_string).ok_or_else(|| Failure::new(400))
}

/// The target of a URL or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// To this path of the same site, in its normal form.
    Here(Vec<u8>),
    /// To another server.
    Elsewhere,
}

/// The server of a request, as a client addresses it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Host, and port if the client sent one.
    pub host: Vec<u8>,
    /// Whether the request uses HTTPS.
    pub is_https: bool,
}

impl Origin {
    /// The server of a request.
    pub fn of(request: &Request) -> Origin {
        Origin { host: request.host.as_deref().unwrap_or_default().to_vec(), is_https: request.is_https() }
    }

    /// The target of a URL or an absolute path: the value of Destination, or a resource of If. `None`: it
    /// cannot be read, is above the root, or is ambiguous.
    pub fn place(&self, text: &[u8], rules: PathRules) -> Option<Place> {
        let path = match parse_target(false, false, text).ok()? {
            RequestTarget::Origin { path, query: None } => path,
            RequestTarget::Absolute { scheme, authority, path, query: None } => {
                if !self.is_same(scheme, authority) {
                    return Some(Place::Elsewhere);
                }
                path
            }
            _ => return None,
        };
        let decoded = rules.read(path).ok()?.decoded;
        // An escaped slash, or a control byte.
        let is_doubtful = needs_escapes(&decoded) || decoded.contains(&0x7f) || decoded.contains(&b'\\');
        (!is_doubtful).then_some(Place::Here(decoded))
    }

    fn is_same(&self, scheme: &[u8], authority: &[u8]) -> bool {
        let (own_scheme, usual_port) = if self.is_https { ("https", 443) } else { ("http", 80) };
        let (host, port) = split_port(authority);
        let (own_host, own_port) = split_port(&self.host);
        scheme.eq_ignore_ascii_case(own_scheme.as_bytes())
            && host.eq_ignore_ascii_case(own_host)
            && port.unwrap_or(usual_port) == own_port.unwrap_or(usual_port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: PathRules = PathRules::USUAL;

    fn origin() -> Origin {
        Origin { host: b"Files.example:8080".to_vec(), is_https: false }
    }

    #[test]
    fn a_destination_is_a_path_of_the_same_server() {
        let here = |path: &[u8]| Some(Place::Here(path.to_vec()));
        for (text, expected) in [
            (&b"http://files.example:8080/a%20b"[..], here(b"/a b")),
            (b"HTTP://FILES.example:8080/a/", here(b"/a/")),
            (b"/a/./b/../c", here(b"/a/c")),
            (b"http://files.example:8080", here(b"/")),
            (b"http://files.example/a", Some(Place::Elsewhere)),
            (b"https://files.example:8080/a", Some(Place::Elsewhere)),
            (b"http://files.example.evil:8080/a", Some(Place::Elsewhere)),
            (b"http://evil/http://files.example:8080/a", Some(Place::Elsewhere)),
            (b"/../a", None),
            (b"/a/%2e%2e/%2e%2e/b", None),
            (b"/a%2fb", None),
            (b"/a%00", None),
            (b"/a\\b", None),
            (b"/a?b", None),
            (b"/a#b", None),
            (b"a", None),
            (b"", None),
            (b"ftp://files.example:8080/a", Some(Place::Elsewhere)),
        ] {
            assert_eq!(origin().place(text, RULES), expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn values_of_fields() {
        assert_eq!(depth(None, Depth::Infinity).ok(), Some(Depth::Infinity));
        assert_eq!(depth(Some(b"INFINITY"), Depth::Zero).ok(), Some(Depth::Infinity));
        assert!(depth(Some(b"2"), Depth::Zero).is_err());
        assert_eq!(overwrite(Some(b"F")).ok(), Some(false));
        assert!(overwrite(Some(b"no")).is_err());
        let longest = Duration::from_secs(3600);
        for (value, expected) in [
            (None, 3600),
            (Some(&b"Second-60"[..]), 60),
            (Some(b"Infinite, Second-4100000000"), 3600),
            (Some(b"Extended, second-5"), 5),
            (Some(b"Second-99999999999999999999999"), 3600),
            (Some(b"Second-0"), 1),
            (Some(b"Second-"), 3600),
            (Some(b"Second-1x"), 3600),
        ] {
            assert_eq!(timeout(value, longest).as_secs(), expected, "{value:?}");
        }
        assert_eq!(lock_token(Some(b"<urn:uuid:1>")).ok().as_deref(), Some("urn:uuid:1"));
        assert!(lock_token(Some(b"urn:uuid:1")).is_err());
        assert!(lock_token(None).is_err());
    }

    proptest! {
        #[test]
        fn no_destination_leads_above_its_root(
            text in "(http://files.example:8080)?(/|%2e|%2E|\\.|a|%2f|%5c|\\\\){0,12}",
        ) {
            if let Some(Place::Here(path)) = origin().place(text.as_bytes(), RULES) {
                prop_assert!(path.starts_with(b"/"));
                prop_assert!(path.split(|&byte| byte == b'/').all(|name| name != b".." && name != b"."));
            }
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = origin().place(&bytes, RULES);
            let _ = timeout(Some(&bytes), Duration::from_secs(1));
            let _ = lock_token(Some(&bytes));
        }
    }
}
