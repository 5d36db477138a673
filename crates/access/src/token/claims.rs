//! Values of claims, found by dotted names: `realm_access.roles` is the member `roles` of the object
//! `realm_access`. A claim whose own name has dots (`https://example.com/role`) is found by its whole name.

use serde_json::{Map, Value};

/// The claims of a token.
pub type Claims = Map<String, Value>;

/// The maximum length of a header field's value from a claim, in bytes.
pub const LONGEST_FIELD_BYTES: usize = 4096;

/// The value of a claim.
pub fn find<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    find(claims.get(first)?.as_object()?, rest)
}

/// Whether a claim contains a value: a string that is equal to it, a string that lists it between spaces (as
/// `scope`, RFC 8693 section 4.2), an array that contains it, or a number or boolean with this spelling.
pub fn contains(claim: &Value, required: &str) -> bool {
    match claim {
        Value::String(text) => text == required || text.split(' ').any(|word| word == required),
        Value::Array(items) => items.iter().any(|item| match item {
            Value::String(text) => text == required,
            other => plain_text(other).is_some_and(|text| text == required),
        }),
        other => plain_text(other).is_some_and(|text| text == required),
    }
}

/// A claim as the value of a header field: a string as it is, a number or boolean as in JSON, an array of
/// these with commas between them. `None`: it is another kind of value, has control characters, or is too
/// long.
pub fn field_value(claim: &Value) -> Option<String> {
    let text = match claim {
        Value::Array(items) => items.iter().map(plain_text).collect::<Option<Vec<_>>>()?.join(","),
        other => plain_text(other)?,
    };
    let is_field = text.len() <= LONGEST_FIELD_BYTES && !text.bytes().any(|byte| byte.is_ascii_control());
    (is_field && text.trim() == text).then_some(text)
}

fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(boolean) => Some(boolean.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(value: Value) -> Claims {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_claim_is_found_by_its_dotted_name() {
        let claims = claims(json!({ "sub": "a", "realm": { "roles": ["x"] }, "https://e.org/r": 1 }));
        assert_eq!(find(&claims, "sub"), Some(&json!("a")));
        assert_eq!(find(&claims, "realm.roles"), Some(&json!(["x"])));
        assert_eq!(find(&claims, "https://e.org/r"), Some(&json!(1)));
        assert_eq!(find(&claims, "sub.x"), None);
        assert_eq!(find(&claims, "other"), None);
    }

    #[test]
    fn a_wanted_value_is_a_whole_word() {
        assert!(contains(&json!("orders.read orders.write"), "orders.write"));
        assert!(!contains(&json!("orders.write-all"), "orders.write"));
        assert!(contains(&json!(["admin", "user"]), "admin"));
        assert!(!contains(&json!(["admin user"]), "admin"), "an item of an array is one value");
        assert!(contains(&json!(true), "true"));
        assert!(contains(&json!(7), "7"));
        assert!(!contains(&json!({ "admin": true }), "admin"));
        assert!(!contains(&json!(null), "null"));
    }

    #[test]
    fn a_field_value_is_one_line_of_text() {
        assert_eq!(field_value(&json!("alice")), Some("alice".to_string()));
        assert_eq!(field_value(&json!(["a", 2])), Some("a,2".to_string()));
        assert_eq!(field_value(&json!("a\r\nX: y")), None);
        assert_eq!(field_value(&json!("a\u{0}")), None);
        assert_eq!(field_value(&json!(" a")), None);
        assert_eq!(field_value(&json!({})), None);
        assert_eq!(field_value(&json!("x".repeat(LONGEST_FIELD_BYTES + 1))), None);
    }
}
