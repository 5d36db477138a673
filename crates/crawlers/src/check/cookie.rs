//! The cookie with the pass, and one that shows whether a browser keeps cookies.
//!
//! Over HTTPS names begin with `__Host-`: browsers accept such a cookie from this host only, over HTTPS only,
//! for all paths. Programs and origins do not get them.

const HOST_PREFIX: &str = "__Host-";
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
    fields.flat_map(|field| field.split(|&byte| byte == b';')).filter_map(move |pair| {
        let (own, value) = split(pair);
        (own == name.as_bytes()).then_some(value)
    })
}

fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let pair = pair.trim_ascii();
    match pair.iter().position(|&byte| byte == b'=') {
        Some(at) => (pair[..at].trim_ascii_end(), pair[at + 1..].trim_ascii_start()),
        None => (b"", pair),
    }
}

/// Whether a `Cookie` field has cookies of a check.
pub fn has_cookies(field: &[u8]) -> bool {
    field.split(|&byte| byte == b';').any(is_of_check)
}

/// A `Cookie` field without the cookies of checks; `None`: nothing is left.
pub fn without_cookies(field: &[u8]) -> Option<Vec<u8>> {
    let kept: Vec<&[u8]> = field.split(|&byte| byte == b';').filter(|pair| !is_of_check(pair)).collect();
    let text = kept.join(&b';');
    let text = text.trim_ascii();
    (!text.is_empty()).then(|| text.to_vec())
}

/// Whether a pair is a cookie of a check, also for a program that ignores case.
fn is_of_check(pair: &[u8]) -> bool {
    let begins = |name: &[u8], with: &str| {
        name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()))
    };
    let name = split(pair).0;
    let name = if begins(name, HOST_PREFIX) { &name[HOST_PREFIX.len()..] } else { name };
    begins(name, BEGIN)
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
            assert_eq!(without_cookies(field.as_bytes()).as_deref(), kept.map(str::as_bytes), "{field}");
            assert_eq!(has_cookies(field.as_bytes()), kept != Some(field), "{field}");
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
