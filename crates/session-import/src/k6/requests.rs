//! The functions of k6/http, and checks: requests of a session.

use crate::draft::DraftRequest;
use crate::evaluate::Interpreter;
use crate::evaluate::values::{Condition, Value, literal, plain};
use crate::postman::{sendable, split};
use crate::variables::{PREDEFINED, form_text};
use base64::Engine as _;
use std::collections::BTreeSet;

/// The maximum number of statuses in a list.
const MOST_STATUSES: usize = 20;

impl Interpreter {
    /// Calls a function of k6/http; `None` if the name is not one of its functions.
    pub(crate) fn call_http(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        let function = name.strip_prefix("http.")?;
        let method = match function {
            "get" | "head" | "options" | "post" | "put" | "patch" | "del" => function,
            "request" | "asyncRequest" => {
                let Some(Value::Text(method)) = arguments.first() else { return Some(self.omit()) };
                let method = plain(method).unwrap_or_default();
                return Some(self.request(&method, &arguments[1..], true));
            }
            "batch" => return Some(self.batch(arguments.first())),
            _ => return None,
        };
        let has_body = !matches!(method, "get" | "head");
        let method = if method == "del" { "DELETE" } else { method };
        Some(self.request(method, arguments, has_body))
    }

    /// `http.batch([...])`: the requests, one after another.
    fn batch(&mut self, requests: Option<&Value>) -> Value {
        let Some(requests) = requests else { return self.omit() };
        let named = self.fields(requests);
        let elements = match (&named, self.elements(requests)) {
            (Some(fields), _) => fields.iter().map(|(_, request)| request.clone()).collect(),
            (None, Some(elements)) => elements,
            (None, None) => return self.omit(),
        };
        self.note("the requests of a batch are sent one after another");
        let mut answers = Vec::new();
        for request in elements {
            let answer = if let Some(list) = self.elements(&request) {
                match list.first().and_then(Value::plain_text) {
                    Some(method) => self.request(&method, &list[1..], true),
                    None => self.omit(),
                }
            } else if self.fields(&request).is_some() {
                let method = self.field(&request, "method").and_then(|method| method.plain_text());
                let method = method.unwrap_or_else(|| "GET".to_string());
                let parts: Vec<Value> = ["url", "body", "params"]
                    .into_iter()
                    .map(|part| self.field(&request, part).unwrap_or(Value::Undefined))
                    .collect();
                self.request(&method, &parts, true)
            } else {
                self.request("GET", &[request], false)
            };
            answers.push(answer);
        }
        match named {
            Some(fields) => {
                let fields = fields.into_iter().map(|(name, _)| name).zip(answers).collect();
                self.object(fields)
            }
            None => self.list(answers),
        }
    }

    fn request(&mut self, method: &str, arguments: &[Value], has_body: bool) -> Value {
        let Some(url) = arguments.first().and_then(|url| self.text(url)) else { return self.omit() };
        let (url, credentials) = without_credentials(&url);
        let Some(path) = self.path_at_server(&url) else { return self.omit() };
        let mut request = DraftRequest {
            name: format!("line {}", self.line),
            method: method.to_ascii_uppercase(),
            path: sendable(&path),
            redirects: self.redirects,
            think_time_s: std::mem::take(&mut self.pause_s),
            ..DraftRequest::default()
        };
        if let Some(parameters) = arguments.get(if has_body { 2 } else { 1 }) {
            self.parameters(parameters, &mut request);
        }
        if let Some(body) = arguments.get(1).filter(|_| has_body) {
            self.body(body, &mut request);
        }
        if let Some(credentials) = credentials.filter(|_| !request.has_header("authorization")) {
            let encoded = base64::prelude::BASE64_STANDARD.encode(credentials);
            request.headers.push(format!("Authorization: Basic {encoded}"));
        }
        self.requests.push(request);
        Value::Answer(self.requests.len() - 1)
    }

    /// The path of a URL of the server; `None`: the URL is of another server, or not known.
    fn path_at_server(&mut self, url: &str) -> Option<String> {
        // `${__ENV.BASE_URL}/path`: the server is the URL of `touchstone load`.
        let variable = url.strip_prefix("${").and_then(|rest| rest.split_once('}'));
        if variable.is_some_and(|(name, _)| self.is_taken(name)) {
            return Some(url.to_string());
        }
        if let Some((name, rest)) = variable
            && (rest.is_empty() || rest.starts_with(['/', '?']))
        {
            if self.origin.is_some() || self.environment_origin.as_deref().is_some_and(|known| known != name)
            {
                return None;
            }
            if self.environment_origin.is_none() {
                self.environment_origin = Some(name.to_string());
                self.notes.push(format!(
                    "the environment variable {name} is replaced by the URL of the load command"
                ));
            }
            return Some(if rest.starts_with('/') { rest.to_string() } else { format!("/{rest}") });
        }
        let (origin, path) = split(url)?;
        if origin.is_empty() {
            return Some(path);
        }
        (*self.origin.get_or_insert_with(|| origin.clone()) == origin).then_some(path)
    }

