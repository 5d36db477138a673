//! OpenAPI documents (3.0 and 3.1, JSON or YAML): each operation becomes a session of one request, with
//! examples of its parameters and its body.

use crate::draft::{Draft, DraftRequest, DraftSession};
use crate::json_schema::{example, resolved};
use crate::postman::sendable;
use crate::variables::form_text;
use serde_json::Value;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// Reads a document.
pub fn read(text: &str) -> Result<Draft, String> {
    let document: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| format!("this is neither JSON nor YAML: {error}"))?
    };
    match document["openapi"].as_str() {
        Some(version) if version.starts_with("3.") => {}
        Some(version) => return Err(format!("OpenAPI {version} is not supported: only 3.0 and 3.1")),
        None if document["swagger"].is_string() => {
            return Err("Swagger 2.0 is not supported: convert it to OpenAPI 3".to_string());
        }
        None => return Err("the file has no `openapi: 3.x`".to_string()),
    }
    let paths = document["paths"].as_object().ok_or("there are no `paths` in it")?;
    let mut draft = Draft::default();
    let prefix = server(&document, &mut draft);
    let mut changing = 0;
    for (path, item) in paths {
        let item = resolved(item, &document);
        for method in METHODS.iter().filter(|method| item[**method].is_object()) {
            let operation = &item[*method];
            let place = format!("{} {path}", method.to_uppercase());
            let mut request = DraftRequest {
                name: place.clone(),
                method: method.to_uppercase(),
                ..DraftRequest::default()
            };
            request.path = target(&prefix, path, item, operation, &document, &mut request.headers);
            body(&mut request, operation, &document, &place, &mut draft.notes);
            request.status = statuses(operation);
            let wanted = if operation["security"].is_array() { operation } else { &document };
            if let Some(left) = credentials(&wanted["security"], &document, &mut request) {
                draft.notes.push(format!("{place}: left out: its credentials: {left}"));
            }
            changing += usize::from(!["get", "head", "options"].contains(method));
            let name = operation["operationId"].as_str().unwrap_or(&place).to_string();
            draft.sessions.push(DraftSession { name, requests: vec![request], ..DraftSession::default() });
        }
    }
    if draft.sessions.is_empty() {
        return Err("the file has no operation".to_string());
    }
    if changing > 0 {
        draft.notes.push(format!(
            "{changing} of the requests may change what the server holds: take out those that must not be \
             sent"
        ));
    }
    draft.complete();
    Ok(draft)
}

/// Writes the credentials that an operation requires as values that the user must supply (RFC 6750, RFC
/// 7617); the first of several schemes is used. Returns the omitted part.
fn credentials(security: &Value, document: &Value, request: &mut DraftRequest) -> Option<String> {
    let list = security.as_array()?;
    // An empty requirement also means that no credentials are required.
    let first = list.first()?.as_object()?;
    if list.iter().any(|one| one.as_object().is_some_and(serde_json::Map::is_empty)) {
        return None;
    }
    for name in first.keys() {
        let scheme = &document["components"]["securitySchemes"][name];
        let own = scheme["name"].as_str().unwrap_or_default();
        let value = format!("${{{}}}", crate::variables::plain_name(name));
        let kind = scheme["type"].as_str().unwrap_or("unknown");
        match (kind, scheme["scheme"].as_str().unwrap_or_default(), scheme["in"].as_str()) {
            ("oauth2" | "openIdConnect", _, _) => {
                request.headers.push(format!("Authorization: Bearer {value}"))
            }
            ("http", scheme, _) if scheme.eq_ignore_ascii_case("bearer") => {
                request.headers.push(format!("Authorization: Bearer {value}"));
            }
            // The value is user and password in Base64.
            ("http", scheme, _) if scheme.eq_ignore_ascii_case("basic") => {
                request.headers.push(format!("Authorization: Basic {value}"));
            }
            ("apiKey", _, Some("header")) => request.headers.push(format!("{own}: {value}")),
            ("apiKey", _, Some("cookie")) => request.headers.push(format!("Cookie: {own}={value}")),
            ("apiKey", _, Some("query")) => {
                request.add_query(&format!("{own}={}", value.replace('}', "|query}")));
            }
            _ => return Some(format!("{name} of the type {kind}")),
        }
    }
    None
}

