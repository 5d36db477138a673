//! The values of a script's expressions while no requests are sent: known values, places in answers that will
//! be known, and unknown values.

use crate::javascript::syntax::Function;
use std::collections::BTreeSet;
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    /// A number between two, at random.
    Random(f64, f64),
    /// A text of a session: `${name}` in it is replaced by a value, `$${` means `${`.
    Text(String),
    /// A variable of the environment.
    Environment(String),
    /// A list, or the fields of an object: the place in the interpreter's memory.
    List(usize),
    Object(usize),
    /// With the scope that it was written in.
    Function(Rc<Function>, usize),
    /// What the load tool itself has, by its name: `http.get`.
    Native(String),
    Pattern(String),
    /// The answer to a request, by its place.
    Answer(usize),
    Found(Found),
    Claim(Claim),
    /// The argument of Postman's `pm.expect`, and whether the opposite is expected.
    Expected(Box<Value>, bool),
    /// The position of a text in the body of an answer.
    Position(usize, String),
    /// A file that the script opens, its rows, and one of them.
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

/// A place in an answer.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) request: usize,
    pub(crate) place: Place,
    /// What the script calls it.
    pub(crate) name: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Status,
    Body,
    /// The steps behind `$` of a JSON path.
    Json(String),
    /// How many elements are there.
    Length(String),
    Html,
    Element(String),
    Attribute(String, String),
    Headers,
    Header(String),
    Cookies,
    Cookie(String),
    /// What a regular expression matches, and its first group.
    Matches(String),
    Pattern(String),
}

impl Place {
    /// In the syntax of a file of sessions; `None`: it has no such place.
    pub(crate) fn source(&self) -> Option<String> {
        Some(match self {
            Place::Body => "body".to_string(),
            Place::Json(steps) if steps.is_empty() => "body".to_string(),
            Place::Json(steps) => format!("json ${steps}"),
            Place::Element(selector) => format!("css {selector}"),
            Place::Attribute(selector, attribute) => format!("css {selector} @{attribute}"),
            Place::Header(name) => format!("header {name}"),
            Place::Cookie(name) => format!("cookie {name}"),
            Place::Pattern(pattern) | Place::Matches(pattern) => format!("regex {pattern}"),
            Place::Status | Place::Length(_) | Place::Html | Place::Headers | Place::Cookies => return None,
        })
    }
}

/// What must be true of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) request: usize,
    pub(crate) statuses: Option<BTreeSet<u16>>,
    /// In the syntax of a file of sessions.
    pub(crate) asserts: Vec<String>,
}

impl Claim {
    pub(crate) fn statuses(request: usize, is_one: impl Fn(f64) -> bool) -> Claim {
        // All that an answer can have.
        let statuses = (100..600_u16).filter(|status| is_one(f64::from(*status))).collect();
        Claim { request, statuses: Some(statuses), asserts: Vec::new() }
    }

    pub(crate) fn assert(request: usize, words: String) -> Claim {
        Claim { request, statuses: None, asserts: vec![words] }
    }

    /// Both are true.
    pub(crate) fn and(mut self, other: Claim) -> Claim {
        self.statuses = match (self.statuses, other.statuses) {
            (Some(one), Some(two)) => Some(one.intersection(&two).copied().collect()),
            (one, two) => one.or(two),
        };
        self.asserts.extend(other.asserts);
        self
    }

    /// One of both is true: known for statuses alone.
    pub(crate) fn or(self, other: Claim) -> Option<Claim> {
        let is_plain = self.asserts.is_empty() && other.asserts.is_empty() && self.request == other.request;
        match (self.statuses, other.statuses) {
            (Some(one), Some(two)) if is_plain => Some(Claim {
                request: self.request,
                statuses: Some(one.union(&two).copied().collect()),
                asserts: Vec::new(),
            }),
            _ => None,
        }
    }

    pub(crate) fn not(self) -> Option<Claim> {
        match (self.statuses, &self.asserts[..]) {
            (Some(statuses), []) => {
                Some(Claim::statuses(self.request, |status| !statuses.contains(&(status as u16))))
            }
            (None, [one]) => Some(Claim::assert(
                self.request,
                match one.strip_prefix("not ") {
                    Some(positive) => positive.to_string(),
                    None => format!("not {one}"),
                },
            )),
            _ => None,
        }
    }

    /// Whether it holds for an expected answer: a status of success, and existing values.
    pub(crate) fn is_expected(&self) -> bool {
        let is_success = self.statuses.as_ref().is_none_or(|statuses| match statuses.len() {
            // Some statuses that are named: one of success is what is waited for.
            0..=20 => statuses.range(200..400).next().is_some(),
            // All but some: every status of success is in it.
            _ => (200..300).all(|status| statuses.contains(&status)),
        });
        is_success && !self.asserts.iter().any(|one| one.starts_with("not "))
    }
}

/// Gives a name a value, instead of the one that it may have.
pub(crate) fn put<T>(pairs: &mut Vec<(String, T)>, name: String, value: T) {
    pairs.retain(|(known, _)| *known != name);
    pairs.push((name, value));
}

/// A number as scripts write it.
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

/// In a path of JSON.
pub(crate) fn step_by_name(name: &str) -> String {
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}
