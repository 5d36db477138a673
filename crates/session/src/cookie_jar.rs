//! The cookies of one session (RFC 6265): each is sent to the server that set it, for its paths, until it
//! expires. A cookie for a wider domain is sent to that one server, too.

use crate::answer::FieldSource;
use touchstone_http::date::parse_http_date;
use touchstone_http::target::is_at_or_below;

/// The maximum number of cookies of a session; the oldest is removed.
const MAXIMUM_COOKIES: usize = 200;
/// The maximum length of a cookie, name and value together, in bytes.
const MAXIMUM_COOKIE_BYTES: usize = 8 * 1024;

/// The cookies of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct CookieJar {
    cookies: Vec<Cookie>,
}

#[derive(Debug, Clone)]
struct Cookie {
    target: usize,
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    is_secure: bool,
}

impl CookieJar {
    pub(crate) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Stores the cookies that an answer to a request sets.
    pub(crate) fn take(&mut self, fields: &dyn FieldSource, target: usize, request_path: &[u8], now_s: i64) {
        fields.each(b"set-cookie", &mut |field| {
            self.set(field, target, request_path, now_s);
            false
        });
    }

    fn set(&mut self, field: &[u8], target: usize, request_path: &[u8], now_s: i64) {
        let Some((name, value)) = set_cookie_pair(field) else { return };
        if name.len() + value.len() > MAXIMUM_COOKIE_BYTES {
            return;
        }
        let mut cookie = Cookie {
            target,
            name: name.to_vec(),
            value: value.to_vec(),
            path: default_path(request_path).to_vec(),
            is_secure: false,
        };
        let (mut is_expired, mut has_age) = (false, false);
        for attribute in field.split(|&byte| byte == b';').skip(1) {
            let (key, value) = split_pair(attribute).unwrap_or((attribute.trim_ascii(), b""));
            match key.to_ascii_lowercase().as_slice() {
                b"path" if value.starts_with(b"/") => cookie.path = value.to_vec(),
                b"secure" => cookie.is_secure = true,
                // Max-Age has precedence over Expires (section 5.3).
                b"max-age" if is_number(value) => {
                    has_age = true;
                    is_expired = value.starts_with(b"-") || value.iter().all(|&digit| digit == b'0');
                }
                b"expires" if !has_age => {
                    is_expired = parse_http_date(value, now_s).is_some_and(|at_s| at_s <= now_s);
                }
                _ => {}
            }
        }
        self.cookies
            .retain(|known| (known.target, &known.name, &known.path) != (target, &cookie.name, &cookie.path));
        if is_expired {
            return;
        }
        if self.cookies.len() >= MAXIMUM_COOKIES {
            self.cookies.remove(0);
        }
        self.cookies.push(cookie);
    }

    /// Appends the value of the Cookie field of a request; false if there is no cookie for it.
    pub(crate) fn append(&self, target: usize, path: &[u8], is_secure: bool, out: &mut Vec<u8>) -> bool {
        let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
        let is_for = |cookie: &&Cookie| {
            cookie.target == target && (is_secure || !cookie.is_secure) && is_at_or_below(path, &cookie.path)
        };
        let mut is_first = true;
        for cookie in self.cookies.iter().filter(is_for) {
            if !is_first {
                out.extend_from_slice(b"; ");
            }
            is_first = false;
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
        }
        !is_first
    }
}

/// The name and value of a Set-Cookie field (RFC 6265, section 5.2); `None`: the field is ignored.
pub(crate) fn set_cookie_pair(field: &[u8]) -> Option<(&[u8], &[u8])> {
    split_pair(field.split(|&byte| byte == b';').next()?).filter(|(name, _)| !name.is_empty())
}

fn split_pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == b'=')?;
    Some((text[..at].trim_ascii(), text[at + 1..].trim_ascii()))
}

fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// The default path (RFC 6265, section 5.1.4).
fn default_path(request_path: &[u8]) -> &[u8] {
    let path = request_path.split(|&byte| byte == b'?').next().unwrap_or_default();
    match path.iter().rposition(|&byte| byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_700_000_000;

    fn jar(fields: &[&str]) -> CookieJar {
        let mut jar = CookieJar::default();
        let fields: Vec<(Vec<u8>, Vec<u8>)> =
            fields.iter().map(|field| (b"Set-Cookie".to_vec(), field.as_bytes().to_vec())).collect();
        jar.take(&fields, 0, b"/shop/basket?x=/y/z", NOW);
        jar
    }

    fn sent(jar: &CookieJar, target: usize, path: &str, is_secure: bool) -> String {
        let mut out = Vec::new();
        jar.append(target, path.as_bytes(), is_secure, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn cookies_are_sent_to_their_server_and_path() {
        let jar = jar(&["a=1", "b=2; Path=/", "c=3; Secure; path=/", "d=4; Path=/sho", "e=5; Path=/shop/"]);
        assert_eq!(sent(&jar, 0, "/shop/x", false), "a=1; b=2; e=5");
        assert_eq!(sent(&jar, 0, "/shop?q=/shop/", false), "a=1; b=2");
        assert_eq!(sent(&jar, 0, "/", true), "b=2; c=3");
        assert_eq!(sent(&jar, 1, "/shop/x", true), "");
    }

    #[test]
    fn cookies_are_replaced_and_expire() {
        let jar = jar(&[
            "a=1; Path=/",
            "a=2; Path=/",
            "b=1; Path=/",
            "b=; Path=/; Max-Age=0",
            "c=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "d=1; Path=/; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "=x",
            "none",
        ]);
        assert_eq!(sent(&jar, 0, "/", false), "a=2; d=1");
        let many: Vec<String> = (0..300).map(|number| format!("n{number}=1; Path=/")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(self::jar(&many).cookies.len(), MAXIMUM_COOKIES);
    }

    proptest! {
        #[test]
        fn any_field_is_a_cookie_or_ignored(field: String, path in "/[a-z/?]{0,8}") {
            let jar = jar(&[&field]);
            let text = sent(&jar, 0, &path, true);
            prop_assert!(text.is_empty() || text.contains('='));
        }
    }
}
