//! `Cache-Groups` and `Cache-Group-Invalidation` (RFC 9875): stored responses of one origin that belong
//! together, and responses to unsafe requests that make whole groups stale.

use super::fields::{FieldText, Fields};
use super::structured::{Value, list};

/// The maximum number of groups of one field; further ones are ignored. RFC 9875 requires at least 32.
pub const MOST_GROUPS: usize = 128;

/// The maximum length of a group's name in bytes; a longer name is ignored. RFC 9875 requires at least 32.
pub const MOST_NAME_BYTES: usize = 128;

/// The groups that a response belongs to.
pub fn of_response(fields: &[u8]) -> Vec<Vec<u8>> {
    named(fields, "cache-groups")
}

/// The groups that a response to an unsafe request invalidates.
pub fn invalidated_by(fields: &[u8]) -> Vec<Vec<u8>> {
    named(fields, "cache-group-invalidation")
}

/// The strings of a list. A field that is not a list of strings is ignored.
fn named(fields: &[u8], name: &str) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    let fields = FieldText(fields);
    fields.values(name, &mut |value| values.push(value));
    if values.is_empty() {
        return Vec::new();
    }
    let text = |value: Value| match value {
        Value::Text(text) => Some(text),
        _ => None,
    };
    let members: Option<Vec<Vec<u8>>> =
        list(&values.join(&b", "[..])).and_then(|members| members.into_iter().map(text).collect());
    let mut groups = members.unwrap_or_default();
    groups.truncate(MOST_GROUPS);
    groups.retain(|group| group.len() <= MOST_NAME_BYTES);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(value: &str) -> Vec<String> {
        let fields = format!("A: b\r\nCache-Groups: {value}\r\n");
        of_response(fields.as_bytes()).into_iter().map(|group| String::from_utf8(group).unwrap()).collect()
    }

    #[test]
    fn the_examples_of_the_document_are_read() {
        // Sections 2 and 3.
        assert_eq!(groups("\"scripts\""), ["scripts"]);
        let fields = b"Cache-Group-Invalidation: \"eurovision-results\", \"kylie-minogue\"\r\n";
        assert_eq!(invalidated_by(fields), [&b"eurovision-results"[..], b"kylie-minogue"]);
        assert!(of_response(fields).is_empty());
    }

    #[test]
    fn what_is_no_list_of_strings_names_no_group() {
        assert_eq!(groups("\"a\";x=1, \"B\""), ["a", "B"]);
        assert_eq!(groups("\"a\"\r\ncache-groups: \"b\""), ["a", "b"]);
        for invalid in ["a", "\"a\", b", "\"a\",", "1", "(\"a\")", "\"a", ""] {
            assert!(groups(invalid).is_empty(), "{invalid}");
        }
    }

    #[test]
    fn limits() {
        let groups_read = |count: usize, length: usize| {
            let name = |number: usize| format!("\"{number:0length$}\"");
            groups(&(0..count).map(name).collect::<Vec<_>>().join(", ")).len()
        };
        assert_eq!(groups_read(32, 32), 32);
        assert_eq!(groups_read(MOST_GROUPS, MOST_NAME_BYTES), MOST_GROUPS);
        assert_eq!(groups_read(MOST_GROUPS + 1, 10), MOST_GROUPS);
        assert_eq!(groups_read(3, MOST_NAME_BYTES + 1), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let fields = [b"Cache-Groups: ", &value[..], b"\r\n"].concat();
            prop_assert!(of_response(&fields).len() <= MOST_GROUPS);
        }
    }
}
