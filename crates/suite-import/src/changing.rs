//! Values that change from one visit to the next: values of a recorded answer that later requests contain,
//! such as tokens and the numbers of new objects. They are proposed as values of the session.

use super::{RecordedRequest, Recording};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;

/// The shortest text that is taken for a value; shorter ones are found by chance.
const SHORTEST: usize = 8;
/// The shortest number, in digits.
const SHORTEST_NUMBER: usize = 5;
const LONGEST: usize = 4096;
/// The most values of one answer that are looked for, and the most requests of a recording that are compared.
const MAXIMUM_VALUES: usize = 500;
const MAXIMUM_REQUESTS: usize = 2000;

/// The possible prefixes of a token in a field: `Bearer `.
const BEFORE_TOKEN: usize = 10;

/// Finds the values, and records in the requests their sources and their uses. `entries` are those of the
/// requests; `belongs` returns for a field, by name and value, whether it can be imported.
pub(super) fn propose(entries: &[&Value], recording: &mut Recording, belongs: &dyn Fn(&str, &str) -> bool) {
    recording.sets_cookies = entries.iter().any(|entry| response_field(entry, "set-cookie").is_some());
    if entries.len() > MAXIMUM_REQUESTS {
        return;
    }
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&place| recording.requests[place].after);
    let texts: Vec<String> = order.iter().map(|&place| request_text(entries[place])).collect();
    let mut names: BTreeSet<String> = ["client", "session", "random"].map(str::to_string).into();
    for (turn, &place) in order.iter().enumerate() {
        for (value, from, hint) in values(entries[place]) {
            // What the client knew before is not given by this answer.
            let is_known = texts[..=turn].iter().any(|text| text.contains(&value));
            let is_used = |text: &String| has_word(text, &value);
            if is_known || !texts[turn + 1..].iter().any(is_used) {
                continue;
            }
            let name = free_name(&hint, &mut names);
            recording.requests[place].extract.push((name.clone(), from));
            for (later, text) in texts.iter().enumerate().skip(turn + 1).filter(|(_, text)| is_used(text)) {
                let request = &mut recording.requests[order[later]];
                request.uses.push((value.clone(), name.clone()));
                debug_assert!(text.contains(&value));
                take_fields_with(entries[order[later]], &value, request, belongs);
            }
        }
    }
}

/// A field that is left out because it identifies a user is imported if the session provides its value.
fn take_fields_with(
    entry: &Value,
    value: &str,
    request: &mut RecordedRequest,
    belongs: &dyn Fn(&str, &str) -> bool,
) {
    let fields = entry.pointer("/request/headers").and_then(Value::as_array);
    for field in fields.into_iter().flatten() {
        let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
        let line = format!("{}: {}", text("name"), text("value"));
        let is_cookie = text("name").eq_ignore_ascii_case("cookie");
        if has_word(text("value"), value)
            && !is_cookie
            && text("value").len() <= value.len() + BEFORE_TOKEN
            && belongs(text("name"), text("value"))
            && !request.headers.contains(&line)
        {
            request.session_headers.push(line);
        }
    }
}

