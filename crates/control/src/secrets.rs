//! Replaces the secrets of a configuration by placeholders in responses, and restores them in requests.
//!
//! The placeholder of a secret is `(secret 0123456789abcdef)`, a part of a keyed hash. It shows only whether
//! two secrets are equal and whether a secret has changed. If a client sends a configuration with
//! placeholders, each is replaced by its secret, at a key of the same name only.

use std::collections::HashMap;

use serde_json::Value;

use crate::keyed_hash::HashKey;

/// The placeholder of all secrets in messages.
const MASK: &str = "(secret)";

/// Parts of the names of keys whose values are secrets.
const SECRET_WORDS: [&str; 7] = ["secret", "password", "passwd", "token", "credential", "api_key", "apikey"];

/// Endings of the names of keys with file names and other public values, although a part of the name is one
/// of `SECRET_WORDS`.
const NOT_SECRET_ENDINGS: [&str; 5] = ["_file", "_files", "_timeout", "_endpoint", "_lifetime"];

/// Tables whose values are all secrets: settings of programs can have passwords under any name.
const SECRET_TABLES: [&str; 4] = ["environment", "properties", "parameters", "settings"];

/// Parts of the names of header fields whose values are secrets.
const SECRET_FIELDS: [&str; 7] = ["authorization", "cookie", "secret", "token", "password", "key", "auth"];

/// Tables whose keys are names of header fields.
const TABLES_OF_FIELDS: [&str; 4] = ["headers", "set", "fields", "request_headers"];

/// A copy of the configuration with a placeholder for each secret.
pub fn with_placeholders(value: &Value, key: &HashKey) -> Value {
    let mut copy = value.clone();
    walk(&mut copy, ("", ""), ValueKind::Plain, &mut |text, _, is_secret| {
        if is_secret {
            *text = placeholder(text, key);
        }
    });
    copy
}

/// A copy of the configuration with the same placeholder for all secrets.
pub fn masked(value: &Value) -> Value {
    let mut copy = value.clone();
    walk(&mut copy, ("", ""), ValueKind::Plain, &mut |text, _, is_secret| {
        if is_secret {
            *text = MASK.to_string();
        }
    });
    copy
}

/// Removes the secrets of a configuration from a message about it.
pub fn without_secrets(message: &str, value: &Value) -> String {
    let mut message = message.to_string();
    walk(&mut value.clone(), ("", ""), ValueKind::Plain, &mut |text, _, is_secret| {
        if is_secret && !text.is_empty() && message.contains(text.as_str()) {
            message = message.replace(text.as_str(), MASK);
        }
    });
    message
}

/// Replaces the placeholders in `value` by the secrets of `known`, each only if the last two names of its
/// path are the same as before: a client must not move a secret to a key whose value can be read. The error
/// contains the placeholder without a secret.
pub fn restore(value: &mut Value, known: &Value, key: &HashKey) -> Result<(), String> {
    let mut secrets: HashMap<(String, String, String), String> = HashMap::new();
    walk(&mut known.clone(), ("", ""), ValueKind::Plain, &mut |text, (parent, name), is_secret| {
        if is_secret {
            secrets.insert((parent.to_string(), name.to_string(), placeholder(text, key)), text.clone());
        }
    });
    let mut problem = None;
    walk(value, ("", ""), ValueKind::Plain, &mut |text, (parent, name), _| {
        if is_placeholder(text) {
            match secrets.get(&(parent.to_string(), name.to_string(), text.clone())) {
                Some(secret) => *text = secret.clone(),
                None => problem = Some(format!("'{name}': {text:?}")),
            }
        }
    });
    match problem {
        None => Ok(()),
        Some(text) => Err(format!(
            "{text} is not the placeholder of a secret at a key of this name; write the secret itself"
        )),
    }
}

fn placeholder(secret: &str, key: &HashKey) -> String {
    format!("(secret {})", &key.hash(secret.as_bytes())[..16])
}

fn is_placeholder(text: &str) -> bool {
    text.strip_prefix("(secret ").is_some_and(|rest| rest.len() == 17 && rest.ends_with(')'))
}

/// The kind of the strings in a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// The name and the content determine whether a string is a secret.
    Plain,
    /// Values of header fields.
    Fields,
    /// Secrets.
    Secret,
}

/// Called with a string, the names of its table and its key, and whether it is a secret.
type Visit<'v> = dyn FnMut(&mut String, (&str, &str), bool) + 'v;

