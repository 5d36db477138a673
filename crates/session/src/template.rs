//! Text with variables: `/basket/${id}?q=${term|query}`.
//!
//! A value cannot change the structure of a request: in a request target, bytes that are not allowed there
//! are percent-encoded, and in a header field line ends become spaces.

use crate::plan::ScriptError;
use crate::values::Values;
use memchr::memmem;

/// The part of a request that a text becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPart {
    /// Path and query.
    Target,
    /// The value of a header field.
    Field,
    /// The body.
    Body,
}

/// A compiled text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    Variable { number: usize, form: Form },
}

/// The encoding of a value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Unchanged.
    Raw,
    /// Percent-encoded where a byte is not allowed in a request target.
    Target,
    /// Percent-encoded except for the unreserved characters (RFC 3986, section 2.3).
    Query,
    /// Without control characters.
    Field,
    /// Escaped as the content of a JSON string.
    Json,
}

/// Whether a text contains variables.
pub fn has_variables(text: &str) -> bool {
    text.contains("${")
}

/// Checks the syntax of the variables in a text, but not their names.
pub fn check_text(text: &str) -> Result<(), ScriptError> {
    Template::compile(text, RequestPart::Body, |_| Ok(0)).map(drop)
}

impl Template {
    /// Parses a text. `number` returns the number of a variable, or an error if there is no such variable.
    pub fn compile(
        text: &str,
        part: RequestPart,
        mut number: impl FnMut(&str) -> Result<usize, String>,
    ) -> Result<Template, ScriptError> {
        let mut parts = Vec::new();
        let (mut plain, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find("${") {
            // `$${` is the text `${`.
            if rest[..at].ends_with('$') {
                plain.extend_from_slice(&rest.as_bytes()[..at - 1]);
                plain.extend_from_slice(b"${");
                rest = &rest[at + 2..];
                continue;
            }
            plain.extend_from_slice(&rest.as_bytes()[..at]);
            let inside = &rest[at + 2..];
            let end = inside
                .find('}')
                .ok_or_else(|| ScriptError(format!("{text:?}: the }} of a variable is missing")))?;
            let (name, form) = variable(&inside[..end], part)
                .map_err(|reason| ScriptError(format!("{text:?}: {reason}")))?;
            let number = number(name).map_err(|reason| ScriptError(format!("{text:?}: {reason}")))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain).into()));
            }
            parts.push(Part::Variable { number, form });
            rest = &inside[end + 1..];
        }
        plain.extend_from_slice(rest.as_bytes());
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Template { parts })
    }

    /// Creates a text without variables.
    pub fn text(text: &[u8]) -> Template {
        Template { parts: vec![Part::Text(text.into())] }
    }

    /// Creates a text that is the unchanged value of one variable.
    pub fn variable(number: usize) -> Template {
        Template { parts: vec![Part::Variable { number, form: Form::Raw }] }
    }

    /// Appends another text.
    pub fn append(&mut self, other: &Template) {
        for part in &other.parts {
            match (self.parts.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(text)) => *before = [&before[..], text].concat().into(),
                _ => self.parts.push(part.clone()),
            }
        }
    }

    /// The numbers of its variables.
    pub fn variables(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable { number, .. } => Some(*number),
        })
    }

    /// Whether the text has no variables.
    pub fn is_constant(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::Variable { .. }))
    }

    /// Appends the text with the values filled in.
    pub fn render(&self, values: &Values, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable { number, form } => form.append(values.get(*number), out),
            }
        }
    }
}

/// Parses `name` or `name|form`.
fn variable(text: &str, part: RequestPart) -> Result<(&str, Form), String> {
    let (name, form) = match text.split_once('|') {
        None => (text, None),
        Some((name, form)) => (name, Some(form.trim())),
    };
    let name = name.trim();
    if !is_name(name) {
        return Err(format!("{name:?} is not a valid name of a variable: use letters, digits and _"));
    }
    let form = match (form, part) {
        (None, RequestPart::Target) => Form::Target,
        (None, RequestPart::Field) => Form::Field,
        (None, RequestPart::Body) => Form::Raw,
        (Some("query"), _) => Form::Query,
        (Some("json"), _) => Form::Json,
        (Some(form), _) => return Err(format!("unknown form {form:?}: write |query or |json")),
    };
    Ok((name, form))
}

/// Whether a name has only letters, digits and `_`, and does not begin with a digit.
pub(crate) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= 100
}

impl Form {
    fn append(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Form::Raw => out.extend_from_slice(value),
            Form::Target => {
                percent(value, |byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte), out)
            }
            Form::Query => {
                percent(value, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte), out)
            }
            Form::Field => {
                let visible =
                    |&byte: &u8| if byte < b' ' && byte != b'\t' || byte == 0x7f { b' ' } else { byte };
                out.extend(value.iter().map(visible));
            }
            Form::Json => json_string(value, out),
        }
    }
}

fn percent(value: &[u8], is_unchanged: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if is_unchanged(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

fn json_string(value: &[u8], out: &mut Vec<u8>) {
    let quoted = serde_json::to_vec(&String::from_utf8_lossy(value)).unwrap_or_default();
    out.extend_from_slice(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default());
}

/// Whether the bytes contain the text.
pub(crate) fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memmem::find(bytes, text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendered(text: &str, part: RequestPart, value: &[u8]) -> Result<String, String> {
        let number = |name: &str| if name == "v" { Ok(0) } else { Err(format!("no variable {name}")) };
        let template = Template::compile(text, part, number).map_err(|error| error.0)?;
        let (mut values, mut out) = (Values::new(1), Vec::new());
        values.set(0, value);
        template.render(&values, &mut out);
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn values_are_encoded_for_their_part_of_the_request() {
        for (text, part, value, wanted) in [
            ("/a/${v}?b", RequestPart::Target, "x/y z", "/a/x/y%20z?b"),
            ("/a?q=${v|query}", RequestPart::Target, "x&y=é", "/a?q=x%26y%3D%C3%A9"),
            ("${v}", RequestPart::Field, "a\r\nX-Evil: 1", "a  X-Evil: 1"),
            ("{\"a\":\"${ v | json }\"}", RequestPart::Body, "say \"hi\"\n", "{\"a\":\"say \\\"hi\\\"\\n\"}"),
            ("${v}${v}", RequestPart::Body, "ab", "abab"),
            ("$${v} $v {v}", RequestPart::Body, "ab", "${v} $v {v}"),
            ("", RequestPart::Body, "ab", ""),
        ] {
            assert_eq!(rendered(text, part, value.as_bytes()).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn invalid_variables_are_refused() {
        for (text, said) in [
            ("${v", "} of a variable is missing"),
            ("${}", "not a valid name"),
            ("${w}", "no variable w"),
            ("${v|x}", "unknown form \"x\""),
        ] {
            let message = rendered(text, RequestPart::Body, b"").expect_err(text);
            assert!(message.contains(said), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_value_changes_the_structure_of_a_request(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let target = rendered("/${v}", RequestPart::Target, &value).expect("a good text");
            prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'), "{target}");
            let field = rendered("${v}", RequestPart::Field, &value).expect("a good text");
            prop_assert!(!field.contains(['\r', '\n', '\0']));
            let body = rendered("\"${v|json}\"", RequestPart::Body, &value).expect("a good text");
            prop_assert!(serde_json::from_str::<String>(&body).is_ok(), "{body}");
        }

        #[test]
        fn any_text_compiles_or_is_refused(text: String, value: Vec<u8>) {
            let _ = rendered(&text, RequestPart::Body, &value);
        }
    }
}
