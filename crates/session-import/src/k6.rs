//! k6 scripts, their HTTP subset: the requests of the default function in order as one session, with checks,
//! pauses, and values that are taken from answers. What is more than that is told with its line.

use crate::draft::{Draft, DraftRequest, DraftSession};
use crate::postman::{sendable, split};
use crate::script::{Statement, Values, arguments, statements, text_of};

/// Reads a script.
pub fn read(text: &str) -> Result<Draft, String> {
    let statements = statements(text)
        .ok_or("there is no `export default function` in it, or a bracket or a quote has no end")?;
    let mut reader = Reader {
        draft: Draft { cookies: true, ..Draft::default() },
        session: DraftSession { name: "default".to_string(), requests: Vec::new() },
        values: Values::default(),
        answers: Vec::new(),
        pause_s: 0.0,
    };
    for statement in statements {
        reader.statement(&statement);
    }
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
    session: DraftSession,
    values: Values,
    /// Variables that hold an answer, and the place of its request.
    answers: Vec<(String, usize)>,
    pause_s: f64,
}

/// The functions of k6/http that send, with the method and whether a body comes before the parameters.
const SENDING: [(&str, &str, bool); 7] = [
    ("http.get(", "GET", false),
    ("http.head(", "HEAD", false),
    ("http.options(", "OPTIONS", true),
    ("http.post(", "POST", true),
    ("http.put(", "PUT", true),
    ("http.patch(", "PATCH", true),
    ("http.del(", "DELETE", true),
];

impl Reader {
    fn statement(&mut self, statement: &Statement) {
        let text = statement.text.trim();
        let (name, value) = match assignment(text) {
            Some((name, value)) => (Some(name), value),
            None => (None, text),
        };
        let taken =
            if let Some((at, sending)) = SENDING.iter().find_map(|one| Some((value.find(one.0)?, one))) {
                self.request(statement, name, &value[at + sending.0.len()..], sending)
            } else if let Some(rest) = value.strip_prefix("check(") {
                self.check(statement, rest)
            } else if let Some(rest) = value.strip_prefix("sleep(") {
                self.pause(rest)
            } else if let Some(name) = name {
                self.extraction(name, value) || self.constant(name, value)
            } else {
                text.is_empty() || text.starts_with("import ") || text == "}"
            };
        if !taken {
            let first = text.lines().next().unwrap_or_default();
            let words = if statement.is_inside { "left out" } else { "not taken over" };
            self.draft.notes.push(format!("line {}: {words}: {first}", statement.line));
        }
    }

    fn request(
        &mut self,
        statement: &Statement,
        name: Option<&str>,
        rest: &str,
        (_, method, has_body): &(&str, &str, bool),
    ) -> bool {
        let Some((list, behind)) = arguments(rest) else { return false };
        let Some(url) = list.first().and_then(|url| text_of(url, &self.values)) else { return false };
        let Some((origin, path)) = split(&url) else { return false };
        if !self.draft.is_at(&origin) {
            return false;
        }
        let mut request = DraftRequest {
            name: format!("line {}", statement.line),
            method: (*method).to_string(),
            path: sendable(&path),
            think_time_s: std::mem::take(&mut self.pause_s),
            ..DraftRequest::default()
        };
        let body = list.get(1).filter(|_| *has_body).map(|body| body.trim());
        match body {
            None | Some("null" | "undefined") => {}
            Some(body) => match text_of(body, &self.values) {
                Some(body) => request.body = Some(body),
                None => self.note(statement, &format!("left out: the body {body}")),
            },
        }
        if let Some(parameters) = list.get(if *has_body { 2 } else { 1 }) {
            self.parameters(statement, parameters, &mut request);
        }
        self.session.requests.push(request);
        let place = self.session.requests.len() - 1;
        match behind.trim().trim_end_matches(';').strip_prefix('.') {
            // `const token = http.post(...).json('token')`
            Some(call) => match (name, query(call)) {
                (Some(name), Some(from)) => {
                    self.session.requests[place].extract.push((self.values.new_value(name), from))
                }
                _ => self.note(statement, &format!("left out: .{call}")),
            },
            None => self.answers.extend(name.map(|name| (name.to_string(), place))),
        }
        true
    }

