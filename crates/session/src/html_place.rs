//! Where a value stood in the last page. In a page that begins with the same bytes, a parser comes to the
//! same element, so that the value is what stands there now: pages with a token that is new each time are not
//! parsed each time.
//!
//! A place is learnt from the parser itself: the page is cut off after the element, another text is put where
//! the value seems to be, and the query must find exactly that. What follows in a page can change the
//! elements before it in few ways (section 13.2.6 of the HTML standard); where one of them is possible, the
//! page is parsed.

use memchr::{memchr, memchr_iter, memmem};

/// The longest beginning of a page that is remembered.
const MAXIMUM_BEFORE_BYTES: usize = 16 * 1024;
/// The longest end of a tag after a value.
const MAXIMUM_AFTER_BYTES: usize = 1024;
/// A value may occur more than once in a page: so many of its occurrences are tried.
const MAXIMUM_OCCURRENCES: usize = 4;
/// After so many places in succession that were of no use, no other is learnt.
const MAXIMUM_USELESS: u32 = 8;
/// The text that is put in place of a value: no page has it.
pub(crate) const PROBE: &str = "touchstone-probe-7c1f";

/// The place, as one thread knows it for one query.
#[derive(Debug, Default)]
pub(crate) struct HtmlPlace {
    /// The page up to the value; empty: no place is known.
    before: Vec<u8>,
    /// What follows the value: the quote and the rest of the tag, or the end tag of its element.
    after: Vec<u8>,
    /// Places learnt since one was of use.
    useless: u32,
}

impl HtmlPlace {
    /// The value at this place of another page; `None`: the page must be parsed.
    pub(crate) fn value_in<'a>(&mut self, page: &'a [u8]) -> Option<&'a str> {
        let first = *self.after.first()?;
        let rest = page.strip_prefix(&self.before[..])?;
        let (value, behind) = rest.split_at(memchr(first, rest)?);
        if !behind.starts_with(&self.after) || !is_plain(value) || has_tag(behind, b"frameset") {
            return None;
        }
        self.useless = 0;
        std::str::from_utf8(value).ok()
    }

    /// Learns where this value stands in the page: it is that of an attribute or a text, and `finds_probe`
    /// says whether the query finds the probe in a page that ends with the given bytes.
    pub(crate) fn learn(
        &mut self,
        page: &[u8],
        value: &[u8],
        is_attribute: bool,
        finds_probe: impl Fn(&[u8], &[u8]) -> bool,
    ) {
        self.before.clear();
        self.after.clear();
        if !is_plain(value) || self.useless >= MAXIMUM_USELESS {
            return;
        }
        self.useless += 1;
        for at in memmem::find_iter(page, value).take(MAXIMUM_OCCURRENCES) {
            let (before, after) = (&page[..at], &page[at + value.len()..]);
            let is_too_long = before.len() > MAXIMUM_BEFORE_BYTES;
            // An element that comes later, but in no cell of its table, goes before the table.
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

/// Whether the parser takes the text as it stands.
fn is_plain(value: &[u8]) -> bool {
    !value.trim_ascii().is_empty()
        && value.iter().all(|&byte| byte.is_ascii() && !matches!(byte, b'&' | b'<' | b'\r' | 0))
}

/// After a value in quotes: the quote, and the rest of the tag.
fn rest_of_tag<'a>(before: &[u8], after: &'a [u8]) -> Option<&'a [u8]> {
    let (quote, first) = (before.last()?, after.first()?);
    (quote == first && matches!(quote, b'"' | b'\'')).then(|| up_to_bracket(after)).flatten()
}

/// After the text of an element: its end tag.
fn end_tag(after: &[u8]) -> Option<&[u8]> {
    let after = after.trim_ascii_start();
    after.starts_with(b"</").then(|| up_to_bracket(after)).flatten()
}

fn up_to_bracket(text: &[u8]) -> Option<&[u8]> {
    let end = memchr(b'>', text)? + 1;
    (end <= MAXIMUM_AFTER_BYTES).then(|| &text[..end])
}

