//! A text with variables, read once: `"$header{x-api-key} $host"`.

use std::borrow::Cow;

use touchstone_http::grammar::is_field_value_byte;

use crate::LONGEST;
use crate::lookup::Piece;
use crate::operand::Operand;
use crate::scope::Scope;
use crate::source::Source;
use crate::variable::Variable;

/// A text with variables.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// As it was written.
    source: Box<str>,
    parts: Box<[Part]>,
}

/// What may be the value of a header field: without white space around it, not empty, and without control
/// characters. So no value of a request begins another line.
pub fn field_value(value: &[u8]) -> Option<&[u8]> {
    let value = value.trim_ascii();
    (!value.is_empty() && value.iter().all(|byte| is_field_value_byte(*byte))).then_some(value)
}

/// A part of a text.
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is written in the configuration.
    Plain(Box<[u8]>),
    /// The value of a variable.
    Variable(Operand),
}

impl Text {
    /// Reads a text; the error describes its problem.
    pub fn read<'s>(text: &str, scope: impl Into<Scope<'s>>) -> Result<Text, String> {
        let scope = scope.into();
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes"));
        }
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some(dollar) = memchr::memchr(b'$', rest.as_bytes()) {
            plain.extend_from_slice(&rest.as_bytes()[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                plain.push(b'$');
                rest = after;
                continue;
            }
            let (operand, after) = Operand::read(rest, scope)?;
            if !plain.is_empty() {
                parts.push(Part::Plain(std::mem::take(&mut plain).into()));
            }
            parts.push(Part::Variable(operand));
            rest = after;
        }
        plain.extend_from_slice(rest.as_bytes());
        if !plain.is_empty() {
            parts.push(Part::Plain(plain.into()));
        }
        Ok(Text { source: text.into(), parts: parts.into() })
    }

    /// The text as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it has variables.
    pub fn has_variables(&self) -> bool {
        self.variables().next().is_some()
    }

    /// Its variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Plain(_) => None,
            Part::Variable(operand) => Some(&operand.variable),
        })
    }

    /// Whether it, or a map in it, uses a variable for which this is so.
    pub fn uses(&self, is_meant: &dyn Fn(&Variable) -> bool) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Variable(operand) if operand.uses(is_meant)))
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether no map in it has values with variables.
    pub fn has_plain_maps(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Variable(Operand { map: Some(map), .. }) => map.has_plain_values(),
            _ => true,
        })
    }

    /// The text where it has no variables.
    pub fn as_plain(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Plain(plain)] => Some(plain),
            _ => None,
        }
    }

    /// Returns the text in pieces: its fixed parts, and values of variables. The text of a map is returned in
    /// its own pieces.
    pub fn pieces(&self, source: &dyn Source, take: &mut dyn FnMut(Piece<'_>)) {
        for part in &self.parts {
            match part {
                Part::Plain(plain) => take(Piece::Written(plain)),
                Part::Variable(Operand { map: Some(map), .. }) => map.pieces(source, take),
                Part::Variable(operand) => take(Piece::Value(&operand.value(source))),
            }
        }
    }

    /// The text with the values. Values that are not available are empty.
    pub fn render<'a>(&'a self, source: &'a dyn Source) -> Cow<'a, [u8]> {
        match &*self.parts {
            [] => Cow::Borrowed(b""),
            [Part::Plain(plain)] => Cow::Borrowed(plain),
            [Part::Variable(operand)] => operand.value(source),
            parts => {
                let mut out = Vec::with_capacity(self.source.len() + 64);
                for part in parts {
                    match part {
                        Part::Plain(plain) => out.extend_from_slice(plain),
                        Part::Variable(operand) => out.extend_from_slice(&operand.value(source)),
                    }
                }
                Cow::Owned(out)
            }
        }
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Text").field(&self.source).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::AvailableFrom;
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    fn rendered(text: &str) -> String {
        let fields = [("X-Key", "k")];
        let view = RequestView { fields: &fields, ..RequestView::example("/a") };
        let text = Text::read(text, AvailableFrom::Request).unwrap();
        String::from_utf8(text.render(&view).into_owned()).unwrap()
    }

    #[test]
    fn texts() {
        assert_eq!(rendered(""), "");
        assert_eq!(rendered("plain"), "plain");
        assert_eq!(rendered("$path"), "/a");
        assert_eq!(rendered("$client|$header{x-key}|$header{none}|$$"), "192.0.2.1|k||$");
        assert_eq!(rendered("${host}s"), "example.orgs");
    }

    #[test]
    fn variables_are_told() {
        let text = |text: &str| Text::read(text, AvailableFrom::Answer).unwrap();
        assert!(!text("a$$b").has_variables());
        assert_eq!(text("$client $header{a}").variables().count(), 2);
        assert!(Text::read(&"a".repeat(LONGEST + 1), AvailableFrom::Answer).unwrap_err().contains("longer"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[$a-z{}_ ]{0,40}|\\PC{0,40}") {
            if let Ok(read) = Text::read(&text, AvailableFrom::Answer) {
                read.render(&RequestView::example("/"));
            }
        }
    }
}