    /// `{ headers: { 'X-A': '1' }, ... }`, or a constant that holds such an object.
    fn parameters(&mut self, statement: &Statement, text: &str, request: &mut DraftRequest) {
        let text = self.values.source(text.trim()).unwrap_or(text.trim()).to_string();
        for (key, value) in fields(&text) {
            if key != "headers" {
                self.note(statement, &format!("left out: the parameter {key}"));
                continue;
            }
            let value = self.values.source(value.trim()).unwrap_or(value.trim()).to_string();
            for (name, value) in fields(&value) {
                match text_of(&value, &self.values) {
                    Some(value) => request.headers.push(format!("{name}: {value}")),
                    None => self.note(statement, &format!("left out: the header field {name}")),
                }
            }
        }
    }

    /// `check(res, { 'is 200': (r) => r.status === 200 })`
    fn check(&mut self, statement: &Statement, rest: &str) -> bool {
        let Some((list, _)) = arguments(rest) else { return false };
        let [answer, checks, ..] = &list[..] else { return false };
        let place =
            self.answers.iter().rev().find(|(name, _)| name == answer.trim()).map(|(_, place)| *place);
        let Some(place) = place else { return false };
        for (name, check) in fields(checks) {
            let check = check.split_once("=>").map_or(check.as_str(), |(_, check)| check).trim();
            let request = &mut self.session.requests[place];
            let after_dot = check.split_once('.').map_or("", |(_, rest)| rest).trim();
            let status = after_dot.strip_prefix("status").map(|rest| rest.trim_start_matches(['=', ' ']));
            let included = after_dot.strip_prefix("body.includes(").and_then(|rest| rest.strip_suffix(')'));
            match (status.and_then(|status| status.parse::<u16>().ok()), included) {
                (Some(status), _) if (200..600).contains(&status) => request.status.push(status),
                (_, Some(text)) => match text_of(text, &self.values).filter(|text| !text.is_empty()) {
                    Some(text) if !text.contains(['$', '\n']) => {
                        request.assert.push(format!("contains {text}"))
                    }
                    _ => self.note(statement, &format!("left out: the check {name:?}")),
                },
                _ => self.note(statement, &format!("left out: the check {name:?}")),
            }
        }
        true
    }

    fn pause(&mut self, rest: &str) -> bool {
        let Some(seconds) = rest.split(')').next().and_then(|text| text.trim().parse::<f64>().ok()) else {
            return false;
        };
        if !(0.0..=86_400.0).contains(&seconds) {
            return false;
        }
        self.pause_s += seconds;
        true
    }

    /// `const token = res.json('token')`
    fn extraction(&mut self, name: &str, value: &str) -> bool {
        let Some((answer, call)) = value.trim_end_matches(';').split_once('.') else { return false };
        let place =
            self.answers.iter().rev().find(|(known, _)| known == answer.trim()).map(|(_, place)| *place);
        match (place, query(call.trim())) {
            (Some(place), Some(from)) => {
                let name = self.values.new_value(name);
                self.session.requests[place].extract.push((name, from));
                true
            }
            _ => false,
        }
    }

    /// `const BASE = 'http://host'`; an object is kept as it is written.
    fn constant(&mut self, name: &str, value: &str) -> bool {
        let value = value.trim_end_matches(';').trim();
        self.values.define(name, value);
        if name == "options" {
            return false;
        }
        text_of(value, &self.values).is_some() || value.starts_with('{')
    }

    fn note(&mut self, statement: &Statement, words: &str) {
        self.draft.notes.push(format!("line {}: {words}", statement.line));
    }
}

/// `const NAME = VALUE`
fn assignment(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix("export ").unwrap_or(text);
    let rest = ["const ", "let ", "var "].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    let (name, value) = rest.split_once('=')?;
    let name = name.trim();
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$');
    (is_name && !name.is_empty() && !value.starts_with(['=', '>'])).then(|| (name, value.trim()))
}

