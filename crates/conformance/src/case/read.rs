//! Parses a file of cases.

use super::condition::alternatives;
use super::{Case, Document, Level, Role, Script, Step, escape, frames};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The maximum number of cases in a family.
const FAMILY_MAX: usize = 64;

/// Why a file of cases was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseError {
    /// The file, and the case if it is known.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for CaseError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    document: Document,
    section: String,
    /// The title of the section, for people.
    #[allow(dead_code, reason = "it is a heading for readers of the file")]
    title: String,
    #[serde(default = "any")]
    role: Role,
    case: Vec<CaseText>,
}

fn any() -> Role {
    Role::Any
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    name: String,
    rule: String,
    #[serde(default = "must")]
    level: Level,
    /// The subsection, if the case belongs to one.
    section: Option<String>,
    role: Option<Role>,
    note: Option<String>,
    /// A request of HTTP/1, byte for byte.
    send: Option<String>,
    /// Requests, and the answers of the origin.
    steps: Option<Vec<String>>,
    #[serde(default)]
    origin: Vec<String>,
    /// Steps of HTTP/2.
    http2: Option<Vec<String>>,
    /// Steps of HTTP/3.
    http3: Option<Vec<String>>,
    /// Whether no bytes are sent before the steps.
    #[serde(default)]
    bare: bool,
    answer: Vec<String>,
    /// A family: a case for each value, which replaces `{{name}}`; its key names the case.
    #[serde(default, rename = "for")]
    family: BTreeMap<String, String>,
}

fn must() -> Level {
    Level::Must
}

