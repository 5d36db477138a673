//! k6 scripts, their HTTP subset: the requests of the default function, or of those of the scenarios, in
//! order as sessions, with checks, pauses, and values that are extracted from answers. Other parts are
//! reported with their line.
//!
//! The script is evaluated once ([`crate::evaluate`]); [`requests`] has the functions of k6/http, [`options`]
//! converts the options to those of `touchstone load`.

mod options;
mod requests;

use crate::draft::{Draft, DraftRequest, DraftSession};
use crate::evaluate::Interpreter;
use crate::evaluate::values::Value;
use crate::javascript::parse;
use crate::javascript::syntax::Kind;

/// Reads a script.
pub fn read(text: &str) -> Result<Draft, String> {
    let script = parse(text)?;
    let mut interpreter = Interpreter::new();
    interpreter.run(&script);
    let default = script.iter().find_map(|statement| match &statement.kind {
        Kind::Function { function, is_default: true, .. } => Some(Value::Function(function.clone(), 0)),
        _ => None,
    });
    if let Some(default) = default {
        interpreter.define_global("default", default);
    }
    // Requests outside the default function are sent once and are not part of a user's session.
    interpreter.requests.clear();
    let scenarios = options::read(&mut interpreter);
    let mut draft = Draft { cookies: true, ..Draft::default() };
    for scenario in &scenarios {
        let Some(function) = interpreter.global(&scenario.function) else {
            interpreter.notes.push(format!("the script has no function {}", scenario.function));
            continue;
        };
        interpreter.pause_s = 0.0;
        let requests = session(&mut interpreter, &function);
        if !requests.is_empty() {
            let weight = if scenarios.len() > 1 { scenario.weight } else { 0.0 };
            draft.sessions.push(DraftSession { name: scenario.name.clone(), weight, requests });
        }
    }
    if draft.sessions.is_empty() {
        let has_function = scenarios.iter().any(|scenario| interpreter.global(&scenario.function).is_some());
        return Err(if has_function {
            let notes = interpreter.notes.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
            format!("no request of the file can be imported ({notes})")
        } else {
            "there is no `export default function` in it, and no scenario with another".to_string()
        });
    }
    draft.origin = interpreter.origin;
    draft.notes = interpreter.notes;
    for (file, columns) in interpreter.files {
        draft.notes.push(format!(
            "copy the file {file} to the directory of the sessions, with the columns {}",
            columns.join(", ")
        ));
        draft.data.push((file, columns));
    }
    draft.complete();
    Ok(draft)
}

/// The requests of a user, with those of `setup` if their answers are used.
fn session(interpreter: &mut Interpreter, function: &Value) -> Vec<DraftRequest> {
    let data = match interpreter.global("setup") {
        Some(setup @ Value::Function(..)) => interpreter.call_value(&setup, Vec::new()),
        _ => Value::Undefined,
    };
    let of_setup = interpreter.requests.len();
    let paused = std::mem::take(&mut interpreter.pause_s);
    interpreter.call_value(function, vec![data]);
    let mut requests = std::mem::take(&mut interpreter.requests);
    // Variables that only `setup` uses are not counted.
    let used: Vec<String> = requests[of_setup..].iter().flat_map(DraftRequest::uses).collect();
    let is_used = requests[..of_setup].iter().any(|request| used.iter().any(|name| request.takes(name)));
    if is_used {
        interpreter.note_once("each session sends the requests of setup()");
    } else if of_setup > 0 {
        interpreter.note_once("left out: the requests of setup(), whose answers are not used");
        requests.drain(..of_setup);
    }
    if let Some(first) = requests.first_mut().filter(|_| is_used) {
        first.think_time_s += paused;
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SCRIPT: &str = include_str!("../../fixtures/shop.k6.js");

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
        for note_start in [
            "the options correspond to: load --clients 20 --duration 30s",
            "line 9: left out: the parameter tags",
            "line 10: left out: the check \"fast\"",
            "line 19: left out: http.get('https://other.example/')",
        ] {
            assert!(
                draft.notes.iter().any(|note| note.starts_with(note_start)),
                "{note_start}: {:#?}",
                draft.notes
            );
        }
    }

    /// The features of current scripts.
    #[test]
    fn functions_loops_forms_and_batches_are_followed() {
        let text = "import http from 'k6/http';\nimport { check, group, sleep } from 'k6';\n\
            const base = __ENV.BASE_URL || 'https://shop.example';\n\
            const users = new SharedArray('users', () => JSON.parse(open('./users.json')));\n\
            export const options = { stages: [{ duration: '1m', target: 10 }, { duration: '30s', target: 10 }\
              ],\n\
              thresholds: { http_req_duration: ['p(95)<500'], http_req_failed: [{ threshold: 'rate<0.01',\n\
              abortOnFail: true }], mine: ['avg<1'] } };\n\
            const bearer = (token) => ({ headers: { Authorization: `Bearer ${token}` } });\n\
            export function setup() { return { token: http.post(base + '/token').json('access') }; }\n\
            export default (data) => {\n\
              const user = users[__VU % users.length];\n\
              group('in', () => {\n\
                const res = http.post(`${base}/login`, { name: user.name, 'a b': 'c&d' });\n\
                check(res, { ok: (r) => r.status === 200 && r.json('ok') === true,\n\
                  is: (r) => { return [200, 201].includes(r.status); } });\n\
                if (res.status !== 200) { return; }\n\
              });\n\
              for (const page of ['a', 'b']) { http.get(`${base}/${page}`, bearer(data.token)); }\n\
              http.batch([['GET', base + '/x'], { method: 'PUT', url: base + '/y', body: '1' }]);\n\
              sleep(1 + Math.random() * 2);\n\
              http.get('https://ann:secret@shop.example/end');\n\
            }";
        let draft = read(text).expect("a good script");
        let requests = &draft.sessions[0].requests;
        let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, ["/token", "/login", "/a", "/b", "/x", "/y", "/end"], "{:#?}", draft.notes);
        assert_eq!(requests[0].extract, [("token".to_string(), "json $['access']".to_string())]);
        assert_eq!(requests[1].body.as_deref(), Some("name=${name|query}&a+b=c%26d"));
        assert_eq!(requests[1].headers, ["Content-Type: application/x-www-form-urlencoded"]);
        assert_eq!(
            (&requests[1].status[..], &requests[1].assert[..]),
            (&[200, 201][..], &["json $['ok'] == true".to_string()][..])
        );
        assert_eq!(requests[2].headers, ["Authorization: Bearer ${token}"]);
        assert_eq!((&requests[5].method[..], requests[5].body.as_deref()), ("PUT", Some("1")));
        assert_eq!(requests[6].think_time_s, 2.0);
        assert_eq!(requests[6].headers, ["Authorization: Basic YW5uOnNlY3JldA=="]);
        assert_eq!(draft.data, [("./users.json".to_string(), vec!["name".to_string()])]);
        for note_start in [
            "the options correspond to: load --stages 60s:0-10,30s:10 --fail-if 'p95>=500ms' --abort-if \
             'errors>=1%'",
            "options: left out: the threshold mine",
            "each session sends the requests of setup()",
            "line 19: the requests of a batch",
        ] {
            assert!(
                draft.notes.iter().any(|note| note.starts_with(note_start)),
                "{note_start}: {:#?}",
                draft.notes
            );
        }
    }

    #[test]
    fn other_files_are_refused() {
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
