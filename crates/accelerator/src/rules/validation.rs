//! Validates a stored response with its origin (RFC 9111 section 4.3).

use touchstone_http::date::parse_http_date;
use touchstone_http::entity_tag::EntityTag;

use super::fields::{FieldText, Fields};

/// The conditions that validate a stored response with these fields: name and value.
pub fn conditions(stored_fields: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let fields = FieldText(stored_fields);
    let mut conditions = Vec::new();
    if let Some(etag) = fields.first("etag") {
        conditions.push(("If-None-Match", etag.to_vec()));
    }
    if let Some(modified) = fields.first("last-modified") {
        conditions.push(("If-Modified-Since", modified.to_vec()));
    }
    conditions
}

/// Whether a 200 answer to HEAD describes the same representation as the stored response, so that it may
/// freshen that (section 4.3.5): validators that both have are equal, and so is the length.
pub fn is_same_representation(
    stored_fields: &[u8],
    stored_length: u64,
    head_fields: &[u8],
    head_length: Option<u64>,
    now: i64,
) -> bool {
    let (stored, newer) = (FieldText(stored_fields), FieldText(head_fields));
    let same_etag = match (stored.first("etag"), newer.first("etag")) {
        (Some(one), Some(other)) => match (EntityTag::parse(one), EntityTag::parse(other)) {
            (Some(one), Some(other)) => one.matches_weakly(&other),
            _ => one == other,
        },
        _ => true,
    };
    let date = |fields: &FieldText<'_>| {
        fields.first("last-modified").map(|value| parse_http_date(value, now).ok_or(value.to_vec()))
    };
    let same_date = match (date(&stored), date(&newer)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    same_etag && same_date && head_length.is_none_or(|length| length == stored_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_become_conditions() {
        let conditions = conditions(b"Last-Modified: x\r\nETag: W/\"a\"\r\n");
        assert_eq!(
            conditions,
            [("If-None-Match", b"W/\"a\"".to_vec()), ("If-Modified-Since", b"x".to_vec())]
        );
    }

    #[test]
    fn heads_of_another_version_are_told_apart() {
        let same = |head: &[u8], length| is_same_representation(b"ETag: \"a\"\r\n", 5, head, length, 0);
        assert!(same(b"ETag: W/\"a\"\r\n", Some(5)));
        assert!(same(b"", None));
        assert!(!same(b"ETag: \"b\"\r\n", Some(5)));
        assert!(!same(b"ETag: \"a\"\r\n", Some(6)));
    }
}
