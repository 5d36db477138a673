//! Answers to QUERY (RFC 10008): the request's content is part of the key of a stored response.
//!
//! The key of an answer to QUERY is that of its target, a space, which is in no target, and a digest of the
//! content and of the fields that describe the content. So an equal query finds the same answer, and never
//! the answer to GET.

use sha2::{Digest, Sha256};

use super::fields::Fields;

/// The maximum length of a request's content whose answer is stored, in bytes.
pub const MOST_CONTENT_BYTES: u64 = 64 * 1024;

/// The fields that describe the content.
const OF_CONTENT: [&str; 3] = ["content-type", "content-encoding", "content-language"];

/// Whether the answer to a request with these fields and a content of this length may be stored. Without a
/// media type the content has no meaning, and the origin refuses it.
pub fn may_be_stored(request: impl Fields, content_length: Option<u64>) -> bool {
    content_length.is_some_and(|length| length <= MOST_CONTENT_BYTES) && request.has("content-type")
}

/// Appends the part for the content to the key of the target. `epoch` is the number of times that the target
/// was purged or changed.
pub fn append_to_key(request: impl Fields, content: &[u8], epoch: [u8; 12], key: &mut Vec<u8>) {
    let mut digest = Sha256::new();
    for name in OF_CONTENT {
        request.values(name, &mut |value| {
            digest.update(name);
            digest.update(b":");
            digest.update(normal(name, value));
            digest.update(b"\n");
        });
    }
    digest.update(b"\n");
    digest.update(content);
    key.push(b' ');
    key.extend_from_slice(&epoch);
    key.extend_from_slice(&digest.finalize());
}

/// Normalises a value: type and subtype, and names of codings and languages, are not case-sensitive (RFC 9110
/// sections 8.3 to 8.5). Parameters are unchanged.
fn normal(name: &str, value: &[u8]) -> Vec<u8> {
    let mut normal = value.to_vec();
    let end = match name {
        "content-type" => memchr::memchr(b';', value).unwrap_or(value.len()),
        _ => value.len(),
    };
    normal[..end].make_ascii_lowercase();
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fields::FieldText;
    use proptest::prelude::*;

    fn key(fields: &str, content: &[u8], epoch: u8) -> Vec<u8> {
        let mut key = b"target".to_vec();
        append_to_key(FieldText(fields.as_bytes()), content, [epoch; 12], &mut key);
        key
    }

    #[test]
    fn what_is_asked_makes_the_key() {
        let fields = "Content-Type: text/x-query; charset=UTF-8\r\nAccept: a/b\r\n";
        let usual = key(fields, b"select a", 0);
        assert!(usual.starts_with(b"target "));
        for same in [
            "Content-Type: Text/X-Query; charset=UTF-8\r\n",
            "X: 1\r\ncontent-type: text/x-query; charset=UTF-8\r\n",
        ] {
            assert_eq!(key(same, b"select a", 0), usual, "{same}");
        }
        for other in [
            "Content-Type: text/x-query; charset=utf-8\r\n",
            "Content-Type: text/x-query\r\n",
            "Content-Type: application/json\r\n",
            "Content-Type: text/x-query; charset=UTF-8\r\nContent-Encoding: gzip\r\n",
            "Content-Type: text/x-query; charset=UTF-8\r\nContent-Language: de\r\n",
        ] {
            assert_ne!(key(other, b"select a", 0), usual, "{other}");
        }
        assert_ne!(key(fields, b"select b", 0), usual);
        assert_ne!(key(fields, b"select a", 1), usual);
    }

    #[test]
    fn content_without_a_type_and_long_content_is_not_stored() {
        let fields = FieldText(b"Content-Type: a/b\r\n");
        assert!(may_be_stored(fields, Some(0)) && may_be_stored(fields, Some(MOST_CONTENT_BYTES)));
        assert!(!may_be_stored(fields, Some(MOST_CONTENT_BYTES + 1)) && !may_be_stored(fields, None));
        assert!(!may_be_stored(FieldText(b"Accept: a/b\r\n"), Some(1)));
    }

    proptest! {
        #[test]
        fn other_content_has_another_key(one in any::<Vec<u8>>(), other in any::<Vec<u8>>()) {
            let fields = "Content-Type: a/b\r\n";
            prop_assert_eq!(one == other, key(fields, &one, 0) == key(fields, &other, 0));
        }
    }
}