/// Whether the page may have such a tag.
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

    /// What is found in the pages one after another, and whether without parsing.
    fn found(query: &str, pages: &[&str]) -> Vec<(Option<String>, bool)> {
        let query = CssQuery::compile(query).expect("a good selector");
        let mut place = HtmlPlace::default();
        let mut found = Vec::new();
        for page in pages {
            let is_at_place = place.value_in(page.as_bytes()).is_some();
            let mut out = Vec::new();
            let is_found = query.find_again(page.as_bytes(), &mut place, &mut out);
            found.push((is_found.then(|| String::from_utf8_lossy(&out).into_owned()), is_at_place));
        }
        found
    }

    fn assert_at_place(query: &str, pages: &[&str], wanted: &[&str]) {
        let wanted: Vec<_> =
            wanted.iter().enumerate().map(|(page, value)| (Some(value.to_string()), page > 0)).collect();
        assert_eq!(found(query, pages), wanted, "{query}");
    }

    #[test]
    fn a_new_value_is_found_at_the_old_place() {
        assert_at_place(
            "input[name=csrf] @value",
            &[
                "<h1>a</h1><form><input name=csrf value=\"one\" type=hidden></form>",
                "<h1>a</h1><form><input name=csrf value=\"two three\" type=hidden></form><p>x",
                "<h1>a</h1><form><input name=csrf value=\"4\" type=hidden>",
            ],
            &["one", "two three", "4"],
        );
        assert_at_place(
            "meta[name='t']@content",
            &["<meta name=t content='1'>", "<meta name=t content='2'>"],
            &["1", "2"],
        );
        assert_at_place("h1", &["<h1> a b </h1>", "<h1> c\n</h1>d"], &["a b", "c"]);
        assert_at_place("title", &["<title>1</title>", "<title>2</title>"], &["1", "2"]);
    }

    #[test]
    fn pages_of_which_the_place_says_too_little_are_parsed() {
        for (query, pages, wanted) in [
            // The value is written in another way.
            ("a @href", ["<a href='x'>", "<a href='x&amp;y'>"], "x&y"),
            ("a @href", ["<a href='x'>", "<a href='\u{e9}'>"], "\u{e9}"),
            ("h1", ["<h1>x</h1>", "<h1>y<b>z</b></h1>"], "yz"),
            // The rest of the tag is another.
            ("a[id=i] @href", ["<a href='x' id=i>", "<a href='y' id=j><a href='z' id=i>"], "z"),
            // The text of the first element goes on after the end of the second.
            ("div", ["<div><div>x</div></div>", "<div><div>y</div>z</div>"], "yz"),
            ("body", ["<body>x</body>", "<body>y</body>z"], "yz"),
            // The selector looks at the value, or at what follows.
            ("a[href] @href", ["<a href='x'>", "<a href='y'>"], "y"),
            ("a:last-child @href", ["<a href='x'>", "<a href='y'></a><a href='z'>"], "z"),
            // A later element may go before the table.
            ("i @id", ["<table><tr><td><i id='x'></i>", "<table><tr><td><i id='y'></i></table>"], "y"),
            // A frameset may take the place of the body.
            ("a @href", ["<a href='x'></a>", "<a href='y'></a><frameset><frame>"], "y"),
        ] {
            let seen = &found(query, &pages)[1];
            assert!(!seen.1, "{query}");
            assert_eq!(seen.0.as_deref().unwrap_or_default(), wanted, "{query}");
        }
    }

    #[test]
    fn places_that_are_of_no_use_are_learnt_no_more() {
        let query = CssQuery::compile("a @href").expect("a good selector");
        let mut place = HtmlPlace::default();
        for number in 0..20u32 {
            let page = format!("<p>{number}</p><a href='x{number}'>");
            assert!(query.find_again(page.as_bytes(), &mut place, &mut Vec::new()));
            assert_eq!(!place.before.is_empty(), number < MAXIMUM_USELESS, "{number}");
        }
    }

    /// Parts of pages, among them all that change what was there before.
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
        fn a_place_gives_what_the_parser_gives(
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
            let mut place = HtmlPlace::default();
            for (number, behind) in behind.iter().enumerate() {
                let page = format!("{before}{}{behind}", tag.replace("{}", &format!("v{number}")));
                let (mut out, mut wanted) = (Vec::new(), Vec::new());
                let is_found = query.find_again(page.as_bytes(), &mut place, &mut out);
                prop_assert_eq!(is_found, query.find(page.as_bytes(), &mut wanted), "{}", page);
                prop_assert_eq!(out, wanted, "{}", page);
            }
        }
    }
}
