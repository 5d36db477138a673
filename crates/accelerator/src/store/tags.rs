//! The tags by which a response can be purged: `Surrogate-Key`, separated by spaces, and `Cache-Tag`,
//! separated by commas.

use touchstone_http::grammar::list_members;

use crate::rules::fields::lines;

/// The tags in field lines.
pub fn tags(fields: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(fields).flat_map(|(name, value)| {
        let is_key = name.eq_ignore_ascii_case(b"surrogate-key");
        let is_tag = name.eq_ignore_ascii_case(b"cache-tag");
        let keys = if is_key { value } else { &[] };
        let tags = if is_tag { value } else { &[] };
        keys.split(|byte| byte.is_ascii_whitespace()).filter(|key| !key.is_empty()).chain(list_members(tags))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fields_are_read() {
        let fields = b"Surrogate-Key: a  b\r\nX: c\r\nCache-Tag: d e, f\r\n";
        assert_eq!(tags(fields).collect::<Vec<_>>(), [&b"a"[..], b"b", b"d e", b"f"]);
    }
}
