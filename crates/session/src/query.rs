//! A query for one value of an answer: a header field, a cookie, the body, or a part of the body.
//!
//! Written as its kind and an expression: `header Location`, `cookie SESSION`, `json $.token`,
//! `regex id=(\d+)`, `css input[name=csrf] @value`, `body`.

use crate::answer::AnswerView;
use crate::cookie_jar::set_cookie_pair;
use crate::html::CssQuery;
use crate::json::JsonQuery;
use regex::bytes::{Regex, RegexBuilder};

/// A compiled query.
#[derive(Debug)]
pub(crate) enum Query {
    Header(Vec<u8>),
    Cookie(Vec<u8>),
    Json(JsonQuery),
    Regex(Regex),
    Css(CssQuery),
    Body,
}

/// The maximum memory of a compiled regular expression.
const MAXIMUM_REGEX_BYTES: usize = 4 * 1024 * 1024;

impl Query {
    /// Parses a kind and its expression.
    pub(crate) fn compile(text: &str) -> Result<Query, String> {
        let text = text.trim();
        let (kind, expression) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let expression = expression.trim();
        match (kind, expression) {
            ("body", "") => Ok(Query::Body),
            ("header" | "cookie" | "json" | "regex" | "css", "") => {
                Err(format!("{text:?}: the text after {kind:?} is missing"))
            }
            ("header", name) => Ok(Query::Header(name.as_bytes().to_vec())),
            ("cookie", name) => Ok(Query::Cookie(name.as_bytes().to_vec())),
            ("json", path) => JsonQuery::compile(path).map(Query::Json),
            ("regex", pattern) => regex(pattern).map(Query::Regex),
            ("css", selector) => CssQuery::compile(selector).map(Query::Css),
            _ => Err(format!(
                "{text:?}: write header NAME, cookie NAME, json $.PATH, regex PATTERN, css SELECTOR or body"
            )),
        }
    }

    /// Whether the query reads the body.
    pub(crate) fn reads_body(&self) -> bool {
        !matches!(self, Query::Header(_) | Query::Cookie(_))
    }

    /// Appends the value; returns false if there is none.
    pub(crate) fn find(&self, answer: &AnswerView<'_>, out: &mut Vec<u8>) -> bool {
        match self {
            Query::Header(name) => {
                let mut is_found = false;
                answer.fields.each(name, &mut |value| {
                    out.extend_from_slice(value);
                    is_found = true;
                    true
                });
                is_found
            }
            Query::Cookie(name) => {
                let mut is_found = false;
                answer.fields.each(b"set-cookie", &mut |value| {
                    let Some((cookie, value)) = set_cookie_pair(value).filter(|(cookie, _)| cookie == name)
                    else {
                        return false;
                    };
                    debug_assert_eq!(cookie, name);
                    out.extend_from_slice(value);
                    is_found = true;
                    true
                });
                is_found
            }
            Query::Json(query) => query.find(answer.body, out),
            Query::Regex(regex) if regex.captures_len() == 1 => match regex.find(answer.body) {
                None => false,
                Some(found) => {
                    out.extend_from_slice(found.as_bytes());
                    true
                }
            },
            Query::Regex(regex) => match regex.captures(answer.body).and_then(|found| found.get(1)) {
                None => false,
                Some(group) => {
                    out.extend_from_slice(group.as_bytes());
                    true
                }
            },
            Query::Css(query) => query.find(answer.body, out),
            Query::Body => {
                out.extend_from_slice(answer.body);
                true
            }
        }
    }
}

/// Compiles a regular expression for bytes; classes such as `\d` and `\w` match only ASCII.
pub(crate) fn regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(MAXIMUM_REGEX_BYTES)
        .build()
        .map_err(|error| format!("{pattern:?} is not a regular expression: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(query: &str, body: &str) -> Option<String> {
        let fields: Vec<(Vec<u8>, Vec<u8>)> =
            [("location", "/next"), ("set-cookie", "a=1; Path=/"), ("set-cookie", "SID=\"x y\"; HttpOnly")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        let mut out = Vec::new();
        let view = AnswerView { fields: &fields, body: body.as_bytes() };
        let is_found = Query::compile(query).expect(query).find(&view, &mut out);
        is_found.then(|| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn each_kind_finds_its_value() {
        for (query, wanted) in [
            ("header Location", Some("/next")),
            ("header Etag", None),
            ("cookie SID", Some("\"x y\"")),
            ("cookie sid", None),
            (r"regex id=(\d+)", Some("77")),
            (r"regex id=\d+", Some("id=77")),
            ("regex none", None),
            ("regex (none)?id", None),
            ("body", Some("<b>id=77</b>")),
            ("css b", Some("id=77")),
            ("json $.a", None),
        ] {
            assert_eq!(found(query, "<b>id=77</b>").as_deref(), wanted, "{query}");
        }
        for bad in ["", "json", "header ", "xpath //a", "regex (", "css [", "body x", "json a"] {
            assert!(Query::compile(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_or_an_error(text: String) {
            let _ = Query::compile(&text);
        }
    }
}
