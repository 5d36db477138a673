//! Finds values in an HTML page by a CSS selector: `input[name=csrf] @value` is an attribute, `h1` the text.

use scraper::{Html, Selector};

/// A compiled selector.
#[derive(Debug)]
pub(crate) struct CssQuery {
    selector: Selector,
    attribute: Option<String>,
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
            Ok(selector) => Ok(CssQuery { selector, attribute }),
            Err(error) => Err(format!("{selector:?} is not a CSS selector: {error}")),
        }
    }

    /// Appends the attribute, or the text without the space around it, of the first element that the selector
    /// matches.
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
