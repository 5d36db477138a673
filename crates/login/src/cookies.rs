//! Cookies in requests and answers: their names, one value in several cookies, and the removal of all cookies
//! of a login from what programs and origins get.
//!
//! Over HTTPS names begin with `__Host-`: browsers accept such a cookie from this host only, over HTTPS only,
//! for all paths. A value that is too long for one cookie is continued in `NAME.1`, `NAME.2` and so on; the
//! value of the first begins with the number of all.

use touchstone_http::cookie::{self, HOST_PREFIX, pairs};

/// The maximum length of the value of one cookie: browsers keep 4,096 bytes of name, value and attributes
/// (RFC 6265 section 6.1).
const LONGEST_VALUE: usize = 3800;

/// The most cookies for one value. Browsers send them all in a head, which servers limit.
const MOST_COOKIES: usize = 3;

/// The maximum length of a sealed text.
pub const LONGEST_SEALED: usize = LONGEST_VALUE * MOST_COOKIES;

const SESSION: &str = "touchstone-session-";
const LOGIN: &str = "touchstone-login-";

/// The name of the cookies of a session. `client` names the provider and the client.
pub fn session_name(client: &str, is_https: bool) -> String {
    let prefix = if is_https { HOST_PREFIX } else { "" };
    format!("{prefix}{SESSION}{client}")
}

/// The beginning of the names of cookies for started logins.
pub fn login_prefix(client: &str, is_https: bool) -> String {
    let prefix = if is_https { HOST_PREFIX } else { "" };
    format!("{prefix}{LOGIN}{client}-")
}

/// The one value of a cookie; `None`: there is none, or there are several.
pub fn value<'f>(fields: impl Iterator<Item = &'f [u8]>, name: &[u8]) -> Option<&'f [u8]> {
    let mut found = pairs(fields).filter(|(other, _)| *other == name);
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

/// The sealed text in the cookies with this name; `None`: there is none, or it is incomplete.
pub fn joined<'f>(fields: impl Iterator<Item = &'f [u8]> + Clone, name: &str) -> Option<Vec<u8>> {
    let first = value(fields.clone(), name.as_bytes())?;
    let (&count, rest) = first.split_first()?;
    let count = usize::from(count.checked_sub(b'0')?);
    let first = rest.strip_prefix(b".")?;
    if !(1..=MOST_COOKIES).contains(&count) || first.len() > LONGEST_VALUE {
        return None;
    }
    let mut text = first.to_vec();
    for number in 1..count {
        let next = value(fields.clone(), format!("{name}.{number}").as_bytes())?;
        if next.len() > LONGEST_VALUE {
            return None;
        }
        text.extend_from_slice(next);
    }
    Some(text)
}

/// The lines of an answer that set a sealed text, and remove cookies that continued a longer one; `None`: it
/// is too long.
pub fn set<'f>(
    name: &str,
    text: &str,
    is_https: bool,
    before: impl Iterator<Item = &'f [u8]>,
) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > LONGEST_SEALED {
        return None;
    }
    let pieces: Vec<&str> =
        text.as_bytes().chunks(LONGEST_VALUE).map(std::str::from_utf8).collect::<Result<_, _>>().ok()?;
    let mut lines = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let line = match number {
            0 => set_line(name, &format!("{}.{piece}", pieces.len()), None, is_https),
            _ => set_line(&format!("{name}.{number}"), piece, None, is_https),
        };
        lines.extend_from_slice(line.as_bytes());
    }
    let is_obsolete = |other: &[u8]| {
        let number = number_behind(other, name);
        number.is_some_and(|number| number >= pieces.len())
    };
    lines.extend(expire(before, is_obsolete, is_https));
    Some(lines)
}

/// The lines of an answer that remove the cookies of a request with this name.
pub fn remove<'f>(name: &str, is_https: bool, before: impl Iterator<Item = &'f [u8]>) -> Vec<u8> {
    expire(before, |other| number_behind(other, name).is_some(), is_https)
}

