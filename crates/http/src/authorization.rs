//! The scheme of `Authorization` (RFC 9110 section 11.6.2).

/// The scheme that authenticated the user of a request: `Basic`, or `Bearer` for a token, which may also be
/// in a cookie.
pub fn authentication_scheme<'f>(mut fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> &'static str {
    let is_basic = |value: &[u8]| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    let has_basic =
        fields.any(|(name, value)| name.eq_ignore_ascii_case(b"authorization") && is_basic(value));
    if has_basic { "Basic" } else { "Bearer" }
}

#[cfg(test)]
mod tests {
    use super::authentication_scheme;

    #[test]
    fn basic_is_distinguished_from_tokens() {
        let scheme =
            |fields: &[(&'static [u8], &'static [u8])]| authentication_scheme(fields.iter().copied());
        assert_eq!(scheme(&[(b"Host", b"a"), (b"authorization", b"bAsic YTpi")]), "Basic");
        assert_eq!(scheme(&[(b"Authorization", b"Bearer a.b.c")]), "Bearer");
        assert_eq!(scheme(&[(b"Cookie", b"token=basic x")]), "Bearer");
        assert_eq!(scheme(&[]), "Bearer");
    }
}
