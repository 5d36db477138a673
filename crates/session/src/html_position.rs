//! The position of a value in the last page. If the next page begins with the same bytes, a parser reaches
//! the same element, so the value is at the same position. Therefore a page whose only change is a new token
//! is not parsed.
//!
//! A position is verified with the parser: the page is cut after the element, a probe replaces the assumed
//! value, and the query must find exactly the probe. The rest of a page can change earlier elements only in
//! few cases (section 13.2.6 of the HTML standard). In these cases the page is parsed.

use memchr::{memchr, memchr_iter, memmem};

/// The maximum length of the part of a page before the value that is stored.
const MAXIMUM_BEFORE_BYTES: usize = 16 * 1024;
/// The maximum length of the rest of a tag after a value.
const MAXIMUM_AFTER_BYTES: usize = 1024;
/// The maximum number of occurrences of a value in a page that are tried.
const MAXIMUM_OCCURRENCES: usize = 4;
/// After this number of unused positions in succession, no other position is determined.
const MAXIMUM_UNUSED: u32 = 8;
/// The text that replaces a value; it does not occur in pages.
pub(crate) const PROBE: &str = "touchstone-probe-7c1f";

/// The position that one thread has for one query.
#[derive(Debug, Default)]
pub(crate) struct HtmlPosition {
    /// The part of the page before the value; empty: there is no position.
    before: Vec<u8>,
    /// The bytes after the value: the quote and the rest of the tag, or the end tag of its element.
    after: Vec<u8>,
    /// The number of positions that were determined since the last use of one.
    unused: u32,
}

impl HtmlPosition {
    /// The value at this position of a page; `None`: the page must be parsed.
    pub(crate) fn value_in<'a>(&mut self, page: &'a [u8]) -> Option<&'a str> {
        let first = *self.after.first()?;
        let rest = page.strip_prefix(&self.before[..])?;
        let (value, behind) = rest.split_at(memchr(first, rest)?);
        if !behind.starts_with(&self.after) || !is_plain(value) || has_tag(behind, b"frameset") {
            return None;
        }
        self.unused = 0;
        std::str::from_utf8(value).ok()
    }

    /// Determines the position of this value, an attribute or a text, in the page. `finds_probe` returns
    /// whether the query finds the probe in a page that ends with the given bytes.
    pub(crate) fn determine(
        &mut self,
        page: &[u8],
        value: &[u8],
        is_attribute: bool,
        finds_probe: impl Fn(&[u8], &[u8]) -> bool,
    ) {
        self.before.clear();
        self.after.clear();
        if !is_plain(value) || self.unused >= MAXIMUM_UNUSED {
            return;
        }
        self.unused += 1;
        for at in memmem::find_iter(page, value).take(MAXIMUM_OCCURRENCES) {
            let (before, after) = (&page[..at], &page[at + value.len()..]);
            let is_too_long = before.len() > MAXIMUM_BEFORE_BYTES;
            // The parser moves a later element that is outside a cell of a table before the table.
            if is_too_long || has_tag(before, b"table") {
                return;
            }
            let after = if is_attribute { rest_of_tag(before, after) } else { end_tag(after) };
            if let Some(after) = after
                && finds_probe(&[before, PROBE.as_bytes(), after].concat(), after)
            {
                self.before.extend_from_slice(before);
                self.after.extend_from_slice(after);
                return;
            }
        }
    }
}

/// Whether the parser does not change the text.
fn is_plain(value: &[u8]) -> bool {
    !value.trim_ascii().is_empty()
        && value.iter().all(|&byte| byte.is_ascii() && !matches!(byte, b'&' | b'<' | b'\r' | 0))
}

/// The quote after a quoted value, and the rest of the tag.
fn rest_of_tag<'a>(before: &[u8], after: &'a [u8]) -> Option<&'a [u8]> {
    let (quote, first) = (before.last()?, after.first()?);
    (quote == first && matches!(quote, b'"' | b'\'')).then(|| up_to_bracket(after)).flatten()
}

/// The end tag after the text of an element.
fn end_tag(after: &[u8]) -> Option<&[u8]> {
    let after = after.trim_ascii_start();
    after.starts_with(b"</").then(|| up_to_bracket(after)).flatten()
}

fn up_to_bracket(text: &[u8]) -> Option<&[u8]> {
    let end = memchr(b'>', text)? + 1;
    (end <= MAXIMUM_AFTER_BYTES).then(|| &text[..end])
}

