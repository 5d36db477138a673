//! `Cookie` fields (RFC 6265 section 4.2): their pairs, and the removal of the server's own cookies from what
//! programs and origins get.

/// The beginning of names that browsers accept from this host only, over HTTPS only, for all paths.
pub const HOST_PREFIX: &str = "__Host-";

/// The cookies of `Cookie` fields: names and values.
pub fn pairs<'f>(fields: impl Iterator<Item = &'f [u8]>) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    fields.flat_map(|field| field.split(|&byte| byte == b';')).map(split)
}

fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let pair = pair.trim_ascii();
    match pair.iter().position(|&byte| byte == b'=') {
        Some(at) => (pair[..at].trim_ascii_end(), pair[at + 1..].trim_ascii_start()),
        None => (b"", pair),
    }
}

/// Whether a name begins with one of these texts, perhaps after [`HOST_PREFIX`], also for a program that
/// ignores case.
pub fn begins_with(name: &[u8], beginnings: &[&str]) -> bool {
    let begins = |name: &[u8], with: &str| {
        name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()))
    };
    let name = if begins(name, HOST_PREFIX) { &name[HOST_PREFIX.len()..] } else { name };
    beginnings.iter().any(|beginning| begins(name, beginning))
}

/// Whether a field has a cookie whose name is one of the server's own.
pub fn has(field: &[u8], is_own: impl Fn(&[u8]) -> bool) -> bool {
    pairs([field].into_iter()).any(|(name, _)| is_own(name))
}

/// A field without the cookies whose names are the server's own; `None`: nothing is left.
pub fn without(field: &[u8], is_own: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let stays = |pair: &&[u8]| !is_own(split(pair).0);
    let kept: Vec<&[u8]> = field.split(|&byte| byte == b';').filter(stays).collect();
    let text = kept.join(&b';');
    let text = text.trim_ascii();
    (!text.is_empty()).then(|| text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_own(name: &[u8]) -> bool {
        begins_with(name, &["own-", "mine-"])
    }

    #[test]
    fn own_cookies_are_taken_out() {
        for (field, kept) in [
            ("a=b", Some("a=b")),
            ("a=b; __Host-own-1=x; c=d", Some("a=b; c=d")),
            ("__HOST-Mine-1=1", None),
            ("owner=x; a=own-1", Some("owner=x; a=own-1")),
        ] {
            assert_eq!(without(field.as_bytes(), is_own).as_deref(), kept.map(str::as_bytes), "{field}");
            assert_eq!(has(field.as_bytes(), is_own), kept != Some(field), "{field}");
        }
    }

    proptest! {
        #[test]
        fn no_own_cookie_is_left(field in "(([oO]wn-|mine-|__Host-|a|=|;| ){0,12})") {
            let kept = without(field.as_bytes(), is_own);
            prop_assert!(!kept.is_some_and(|kept| has(&kept, is_own)));
        }
    }
}