/// Parses the cases of a file; `name` is used in messages.
pub fn file(name: &str, text: &str) -> Result<Vec<Case>, CaseError> {
    let wrong = |place: String, problem: String| CaseError { place, problem };
    let file: FileText = toml::from_str(text).map_err(|error| wrong(name.to_owned(), error.to_string()))?;
    let mut cases: Vec<Case> = Vec::new();
    for case in &file.case {
        let place = format!("{name}, case {}", case.name);
        for (member, case) in members(case).map_err(|problem| wrong(place.clone(), problem))? {
            let case = one(&file, &case, member.as_deref());
            let case = case.map_err(|problem| wrong(place.clone(), problem))?;
            if cases.iter().any(|other| other.id == case.id) {
                return Err(wrong(place, "two cases have this name".to_owned()));
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

/// The case, or one for each value of its family, with the value's key.
fn members(case: &CaseText) -> Result<Vec<(Option<String>, CaseText)>, String> {
    if case.family.is_empty() {
        return Ok(vec![(None, case.clone())]);
    }
    if case.family.len() > FAMILY_MAX {
        return Err(format!("a family has at most {FAMILY_MAX} cases"));
    }
    let member = |(key, value): (&String, &String)| {
        let fill = |text: &String| text.replace("{{name}}", key).replace("{{value}}", value);
        let fill_all = |texts: &Vec<String>| texts.iter().map(fill).collect();
        let filled = CaseText {
            rule: fill(&case.rule),
            send: case.send.as_ref().map(fill),
            steps: case.steps.as_ref().map(fill_all),
            origin: fill_all(&case.origin),
            http2: case.http2.as_ref().map(fill_all),
            http3: case.http3.as_ref().map(fill_all),
            answer: fill_all(&case.answer),
            ..case.clone()
        };
        (Some(key.clone()), filled)
    };
    Ok(case.family.iter().map(member).collect())
}

fn one(file: &FileText, case: &CaseText, member: Option<&str>) -> Result<Case, String> {
    let section = case.section.clone().unwrap_or_else(|| file.section.clone());
    let member = member.map(|member| format!("-{member}")).unwrap_or_default();
    let id = format!("{}/{section}/{}{member}", &file.document.name()[4..], case.name);
    if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.')) {
        return Err(format!("the name {id} may contain only letters, digits and `-`"));
    }
    if case.answer.is_empty() {
        return Err("the allowed answers (`answer`) are missing".to_owned());
    }
    Ok(Case {
        id,
        document: file.document,
        section,
        rule: case.rule.clone(),
        level: case.level,
        role: case.role.unwrap_or(file.role),
        note: case.note.clone(),
        script: script(case)?,
        answer: alternatives(&case.answer)?,
    })
}

fn script(case: &CaseText) -> Result<Script, String> {
    match (&case.send, &case.steps, &case.http2, &case.http3) {
        (Some(send), None, None, None) => {
            escape::bytes(send).ok_or("`send` has a character above U+00FF")?;
            Ok(Script::Http1(send.clone()))
        }
        (None, Some(steps), None, None) => {
            let steps = steps.iter().map(|text| step(text)).collect::<Result<_, _>>()?;
            Ok(Script::Steps { origin: case.origin.clone(), steps })
        }
        (None, None, Some(lines), None) => {
            let opening = ["preface", "SETTINGS 0 -"];
            Ok(Script::Http2(frames::http2(&opened(&opening, lines, case.bare))?))
        }
        (None, None, None, Some(lines)) => {
            let opening = ["control bytes 00 | SETTINGS"];
            Ok(Script::Http3(frames::http3(&opened(&opening, lines, case.bare))?))
        }
        _ => Err("it needs one of `send`, `steps`, `http2` and `http3`".to_owned()),
    }
}

/// The steps, preceded by what every client sends first.
fn opened(opening: &[&str], lines: &[String], bare: bool) -> Vec<String> {
    let opening = if bare { &[][..] } else { opening };
    opening.iter().map(ToString::to_string).chain(lines.iter().cloned()).collect()
}

/// Parses `wait 1200`, or a method with fields: `GET`, `GET | Cache-Control: no-cache`, `GET ?x=1 | Accept:
/// a/b`. The text after ` || ` is the body. A text that ends in an empty line is sent unchanged.
fn step(text: &str) -> Result<Step, String> {
    if let Some(milliseconds) = text.strip_prefix("wait ") {
        return milliseconds.parse().map(Step::Wait).map_err(|_| format!("`{text}`: not a number"));
    }
    if text.contains("\r\n\r\n") {
        return Ok(Step::Send(text.to_owned()));
    }
    let (head, body) = text.split_once(" || ").map_or((text, None), |(head, body)| (head, Some(body)));
    let mut parts = head.split(" | ");
    let line = parts.next().unwrap_or_default();
    let (method, query) = line.split_once(' ').unwrap_or((line, ""));
    let mut request = format!("{method} {{url}}{query} HTTP/1.1\r\nHost: {{host}}\r\n");
    for field in parts {
        request += &format!("{field}\r\n");
    }
    if let Some(body) = body {
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    request += &format!("Connection: close\r\n\r\n{}", body.unwrap_or_default());
    Ok(Step::Send(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "document = \"RFC 9112\"\nsection = \"3\"\ntitle = \"T\"\n[[case]]\nname = \"a\"\n\
                        rule = \"R {{name}}\"\nsend = \"X {{value}}\"\nanswer = [\"400\"]\n\
                        for = { one = \"1\", two = \"2\" }\n";

    #[test]
    fn a_family_is_a_case_for_each_value() {
        let cases = file("x", GOOD).unwrap();
        let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["9112/3/a-one", "9112/3/a-two"]);
        assert_eq!((&cases[1].rule[..], &cases[1].script), ("R two", &Script::Http1("X 2".to_owned())));
        assert_eq!((cases[0].level, cases[0].role), (Level::Must, Role::Any));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_case() {
        for (from, to, problem) in [
            ("answer = [\"400\"]", "answer = [\"maybe\"]", "x, case a: `maybe` is not a condition"),
            ("answer = [\"400\"]", "answer = []", "x, case a: the allowed answers (`answer`) are missing"),
            ("send =", "http2 = [\"\"]\nsend =", "x, case a: it needs one of `send`"),
            ("rule =", "rul =", "unknown field `rul`"),
            ("name = \"a\"", "name = \"a b\"", "may contain only letters"),
        ] {
            let error = file("x", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_step_is_a_request_below_the_url_of_its_case() {
        let Ok(Step::Send(text)) = step("POST ?q | A: b || body") else { panic!() };
        let expected = "POST {url}?q HTTP/1.1\r\nHost: {host}\r\nA: b\r\nContent-Length: 4\r\n\
                        Connection: close\r\n\r\nbody";
        assert_eq!(text, expected);
        assert_eq!(step("wait 12"), Ok(Step::Wait(12)));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
            let _ = file("x", &text);
        }

        #[test]
        fn no_damage_makes_the_reader_panic(at in 0..GOOD.len(), put in "[\\x20-\\x7e\\n]{0,8}") {
            let mut text = GOOD.to_owned();
            text.replace_range(at..(at + 1), &put);
            let _ = file("x", &text);
        }
    }
}
