//! The cookie with the pass, and one that shows whether a browser keeps cookies.
//!
//! Over HTTPS names begin with `__Host-`: browsers accept such a cookie from this host only, over HTTPS only,
//! for all paths. Programs and origins do not get them.

use touchstone_http::cookie::{self, HOST_PREFIX};

const BEGIN: &str = "touchstone-check-";

/// The name of the cookie of a rule, or of the one that shows whether cookies are kept.
pub fn name(what: &str, is_https: bool) -> String {
    format!("{}{BEGIN}{what}", if is_https { HOST_PREFIX } else { "" })
}

/// What the cookie is called that shows whether cookies are kept.
pub const PROBE: &str = "cookies";

/// A line of an answer that sets a cookie.
pub fn set(name: &str, value: &str, max_age_s: u64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("Set-Cookie: {name}={value}; Path=/; Max-Age={max_age_s}{secure}; HttpOnly; SameSite=Lax\r\n")
}

/// The values of a cookie in `Cookie` fields. A client may send several with one name.
pub fn values<'f>(fields: impl Iterator<Item = &'f [u8]>, name: &str) -> impl Iterator<Item = &'f [u8]> {
    cookie::pairs(fields).filter(move |(own, _)| *own == name.as_bytes()).map(|(_, value)| value)
}

/// Whether this is the name of a cookie of a check, also for a program that ignores case.
pub fn is_own_cookie(name: &[u8]) -> bool {
    cookie::begins_with(name, &[BEGIN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_checks_are_taken_out() {
        for (field, kept) in [
            ("a=b", Some("a=b")),
            ("a=b; __Host-touchstone-check-1=x; c=d", Some("a=b; c=d")),
            ("__HOST-Touchstone-Check-cookies=1", None),
            ("touchstone-other=x", Some("touchstone-other=x")),
        ] {
            assert_eq!(
                cookie::without(field.as_bytes(), is_own_cookie).as_deref(),
                kept.map(str::as_bytes),
                "{field}"
            );
            assert_eq!(cookie::has(field.as_bytes(), is_own_cookie), kept != Some(field), "{field}");
        }
    }

    #[test]
    fn all_values_of_a_name_are_found() {
        let fields = [&b"a=1; n=x ; b"[..], b"n=y;nn=z"];
        let found: Vec<&[u8]> = values(fields.into_iter(), "n").collect();
        assert_eq!(found, [b"x", b"y"]);
        assert!(set("n", "v", 5, true).contains("; Max-Age=5; Secure; HttpOnly; SameSite=Lax\r\n"));
    }
}