/// The lines of an answer that remove those cookies of a request whose name is one of these.
pub fn expire<'f>(
    fields: impl Iterator<Item = &'f [u8]>,
    is_removed: impl Fn(&[u8]) -> bool,
    is_https: bool,
) -> Vec<u8> {
    let names = pairs(fields).map(|(name, _)| name).filter(|name| is_removed(name));
    // Names of the login are tokens; other names from the client are not repeated.
    let names = names.filter_map(|name| std::str::from_utf8(name).ok()).filter(|name| is_plain(name));
    names.flat_map(|name| set_line(name, "", Some(0), is_https).into_bytes()).collect()
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// 0 for the name itself, and the number of what continues it.
fn number_behind(other: &[u8], name: &str) -> Option<usize> {
    match other.strip_prefix(name.as_bytes())? {
        b"" => Some(0),
        [b'.', digit @ b'1'..=b'9'] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

/// A line that sets a cookie, for a time or until the browser is closed.
pub fn set_line(name: &str, value: &str, max_age_s: Option<u64>, is_https: bool) -> String {
    let age = max_age_s.map_or(String::new(), |seconds| format!("; Max-Age={seconds}"));
    let secure = if is_https { "; Secure" } else { "" };
    format!("Set-Cookie: {name}={value}; Path=/{age}{secure}; HttpOnly; SameSite=Lax\r\n")
}

/// Whether this is the name of a cookie of a login, also for a program that ignores case.
pub fn is_own_cookie(name: &[u8]) -> bool {
    cookie::begins_with(name, &[SESSION, LOGIN])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(lines: &[u8]) -> String {
        let text = std::str::from_utf8(lines).unwrap();
        let pair =
            |line: &str| line.strip_prefix("Set-Cookie: ").unwrap().split(';').next().unwrap().to_string();
        text.lines().map(pair).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn cookies_of_a_login_are_taken_out() {
        for (field, kept) in [
            ("a=b", Some("a=b")),
            ("a=b; __Host-touchstone-session-12=x; c=d", Some("a=b; c=d")),
            ("__host-Touchstone-Session-12.1=x", None),
            ("touchstone-login-12-ab=x;a", Some("a")),
            ("touchstone-other=x", Some("touchstone-other=x")),
            ("a=touchstone-session-1=2", Some("a=touchstone-session-1=2")),
        ] {
            assert_eq!(
                cookie::without(field.as_bytes(), is_own_cookie).as_deref(),
                kept.map(str::as_bytes),
                "{field}"
            );
        }
    }

    #[test]
    fn cookies_have_all_attributes() {
        let name = session_name("12", true);
        assert_eq!(
            set(&name, "abc", true, std::iter::empty()).as_deref(),
            Some(
                &b"Set-Cookie: __Host-touchstone-session-12=1.abc; Path=/; Secure; HttpOnly; \
                   SameSite=Lax\r\n"[..]
            )
        );
        assert_eq!(set(&name, &"a".repeat(LONGEST_SEALED + 1), true, std::iter::empty()), None);
    }

    #[test]
    fn a_shorter_session_removes_what_continued_the_longer_one() {
        let before = b"s=2.a; s.1=b; s.x=c; s.2=d; s.1x=e".as_slice();
        let lines = set("s", "new", false, [before].into_iter()).unwrap();
        let text = String::from_utf8(lines).unwrap();
        assert_eq!(text.matches("Max-Age=0").count(), 2, "{text}");
        let removed = String::from_utf8(remove("s", false, [before].into_iter())).unwrap();
        assert_eq!(removed.matches("Max-Age=0").count(), 3, "{removed}");
    }

    #[test]
    fn what_is_not_whole_is_none() {
        for bad in ["s=", "s=1", "s=0.a", "s=4.a", "s=2.a", "s=1.a; s=1.b", "s=2.a; s.1=b; s.1=c", "t=1.a"] {
            assert_eq!(joined([bad.as_bytes()].into_iter(), "s"), None, "{bad}");
        }
        assert_eq!(joined([&b"x=y"[..], b"s=2.a", b"s.1=b"].into_iter(), "s").as_deref(), Some(&b"ab"[..]));
    }

    proptest! {
        #[test]
        fn what_was_set_is_read_again(text in "[A-Za-z0-9_-]{1,11400}") {
            let lines = set("s", &text, true, std::iter::empty()).unwrap();
            for line in lines.split(|&byte| byte == b'\n') {
                prop_assert!(line.len() <= 4096);
            }
            let field = field(&lines);
            prop_assert_eq!(joined([field.as_bytes()].into_iter(), "s"), Some(text.into_bytes()));
        }

        #[test]
        fn nothing_of_a_login_is_left(
            field in "[a;= ]{0,5}(__Host-)?touchstone-(session|login)-[a-z=;. ]{0,20}",
        ) {
            let kept = cookie::without(field.as_bytes(), is_own_cookie);
            prop_assert!(!kept.is_some_and(|kept| cookie::has(&kept, is_own_cookie)));
        }
    }
}
