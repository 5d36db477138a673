//! Replaces secrets of a configuration before it is shown, and puts them back when it comes back.
//!
//! A secret becomes `(secret 0123456789abcdef)`: a part of a keyed hash, so that it shows whether two secrets
//! are equal and whether one has changed, and nothing else. A client may send a configuration back with these
//! texts: each stands for the secret that it was shown for, at a key of the same name.

use std::collections::HashMap;

use serde_json::Value;

use crate::keyed_hash::HashKey;

/// What stands in place of a secret in messages.
const MASK: &str = "(secret)";

/// Keys whose values are secrets.
const SECRET_WORDS: [&str; 7] = ["secret", "password", "passwd", "token", "credential", "api_key", "apikey"];

/// Keys that hold the name of a file, or something that everyone may know, although a word of them says
/// otherwise.
const NOT_SECRET_ENDINGS: [&str; 5] = ["_file", "_files", "_timeout", "_endpoint", "_lifetime"];

/// Tables whose values are all secrets: settings of programs hold passwords under any name.
const SECRET_TABLES: [&str; 4] = ["environment", "properties", "parameters", "settings"];

/// Words in names of fields whose values are secrets.
const SECRET_FIELDS: [&str; 7] = ["authorization", "cookie", "secret", "token", "password", "key", "auth"];

/// Tables whose names are those of header fields.
const TABLES_OF_FIELDS: [&str; 4] = ["headers", "set", "fields", "request_headers"];

/// The configuration with texts in place of its secrets.
pub fn hidden(value: &Value, key: &HashKey) -> Value {
    let mut copy = value.clone();
    walk(&mut copy, ("", ""), Reading::Plain, &mut |text, _, is_secret| {
        if is_secret {
            *text = shown(text, key);
        }
    });
    copy
}

/// The configuration with the same text for all secrets.
pub fn masked(value: &Value) -> Value {
    let mut copy = value.clone();
    walk(&mut copy, ("", ""), Reading::Plain, &mut |text, _, is_secret| {
        if is_secret {
            *text = MASK.to_string();
        }
    });
    copy
}

/// Removes the secrets of a configuration from a message about it.
pub fn without_secrets(message: &str, value: &Value) -> String {
    let mut message = message.to_string();
    walk(&mut value.clone(), ("", ""), Reading::Plain, &mut |text, _, is_secret| {
        if is_secret && !text.is_empty() && message.contains(text.as_str()) {
            message = message.replace(text.as_str(), MASK);
        }
    });
    message
}

/// Puts the secrets of `known` back into `value`, each only where the last two names of its path are the same
/// as before: a client must not move a secret to a place where it can be read. The error says which text
/// stands for none.
pub fn restore(value: &mut Value, known: &Value, key: &HashKey) -> Result<(), String> {
    let mut secrets: HashMap<(String, String, String), String> = HashMap::new();
    walk(&mut known.clone(), ("", ""), Reading::Plain, &mut |text, (parent, name), is_secret| {
        if is_secret {
            secrets.insert((parent.to_string(), name.to_string(), shown(text, key)), text.clone());
        }
    });
    let mut problem = None;
    walk(value, ("", ""), Reading::Plain, &mut |text, (parent, name), _| {
        if is_shown(text) {
            match secrets.get(&(parent.to_string(), name.to_string(), text.clone())) {
                Some(secret) => *text = secret.clone(),
                None => problem = Some(format!("'{name}': {text:?}")),
            }
        }
    });
    match problem {
        None => Ok(()),
        Some(text) => Err(format!(
            "{text} stands for no secret that the configuration has at a key of this name; write the secret \
             itself"
        )),
    }
}

fn shown(secret: &str, key: &HashKey) -> String {
    format!("(secret {})", &key.hash(secret.as_bytes())[..16])
}

fn is_shown(text: &str) -> bool {
    text.strip_prefix("(secret ").is_some_and(|rest| rest.len() == 17 && rest.ends_with(')'))
}

/// How the strings of a value are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// By their names and contents.
    Plain,
    /// As values of header fields.
    Fields,
    /// As secrets.
    Secret,
}

/// Gets a string, the names of its table and of itself, and whether it is a secret.
type Visit<'v> = dyn FnMut(&mut String, (&str, &str), bool) + 'v;

/// Visits each string. `place` are the last two names of the path.
fn walk(value: &mut Value, place: (&str, &str), reading: Reading, visit: &mut Visit<'_>) {
    match value {
        Value::Object(table) => {
            for (name, value) in table.iter_mut() {
                let inner = reading_below(name, value, reading);
                walk(value, (place.1, name), inner, visit);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, place, reading, visit)),
        Value::String(text) => {
            let is_secret = reading == Reading::Secret || holds_secret(text) && !is_shown(text);
            visit(text, place, is_secret);
        }
        _ => {}
    }
}

fn reading_below(name: &str, value: &Value, reading: Reading) -> Reading {
    let name = name.to_ascii_lowercase();
    let is_secret_field = reading == Reading::Fields
        && value.is_string()
        && SECRET_FIELDS.iter().any(|word| name.contains(word));
    let is_secret_table = value.is_object() && SECRET_TABLES.contains(&name.as_str());
    match reading {
        Reading::Secret => Reading::Secret,
        _ if is_secret_table || is_secret_field || is_secret_name(&name) => Reading::Secret,
        _ if value.is_object() && TABLES_OF_FIELDS.contains(&name.as_str()) => Reading::Fields,
        _ => Reading::Plain,
    }
}

fn is_secret_name(name: &str) -> bool {
    SECRET_WORDS.iter().any(|word| name.contains(word))
        && !NOT_SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// A URL with a password, credentials of HTTP, or an argument such as `--password=...`.
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
    fn secrets_are_not_shown_and_come_back() {
        let key = HashKey::new();
        let known = configuration();
        let hidden = hidden(&known, &key);
        let text = hidden.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for shown in ["admin.token", "\"web\"", "DENY", "http://a", "$geoip_country", "\"f\"", "\"app\""] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        let mut back = hidden.clone();
        restore(&mut back, &known, &key).unwrap();
        assert_eq!(back, known);
        // Another position in a list is the same place.
        let mut moved = json!([hidden["site"][0]["route"][1]]);
        restore(&mut moved, &known, &key).unwrap();
        assert_eq!(moved[0], known["site"][0]["route"][1]);
        let secret = &hidden["site"][0]["route"][0]["cgi"]["environment"]["DB"];
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
