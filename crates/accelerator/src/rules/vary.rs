//! Selects the stored response for a request (RFC 9111 section 4.1) by the fields in `Vary`, whose values are
//! normalised so that equivalent values are equal.
//!
//! A *selector* is stored with each response: the names in lower case and the normalised values of the
//! request that it answered.

use touchstone_http::grammar::{list_members, trim_optional_white_space};
use touchstone_http::weight::split_weight;

use super::fields::{FieldText, Fields};
use super::policy::Policy;

/// The maximum length of a request field in a selector, in bytes: with a longer one the response is not
/// stored.
const MOST_VALUE_BYTES: usize = 16 * 1024;

/// The selector of a response with these fields to a request with those; empty: every request selects it.
/// `None`: no selector can be made.
pub fn selector(response_fields: &[u8], request: impl Fields, policy: &Policy) -> Option<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut add = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        let is_cookie = policy.ignore_cookies && name == b"cookie";
        if !is_cookie && !names.contains(&name) {
            names.push(name);
        }
    };
    FieldText(response_fields).values("vary", &mut |value| list_members(value).for_each(&mut add));
    policy.vary_also.iter().for_each(|name| add(name));
    let mut selector = Vec::new();
    for name in names {
        let name_length = u8::try_from(name.len()).ok()?;
        selector.push(name_length);
        selector.extend_from_slice(&name);
        let start = selector.len();
        selector.extend_from_slice(&[0, 0]);
        if append_normal(&name, request, &mut selector) {
            let length = selector.len() - start - 2;
            if length > MOST_VALUE_BYTES {
                return None;
            }
            // The length plus one, so that an empty field differs from an absent one.
            let length = u16::try_from(length + 1).ok()?;
            selector[start..start + 2].copy_from_slice(&length.to_le_bytes());
        }
    }
    Some(selector)
}

/// Whether a request selects the response with this selector. `scratch` is overwritten.
pub fn matches(selector: &[u8], request: impl Fields, scratch: &mut Vec<u8>) -> bool {
    let mut rest = selector;
    while let Some((&name_length, after)) = rest.split_first() {
        let Some((name, after)) = after.split_at_checked(usize::from(name_length)) else { return false };
        let Some((length, after)) = after.split_first_chunk::<2>() else { return false };
        let length = usize::from(u16::from_le_bytes(*length));
        let Some((value, after)) = after.split_at_checked(length.saturating_sub(1)) else { return false };
        rest = after;
        scratch.clear();
        let is_there = append_normal(name, request, scratch);
        if is_there != (length > 0) || scratch != value {
            return false;
        }
    }
    true
}

/// Fields that are not lists: commas in their values do not separate.
const SINGLE: [&str; 7] = ["authorization", "cookie", "from", "host", "origin", "referer", "user-agent"];

/// Appends the normalised form of all lines of a field; false: it is absent. Two values have the same form
/// only if they are equivalent for every origin, whatever it knows about them.
fn append_normal(name: &[u8], request: impl Fields, out: &mut Vec<u8>) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    let (mut is_there, mut is_quoted) = (false, false);
    request.values(name, &mut |value| {
        is_there = true;
        is_quoted |= memchr::memchr(b'"', value).is_some();
    });
    match name {
        _ if is_quoted || SINGLE.contains(&name) => append_exact(name, request, out),
        "accept" | "accept-charset" | "accept-encoding" | "accept-language" => {
            append_by_weight(name, request, out);
        }
        _ => append_list(name, request, out),
    }
    is_there
}

/// Appends the lines as they were sent.
fn append_exact(name: &str, request: impl Fields, out: &mut Vec<u8>) {
    request.values(name, &mut |value| {
        out.extend_from_slice(value);
        // No value contains this byte.
        out.push(b'\n');
    });
}

/// Appends the members of a list with weights: the preferred ones first; the order of members with equal
/// weight does not matter.
fn append_by_weight(name: &str, request: impl Fields, out: &mut Vec<u8>) {
    let mut members: Vec<(u16, Vec<u8>)> = Vec::new();
    request.values(name, &mut |value| {
        for member in list_members(value) {
            let (text, weight) = split_weight(member).unwrap_or((member, 1000));
            let text = match memchr::memchr(b'=', text) {
                // The value of a parameter may be case-sensitive.
                Some(_) => text.to_vec(),
                None => text
                    .iter()
                    .filter(|byte| !byte.is_ascii_whitespace())
                    .map(u8::to_ascii_lowercase)
                    .collect(),
            };
            members.push((weight, text));
        }
    });
    members.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    members.dedup();
    for (weight, text) in members {
        out.extend_from_slice(&text);
        out.extend_from_slice(format!(";{weight},").as_bytes());
    }
}