/// Stores the origin of the server; returns the prefix of all paths.
fn server(document: &Value, draft: &mut Draft) -> String {
    let servers = document["servers"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = servers.first() else { return String::new() };
    let mut url = first["url"].as_str().unwrap_or("").to_string();
    for (name, variable) in first["variables"].as_object().into_iter().flatten() {
        url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or(""));
    }
    if servers.len() > 1 {
        draft.notes.push(format!("left out: {} more servers; {url} is used", servers.len() - 1));
    }
    let (origin, path) = match url.split_once("://") {
        None => (None, url.clone()),
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(format!("{scheme}://{}", &rest[..end])), rest[end..].to_string())
        }
    };
    draft.origin = origin.filter(|origin| origin.starts_with("http"));
    path.trim_end_matches('/').to_string()
}

/// The path with examples of its parameters; header fields go to `headers`.
fn target(
    prefix: &str,
    path: &str,
    item: &Value,
    operation: &Value,
    document: &Value,
    headers: &mut Vec<String>,
) -> String {
    let mut target = format!("{prefix}{}", path.replace("${", "$${"));
    let mut query = Vec::new();
    let lists = [&operation["parameters"], &item["parameters"]];
    let mut seen = Vec::new();
    for parameter in lists.into_iter().filter_map(Value::as_array).flatten() {
        let parameter = resolved(parameter, document);
        let (Some(name), Some(kind)) = (parameter["name"].as_str(), parameter["in"].as_str()) else {
            continue;
        };
        // A parameter of the operation replaces that of its path.
        if seen.contains(&(name, kind)) {
            continue;
        }
        seen.push((name, kind));
        let value = value(parameter, document);
        match kind {
            "path" => target = target.replace(&format!("{{{name}}}"), &encoded(&value)),
            "query" if parameter["required"] == true => {
                query.push(format!("{}={}", encoded(name), encoded(&value)));
            }
            "header" if parameter["required"] == true => headers.push(format!("{name}: {value}")),
            "cookie" if parameter["required"] == true => headers.push(format!("Cookie: {name}={value}")),
            _ => {}
        }
    }
    if !query.is_empty() {
        target += &format!("?{}", query.join("&"));
    }
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    sendable(&target)
}

/// Percent-encodes a text for a path or a query.
fn encoded(text: &str) -> String {
    form_text(&text.replace("${", "")).replace('+', "%20")
}

/// An example of a parameter, as text on one line.
fn value(parameter: &Value, document: &Value) -> String {
    let given = &parameter["example"];
    let first = parameter["examples"].as_object().and_then(|examples| examples.values().next());
    let value = match (given.is_null(), first) {
        (false, _) => given.clone(),
        (true, Some(first)) => resolved(first, document)["value"].clone(),
        (true, None) => example(&parameter["schema"], document),
    };
    let text = match value {
        Value::String(text) => text,
        Value::Array(list) => {
            let texts = list.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_string));
            texts.collect::<Vec<_>>().join(",")
        }
        Value::Null => "1".to_string(),
        other => other.to_string(),
    };
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

fn body(
    request: &mut DraftRequest,
    operation: &Value,
    document: &Value,
    place: &str,
    notes: &mut Vec<String>,
) {
    let content = &resolved(&operation["requestBody"], document)["content"];
    let Some(content) = content.as_object().filter(|content| !content.is_empty()) else { return };
    let is_json = |kind: &str| kind.starts_with("application/") && kind.contains("json");
    let Some((kind, media)) = content.iter().find(|(kind, _)| is_json(kind)) else {
        let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
        notes.push(format!("{place}: left out: its body of the type {}", kinds.join(" or ")));
        return;
    };
    let first = media["examples"].as_object().and_then(|examples| examples.values().next());
    let value = match (media["example"].is_null(), first) {
        (false, _) => media["example"].clone(),
        (true, Some(first)) => resolved(first, document)["value"].clone(),
        (true, None) => example(&media["schema"], document),
    };
    request.body = Some(value.to_string().replace("${", "$${"));
    request.headers.push(format!("Content-Type: {kind}"));
}

