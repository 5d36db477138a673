//! Postman collections (format 2.0 and 2.1): all requests in order as one session. Variables of the
//! collection are put in, values that test scripts keep are taken from the answers.

use crate::draft::{Draft, DraftRequest, DraftSession};
use crate::variables::{plain_name, replace};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// The deepest folder.
const MAXIMUM_DEPTH: usize = 50;

/// Reads a collection.
pub fn read(text: &str) -> Result<Draft, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let items = document
        .get("item")
        .and_then(Value::as_array)
        .ok_or("there is no `item` in it: export the collection from Postman as Collection v2.1")?;
    let scripts = Scripts::new();
    let mut reader = Reader {
        draft: Draft { cookies: true, ..Draft::default() },
        values: values(&document),
        session: DraftSession {
            name: document["info"]["name"].as_str().unwrap_or("collection").to_string(),
            requests: Vec::new(),
        },
        scripts,
    };
    reader.events(&document, "the collection", None);
    reader.items(items, "", &document["auth"], 0);
    if reader.session.requests.is_empty() {
        return Err("there is no request in it that could be taken over".to_string());
    }
    let Reader { mut draft, session, .. } = reader;
    draft.sessions.push(session);
    draft.complete();
    Ok(draft)
}

struct Reader {
    draft: Draft,
    values: BTreeMap<String, String>,
    session: DraftSession,
    scripts: Scripts,
}