/// Visits each string. `names` are the last two names of the path.
fn walk(value: &mut Value, names: (&str, &str), kind: ValueKind, visit: &mut Visit<'_>) {
    match value {
        Value::Object(table) => {
            for (name, value) in table.iter_mut() {
                let inner = kind_below(name, value, kind);
                walk(value, (names.1, name), inner, visit);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, names, kind, visit)),
        Value::String(text) => {
            let is_secret = kind == ValueKind::Secret || holds_secret(text) && !is_placeholder(text);
            visit(text, names, is_secret);
        }
        _ => {}
    }
}

fn kind_below(name: &str, value: &Value, kind: ValueKind) -> ValueKind {
    let name = name.to_ascii_lowercase();
    let is_secret_field = kind == ValueKind::Fields
        && value.is_string()
        && SECRET_FIELDS.iter().any(|word| name.contains(word));
    let is_secret_table = value.is_object() && SECRET_TABLES.contains(&name.as_str());
    match kind {
        ValueKind::Secret => ValueKind::Secret,
        _ if is_secret_table || is_secret_field || is_secret_name(&name) => ValueKind::Secret,
        _ if value.is_object() && TABLES_OF_FIELDS.contains(&name.as_str()) => ValueKind::Fields,
        _ => ValueKind::Plain,
    }
}

fn is_secret_name(name: &str) -> bool {
    SECRET_WORDS.iter().any(|word| name.contains(word))
        && !NOT_SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Whether a text has a URL with a password, HTTP credentials, or an argument such as `--password=...`.
fn holds_secret(text: &str) -> bool {
    let has_password = text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    });
    let lower = text.to_ascii_lowercase();
    let has_argument = ["password=", "passwd=", "secret=", "token=", "api_key=", "apikey="];
    has_password
        || lower.starts_with("bearer ")
        || lower.starts_with("basic ")
        || has_argument.iter().any(|argument| lower.contains(argument))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn configuration() -> Value {
        json!({
            "acme": { "external_account": { "key_id": "a", "hmac_key": "eab.key" } },
            "admin": { "token_file": "admin.token" },
            "site": [{
                "login": { "client_id": "web", "client_secret": "hunter2-b", "client_secret_file": "f" },
                "headers": { "X-Frame-Options": "DENY", "Set-Cookie": "id=hunter2-c" },
                "route": [
                    { "cgi": { "environment": { "DB": "hunter2-d" } } },
                    { "proxy": {
                        "to": ["http://a", "http://user:hunter2-e@b/"],
                        "forward": { "set": { "X-Api-Key": "hunter2-f", "X-Country": "$geoip_country" } },
                    } },
                    { "fastcgi": { "command": ["app", "--password=hunter2-g"] } },
                    { "respond": { "body": "Bearer hunter2-h" } },
                ],
            }],
        })
    }

    #[test]
    fn secrets_are_replaced_and_restored() {
        let key = HashKey::new();
        let known = configuration();
        let redacted = with_placeholders(&known, &key);
        let text = redacted.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for public in ["admin.token", "\"web\"", "DENY", "http://a", "$geoip_country", "\"f\"", "\"app\""] {
            assert!(text.contains(public), "{public}: {text}");
        }
        let mut back = redacted.clone();
        restore(&mut back, &known, &key).unwrap();
        assert_eq!(back, known);
        // The position in a list does not matter.
        let mut moved = json!([redacted["site"][0]["route"][1]]);
        restore(&mut moved, &known, &key).unwrap();
        assert_eq!(moved[0], known["site"][0]["route"][1]);
        let secret = &redacted["site"][0]["route"][0]["cgi"]["environment"]["DB"];
        for wrong in [
            json!({ "environment": { "DB": "(secret 0123456789abcdef)" } }),
            json!({ "headers": { "DB": secret } }),
            json!({ "environment": { "OTHER": secret } }),
            json!({ "respond": { "body": secret } }),
        ] {
            let problem = restore(&mut wrong.clone(), &known, &key).unwrap_err();
            assert!(problem.contains("write the secret itself"), "{wrong}: {problem}");
        }
        let message = without_secrets("'DB': \"hunter2-d\" is too short", &known);
        assert_eq!(message, "'DB': \"(secret)\" is too short");
        assert!(!masked(&known).to_string().contains("hunter2"));
    }
}