/// Whether the page may have a tag with this name.
fn has_tag(page: &[u8], name: &[u8]) -> bool {
    let starts_here =
        |at: usize| page[at + 1..].get(..name.len()).map(|text| text.eq_ignore_ascii_case(name));
    memchr_iter(b'<', page).any(|at| starts_here(at) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::CssQuery;
    use proptest::prelude::*;

    /// The values in consecutive pages, and whether each was found without parsing.
    fn found(query: &str, pages: &[&str]) -> Vec<(Option<String>, bool)> {
        let query = CssQuery::compile(query).expect("a good selector");
        let mut position = HtmlPosition::default();
        let mut found = Vec::new();
        for page in pages {
            let is_at_position = position.value_in(page.as_bytes()).is_some();
            let mut out = Vec::new();
            let is_found = query.find_at_position(page.as_bytes(), &mut position, &mut out);
            found.push((is_found.then(|| String::from_utf8_lossy(&out).into_owned()), is_at_position));
        }
        found
    }

    fn assert_at_position(query: &str, pages: &[&str], wanted: &[&str]) {
        let wanted: Vec<_> =
            wanted.iter().enumerate().map(|(page, value)| (Some(value.to_string()), page > 0)).collect();
        assert_eq!(found(query, pages), wanted, "{query}");
    }

    #[test]
    fn a_new_value_is_found_at_the_old_position() {
        assert_at_position(
            "input[name=csrf] @value",
            &[
                "<h1>a</h1><form><input name=csrf value=\"one\" type=hidden></form>",
                "<h1>a</h1><form><input name=csrf value=\"two three\" type=hidden></form><p>x",
                "<h1>a</h1><form><input name=csrf value=\"4\" type=hidden>",
            ],
            &["one", "two three", "4"],
        );
        assert_at_position(
            "meta[name='t']@content",
            &["<meta name=t content='1'>", "<meta name=t content='2'>"],
            &["1", "2"],
        );
        assert_at_position("h1", &["<h1> a b </h1>", "<h1> c\n</h1>d"], &["a b", "c"]);
        assert_at_position("title", &["<title>1</title>", "<title>2</title>"], &["1", "2"]);
    }

    #[test]
    fn pages_are_parsed_if_the_position_is_not_sufficient() {
        for (query, pages, wanted) in [
            // The value is encoded differently.
            ("a @href", ["<a href='x'>", "<a href='x&amp;y'>"], "x&y"),
            ("a @href", ["<a href='x'>", "<a href='\u{e9}'>"], "\u{e9}"),
            ("h1", ["<h1>x</h1>", "<h1>y<b>z</b></h1>"], "yz"),
            // The rest of the tag differs.
            ("a[id=i] @href", ["<a href='x' id=i>", "<a href='y' id=j><a href='z' id=i>"], "z"),
            // The text of the first element continues after the end of the second.
            ("div", ["<div><div>x</div></div>", "<div><div>y</div>z</div>"], "yz"),
            ("body", ["<body>x</body>", "<body>y</body>z"], "yz"),
            // The selector depends on the value, or on later elements.
            ("a[href] @href", ["<a href='x'>", "<a href='y'>"], "y"),
            ("a:last-child @href", ["<a href='x'>", "<a href='y'></a><a href='z'>"], "z"),
            // The parser may move a later element before the table.
            ("i @id", ["<table><tr><td><i id='x'></i>", "<table><tr><td><i id='y'></i></table>"], "y"),
            // A frameset may replace the body.
            ("a @href", ["<a href='x'></a>", "<a href='y'></a><frameset><frame>"], "y"),
        ] {
            let seen = &found(query, &pages)[1];
            assert!(!seen.1, "{query}");
            assert_eq!(seen.0.as_deref().unwrap_or_default(), wanted, "{query}");
        }
    }

    #[test]
    fn positions_that_are_not_used_are_no_longer_determined() {
        let query = CssQuery::compile("a @href").expect("a good selector");
        let mut position = HtmlPosition::default();
        for number in 0..20u32 {
            let page = format!("<p>{number}</p><a href='x{number}'>");
            assert!(query.find_at_position(page.as_bytes(), &mut position, &mut Vec::new()));
            assert_eq!(!position.before.is_empty(), number < MAXIMUM_UNUSED, "{number}");
        }
    }

    /// Parts of pages, including all parts that change earlier elements.
    fn page() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            8 => "<(input|a|b|p|h1|i)( name=(t|'t'))?( value=('[12]?'|\"[12]\"|[12]))?( name=t)?>",
            4 => "[12 ]{0,3}",
            4 => "</(a|b|p|h1|i|div|body|html)>",
            2 => "<(div|table|tr|td|select|option|template|title|script|form|li)>",
            1 => "</(table|template|title|script|form|select|head)>",
            1 => "<(frameset|body name=t value='3'|html value='3'|head|svg|!--|/b)>?",
            1 => "(&amp;|&lt|\r\n|-->|<|>|'|\")",
        ];
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn a_position_and_the_parser_find_the_same_value(
            query in prop_oneof![
                Just("input[name=t] @value"), Just("a @value"), Just("b[name=t]@value"), Just("h1"),
                Just("p"), Just("i"), Just("b"), Just("title"), Just("[name=t] @value"), Just("div a @value"),
            ],
            (before, behind) in (page(), prop::collection::vec(page(), 2..5)),
            tag in prop_oneof![
                Just("<input name=t value='{}'>"), Just("<a value=\"{}\" name=t>"), Just("<h1>{}</h1>"),
                Just("<p> {}</p>"), Just("<b name=t value='{}'>{}</b>"), Just("<i>{}</i>"),
                Just("<title>{}</title>"),
            ],
        ) {
            let query = CssQuery::compile(query).expect("a good selector");
            let mut position = HtmlPosition::default();
            for (number, behind) in behind.iter().enumerate() {
                let page = format!("{before}{}{behind}", tag.replace("{}", &format!("v{number}")));
                let (mut out, mut wanted) = (Vec::new(), Vec::new());
                let is_found = query.find_at_position(page.as_bytes(), &mut position, &mut out);
                prop_assert_eq!(is_found, query.find(page.as_bytes(), &mut wanted), "{}", page);
                prop_assert_eq!(out, wanted, "{}", page);
            }
        }
    }
}
