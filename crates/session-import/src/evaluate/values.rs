//! The values of a script's expressions, which is evaluated without requests: known values, references to
//! values of answers, and unknown values.

use crate::javascript::syntax::Function;
use std::collections::BTreeSet;
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    /// A random number between two numbers.
    Random(f64, f64),
    /// A text of a session: `${name}` in it is replaced by a value, `$${` means `${`.
    Text(String),
    /// A variable of the environment.
    Environment(String),
    /// A list, or the fields of an object: the index in the memory of the interpreter.
    List(usize),
    Object(usize),
    /// A function with the scope of its definition.
    Function(Rc<Function>, usize),
    /// A function or value of the load tool by its name: `http.get`.
    Native(String),
    Pattern(String),
    /// The answer to a request, by the index of the request.
    Answer(usize),
    AnswerValue(AnswerValue),
    Condition(Condition),
    /// The argument of Postman's `pm.expect`, and whether the expectation is negated.
    Expected(Box<Value>, bool),
    /// The position of a text in the body of an answer.
    Position(usize, String),
    /// A file that the script opens, its rows, and one of its rows.
    File(String),
    Rows(String),
    Row(String),
    Unknown,
}

impl Value {
    /// A text without variables, unchanged.
    pub(crate) fn plain_text(&self) -> Option<String> {
        match self {
            Value::Text(text) => plain(text),
            _ => None,
        }
    }
}

/// A value of an answer.
#[derive(Debug, Clone)]
pub(crate) struct AnswerValue {
    pub(crate) request: usize,
    pub(crate) place: AnswerPart,
    /// The name of the value in the script.
    pub(crate) name: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerPart {
    Status,
    Body,
    /// The steps behind `$` of a JSON path.
    Json(String),
    /// The number of elements.
    Length(String),
    Html,
    Element(String),
    Attribute(String, String),
    Headers,
    Header(String),
    Cookies,
    Cookie(String),
    /// The match of a regular expression, with its first group.
    Matches(String),
    Pattern(String),
}

impl AnswerPart {
    /// The query in the syntax of a session file; `None`: session files have no such query.
    pub(crate) fn source(&self) -> Option<String> {
        Some(match self {
            AnswerPart::Body => "body".to_string(),
            AnswerPart::Json(steps) if steps.is_empty() => "body".to_string(),
            AnswerPart::Json(steps) => format!("json ${steps}"),
            AnswerPart::Element(selector) => format!("css {selector}"),
            AnswerPart::Attribute(selector, attribute) => format!("css {selector} @{attribute}"),
            AnswerPart::Header(name) => format!("header {name}"),
            AnswerPart::Cookie(name) => format!("cookie {name}"),
            AnswerPart::Pattern(pattern) | AnswerPart::Matches(pattern) => format!("regex {pattern}"),
            AnswerPart::Status
            | AnswerPart::Length(_)
            | AnswerPart::Html
            | AnswerPart::Headers
            | AnswerPart::Cookies => return None,
        })
    }
}

/// A condition for an answer.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) request: usize,
    pub(crate) statuses: Option<BTreeSet<u16>>,
    /// Assertions in the syntax of a session file.
    pub(crate) asserts: Vec<String>,
}

impl Condition {
    pub(crate) fn statuses(request: usize, is_one: impl Fn(f64) -> bool) -> Condition {
        // All statuses of an answer.
        let statuses = (100..600_u16).filter(|status| is_one(f64::from(*status))).collect();
        Condition { request, statuses: Some(statuses), asserts: Vec::new() }
    }

    pub(crate) fn assert(request: usize, words: String) -> Condition {
        Condition { request, statuses: None, asserts: vec![words] }
    }

    /// Both conditions.
    pub(crate) fn and(mut self, other: Condition) -> Condition {
        self.statuses = match (self.statuses, other.statuses) {
            (Some(one), Some(two)) => Some(one.intersection(&two).copied().collect()),
            (one, two) => one.or(two),
        };
        self.asserts.extend(other.asserts);
        self
    }

    /// One of two conditions; `None` unless both are only about statuses.
    pub(crate) fn or(self, other: Condition) -> Option<Condition> {
        let is_plain = self.asserts.is_empty() && other.asserts.is_empty() && self.request == other.request;
        match (self.statuses, other.statuses) {
            (Some(one), Some(two)) if is_plain => Some(Condition {
                request: self.request,
                statuses: Some(one.union(&two).copied().collect()),
                asserts: Vec::new(),
            }),
            _ => None,
        }
    }

    pub(crate) fn not(self) -> Option<Condition> {
        match (self.statuses, &self.asserts[..]) {
            (Some(statuses), []) => {
                Some(Condition::statuses(self.request, |status| !statuses.contains(&(status as u16))))
            }
            (None, [one]) => Some(Condition::assert(
                self.request,
                match one.strip_prefix("not ") {
                    Some(positive) => positive.to_string(),
                    None => format!("not {one}"),
                },
            )),
            _ => None,
        }
    }

    /// Whether the condition is true for an expected answer: one with a status of success and existing
    /// values.
    pub(crate) fn is_expected(&self) -> bool {
        let is_success = self.statuses.as_ref().is_none_or(|statuses| match statuses.len() {
            // A list of statuses: it must contain one of success.
            0..=20 => statuses.range(200..400).next().is_some(),
            // All statuses except some: it must contain every status of success.
            _ => (200..300).all(|status| statuses.contains(&status)),
        });
        is_success && !self.asserts.iter().any(|one| one.starts_with("not "))
    }
}

/// Sets the value of a name, or replaces it.
pub(crate) fn put<T>(pairs: &mut Vec<(String, T)>, name: String, value: T) {
    pairs.retain(|(known, _)| *known != name);
    pairs.push((name, value));
}

/// A number in the syntax of JavaScript.
pub(crate) fn number_text(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 { format!("{number:.0}") } else { number.to_string() }
}

/// A literal text, in the syntax of sessions.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// A text of a session without variables, unchanged.
pub(crate) fn plain(text: &str) -> Option<String> {
    crate::variables::names(text).is_empty().then(|| text.replace("$${", "${"))
}

/// The segment of a JSON path for a name.
pub(crate) fn step_by_name(name: &str) -> String {
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}