    /// Whether a name is that of a variable from an answer or from a file.
    fn is_taken(&self, name: &str) -> bool {
        PREDEFINED.contains(&name)
            || self.files.values().flatten().any(|column| column == name)
            || self.requests.iter().any(|request| request.takes(name))
    }

    /// `{ headers: { 'X-A': '1' }, ... }`
    fn parameters(&mut self, parameters: &Value, request: &mut DraftRequest) {
        for (key, value) in self.fields(parameters).unwrap_or_default() {
            match (key.as_str(), &value) {
                ("headers", _) => {
                    for (name, value) in self.fields(&value).unwrap_or_default() {
                        match self.text(&value).filter(|value| !value.contains(['\n', '\r'])) {
                            // The load engine sends the Host field.
                            Some(_) if name.eq_ignore_ascii_case("host") => {
                                self.note("left out: the header field Host");
                            }
                            Some(value) => request.headers.push(format!("{name}: {value}")),
                            None => self.note(&format!("left out: the header field {name}")),
                        }
                    }
                }
                ("cookies", _) => self.cookies(&value, request),
                ("redirects", Value::Number(most)) if (0.0..=20.0).contains(most) => {
                    request.redirects = *most as u32;
                }
                // The type of an answer does not matter for the load.
                ("responseType" | "responseCallback", _) => {}
                (key, _) => self.note(&format!("left out: the parameter {key}")),
            }
        }
    }

    fn cookies(&mut self, cookies: &Value, request: &mut DraftRequest) {
        let mut pairs = Vec::new();
        for (name, value) in self.fields(cookies).unwrap_or_default() {
            let value = self.field(&value, "value").unwrap_or(value);
            match self.text(&value) {
                Some(value) => pairs.push(format!("{name}={value}")),
                None => self.note(&format!("left out: the cookie {name}")),
            }
        }
        if !pairs.is_empty() {
            request.headers.push(format!("Cookie: {}", pairs.join("; ")));
        }
    }

    /// A text unchanged, an object as a form.
    fn body(&mut self, body: &Value, request: &mut DraftRequest) {
        if matches!(body, Value::Undefined | Value::Null) {
            return;
        }
        if let Some(fields) = self.fields(body) {
            let mut pairs = Vec::new();
            for (name, value) in fields {
                let values = self.elements(&value).unwrap_or_else(|| vec![value]);
                for value in values {
                    match self.text(&value) {
                        Some(value) => {
                            pairs.push(format!("{}={}", form_text(&literal(&name)), form_text(&value)));
                        }
                        None => self.note(&format!("left out: the field {name} of the form")),
                    }
                }
            }
            request.body = Some(pairs.join("&"));
            if !request.has_header("content-type") {
                request.headers.push("Content-Type: application/x-www-form-urlencoded".to_string());
            }
            return;
        }
        match self.text(body) {
            Some(text) => request.body = Some(text),
            None => self.note("left out: the body, which is not known before the run"),
        }
    }

    /// `check(res, { 'is 200': (r) => r.status === 200 })`
    pub(crate) fn check(&mut self, answer: &Value, checks: Option<&Value>) -> Value {
        let Some(checks) = checks.and_then(|checks| self.fields(checks)) else { return self.omit() };
        for (name, function) in checks {
            let outer = std::mem::take(&mut self.has_omission);
            let value = match &function {
                Value::Function(..) => self.call_value(&function, vec![answer.clone()]),
                value => value.clone(),
            };
            self.has_omission = outer;
            if !self.require_value(&value) {
                self.note(&format!("left out: the check {name:?}"));
            }
        }
        // It is assumed to succeed.
        Value::Bool(true)
    }

    /// Requires that a value is true: a condition for an answer, or a known value. Returns false if a session
    /// cannot express it.
    pub(crate) fn require_value(&mut self, value: &Value) -> bool {
        match self.condition_of(value) {
            Some(condition) => self.require(&condition),
            None => matches!(value, Value::Bool(true)),
        }
    }

    /// Requires a condition for an answer. Returns false if a session cannot express it.
    pub(crate) fn require(&mut self, condition: &Condition) -> bool {
        let Some(request) = self.requests.get_mut(condition.request) else { return false };
        for words in &condition.asserts {
            if !request.assert.contains(words) {
                request.assert.push(words.clone());
            }
        }
        let Some(statuses) = &condition.statuses else { return true };
        let usual: BTreeSet<u16> = (200..400).collect();
        if statuses.is_superset(&usual) {
            return true;
        }
        if statuses.len() <= MOST_STATUSES {
            request.status.extend(statuses);
            request.status.sort_unstable();
            request.status.dedup();
            return !statuses.is_empty();
        }
        // If redirects are followed, 200 to 399 is the same as 200 to 299.
        let success: BTreeSet<u16> = (200..300).collect();
        *statuses == success && request.redirects > 0
    }
}

/// Splits `http://user:password@host/` into the URL without credentials and the credentials.
fn without_credentials(url: &str) -> (String, Option<String>) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_string(), None) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((credentials, host)) if !credentials.contains("${") => {
            (format!("{scheme}://{host}{}", &rest[end..]), Some(credentials.to_string()))
        }
        _ => (url.to_string(), None),
    }
}