/// The variables of the collection.
fn values(document: &Value) -> BTreeMap<String, String> {
    let list = document["variable"].as_array().map_or(&[][..], Vec::as_slice);
    let pair = |variable: &Value| {
        let key = variable["key"].as_str().or(variable["id"].as_str())?;
        Some((key.to_string(), plain(&variable["value"]).filter(|value| !value.is_empty())?))
    };
    list.iter().filter_map(pair).collect()
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

impl Reader {
    fn items(&mut self, items: &[Value], folder: &str, auth: &Value, depth: usize) {
        for item in items {
            let name = item["name"].as_str().unwrap_or("without a name");
            let place = if folder.is_empty() { name.to_string() } else { format!("{folder} / {name}") };
            let own = if item["auth"].is_object() { &item["auth"] } else { auth };
            if let Some(inside) = item["item"].as_array() {
                if depth >= MAXIMUM_DEPTH {
                    self.draft.notes.push(format!("{place}: left out: folders are nested too deeply"));
                    continue;
                }
                self.events(item, &place, None);
                self.items(inside, &place, own, depth + 1);
            } else if !item["request"].is_null() {
                self.request(item, &place, own);
            } else {
                self.draft.notes.push(format!("{place}: left out: it is neither a request nor a folder"));
            }
        }
    }

    fn request(&mut self, item: &Value, place: &str, auth: &Value) {
        let request = &item["request"];
        let url = request["url"]["raw"].as_str().or(request["url"].as_str()).or(request.as_str());
        let Some(url) = url else {
            self.draft.notes.push(format!("{place}: left out: it has no URL"));
            return;
        };
        let url = self.with_path_variables(&self.filled(url), &request["url"]["variable"]);
        let Some((origin, path)) = split(&url) else {
            self.draft.notes.push(format!(
                "{place}: left out: the server of {url:?} is not known; give the collection a variable for it"
            ));
            return;
        };
        if !self.draft.is_at(&origin) {
            self.draft.notes.push(format!("{place}: left out: it goes to another server, {origin}"));
            return;
        }
        let own = if request["auth"].is_object() { &request["auth"] } else { auth };
        let mut draft = DraftRequest {
            name: place.to_string(),
            method: request["method"].as_str().unwrap_or("GET").to_ascii_uppercase(),
            path,
            ..DraftRequest::default()
        };
        for header in request["header"].as_array().map_or(&[][..], Vec::as_slice) {
            if header["disabled"] == true {
                continue;
            }
            if let (Some(name), Some(value)) = (header["key"].as_str(), plain(&header["value"])) {
                draft.headers.push(format!("{name}: {}", self.filled(&value)));
            }
        }
        self.authorize(&mut draft, own, place);
        self.body(&mut draft, &request["body"], place);
        self.events(item, place, Some(&mut draft));
        self.session.requests.push(draft);
    }

    /// A text with the values of the collection, and our form of all other variables.
    fn filled(&self, text: &str) -> String {
        self.filled_to(text, 0)
    }

    fn filled_to(&self, text: &str, depth: usize) -> String {
        replace(text, ("{{", "}}"), |name| match self.values.get(name) {
            // A value may have variables in it.
            Some(value) if depth < 10 => self.filled_to(value, depth + 1),
            _ if name.starts_with('$') => "${random}".to_string(),
            _ => format!("${{{}}}", plain_name(name)),
        })
    }

    /// `/:id` in a path is a variable of the request.
    fn with_path_variables(&self, url: &str, variables: &Value) -> String {
        let mut url = url.to_string();
        for variable in variables.as_array().map_or(&[][..], Vec::as_slice) {
            if let (Some(key), Some(value)) = (variable["key"].as_str(), plain(&variable["value"])) {
                let value = self.filled(&value);
                for end in ["/", "?", ""] {
                    let from = format!("/:{key}{end}");
                    if end.is_empty() && url.ends_with(&from) {
                        url.truncate(url.len() - from.len());
                        url += &format!("/{value}");
                    } else if !end.is_empty() {
                        url = url.replace(&from, &format!("/{value}{end}"));
                    }
                }
            }
        }
        url
    }

    fn authorize(&mut self, draft: &mut DraftRequest, auth: &Value, place: &str) {
        let value = |kind: &str, key: &str| {
            let list = auth[kind].as_array()?;
            let found = list.iter().find(|pair| pair["key"] == key)?;
            plain(&found["value"]).map(|value| self.filled(&value))
        };
        match auth["type"].as_str() {
            None | Some("noauth") => {}
            Some("bearer") => {
                let token = value("bearer", "token").unwrap_or_default();
                draft.headers.push(format!("Authorization: Bearer {token}"));
            }
            Some("apikey") if value("apikey", "in").as_deref() != Some("query") => {
                let (key, value) = (value("apikey", "key"), value("apikey", "value"));
                draft.headers.push(format!(
                    "{}: {}",
                    key.unwrap_or("X-Api-Key".to_string()),
                    value.unwrap_or_default()
                ));
            }
            Some(other) => self.draft.notes.push(format!(
                "{place}: left out: the authorization {other}; write its header field by hand"
            )),
        }
    }

    fn body(&mut self, draft: &mut DraftRequest, body: &Value, place: &str) {
        let has_type = |draft: &DraftRequest| {
            draft.headers.iter().any(|field| field.to_ascii_lowercase().starts_with("content-type:"))
        };
        match body["mode"].as_str() {
            None => {}
            Some("raw") => {
                draft.body = body["raw"].as_str().map(|raw| self.filled(raw));
                if body["options"]["raw"]["language"] == "json" && !has_type(draft) {
                    draft.headers.push("Content-Type: application/json".to_string());
                }
            }
            Some("urlencoded") => {
                let pairs = body["urlencoded"].as_array().map_or(&[][..], Vec::as_slice);
                let pair = |pair: &Value| {
                    let is_there = pair["disabled"] != true;
                    let key = pair["key"].as_str().filter(|_| is_there)?;
                    let value = self.filled(&plain(&pair["value"]).unwrap_or_default());
                    Some(format!("{}={}", form_text(key), form_text(&value)))
                };
                draft.body = Some(pairs.iter().filter_map(pair).collect::<Vec<_>>().join("&"));
                if !has_type(draft) {
                    draft.headers.push("Content-Type: application/x-www-form-urlencoded".to_string());
                }
            }
            Some(other) => {
                self.draft.notes.push(format!("{place}: left out: its body, which is of the mode {other}"));
            }
        }
    }

    /// The scripts of an item: values that they keep, statuses that they want.
    fn events(&mut self, item: &Value, place: &str, mut draft: Option<&mut DraftRequest>) {
        for event in item["event"].as_array().map_or(&[][..], Vec::as_slice) {
            let lines = match &event["script"]["exec"] {
                Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
                Value::String(text) => text.clone(),
                _ => String::new(),
            };
            let is_test = event["listen"] == "test";
            for (number, line) in lines.lines().enumerate() {
                let line = line.trim();
                let taken = is_test && draft.as_mut().is_some_and(|draft| self.scripts.take(line, draft));
                if !taken && Scripts::says_something(line) {
                    let kind = if is_test { "test" } else { "pre-request" };
                    self.draft
                        .notes
                        .push(format!("{place}: left out: line {} of its {kind} script: {line}", number + 1));
                }
            }
        }
    }
}

/// The lines of scripts that have a counterpart.
struct Scripts {
    keep: Regex,
    header: Regex,
    status: Regex,
}

impl Scripts {
    fn new() -> Scripts {
        // The expressions are constant, and a test compiles them.
        let regex = |text: &str| Regex::new(text).expect("a good expression");
        let set = r"pm\.(?:environment|globals|collectionVariables|variables)\.set";
        let old = r"postman\.set(?:Environment|Global)Variable";
        let (name, path) = (r#"[ \t]*["']([^"']+)["'][ \t]*"#, r"((?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])+)");
        let answer = r"(?:pm\.response\.json\(\)|[A-Za-z_]+)";
        Scripts {
            keep: regex(&format!(r"^(?:{set}|{old})\({name},[ \t]*{answer}{path}[ \t]*\);?$")),
            header: regex(&format!(r"^{set}\({name},[ \t]*pm\.response\.headers\.get\({name}\)[ \t]*\);?$")),
            status: regex(
                r"^pm\.(?:response\.to\.have\.status|expect\(pm\.response\.code\)\.to\.(?:eql|equal))\(([0-9]{3})\);?$",
            ),
        }
    }

    /// Takes over a line; false where it has no counterpart.
    fn take(&self, line: &str, draft: &mut DraftRequest) -> bool {
        if let Some(found) = self.header.captures(line) {
            draft.extract.push((plain_name(&found[1]), format!("header {}", &found[2])));
        } else if let Some(found) = self.keep.captures(line) {
            draft.extract.push((plain_name(&found[1]), format!("json ${}", &found[2])));
        } else if let Some(found) = self.status.captures(line) {
            draft.status.extend(found[1].parse::<u16>().ok());
        } else {
            return false;
        }
        true
    }

    /// Whether a line does something by itself: not a comment, a bracket, or the reading of the answer.
    fn says_something(line: &str) -> bool {
        let is_frame = line.starts_with("//")
            || line.starts_with("pm.test(")
            || line.trim_matches(|c: char| "(){}[];,".contains(c) || c.is_whitespace()).is_empty();
        let reads = ["pm.response.json()", "JSON.parse(responseBody)"];
        let is_reading = (line.starts_with("var ") || line.starts_with("let ") || line.starts_with("const "))
            && reads.iter().any(|read| line.trim_end_matches(';').ends_with(read));
        !is_frame && !is_reading
    }
}

/// The server and the path of a URL.
pub(crate) fn split(url: &str) -> Option<(String, String)> {
    let url = url.split('#').next().unwrap_or_default();
    // Without a scheme Postman takes HTTP.
    let whole = if url.contains("://") { url.to_string() } else { format!("http://{url}") };
    let (scheme, rest) = whole.split_once("://")?;
    if !["http", "https"].contains(&scheme) {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    // A value may hold the whole path: `http://host${next}`. One within a host or a port is none.
    let value = rest[..end].find("${").filter(|&at| {
        at > 0 && !rest[..at].ends_with(['$', '.', ':', '-']) && rest[at..end].find('}') == Some(end - at - 1)
    });
    let end = value.unwrap_or(end);
    let (host, path) = rest.split_at(end);
    if host.is_empty() || host.contains("${") || host.contains(['{', ' ']) {
        return None;
    }
    let path = if path.starts_with('/') || value.is_some() { path.to_string() } else { format!("/{path}") };
    Some((format!("{scheme}://{host}"), sendable(&path)))
}

/// Percent-encodes what cannot stand in a request target; variables stay.
pub(crate) fn sendable(path: &str) -> String {
    let mut written = String::with_capacity(path.len());
    for character in path.chars() {
        if character.is_ascii_graphic() && character != '#' {
            written.push(character);
        } else {
            let mut bytes = [0; 4];
            character.encode_utf8(&mut bytes).bytes().for_each(|byte| written += &format!("%{byte:02X}"));
        }
    }
    written
}

/// A part of a form: variables stay, and are encoded when they are put in.
pub(crate) fn form_text(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        written += &form_encoded(&rest[..at]);
        written += &format!("{}|query}}", &rest[at..at + length]);
        rest = &rest[at + length + 1..];
    }
    written + &form_encoded(rest)
}

fn form_encoded(text: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => written.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => written.push(byte.into()),
            byte => written += &format!("%{byte:02X}"),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COLLECTION: &str = include_str!("../fixtures/shop.postman.json");

    #[test]
    fn a_collection_becomes_a_session() {
        let draft = read(COLLECTION).expect("a good collection");
        assert_eq!(draft.origin.as_deref(), Some("http://shop.example:8080"));
        let [login, one, form, _file] = &draft.sessions[0].requests[..] else { panic!("{draft:?}") };
        assert_eq!(login.path, "/api/login?at=${random}");
        assert_eq!(login.headers, ["X-A: 1", "Content-Type: application/json"]);
        assert_eq!(login.body.as_deref(), Some("{\"user\":\"${user}\"}"));
        assert_eq!(login.status, [201]);
        let extract = |name: &str, from: &str| (name.to_string(), from.to_string());
        assert_eq!(
            login.extract,
            [extract("token", "json $.data.token"), extract("next", "header Location")]
        );
        assert_eq!(one.path, "/api/orders/${next}/lines");
        assert_eq!(one.headers, ["Authorization: Bearer ${token}"]);
        assert_eq!(form.body.as_deref(), Some("a+b=x%26${user|query}"));
        assert_eq!(draft.data[0].1, ["user"]);
        for said in [
            "Sign in: left out: line 7 of its test script: console.log(json);",
            "Orders / File: left out: its body, which is of the mode formdata",
            "Orders / Elsewhere: left out: it goes to another server, https://other.example",
            "Orders / Unknown: left out: the server of \"${nowhere}/x\" is not known",
        ] {
            assert!(draft.notes.iter().any(|note| note.starts_with(said)), "{said}: {:#?}", draft.notes);
        }
        assert_eq!(draft.notes.len(), 5, "{:#?}", draft.notes);
    }

    #[test]
    fn what_is_no_collection_is_told() {
        for text in ["", "[]", "{}", "{\"item\": []}", "{\"item\": [{\"name\": \"x\"}]}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_json_is_a_collection_or_an_error(key in "item|name|request|url", text: String, raw: String) {
            let _ = read(&text);
            let inside = serde_json::json!({"item": [{key: text, "request": {"url": raw, "method": text}}]});
            if let Ok(draft) = read(&inside.to_string()) {
                let paths = draft.sessions.iter().flat_map(|session| &session.requests);
                for request in paths {
                    let begins = ["/", "${"].iter().any(|begin| request.path.starts_with(begin));
                    prop_assert!(begins && request.path.is_ascii());
                }
            }
        }
    }
}
