//! The differences between two values, for the audit log and for responses to conflicting changes.

use serde_json::{Value, json};

/// The maximum number of differences that are listed; further ones are counted.
const MOST_DIFFERENCES: usize = 50;

/// The maximum length of a value as JSON in bytes; a longer value is cut.
const MOST_VALUE_BYTES: usize = 500;

/// Each difference with its path (RFC 6901), the value before and the value after; a missing value is null.
pub fn differences(before: &Value, after: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut more = 0;
    compare(&mut String::new(), Some(before), Some(after), &mut |path, before, after| {
        if found.len() < MOST_DIFFERENCES {
            found.push(json!({ "path": path, "before": shortened(before), "after": shortened(after) }));
        } else {
            more += 1;
        }
    });
    if more > 0 {
        found.push(json!({ "more": more }));
    }
    found
}

fn shortened(value: Option<&Value>) -> Value {
    let value = value.cloned().unwrap_or(Value::Null);
    let text = value.to_string();
    match text.len() > MOST_VALUE_BYTES {
        false => value,
        true => {
            let end = (0..=MOST_VALUE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            Value::String(format!("{}... ({} bytes)", &text[..end], text.len()))
        }
    }
}

type Report<'a> = dyn FnMut(&str, Option<&Value>, Option<&Value>) + 'a;

fn compare(path: &mut String, before: Option<&Value>, after: Option<&Value>, report: &mut Report<'_>) {
    if before == after {
        return;
    }
    let length = path.len();
    let mut below = |name: &str, before: Option<&Value>, after: Option<&Value>| {
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        compare(path, before, after, report);
        path.truncate(length);
    };
    match (before, after) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for (name, value) in one {
                below(name, Some(value), other.get(name));
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                below(name, None, Some(value));
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for position in 0..one.len().max(other.len()) {
                below(&position.to_string(), one.get(position), other.get(position));
            }
        }
        _ => report(path, before, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_paths() {
        let before = json!({ "a": 1, "b/c": [1, 2], "d": { "e": "f" }, "same": [1] });
        let after = json!({ "b/c": [1, 3, 4], "d": { "e": "g" }, "h": true, "same": [1] });
        let expected = vec![
            json!({ "path": "/a", "before": 1, "after": null }),
            json!({ "path": "/b~1c/1", "before": 2, "after": 3 }),
            json!({ "path": "/b~1c/2", "before": null, "after": 4 }),
            json!({ "path": "/d/e", "before": "f", "after": "g" }),
            json!({ "path": "/h", "before": null, "after": true }),
        ];
        assert_eq!(differences(&before, &after), expected);
        assert_eq!(differences(&before, &before), Vec::<Value>::new());
        let many: Vec<u32> = (0..60).collect();
        assert_eq!(differences(&json!([]), &json!(many)).last(), Some(&json!({ "more": 10 })));
        let long = json!("ä".repeat(600));
        assert!(differences(&json!(1), &long)[0]["after"].as_str().unwrap().ends_with("(1202 bytes)"));
    }
}
