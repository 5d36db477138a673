//! Header fields that a route sets on answers, instead of those that they have.

use std::collections::BTreeMap;

use touchstone_expression::text::field_value;
use touchstone_expression::{AvailableFrom, Fact, Scope, Source, Text, Variable};

/// Fields to set and fields to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerFields {
    /// Names in lower case; all of them are first removed from the answer.
    names: Box<[Box<[u8]>]>,
    /// Field lines with their CRLF.
    lines: Box<[u8]>,
    /// Fields whose values have variables.
    texts: Box<[(Box<str>, Text)]>,
    /// One of these contains a match of the route's pattern.
    use_captures: bool,
}

impl AnswerFields {
    /// Makes it from checked names and values; an empty value removes the field. The error names the field.
    pub fn new(fields: &BTreeMap<String, String>, scope: Scope<'_>) -> Result<AnswerFields, String> {
        let scope = Scope { known: AvailableFrom::Head, ..scope };
        let mut lines = Vec::new();
        let mut texts: Vec<(Box<str>, Text)> = Vec::new();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            let text = Text::read(value, scope).map_err(|problem| format!("{name}: {problem}"))?;
            match text.as_plain() {
                Some(plain) => append_line(name, plain, &mut lines),
                None => texts.push((name.as_str().into(), text)),
            }
        }
        let names = fields.keys().map(|name| name.to_ascii_lowercase().into_bytes().into()).collect();
        let is_capture = |variable: &Variable| variable.fact == Fact::Capture;
        let use_captures = texts.iter().any(|(_, text)| text.uses(&is_capture));
        Ok(AnswerFields { names, lines: lines.into(), texts: texts.into(), use_captures })
    }

    /// Those of them that have variables; `None`: there are none.
    pub fn with_variables(
        fields: &BTreeMap<String, String>,
        scope: Scope<'_>,
    ) -> Result<Option<AnswerFields>, String> {
        let AnswerFields { texts, use_captures, .. } = AnswerFields::new(fields, scope)?;
        Ok((!texts.is_empty()).then(|| AnswerFields { texts, use_captures, ..AnswerFields::default() }))
    }

    /// The field lines of those without variables, with their CRLF.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.texts.is_empty()
    }

    /// Whether a value has variables.
    pub fn have_variables(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Whether a value contains a match of the route's pattern.
    pub fn use_captures(&self) -> bool {
        self.use_captures
    }

    /// Applies them to field lines, each of which ends with CRLF. A value with variables is left out if it
    /// becomes empty, or contains a byte that is not allowed in a value.
    pub fn apply(&self, fields: &mut Vec<u8>, source: &dyn Source) {
        if !self.names.is_empty() {
            let mut kept = Vec::with_capacity(fields.len() + self.lines.len());
            for line in fields.split_inclusive(|byte| *byte == b'\n') {
                let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
                if !self.names.iter().any(|other| name.eq_ignore_ascii_case(other)) {
                    kept.extend_from_slice(line);
                }
            }
            kept.extend_from_slice(&self.lines);
            *fields = kept;
        }
        for (name, text) in &self.texts {
            let value = text.render(source);
            if let Some(value) = field_value(&value) {
                append_line(name, value, fields);
            }
        }
    }
}

fn append_line(name: &str, value: &[u8], lines: &mut Vec<u8>) {
    for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
        lines.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    fn fields(fields: &[(&str, &str)]) -> AnswerFields {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        AnswerFields::new(&fields, AvailableFrom::Head.into()).unwrap()
    }

    fn view() -> RequestView<'static> {
        RequestView { query: Some(b"a=b&c=%0d%0a&d=x\ny"), ..RequestView::example("/a\r\nX-Evil: 1") }
    }

    #[test]
    fn set_replace_and_take_away() {
        let mut lines = b"Content-Type: text/html\r\nETag: \"a:b\"\r\nVary: x\r\nvary: y\r\n".to_vec();
        fields(&[("X-New", "1"), ("VARY", "z"), ("etag", "")]).apply(&mut lines, &view());
        assert_eq!(lines, b"Content-Type: text/html\r\nVARY: z\r\nX-New: 1\r\n");
        let mut none = Vec::new();
        fields(&[("A", "1")]).apply(&mut none, &view());
        assert_eq!(none, b"A: 1\r\n");
        fields(&[]).apply(&mut none, &view());
        assert_eq!(none, b"A: 1\r\n");
    }

    #[test]
    fn variables() {
        let mut lines = b"X-Arg: old\r\nX-None: old\r\n".to_vec();
        fields(&[
            ("X-Arg", "[$arg{a}] $$"),
            ("X-None", "$arg{none}"),
            ("X-Path", "$path"),
            ("X-Line", "$arg{d}"),
            ("X-Encoded", "$arg{c}"),
            ("X-Plain", "$$1"),
        ])
        .apply(&mut lines, &view());
        // An empty value is left out, and one with a line end too.
        assert_eq!(lines, b"X-Plain: $1\r\nX-Arg: [b] $\r\nX-Encoded: %0d%0a\r\n");
    }

    proptest! {
        /// No value of a request begins another line.
        #[test]
        fn a_value_stays_in_its_line(path in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut lines = Vec::new();
            let view = RequestView { path: &path, ..RequestView::example("/") };
            fields(&[("A", "x$path")]).apply(&mut lines, &view);
            let ends = lines.iter().filter(|byte| b"\r\n\0".contains(byte)).count();
            prop_assert!(lines.is_empty() || lines.ends_with(b"\r\n") && ends == 2);
        }

        #[test]
        fn others_stay_as_they_were(names in prop::collection::vec("[a-d]", 0..6), set in "[a-dA-D]") {
            let line_of = |name: &String| format!("{name}: 1\r\n").into_bytes();
            let mut lines: Vec<u8> = names.iter().flat_map(line_of).collect();
            fields(&[(&set, "2")]).apply(&mut lines, &view());
            let mut expected: Vec<u8> = names
                .iter()
                .filter(|name| !name.eq_ignore_ascii_case(&set))
                .flat_map(|name| format!("{name}: 1\r\n").into_bytes())
                .collect();
            expected.extend(format!("{set}: 2\r\n").into_bytes());
            prop_assert_eq!(lines, expected);
        }
    }
}
