//! Assertions about an answer: `contains Welcome`, `json $.ok == true`, `header Content-Type ~ ^text/`, `css
//! h1`, and any of these after `not`.

use crate::answer::AnswerView;
use crate::plan::ScriptError;
use crate::query::{Query, regex};
use crate::template::contains;
use regex::bytes::Regex;

/// A compiled assertion.
#[derive(Debug)]
pub(crate) struct Assertion {
    is_negated: bool,
    check: Check,
}

#[derive(Debug)]
enum Check {
    /// The body contains this text.
    Contains(Vec<u8>),
    /// The query finds a value.
    Exists(Query),
    /// The value is equal to this text.
    Equals(Query, Vec<u8>),
    /// The expression matches the value.
    Matches(Query, Regex),
}

impl Assertion {
    pub(crate) fn compile(text: &str) -> Result<Assertion, ScriptError> {
        let bad = |reason: String| ScriptError(format!("assert {text:?}: {reason}"));
        let (is_negated, rest) = match text.trim().strip_prefix("not ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text.trim()),
        };
        let check = match rest.strip_prefix("contains") {
            Some("") => return Err(bad("the text to look for is missing".to_string())),
            Some(wanted) if wanted.starts_with(' ') => Check::Contains(wanted.as_bytes()[1..].to_vec()),
            _ => compare(rest).map_err(bad)?,
        };
        Ok(Assertion { is_negated, check })
    }

    pub(crate) fn reads_body(&self) -> bool {
        match &self.check {
            Check::Contains(_) => true,
            Check::Exists(query) | Check::Equals(query, _) | Check::Matches(query, _) => query.reads_body(),
        }
    }

    /// Whether the assertion is true for the answer. `scratch` is a reusable buffer.
    pub(crate) fn is_met(&self, answer: &AnswerView<'_>, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        let is_true = match &self.check {
            Check::Contains(text) => contains(answer.body, text),
            Check::Exists(query) => query.find(answer, scratch),
            Check::Equals(query, wanted) => query.find(answer, scratch) && scratch == wanted,
            Check::Matches(query, regex) => query.find(answer, scratch) && regex.is_match(scratch),
        };
        is_true != self.is_negated
    }
}

/// Parses `QUERY`, `QUERY == TEXT` or `QUERY ~ PATTERN`.
fn compare(text: &str) -> Result<Check, String> {
    if text.starts_with("regex ") {
        // An operator may also be a part of the query's expression.
        return Query::compile(text).map(Check::Exists);
    }
    if let Some((query, wanted)) = text.split_once(" == ") {
        return Ok(Check::Equals(Query::compile(query)?, wanted.trim().as_bytes().to_vec()));
    }
    if let Some((query, pattern)) = text.split_once(" ~ ") {
        return Ok(Check::Matches(Query::compile(query)?, regex(pattern.trim())?));
    }
    Query::compile(text).map(Check::Exists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_met(text: &str) -> bool {
        let fields = vec![(b"content-type".to_vec(), b"application/json".to_vec())];
        let view = AnswerView { fields: &fields, body: br#"{"ok":true,"name":"a == b","n":3}"# };
        Assertion::compile(text).expect(text).is_met(&view, &mut Vec::new())
    }

    #[test]
    fn assertions_check_texts_values_and_patterns() {
        for text in [
            "contains \"ok\":true",
            "not contains error",
            "json $.ok == true",
            "json $.n == 3",
            "json $.name",
            "not json $.none",
            "header Content-Type ~ ^application/(json|xml)$",
            "regex \"n\":\\d",
            "not header Etag",
            "json $.name ~ b$",
        ] {
            assert!(is_met(text), "{text}");
        }
        for text in
            ["contains nope", "not contains ok", "json $.ok == false", "header etag", "json $.none == 3"]
        {
            assert!(!is_met(text), "{text}");
        }
        for bad in ["", "contains ", "status == 200", "json == 3", "header X ~ (", "not"] {
            assert!(Assertion::compile(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_assertion_or_an_error(text: String) {
            let _ = Assertion::compile(&text);
        }
    }
}
