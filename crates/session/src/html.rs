//! Finds values in an HTML page by a CSS selector: `input[name=csrf] @value` is an attribute, `h1` the text.

use crate::html_position::{HtmlPosition, PROBE};
use scraper::{Html, Selector};

/// A compiled selector.
#[derive(Debug)]
pub(crate) struct CssQuery {
    selector: Selector,
    attribute: Option<String>,
    /// The matched elements depend neither on the part of the page after them nor on the value.
    has_stable_position: bool,
}

impl CssQuery {
    /// Parses `SELECTOR` or `SELECTOR @ATTRIBUTE`.
    pub(crate) fn compile(text: &str) -> Result<CssQuery, String> {
        let (selector, attribute) = match text.rsplit_once('@') {
            // An @ inside quotes is a part of the selector.
            Some((selector, attribute)) if is_attribute(attribute.trim()) => {
                (selector.trim(), Some(attribute.trim().to_ascii_lowercase()))
            }
            _ => (text.trim(), None),
        };
        match Selector::parse(selector) {
            Ok(compiled) => {
                let has_stable_position = depends_on_one_element(selector, attribute.as_deref());
                Ok(CssQuery { selector: compiled, attribute, has_stable_position })
            }
            Err(error) => Err(format!("{selector:?} is not a CSS selector: {error}")),
        }
    }

    /// Like [`CssQuery::find`], but parses the page only if the value is not at its position in the last
    /// page.
    pub(crate) fn find_at_position(
        &self,
        body: &[u8],
        position: &mut HtmlPosition,
        out: &mut Vec<u8>,
    ) -> bool {
        if let Some(value) = position.value_in(body) {
            let value = if self.attribute.is_some() { value } else { value.trim() };
            out.extend_from_slice(value.as_bytes());
            return true;
        }
        let before = out.len();
        let is_found = self.find(body, out);
        if is_found && self.has_stable_position {
            let finds_probe = |page: &[u8], after: &[u8]| self.finds_probe(page, after);
            position.determine(body, &out[before..], self.attribute.is_some(), finds_probe);
        }
        is_found
    }

    /// Whether the query finds the probe in this page. The text must be the whole content of its element, and
    /// `after` must be the end tag of that element.
    fn finds_probe(&self, page: &[u8], after: &[u8]) -> bool {
        let page = Html::parse_document(&String::from_utf8_lossy(page));
        let mut elements = page.select(&self.selector);
        if let Some(attribute) = &self.attribute {
            return elements.find_map(|element| element.value().attr(attribute)) == Some(PROBE);
        }
        let Some(element) = elements.next() else { return false };
        let name = element.value().name();
        let (mut children, mut texts) = (element.children(), element.text());
        let is_text =
            children.next().is_some_and(|child| child.value().is_text()) && children.next().is_none();
        let is_its_end = after[2..]
            .strip_suffix(b">")
            .is_some_and(|end| end.trim_ascii_end().eq_ignore_ascii_case(name.as_bytes()));
        is_text && is_its_end && texts.next().is_some_and(|text| text.trim() == PROBE)
    }

    /// Appends the attribute, or the trimmed text, of the first element that the selector matches.
    pub(crate) fn find(&self, body: &[u8], out: &mut Vec<u8>) -> bool {
        let page = Html::parse_document(&String::from_utf8_lossy(body));
        let mut elements = page.select(&self.selector);
        match &self.attribute {
            None => match elements.next() {
                None => false,
                Some(element) => {
                    let text: String = element.text().collect();
                    out.extend_from_slice(text.trim().as_bytes());
                    true
                }
            },
            Some(attribute) => match elements.find_map(|element| element.value().attr(attribute)) {
                None => false,
                Some(value) => {
                    out.extend_from_slice(value.as_bytes());
                    true
                }
            },
        }
    }
}

/// Whether a selector depends only on one element and its attributes other than this one. `html`, `head` and
/// `body` are excluded: the end of a page can add attributes to them.
fn depends_on_one_element(selector: &str, attribute: Option<&str>) -> bool {
    let selector = selector.to_ascii_lowercase();
    let end = selector.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(selector.len());
    let is_simple = |c: char| c.is_ascii_alphanumeric() || "-_#.[]='\"^$*".contains(c);
    selector.starts_with(|c: char| c.is_ascii_alphabetic())
        && selector.chars().all(is_simple)
        && !matches!(&selector[..end], "html" | "head" | "body")
        && attribute.is_none_or(|attribute| !selector.contains(attribute))
}

fn is_attribute(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(query: &str, page: &str) -> Option<String> {
        let mut out = Vec::new();
        let is_found = CssQuery::compile(query).expect("a good selector").find(page.as_bytes(), &mut out);
        is_found.then(|| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn attributes_and_texts_are_found() {
        let page = "<form><input name=a value=1><input name=csrf value='x&amp;y'></form>\
                    <h1> Your <b>basket</b></h1>";
        assert_eq!(found("input[name=csrf] @value", page).as_deref(), Some("x&y"));
        assert_eq!(found("form input:nth-of-type(1)@VALUE", page).as_deref(), Some("1"));
        assert_eq!(found("h1", page).as_deref(), Some("Your basket"));
        assert_eq!(found("h2", page), None);
        assert_eq!(found("h1 @id", page), None);
        assert!(CssQuery::compile("h1[").is_err() && CssQuery::compile("").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_page(body: Vec<u8>) {
            let mut out = Vec::new();
            CssQuery::compile("a @href").expect("a good selector").find(&body, &mut out);
        }

        #[test]
        fn any_text_is_a_selector_or_an_error(text: String) {
            let _ = CssQuery::compile(&text);
        }
    }
}
