//! A text with variables, read once: `"$header{x-api-key} $host"`.

use std::borrow::Cow;

use crate::LONGEST;
use crate::source::Source;
use crate::variable::{Known, Variable};

/// A text with variables.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// As it was written.
    source: Box<str>,
    parts: Box<[Part]>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Plain(Box<[u8]>),
    Variable(Variable),
}

impl Text {
    /// Reads a text; the error says what is wrong with it.
    pub fn read(text: &str, known: Known) -> Result<Text, String> {
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
            let (variable, after) = Variable::read(rest, known)?;
            if !plain.is_empty() {
                parts.push(Part::Plain(std::mem::take(&mut plain).into()));
            }
            parts.push(Part::Variable(variable));
            rest = after;
        }
        plain.extend_from_slice(rest.as_bytes());
        if !plain.is_empty() {
            parts.push(Part::Plain(plain.into()));
        }
        Ok(Text { source: text.into(), parts: parts.into() })
    }

    /// As it was written.
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
            Part::Variable(variable) => Some(variable),
        })
    }

    /// The text with the values. What is not known is empty.
    pub fn render<'a>(&'a self, source: &'a (impl Source + ?Sized)) -> Cow<'a, [u8]> {
        match &*self.parts {
            [] => Cow::Borrowed(b""),
            [Part::Plain(plain)] => Cow::Borrowed(plain),
            [Part::Variable(variable)] => source.value(variable).unwrap_or_default(),
            parts => {
                let mut out = Vec::with_capacity(self.source.len() + 64);
                for part in parts {
                    match part {
                        Part::Plain(plain) => out.extend_from_slice(plain),
                        Part::Variable(variable) => {
                            out.extend_from_slice(&source.value(variable).unwrap_or_default());
                        }
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
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    fn rendered(text: &str) -> String {
        let fields = [("X-Key", "k")];
        let view = RequestView { fields: &fields, ..RequestView::example("/a") };
        let text = Text::read(text, Known::Request).unwrap();
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
        let text = |text: &str| Text::read(text, Known::Answer).unwrap();
        assert!(!text("a$$b").has_variables());
        assert_eq!(text("$client $header{a}").variables().count(), 2);
        assert!(Text::read(&"a".repeat(LONGEST + 1), Known::Answer).unwrap_err().contains("longer"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[$a-z{}_ ]{0,40}|\\PC{0,40}") {
            if let Ok(read) = Text::read(&text, Known::Answer) {
                read.render(&RequestView::example("/"));
            }
        }
    }
}
