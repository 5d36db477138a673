//! YAML in its plainest form: maps and lists in block style, every text in double quotes, whose escapes are
//! those of JSON.

use serde_json::Value;

/// Words that are not texts if they are written without quotes, in some version of YAML.
const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// A document.
pub(super) fn text(document: &Value) -> String {
    let mut text = String::new();
    write(&mut text, document, 0);
    text
}

/// Writes a value on separate lines.
fn write(text: &mut String, value: &Value, depth: usize) {
    let margin = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                text.push_str(&format!("{margin}{}:", key(name)));
                if is_long(value) {
                    text.push('\n');
                    write(text, value, depth + 1);
                } else {
                    text.push_str(&format!(" {value}\n"));
                }
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                let begin = text.len() + margin.len();
                write(text, value, depth + 1);
                // The dash is in the margin of its item.
                text.replace_range(begin..=begin, "-");
            }
        }
        // Numbers, texts and what is empty are written as in JSON.
        value => text.push_str(&format!("{margin}{value}\n")),
    }
}

fn is_long(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

fn key(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./-".contains(&byte))
        && !WORDS.contains(&name.to_ascii_lowercase().as_str());
    if is_plain { name.to_string() } else { Value::from(name).to_string() }
}
