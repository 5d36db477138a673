//! Finds the token in a request.

use touchstone_http::request_view::RequestView;

/// A request's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'r> {
    /// There is no token.
    Absent,
    /// There is more than one, or the field is malformed.
    Malformed,
    /// The token.
    Token(&'r [u8]),
}

/// The token of a request: that of its one `Authorization` field with the scheme `Bearer`, or else of the
/// cookie with this name (empty: cookies are not used). A field with another scheme is ignored.
pub fn credentials<'r>(request: &RequestView<'r>, cookie: &str) -> Credentials<'r> {
    let mut values = request.values(b"authorization");
    if let Some(value) = values.next() {
        if values.next().is_some() {
            return Credentials::Malformed;
        }
        if let Some((scheme, token)) = value.split_at_checked(7)
            && scheme.eq_ignore_ascii_case(b"bearer ")
        {
            return token_of(token.trim_ascii());
        }
    }
    if cookie.is_empty() {
        return Credentials::Absent;
    }
    let pairs = request.values(b"cookie").flat_map(|value| value.split(|byte| *byte == b';'));
    let mut found = pairs.filter_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        (pair[..equals].trim_ascii() == cookie.as_bytes()).then(|| pair[equals + 1..].trim_ascii())
    });
    match (found.next(), found.next()) {
        (None, _) => Credentials::Absent,
        // There are two cookies with the name: another host of the domain may have set one of them.
        (Some(_), Some(_)) => Credentials::Malformed,
        (Some(token), None) => token_of(token),
    }
}

/// RFC 6750 section 2.1: `b64token`, of which a JSON Web Token uses letters, digits, `-`, `_` and `.`.
fn token_of(token: &[u8]) -> Credentials<'_> {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match !token.is_empty() && token.iter().all(is_of_token) {
        true => Credentials::Token(token),
        false => Credentials::Malformed,
    }
}