/// Where a method of an answer looks: `json('a.b')`, `json().a.b`, `headers['Location']`, `html().find(...)`.
fn query(call: &str) -> Option<String> {
    let quoted = |text: &str| {
        let text = text.trim();
        let inside = text.strip_prefix(['\'', '"'])?.strip_suffix(['\'', '"'])?;
        (!inside.contains(['\'', '"', '\\'])).then(|| inside.to_string())
    };
    if let Some(rest) = call.strip_prefix("json()") {
        let is_path = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._[]".contains(&byte));
        return (is_path && !rest.is_empty()).then(|| format!("json ${rest}"));
    }
    if let Some(inside) = call.strip_prefix("json(").and_then(|rest| rest.strip_suffix(')')) {
        // k6 has gjson's paths: names and numbers with dots.
        let path = quoted(inside)?;
        let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let step = |step: &str| match step.parse::<usize>() {
            Ok(place) => format!("[{place}]"),
            Err(_) => format!("['{step}']"),
        };
        return (is_plain && !path.is_empty())
            .then(|| format!("json ${}", path.split('.').map(step).collect::<String>()));
    }
    if let Some(inside) = call.strip_prefix("headers[").and_then(|rest| rest.strip_suffix(']')) {
        return quoted(inside).map(|name| format!("header {name}"));
    }
    let inside = call.strip_prefix("html().find(")?;
    let (selector, rest) = inside.split_once(')')?;
    let selector = quoted(selector)?;
    let attribute = rest.strip_prefix(".attr(").and_then(|rest| rest.strip_suffix(')')).and_then(quoted);
    match (rest, attribute) {
        (".text()", _) => Some(format!("css {selector}")),
        (".val()", _) => Some(format!("css {selector} @value")),
        (_, Some(attribute)) => Some(format!("css {selector} @{attribute}")),
        _ => None,
    }
}

/// The fields of an object as it is written: names and values.
fn fields(text: &str) -> Vec<(String, String)> {
    let Some(inside) = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Vec::new();
    };
    let Some((list, _)) = arguments(&format!("{inside})")) else { return Vec::new() };
    let field = |one: &String| {
        let one = one.trim();
        let (name, value) = match one.strip_prefix(['\'', '"']) {
            Some(rest) => rest.split_once(['\'', '"'])?,
            None => one.split_at(one.find(':')?),
        };
        let value = value.trim_start().strip_prefix(':')?;
        Some((name.trim().to_string(), value.trim().to_string()))
    };
    list.iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SCRIPT: &str = include_str!("../fixtures/shop.k6.js");

    #[test]
    fn a_script_becomes_a_session() {
        let draft = read(SCRIPT).expect("a good script");
        assert_eq!(draft.origin.as_deref(), Some("http://shop.example:8080"));
        let [login, orders, gone, more] = &draft.sessions[0].requests[..] else { panic!("{draft:#?}") };
        assert_eq!((&login.method[..], &login.path[..]), ("POST", "/login?vu=${client}"));
        assert_eq!(login.body.as_deref(), Some("{\"user\":\"ann\",\"n\":1}"));
        assert_eq!(login.headers, ["Content-Type: application/json"]);
        assert_eq!((&login.status[..], &login.assert[..]), (&[201][..], &["contains ok".to_string()][..]));
        let from = |name: &str, from: &str| (name.to_string(), from.to_string());
        assert_eq!(login.extract, [from("token", "json $['data'][0]['token']")]);
        assert_eq!((&orders.path[..], orders.think_time_s), ("/orders/${token}", 1.5));
        assert_eq!(orders.headers, ["Authorization: Bearer ${token}"]);
        assert_eq!(orders.extract, [from("next", "header Location")]);
        assert_eq!((&gone.method[..], &gone.path[..]), ("DELETE", "${next}"));
        assert_eq!(more.path, "/more");
        for said in [
            "line 5: not taken over: export const options",
            "line 9: left out: the parameter tags",
            "line 10: left out: the check \"fast\"",
            "line 19: left out: http.get('https://other.example/')",
        ] {
            assert!(draft.notes.iter().any(|note| note.starts_with(said)), "{said}: {:#?}", draft.notes);
        }
    }

    #[test]
    fn what_is_no_script_is_told() {
        for text in ["", "export default function () {", "export default function () { }"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_script_or_an_error(text: String, value in "[a-z`'\"${}()+.,:; ]{0,40}") {
            let _ = read(&text);
            if let Ok(draft) = read(&SCRIPT.replace("BASE + '/more'", &value)) {
                for request in draft.sessions.iter().flat_map(|session| &session.requests) {
                    let is_sendable = request.path.bytes().all(|byte| byte.is_ascii_graphic());
                    prop_assert!(is_sendable, "{}", request.path);
                }
            }
        }
    }
}