/// The statuses of success that the operation names.
fn statuses(operation: &Value) -> Vec<u16> {
    let Some(responses) = operation["responses"].as_object() else { return Vec::new() };
    let numbers = responses.keys().filter_map(|status| status.parse::<u16>().ok());
    let mut statuses: Vec<u16> = numbers.filter(|status| (200..400).contains(status)).collect();
    if responses.keys().any(|status| status == "2XX" || status == "default") {
        statuses.clear();
    }
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DOCUMENT: &str = r##"
openapi: 3.1.0
info: { title: Shop, version: "1" }
servers:
  - url: https://{region}.shop.example/v1/
    variables: { region: { default: eu } }
  - url: https://test.shop.example
paths:
  /items/{id}:
    parameters:
      - { name: id, in: path, required: true, schema: { type: integer, minimum: 7 } }
    get:
      operationId: readItem
      parameters:
        - { name: q, in: query, required: true, example: "a b&c" }
        - { name: page, in: query, schema: { type: integer } }
        - { name: X-Tenant, in: header, required: true, schema: { enum: [one, two] } }
      responses: { "200": {}, "404": {} }
    put:
      requestBody:
        content:
          application/json: { schema: { $ref: "#/components/schemas/Item" } }
      responses: { "204": {}, default: {} }
      security: [ { key: [] } ]
  /upload:
    post:
      requestBody: { content: { multipart/form-data: {} } }
      responses: { "201": {} }
components:
  schemas:
    Item: { type: object, required: [name], properties: { name: { type: string }, note: { type: string } } }
"##;

    #[test]
    fn operations_become_sessions_with_examples() {
        let draft = read(DOCUMENT).expect("a good document");
        assert_eq!(draft.origin.as_deref(), Some("https://eu.shop.example"));
        let requests: Vec<&DraftRequest> =
            draft.sessions.iter().map(|session| &session.requests[0]).collect();
        let [get, put, post] = requests[..] else { panic!("{draft:?}") };
        assert_eq!((&get.path[..], &get.status[..]), ("/v1/items/7?q=a%20b%26c", &[200][..]));
        assert_eq!(
            (&get.headers[..], &draft.sessions[0].name[..]),
            (&["X-Tenant: one".to_string()][..], "readItem")
        );
        assert_eq!((put.body.as_deref(), &put.status[..]), (Some("{\"name\":\"text\"}"), &[][..]));
        assert_eq!((&post.method[..], &post.path[..], &post.status[..]), ("POST", "/v1/upload", &[201][..]));
        for note_start in [
            "left out: 1 more servers",
            "PUT /items/{id}: left out: its credentials: key of the type unknown",
            "POST /upload: left out: its body of the type multipart/form-data",
            "2 of the requests may change",
        ] {
            assert!(
                draft.notes.iter().any(|note| note.starts_with(note_start)),
                "{note_start}: {:#?}",
                draft.notes
            );
        }
    }

    #[test]
    fn credentials_become_variables() {
        let text = "openapi: 3.1.0\nsecurity: [{ t: [] }]\ncomponents:\n  securitySchemes:\n    t: { type: \
                    http, scheme: bearer }\n    k: { type: apiKey, in: query, name: key }\n    m: { type: \
                    mutualTLS }\npaths:\n  /a: { get: {} }\n  /b: { get: { security: [{ k: [] }] } }\n  \
                    /c: { get: { security: [] } }\n  /d: { get: { security: [{ m: [] }] } }\n";
        let draft = read(text).expect("a document");
        let first_request = |at: usize| &draft.sessions[at].requests[0];
        assert_eq!(first_request(0).headers, ["Authorization: Bearer ${t}"]);
        assert_eq!((&first_request(1).path[..], first_request(1).headers.len()), ("/b?key=${k|query}", 0));
        assert_eq!((&first_request(2).path[..], first_request(2).headers.len()), ("/c", 0));
        assert!(draft.notes[0].starts_with("GET /d: left out: its credentials: m of the type mutualTLS"));
        assert_eq!(draft.data, [("values.csv".to_string(), vec!["k".to_string(), "t".to_string()])]);
    }

    #[test]
    fn other_files_are_refused() {
        for (text, said) in [
            ("", "no `openapi"),
            ("{", "not JSON"),
            ("swagger: '2.0'", "convert it"),
            ("openapi: 4.0.0", "4.0.0 is not supported"),
            ("openapi: 3.0.0", "no `paths`"),
            ("openapi: 3.0.0\npaths: {}", "no operation"),
        ] {
            let message = read(text).expect_err(text);
            assert!(message.contains(said), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_path_can_be_sent(path: String, name: String, value: String) {
            let document = serde_json::json!({"openapi": "3.0.0", "paths": {path: {"get": {"parameters": [
                {"name": name, "in": "path", "example": value},
                {"name": name, "in": "query", "required": true, "example": value}
            ]}}}});
            if let Ok(draft) = read(&document.to_string()) {
                let path = &draft.sessions[0].requests[0].path;
                let is_sendable = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
                prop_assert!(path.starts_with('/') && is_sendable, "{path}");
            }
        }

        #[test]
        fn any_text_is_a_document_or_an_error(text: String) {
            let _ = (read(&text), read(&format!("openapi: 3.0.0\n{text}")));
        }
    }
}
