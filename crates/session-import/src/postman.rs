//! Postman collections (format 2.0 and 2.1): all requests in order as one session. Variables of the
//! collection are replaced by their values; variables that test scripts set are extracted from the answers.

use crate::draft::{Draft, DraftRequest, DraftSession};
use crate::evaluate::Interpreter;
use crate::variables::{form_text, plain_name, replace};
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum depth of folders.
const MAXIMUM_DEPTH: usize = 50;

/// Reads a collection.
pub fn read(text: &str) -> Result<Draft, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let items = document
        .get("item")
        .and_then(Value::as_array)
        .ok_or("there is no `item` in it: export the collection from Postman as Collection v2.1")?;
    let mut reader = Reader {
        draft: Draft { cookies: true, ..Draft::default() },
        values: values(&document),
        server: None,
        session: DraftSession {
            name: document["info"]["name"].as_str().unwrap_or("collection").to_string(),
            ..DraftSession::default()
        },
    };
    reader.events(&document, "the collection", None);
    reader.items(items, "", &document["auth"], 0);
    if reader.session.requests.is_empty() {
        return Err("no request of the file can be imported".to_string());
    }
    let Reader { mut draft, session, .. } = reader;
    draft.sessions.push(session);
    draft.complete();
    Ok(draft)
}

struct Reader {
    draft: Draft,
    values: BTreeMap<String, String>,
    /// The variable for the server.
    server: Option<String>,
    session: DraftSession,
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
        let at = match self.at_variable(&url) {
            Some(path) => Some((None, path)),
            None => split(&url).map(|(origin, path)| (Some(origin), path)),
        };
        let Some((origin, path)) = at else {
            self.draft.notes.push(format!(
                "{place}: left out: the server of {url:?} is not known; define a collection variable for it"
            ));
            return;
        };
        if let Some(origin) = origin.filter(|origin| !self.draft.is_at(origin)) {
            self.draft.notes.push(format!("{place}: left out: it goes to another server, {origin}"));
            return;
        }
        let own = if request["auth"].is_object() { &request["auth"] } else { auth };
        let profile = &item["protocolProfileBehavior"];
        let follows = profile["followRedirects"] != false;
        let most = profile["maxRedirects"].as_u64().unwrap_or(10).min(20) as u32;
        let mut draft = DraftRequest {
            redirects: if follows { most } else { 0 },
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

    /// The path after a variable for the server, `{{baseUrl}}/path`. If the collection does not define the
    /// variable, its value is the URL of the `load` command.
    fn at_variable(&mut self, url: &str) -> Option<String> {
        let rest = url.strip_prefix("http://").or(url.strip_prefix("https://")).unwrap_or(url);
        let (name, path) = rest.strip_prefix("${")?.split_once('}')?;
        let is_plain = path.is_empty() || path.starts_with(['/', '?']);
        let is_free = self.draft.origin.is_none() && self.server.as_deref().is_none_or(|known| known == name);
        if !is_plain || !is_free {
            return None;
        }
        if self.server.is_none() {
            self.server = Some(name.to_string());
            self.draft
                .notes
                .push(format!("the variable {name} is the server: its value is the URL of the load command"));
        }
        Some(if path.starts_with('/') { path.to_string() } else { format!("/{path}") })
    }

    /// Replaces the variables of the collection, and converts all others to the syntax of sessions.
    fn filled(&self, text: &str) -> String {
        self.filled_to(text, 0)
    }

    fn filled_to(&self, text: &str, depth: usize) -> String {
        replace(text, ("{{", "}}"), |name| match self.values.get(name) {
            // A value may contain variables.
            Some(value) if depth < 10 => self.filled_to(value, depth + 1),
            _ if name.starts_with('$') => "${random}".to_string(),
            _ => format!("${{{}}}", plain_name(name)),
        })
    }

    /// Replaces path variables such as `/:id`.
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
        match body["mode"].as_str() {
            None => {}
            Some("raw") => {
                draft.body = body["raw"].as_str().map(|raw| self.filled(raw));
                if body["options"]["raw"]["language"] == "json" && !draft.has_header("content-type") {
                    draft.headers.push("Content-Type: application/json".to_string());
                }
            }
            Some("urlencoded") => {
                let pairs = body["urlencoded"].as_array().map_or(&[][..], Vec::as_slice);
                let pair = |pair: &Value| {
                    let exists = pair["disabled"] != true;
                    let key = pair["key"].as_str().filter(|_| exists)?;
                    let value = self.filled(&plain(&pair["value"]).unwrap_or_default());
                    Some(format!("{}={}", form_text(key), form_text(&value)))
                };
                draft.body = Some(pairs.iter().filter_map(pair).collect::<Vec<_>>().join("&"));
                if !draft.has_header("content-type") {
                    draft.headers.push("Content-Type: application/x-www-form-urlencoded".to_string());
                }
            }
            Some(other) => {
                self.draft.notes.push(format!("{place}: left out: its body of the mode {other}"));
            }
        }
    }