/// Appends the members of a list, in one line and without white space around its commas.
fn append_list(name: &str, request: impl Fields, out: &mut Vec<u8>) {
    let mut is_first = true;
    request.values(name, &mut |value| {
        for member in value.split(|&byte| byte == b',') {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.extend_from_slice(trim_optional_white_space(member));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selects(vary: &str, one: &str, other: &str) -> bool {
        let response = format!("Vary: {vary}\r\n");
        let selector = selector(response.as_bytes(), FieldText(one.as_bytes()), &Policy::default()).unwrap();
        matches(&selector, FieldText(other.as_bytes()), &mut Vec::new())
    }

    #[test]
    fn what_means_the_same_selects_the_same() {
        for (vary, one, other) in [
            ("X", "X: 1\r\nY: 1\r\n", "y: 2\r\nx: 1\r\n"),
            ("x, X, Y", "X: 1\r\n", "X: 1\r\n"),
            ("X", "X: 1,2\r\n", "X: 1\r\nX: 2\r\n"),
            ("X", "X: 1 ,  2\r\n", "X: 1,2\r\n"),
            ("Accept-Language", "Accept-Language: en, DE\r\n", "Accept-Language: de,en\r\n"),
            ("Accept-Language", "Accept-Language: en;q=0.5, de\r\n", "Accept-Language: de, en; q=0.5\r\n"),
            ("Accept-Encoding", "Accept-Encoding: gzip, br\r\n", "Accept-Encoding: br, gzip\r\n"),
            (
                "Accept-Encoding",
                "Accept-Encoding: GZIP;q=0.50, br\r\n",
                "Accept-Encoding: br, gzip;q=0.5\r\n",
            ),
            ("Accept", "Accept: text/HTML, a/b;v=1\r\n", "Accept: a/b;v=1,text/html\r\n"),
        ] {
            assert!(selects(vary, one, other), "{vary}: {one} {other}");
        }
        for (vary, one, other) in [
            ("X", "X: 1\r\n", "X: 2\r\n"),
            ("X", "X: 1\r\n", ""),
            ("X", "", "X: 1\r\n"),
            ("X", "", "X:\r\n"),
            ("X, Y", "X: 1\r\nY: 1\r\n", "X: 1\r\nY: 2\r\n"),
            ("X", "X: \"1 , 2\"\r\n", "X: \"1,2\"\r\n"),
            ("Accept-Language", "Accept-Language: en;q=0.5, de\r\n", "Accept-Language: en, de\r\n"),
            ("Accept-Encoding", "Accept-Encoding: gzip\r\n", "Accept-Encoding: br\r\n"),
            ("Accept-Encoding", "Accept-Encoding: gzip\r\n", ""),
            ("Accept-Encoding", "Accept-Encoding: gzip, deflate\r\n", "Accept-Encoding: gzip\r\n"),
            ("Accept-Encoding", "Accept-Encoding: deflate\r\n", "Accept-Encoding: deflate;q=0\r\n"),
            ("Accept-Encoding", "Accept-Encoding: dcb\r\n", "Accept-Encoding: dcz\r\n"),
            ("Accept", "Accept: a/b;v=\"x Y\"\r\n", "Accept: a/b;v=\"xy\"\r\n"),
            ("Accept", "Accept: a/b;v=X\r\n", "Accept: a/b;v=x\r\n"),
            ("Cookie", "Cookie: a=1\r\nCookie: b=2\r\n", "Cookie: a=1,b=2\r\n"),
            ("Cookie", "Cookie: a=1 , b\r\n", "Cookie: a=1,b\r\n"),
            ("User-Agent", "User-Agent: a (b, c)\r\n", "User-Agent: a (b,c)\r\n"),
        ] {
            assert!(!selects(vary, one, other), "{vary}: {one} {other}");
        }
    }

    #[test]
    fn a_policy_adds_and_takes_away() {
        let policy = Policy {
            ignore_cookies: true,
            vary_also: vec![b"X-Device".as_slice().into()],
            ..Policy::default()
        };
        let request = FieldText(b"Cookie: 1\r\nX-Device: phone\r\n");
        let selector = selector(b"Vary: Cookie\r\n", request, &policy).unwrap();
        assert!(matches(&selector, FieldText(b"Cookie: 2\r\nx-device: phone\r\n"), &mut Vec::new()));
        assert!(!matches(&selector, FieldText(b"Cookie: 1\r\nx-device: desk\r\n"), &mut Vec::new()));
    }

    proptest! {
        #[test]
        fn a_request_selects_its_own_response(
            name in "(accept|accept-encoding|accept-language|cookie|x)",
            value in "[ -~]{0,40}",
        ) {
            let request = format!("{name}: {}\r\n", value.trim());
            let request = FieldText(request.as_bytes());
            let response = format!("Vary: {name}, other\r\n");
            let selector = selector(response.as_bytes(), request, &Policy::default()).unwrap();
            prop_assert!(matches(&selector, request, &mut Vec::new()));
        }

        #[test]
        fn any_bytes_are_a_selector_of_nothing_worse(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            matches(&bytes, FieldText(b"a: b\r\n"), &mut Vec::new());
        }
    }
}