/// All texts of a request.
fn request_text(entry: &Value) -> String {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let fields = entry.pointer("/request/headers").and_then(Value::as_array);
    let values = fields.into_iter().flatten().filter_map(|field| {
        let is_cookie = field["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case("cookie"));
        field["value"].as_str().filter(|_| !is_cookie)
    });
    let list: Vec<&str> =
        [text("/request/url"), text("/request/postData/text")].into_iter().chain(values).collect();
    list.join("\n")
}

/// The candidates of an answer: value, where it is, and a name for it.
fn values(entry: &Value) -> Vec<(String, String, String)> {
    let mut values = Vec::new();
    if let Some(body) = entry.pointer("/response/content/text").and_then(Value::as_str) {
        match serde_json::from_str::<Value>(body) {
            Ok(document) => of_json(&document, "$", "value", &mut values),
            Err(_) => of_page(body, &mut values),
        }
    }
    for name in ["location", "x-csrf-token", "x-auth-token", "authorization"] {
        if let Some(value) = response_field(entry, name).filter(|value| is_candidate(value)) {
            values.push((value.to_string(), format!("header {name}"), name.replace('-', "_")));
        }
    }
    values
}

fn of_json(value: &Value, path: &str, name: &str, values: &mut Vec<(String, String, String)>) {
    let text = match value {
        Value::String(text) if is_candidate(text) => text.clone(),
        Value::Number(number) if number.to_string().len() >= SHORTEST_NUMBER => number.to_string(),
        Value::Array(list) => {
            for (place, inside) in list.iter().enumerate() {
                of_json(inside, &format!("{path}[{place}]"), name, values);
            }
            return;
        }
        Value::Object(object) => {
            for (key, inside) in object.iter().filter(|(key, _)| !key.contains(['\'', '\\'])) {
                of_json(inside, &format!("{path}['{key}']"), key, values);
            }
            return;
        }
        _ => return,
    };
    if values.len() < MAXIMUM_VALUES {
        values.push((text, format!("json {path}"), name.to_string()));
    }
}

/// The hidden fields of forms, and tokens in the head of a page.
fn of_page(page: &str, values: &mut Vec<(String, String, String)>) {
    // The expressions are constant, and a test uses them.
    let regex = |text: &str| Regex::new(text).expect("a good expression");
    let (tag, attribute) =
        (regex(r"<(?:input|meta)[ \t\r\n][^<>]*>"), regex(r#"([a-z-]+)[ \t]*=[ \t]*["']([^"']*)["']"#));
    for found in tag.find_iter(page).take(MAXIMUM_VALUES) {
        let attribute_value = |name: &str| {
            let mut all = attribute.captures_iter(found.as_str());
            all.find(|pair| &pair[1] == name).map(|pair| pair[2].to_string())
        };
        let (kind, place) =
            if found.as_str().starts_with("<input") { ("input", "value") } else { ("meta", "content") };
        let is_plain =
            |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if let (Some(name), Some(value)) = (attribute_value("name").filter(is_plain), attribute_value(place))
            && is_candidate(&value)
        {
            values.push((value, format!("css {kind}[name=\"{name}\"] @{place}"), name));
        }
    }
}

fn is_candidate(text: &str) -> bool {
    (SHORTEST..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && !text.contains("${")
        && !["true", "false"].contains(&text)
}

/// Whether a text contains the value, but not as a part of a longer word.
fn has_word(text: &str, value: &str) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.match_indices(value).any(|(at, _)| {
        let bytes = text.as_bytes();
        !is_word(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_word(bytes.get(at + value.len()))
    })
}

/// A name that no value has yet.
fn free_name(hint: &str, names: &mut BTreeSet<String>) -> String {
    let mut plain: String =
        hint.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !plain.starts_with(|first: char| first.is_ascii_alphabetic()) {
        plain.insert_str(0, "value");
    }
    let mut name = plain.clone();
    let mut number = 2;
    while !names.insert(name.clone()) {
        name = format!("{plain}_{number}");
        number += 1;
    }
    name
}

fn response_field<'e>(entry: &'e Value, name: &str) -> Option<&'e str> {
    let fields = entry.pointer("/response/headers")?.as_array()?;
    let found = fields.iter().find(|field| {
        field.get("name").and_then(Value::as_str).is_some_and(|other| other.eq_ignore_ascii_case(name))
    });
    found?.get("value")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::super::suite_text::{Form, SuiteOptions};
    use super::super::{har, suite_text};
    use proptest::prelude::*;
    use serde_json::json;
    use touchstone_lab::suite::Suite;

    fn entry(second: u32, url: &str, fields: &[(&str, &str)], body: &str, answer: &str) -> serde_json::Value {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({
            "startedDateTime": format!("2026-11-22T08:00:{second:02}.000Z"),
            "time": 10,
            "request": {"method": if body.is_empty() { "GET" } else { "POST" }, "url": url, "headers": fields,
                "postData": {"text": body}},
            "response": {"status": 200, "headers": [{"name": "Set-Cookie", "value": "a=1"}],
                "content": {"mimeType": "application/json", "text": answer}},
        })
    }

    #[test]
    fn tokens_become_values_of_the_session() {
        let page = r#"<form><input type="hidden" name="csrf" value="c5RfT0k3n"></form>"#;
        let entries = [
            entry(0, "http://h/", &[], "", page),
            entry(
                1,
                "http://h/login",
                &[],
                "csrf=c5RfT0k3n&user=known-user",
                r#"{"user":"known-user","auth":{"token":"abcdefgh12"},"order":1234567}"#,
            ),
            entry(2, "http://h/orders/1234567", &[("Authorization", "Bearer abcdefgh12")], "", "{}"),
            entry(3, "http://h/orders/91234567", &[], "", "{}"),
        ];
        let text = json!({"log": {"version": "1.2", "entries": entries}}).to_string();
        let recording = har::read("r.har", &text, &har::HarOptions::default()).expect("a good recording");
        assert_eq!(recording.requests[0].extract[0].1, "css input[name=\"csrf\"] @value");
        assert_eq!(recording.requests[1].extract.len(), 2);
        let wishes = SuiteOptions { name: "r".into(), source: "r".into(), most: 100, form: Form::Session };
        let (suite, notes) = suite_text(&recording, &wishes);
        Suite::read("r.toml", &suite).expect("a good suite");
        for expected in [
            "cookies = true",
            "body = \"csrf=${csrf}&user=known-user\"",
            "token = \"json $['auth']['token']\"",
            "path = \"/orders/${order}\"",
            "headers = [\"Authorization: Bearer ${token}\"]",
            "path = \"/orders/91234567\"",
        ] {
            assert!(suite.contains(expected), "{expected}: {suite}");
        }
        assert!(notes.iter().any(|note| note.contains("3 values that change")), "{notes:?}");
        let (mix, _) = suite_text(&recording, &SuiteOptions { form: Form::Mix, ..wishes });
        assert!(!mix.contains("${") && !mix.contains("extract"), "{mix}");
    }

    proptest! {
        #[test]
        fn whatever_is_proposed_is_a_suite(value in "[a-zA-Z0-9${}\"'<>=.-]{8,20}", key in "\\PC{0,10}") {
            let entries = [
                entry(0, "http://h/a", &[], "", &json!({key: [value]}).to_string()),
                entry(1, "http://h/b", &[("X-Id", &value)], &value, "{}"),
            ];
            let text = json!({"log": {"entries": entries}}).to_string();
            let recording = har::read("r.har", &text, &har::HarOptions::default()).expect("a good recording");
            let (name, source) = ("r".to_owned(), "r".to_owned());
            let options = SuiteOptions { name, source, most: 100, form: Form::Session };
            let (suite, _) = suite_text(&recording, &options);
            prop_assert!(Suite::read("r.toml", &suite).is_ok(), "{suite}");
        }
    }
}