    /// Imports the scripts of an item: the variables that they set, and their conditions for the answer.
    fn events(&mut self, item: &Value, place: &str, draft: Option<&mut DraftRequest>) {
        let mut request = draft;
        for event in item["event"].as_array().map_or(&[][..], Vec::as_slice) {
            let text = match &event["script"]["exec"] {
                Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
                Value::String(text) => text.clone(),
                _ => String::new(),
            };
            let kind = if event["listen"] == "test" { "test" } else { "pre-request" };
            let script = match crate::javascript::parse(&text) {
                Ok(script) => script,
                Err(error) => {
                    self.draft.notes.push(format!("{place}: left out: its {kind} script: {error}"));
                    continue;
                }
            };
            let mut interpreter = Interpreter::new();
            // A pre-request script and a script of a folder have no answer.
            let own = request.as_deref_mut().filter(|_| kind == "test");
            interpreter.requests.extend(own.as_deref().cloned());
            interpreter.run(&script);
            if let (Some(own), Some(taken)) = (own, interpreter.requests.pop()) {
                *own = taken;
            }
            for (name, value) in interpreter.set {
                self.values.entry(name).or_insert(value);
            }
            for note in interpreter.notes {
                let (line, words) = note.split_once(": ").unwrap_or(("", &note));
                let (left, words) = match words.strip_prefix("left out: ") {
                    Some(words) => ("left out: ", words),
                    None => ("", words),
                };
                self.draft.notes.push(format!("{place}: {left}{line} of its {kind} script: {words}"));
            }
        }
    }
}

/// The server and the path of a URL.
pub(crate) fn split(url: &str) -> Option<(String, String)> {
    let url = url.split('#').next().unwrap_or_default();
    // Without a scheme Postman uses HTTP.
    let whole = if url.contains("://") { url.to_string() } else { format!("http://{url}") };
    let (scheme, rest) = whole.split_once("://")?;
    if !["http", "https"].contains(&scheme) {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    // A variable may contain the whole path: `http://host${next}`. A variable in a host or a port is not
    // supported.
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

/// Percent-encodes characters that are invalid in a request target; keeps variables.
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
            [extract("token", "json $['data']['token']"), extract("next", "header Location")]
        );
        assert_eq!(one.path, "/api/orders/${next}/lines");
        assert_eq!(one.headers, ["Authorization: Bearer ${token}"]);
        assert_eq!(form.body.as_deref(), Some("a+b=x%26${user|query}"));
        assert_eq!(draft.data[0].1, ["user"]);
        for note_start in [
            "Sign in: left out: line 7 of its test script: console.log(json)",
            "Orders / File: left out: its body of the mode formdata",
            "Orders / Elsewhere: left out: it goes to another server, https://other.example",
            "Orders / Unknown: left out: the server of \"${nowhere}/x\" is not known",
        ] {
            assert!(
                draft.notes.iter().any(|note| note.starts_with(note_start)),
                "{note_start}: {:#?}",
                draft.notes
            );
        }
        assert_eq!(draft.notes.len(), 5, "{:#?}", draft.notes);
    }

    /// Collections as they are published: the server is a variable, scripts are of several kinds.
    #[test]
    fn scripts_and_a_variable_for_the_server_are_imported() {
        let script = |lines: &[&str]| serde_json::json!([{"listen": "test", "script": {"exec": lines}}]);
        let item = |name: &str, url: &str, lines: &[&str]| {
            serde_json::json!({"name": name, "event": script(lines),
                "request": {"method": "GET", "url": {"raw": url}}})
        };
        let old = [
            "if (!(environment.isLocal)) {",
            "var answer = JSON.parse(responseBody);",
            "tests['has a user'] = answer.hasOwnProperty('user');",
            "var user = answer.user || {};",
            "if (tests['has a user']) {",
            "    postman.setEnvironmentVariable('token', user.token);",
            "}",
            "tests['token is set'] = environment.token === user.token;",
            "}",
        ];
        let new = [
            "pm.test('ok', function () { pm.response.to.have.status(200); });",
            "pm.test('fields', () => {",
            "  const body = pm.response.json();",
            "  pm.expect(body).to.have.property('items');",
            "  pm.expect(body.items.length).to.be.above(0);",
            "  pm.expect(body.name).to.eql('x');",
            "  pm.expect(pm.response.headers.get('Content-Type')).to.include('json');",
            "  pm.expect(pm.response.responseTime).to.be.below(200);",
            "});",
            "pm.collectionVariables.set('first', pm.response.json().items[0].id);",
        ];
        let items = [
            item("in", "{{apiUrl}}/users", &old),
            item("list", "{{apiUrl}}/items?t={{token}}", &new),
            item("one", "{{other}}/items/{{first}}", &[]),
        ];
        let draft = read(&serde_json::json!({"item": items}).to_string()).expect("a collection");
        let [login, list] = &draft.sessions[0].requests[..] else { panic!("{draft:#?}") };
        assert_eq!((&login.path[..], &list.path[..]), ("/users", "/items?t=${token}"));
        assert_eq!(login.extract, [("token".to_string(), "json $['user']['token']".to_string())]);
        assert_eq!(login.assert, ["json $['user']"]);
        assert_eq!(list.status, [200]);
        assert_eq!(
            list.assert,
            ["json $['items']", "json $['items'][0]", "json $['name'] == x", "header Content-Type ~ json"]
        );
        assert_eq!(list.extract, [("first".to_string(), "json $['items'][0]['id']".to_string())]);
        for note_start in [
            "the variable apiUrl is the server",
            "in: left out: line 8 of its test script: the test \"token is set\"",
            "list: left out: line 8 of its test script: pm.expect(pm.response.responseTime)",
            "one: left out: the server of",
        ] {
            assert!(
                draft.notes.iter().any(|note| note.starts_with(note_start)),
                "{note_start}: {:#?}",
                draft.notes
            );
        }
        assert_eq!(draft.notes.len(), 4, "{:#?}", draft.notes);
    }

    #[test]
    fn other_files_are_refused() {
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
