//! Converts a configuration from JSON to TOML, so that it is read and checked like a file.

use serde_json::{Map, Value};

/// The document as TOML. Each table has its header, and each key its own line.
///
/// Fails with a value that TOML does not support.
pub fn toml_text(document: &Map<String, Value>) -> Result<String, String> {
    let mut text = String::new();
    append_table(&mut text, &mut Vec::new(), document)?;
    Ok(text)
}

/// Appends the keys of a table, then the tables inside it.
fn append_table(text: &mut String, path: &mut Vec<String>, table: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in table.iter().filter(|(_, value)| !is_table(value) && !is_tables(value)) {
        append_key(text, name);
        text.push_str(" = ");
        append_value(text, value).map_err(|problem| format!("'{name}': {problem}"))?;
        text.push('\n');
    }
    for (name, value) in table {
        let items: &[Value] = match value {
            Value::Object(_) => std::slice::from_ref(value),
            Value::Array(items) if is_tables(value) => items,
            _ => continue,
        };
        path.push(name.clone());
        for item in items {
            let Value::Object(inner) = item else { continue };
            let (open, close) = if is_table(value) { ("[", "]") } else { ("[[", "]]") };
            text.push_str(open);
            for (position, part) in path.iter().enumerate() {
                if position > 0 {
                    text.push('.');
                }
                append_key(text, part);
            }
            text.push_str(close);
            text.push('\n');
            append_table(text, path, inner)?;
        }
        path.pop();
    }
    Ok(())
}

fn is_table(value: &Value) -> bool {
    value.is_object()
}

fn is_tables(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

fn append_key(text: &mut String, name: &str) {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => text.push_str(name),
        false => append_string(text, name),
    }
}

fn append_value(text: &mut String, value: &Value) -> Result<(), String> {
    match value {
        Value::Null => return Err("null is not a value; leave the key out".to_string()),
        Value::Bool(boolean) => text.push_str(if *boolean { "true" } else { "false" }),
        Value::Number(number) => {
            if number.is_u64() && number.as_i64().is_none() {
                return Err(format!("{number} is too large"));
            }
            text.push_str(&number.to_string());
        }
        Value::String(string) => append_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push_str(", ");
                }
                append_value(text, item)?;
            }
            text.push(']');
        }
        Value::Object(table) => {
            text.push_str("{ ");
            for (position, (name, value)) in table.iter().enumerate() {
                if position > 0 {
                    text.push_str(", ");
                }
                append_key(text, name);
                text.push_str(" = ");
                append_value(text, value)?;
            }
            text.push_str(" }");
        }
    }
    Ok(())
}

/// A basic string on one line.
fn append_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            character if character.is_control() => text.push_str(&format!("\\u{:04X}", character as u32)),
            character => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn written(value: &Value) -> Result<String, String> {
        toml_text(value.as_object().unwrap())
    }

    fn read(text: &str) -> Value {
        serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
    }

    #[test]
    fn a_document_is_written_with_table_headers() {
        let document = json!({
            "limits": { "ranges": 3 },
            "site": [
                { "listen": ["127.0.0.1:80"], "root": "/a\"b\\\n", "route": [
                    { "path": "/x", "proxy": { "to": ["http://a"], "check": { "path": "/h" } } },
                    { "path": "/y", "headers": { "A b": "c" } },
                ] },
                { "hosts": [] },
            ],
        });
        let text = written(&document).unwrap();
        assert_eq!(read(&text), document);
        let expected = [
            "[limits]",
            "ranges = 3",
            "[[site]]",
            "listen = [\"127.0.0.1:80\"]",
            "root = \"/a\\\"b\\\\\\n\"",
            "[[site.route]]",
            "path = \"/x\"",
            "[site.route.proxy]",
            "to = [\"http://a\"]",
            "[site.route.proxy.check]",
            "path = \"/h\"",
            "[[site.route]]",
            "path = \"/y\"",
            "[site.route.headers]",
            "\"A b\" = \"c\"",
            "[[site]]",
            "hosts = []",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn values_that_toml_does_not_support_are_refused() {
        assert!(written(&json!({ "a": null })).unwrap_err().contains("'a': null"));
        assert!(written(&json!({ "a": u64::MAX })).unwrap_err().contains("too large"));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|table| Value::Object(table.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_written_document_is_read_again(
            table in proptest::collection::btree_map(any::<String>(), value(), 0..5),
        ) {
            let document = Value::Object(table.into_iter().collect());
            prop_assert_eq!(read(&written(&document).unwrap()), document);
        }
    }
}
