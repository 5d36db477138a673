//! Edge Side Includes: the language of pages that are composed from parts (W3C Note "ESI Language
//! Specification 1.0", 2001): `include`, `remove`, `comment`, `try` and `<!--esi -->`.
//!
//! There are no variables and no expressions: no part of a request is inserted into a page, or into the
//! address of a part.

use bytes::Bytes;

use super::directives::Members;
use super::fields::{FieldText, Fields};
use super::policy::{Esi, Policy};
use super::surrogate::{is_for_us, split_target};

/// The maximum nesting of `try` and `<!--esi -->`.
const MOST_DEPTH: usize = 8;

/// A piece of a page, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Text that is unchanged.
    Text(Bytes),
    /// A part that is fetched.
    Include(Include),
    /// The first list, or the second one if a part of the first is not available.
    Try {
        /// `esi:attempt`
        attempt: Vec<Node>,
        /// `esi:except`
        except: Vec<Node>,
    },
}

/// `esi:include`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// The address of the part.
    pub src: Vec<u8>,
    /// The alternative address, if the first one fails.
    pub alt: Option<Vec<u8>>,
    /// `onerror="continue"`: the page is valid without the part.
    pub is_optional: bool,
}

/// A fault in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The position, in bytes from its beginning.
    pub position: usize,
    /// The message.
    pub message: &'static str,
}

/// Whether a response with these fields is a page to compose.
pub fn is_page(policy: &Policy, status: u16, fields: &[u8]) -> bool {
    let has_whole_page = (200..600).contains(&status) && !matches!(status, 204..=206 | 304);
    if policy.esi == Esi::Off || !has_whole_page {
        return false;
    }
    let fields = FieldText(fields);
    let mut says_so = false;
    fields.values("surrogate-control", &mut |value| says_so |= names_esi(value));
    let is_html = || {
        let media_type = fields.first("content-type").unwrap_or_default();
        let media_type = media_type.split(|&byte| byte == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
    };
    says_so || (policy.esi == Esi::Html && is_html())
}

/// `content="ESI/1.0"`, which may name several languages.
fn names_esi(value: &[u8]) -> bool {
    Members::new(value).any(|member| {
        let (argument, target) = split_target(member.argument.unwrap_or_default());
        let languages = argument.trim_ascii().split(|&byte| byte == b'"').nth(1).unwrap_or(argument);
        member.name.eq_ignore_ascii_case(b"content")
            && is_for_us(target)
            && languages.split(|&byte| byte == b' ').any(|language| language.eq_ignore_ascii_case(b"ESI/1.0"))
    })
}

/// Parses a page with at most this many includes.
pub fn parse(page: &Bytes, most_includes: usize) -> Result<Vec<Node>, Fault> {
    let mut parser = Parser { page, at: 0, end: page.len(), left: most_includes };
    parser.nodes(b"", 0)
}

struct Parser<'p> {
    page: &'p Bytes,
    at: usize,
    /// The end of the present block.
    end: usize,
    /// The number of includes that are still allowed.
    left: usize,
}

/// A tag, without the contents of the element.
struct Tag {
    name: Vec<u8>,
    is_end: bool,
    is_empty: bool,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Parser<'_> {
    /// Reads up to the end of the element with this name, which is consumed, or to the end of the block.
    fn nodes(&mut self, until: &[u8], depth: usize) -> Result<Vec<Node>, Fault> {
        if depth > MOST_DEPTH {
            return Err(self.fault("elements are nested too deep"));
        }
        let mut nodes = Vec::new();
        let mut text_begin = self.at;
        loop {
            let Some(begin) = self.next_mark() else {
                if !until.is_empty() {
                    return Err(self.fault("an element has no end"));
                }
                self.push_text(text_begin, self.end, &mut nodes);
                self.at = self.end;
                return Ok(nodes);
            };
            self.push_text(text_begin, begin, &mut nodes);
            self.at = begin;
            if self.rest().starts_with(b"<!--esi") {
                self.at += b"<!--esi".len();
                nodes.extend(self.hidden_block(depth)?);
            } else {
                let tag = self.tag()?;
                if tag.is_end {
                    if tag.name == until && !until.is_empty() {
                        return Ok(nodes);
                    }
                    // The end of an unknown element, such as `esi:vars`.
                } else {
                    nodes.extend(self.element(tag, depth)?);
                }
            }
            text_begin = self.at;
        }
    }

    /// The contents of `<!--esi -->` are a part of the page.
    fn hidden_block(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let found = memchr::memmem::find(self.rest(), b"-->");
        let Some(length) = found else { return Err(self.fault("`<!--esi` has no `-->`")) };
        let outer_end = std::mem::replace(&mut self.end, self.at + length);
        let nodes = self.nodes(b"", depth + 1)?;
        self.at = self.end + b"-->".len();
        self.end = outer_end;
        Ok(nodes)
    }

    fn element(&mut self, tag: Tag, depth: usize) -> Result<Vec<Node>, Fault> {
        match tag.name.as_slice() {
            b"include" => {
                if self.left == 0 {
                    return Err(self.fault("there are more includes than a page may have"));
                }
                self.left -= 1;
                let attribute = |name: &str| {
                    let found = tag.attributes.iter().find(|(other, _)| other == name.as_bytes());
                    found.map(|(_, value)| value.clone())
                };
                let Some(src) = attribute("src") else { return Err(self.fault("an include has no `src`")) };
                let is_optional = attribute("onerror").is_some_and(|value| value == b"continue");
                if !tag.is_empty {
                    self.skip(b"include")?;
                }
                Ok(vec![Node::Include(Include { src, alt: attribute("alt"), is_optional })])
            }
            b"comment" if tag.is_empty => Ok(Vec::new()),
            b"comment" | b"remove" if !tag.is_empty => self.skip(&tag.name).map(|()| Vec::new()),
            b"try" if !tag.is_empty => self.try_block(depth).map(|node| vec![node]),
            b"attempt" | b"except" => Err(self.fault("`attempt` and `except` are allowed only in `try`")),
            // Tags of unknown elements are removed, and their contents are kept.
            _ => Ok(Vec::new()),
        }
    }

    fn try_block(&mut self, depth: usize) -> Result<Node, Fault> {
        let (mut attempt, mut except) = (None, None);
        loop {
            let Some(begin) = self.next_mark() else { return Err(self.fault("`try` has no end")) };
            self.at = begin;
            let tag = self.tag()?;
            match (tag.name.as_slice(), tag.is_end) {
                (b"try", true) => break,
                (b"attempt", false) if attempt.is_none() => {
                    attempt = Some(self.nodes(b"attempt", depth + 1)?)
                }
                (b"except", false) if except.is_none() => except = Some(self.nodes(b"except", depth + 1)?),
                (b"comment", false) if tag.is_empty => {}
                _ => return Err(self.fault("`try` holds one `attempt` and one `except`")),
            }
        }
        match (attempt, except) {
            (Some(attempt), Some(except)) => Ok(Node::Try { attempt, except }),
            _ => Err(self.fault("`try` holds one `attempt` and one `except`")),
        }
    }

    /// Skips to the end of an element, whatever it contains.
    fn skip(&mut self, name: &[u8]) -> Result<(), Fault> {
        let end = [b"</esi:", name].concat();
        let Some(length) = memchr::memmem::find(self.rest(), &end) else {
            return Err(self.fault("an element has no end"));
        };
        self.at += length;
        self.tag().map(|_| ())
    }

    /// Reads a tag, from its `<`.
    fn tag(&mut self) -> Result<Tag, Fault> {
        let is_end = self.rest().starts_with(b"</");
        self.at += if is_end { b"</esi:".len() } else { b"<esi:".len() };
        let name = self.word();
        let mut tag = Tag { name, is_end, is_empty: false, attributes: Vec::new() };
        loop {
            self.white_space();
            match self.rest() {
                [b'>', ..] => {
                    self.at += 1;
                    return Ok(tag);
                }
                [b'/', b'>', ..] => {
                    self.at += 2;
                    tag.is_empty = true;
                    return Ok(tag);
                }
                [] => return Err(self.fault("a tag has no `>`")),
                _ => {
                    let attribute = self.attribute()?;
                    tag.attributes.push(attribute);
                }
            }
        }
    }

    fn attribute(&mut self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let name = self.word();
        self.white_space();
        let [b'=', ..] = self.rest() else { return Err(self.fault("an attribute has no value")) };
        self.at += 1;
        self.white_space();
        let quote = match self.rest() {
            [quote @ (b'"' | b'\''), ..] if !name.is_empty() => *quote,
            _ => return Err(self.fault("the value of an attribute must be in quotation marks")),
        };
        self.at += 1;
        let Some(length) = memchr::memchr(quote, self.rest()) else {
            return Err(self.fault("the value of an attribute has no end"));
        };
        let value = unescape(&self.rest()[..length]);
        self.at += length + 1;
        Ok((name, value))
    }

    fn word(&mut self) -> Vec<u8> {
        let rest = self.rest();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let word = rest[..length].to_vec();
        self.at += length;
        word
    }

    fn white_space(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
    }

    fn rest(&self) -> &[u8] {
        self.page.get(self.at..self.end).unwrap_or_default()
    }

    /// The position of the next tag or block.
    fn next_mark(&self) -> Option<usize> {
        let rest = self.rest();
        let mut from = 0;
        loop {
            let found = from + memchr::memchr(b'<', rest.get(from..)?)?;
            let here = &rest[found..];
            let is_mark = here.starts_with(b"<esi:")
                || here.starts_with(b"</esi:")
                || (here.starts_with(b"<!--esi") && here.get(7).is_some_and(u8::is_ascii_whitespace));
            if is_mark {
                return Some(self.at + found);
            }
            from = found + 1;
        }
    }

    fn push_text(&self, begin: usize, end: usize, nodes: &mut Vec<Node>) {
        if begin < end {
            nodes.push(Node::Text(self.page.slice(begin..end)));
        }
    }

    fn fault(&self, message: &'static str) -> Fault {
        Fault { position: self.at, message }
    }
}

/// The value of an attribute with XML's five entities decoded.
fn unescape(value: &[u8]) -> Vec<u8> {
    const ENTITIES: [(&[u8], u8); 5] =
        [(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, after)) = rest.split_first() {
        match ENTITIES.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, byte)) => {
                out.push(*byte);
                rest = &rest[name.len()..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(nodes: &[Node]) -> String {
        let show = |node: &Node| match node {
            Node::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Node::Include(Include { src, alt, is_optional }) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let alt = alt.as_deref().map_or(String::new(), |alt| format!("|{}", text(alt)));
                format!("[{}{alt}{}]", text(src), if *is_optional { "?" } else { "" })
            }
            Node::Try { attempt, except } => format!("{{{}}}{{{}}}", shown(attempt), shown(except)),
        };
        nodes.iter().map(show).collect()
    }

    fn read(page: &str) -> Result<String, &'static str> {
        let page = Bytes::copy_from_slice(page.as_bytes());
        parse(&page, 4).map(|nodes| shown(&nodes)).map_err(|fault| fault.message)
    }

    #[test]
    fn pages() {
        for (page, expected) in [
            ("plain <b>text</b>", "plain <b>text</b>"),
            ("a<esi:include src=\"/b\"/>c", "a[/b]c"),
            ("<esi:include src='/b?x=1&amp;y=2' alt = \"/c\" onerror=\"continue\" />", "[/b?x=1&y=2|/c?]"),
            ("<esi:include src=\"/b\"></esi:include>d", "[/b]d"),
            ("a<esi:remove><a href=x>y</a></esi:remove>b", "ab"),
            ("a<esi:comment text=\"x\"/>b<esi:comment>y</esi:comment>c", "abc"),
            ("a<!--esi b<esi:include src=\"/c\"/> -->d", "a b[/c] d"),
            ("a<!-- esi is not this -->b", "a<!-- esi is not this -->b"),
            ("a<!--esinone-->b", "a<!--esinone-->b"),
            (
                "<esi:try> <esi:attempt>a<esi:include src=\"/b\"/></esi:attempt>\n\
                 <esi:except>c</esi:except></esi:try>d",
                "{a[/b]}{c}d",
            ),
            (
                "<esi:try><esi:attempt><esi:try><esi:attempt>a</esi:attempt><esi:except>b</esi:except>\
                 </esi:try></esi:attempt><esi:except>c</esi:except></esi:try>",
                "{{a}{b}}{c}",
            ),
            ("<esi:vars>$(QUERY_STRING)</esi:vars>", "$(QUERY_STRING)"),
            ("<esi:include src=\"/a?$(QUERY_STRING)\"/>", "[/a?$(QUERY_STRING)]"),
            ("<esi:include src=\"/a\"/><esi:include src=\"/b\"/>", "[/a][/b]"),
            ("< esi:include", "< esi:include"),
        ] {
            assert_eq!(read(page).as_deref(), Ok(expected), "{page}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (page, message) in [
            ("<esi:include/>", "an include has no `src`"),
            ("<esi:include src=\"/a\"", "a tag has no `>`"),
            ("<esi:include src=/a/>", "the value of an attribute must be in quotation marks"),
            ("<esi:include src=\"/a/>", "the value of an attribute has no end"),
            ("<esi:include src/>", "an attribute has no value"),
            ("<esi:include src=\"/a\">", "an element has no end"),
            ("<esi:remove>a", "an element has no end"),
            ("a<!--esi b", "`<!--esi` has no `-->`"),
            ("<esi:try><esi:attempt>a</esi:attempt></esi:try>", "`try` holds one `attempt` and one `except`"),
            ("<esi:try><esi:attempt>a", "an element has no end"),
            ("<esi:try>", "`try` has no end"),
            ("<esi:attempt>a</esi:attempt>", "`attempt` and `except` are allowed only in `try`"),
            (&"<esi:include src=\"/a\"/>".repeat(5), "there are more includes than a page may have"),
            (&"<esi:try><esi:attempt>".repeat(9), "elements are nested too deep"),
        ] {
            assert_eq!(read(page), Err(message), "{page}");
        }
        assert!(read(&"<esi:include src=\"/a\"/>".repeat(4)).is_ok());
    }

    #[test]
    fn a_page_is_what_says_so() {
        let is =
            |esi: Esi, fields: &str| is_page(&Policy { esi, ..Policy::default() }, 200, fields.as_bytes());
        let html = "Content-Type: text/HTML; charset=utf-8\r\n";
        for (fields, of_origin, of_html) in [
            ("Surrogate-Control: content=\"ESI/1.0\"\r\n", true, true),
            ("Surrogate-Control: max-age=60, content=\"Other/1.0 ESI/1.0\"\r\n", true, true),
            ("Surrogate-Control: content=\"ESI/1.0\";touchstone\r\n", true, true),
            ("Surrogate-Control: content=\"ESI/1.0\";other\r\n", false, false),
            ("Surrogate-Control: max-age=60\r\n", false, false),
            ("X: content=\"ESI/1.0\"\r\n", false, false),
            ("Surrogate-Control: content=\"ESI/1.0x\"\r\n", false, false),
            (html, false, true),
            ("Content-Type: text/plain\r\n", false, false),
        ] {
            assert!(!is(Esi::Off, fields));
            assert_eq!((is(Esi::Origin, fields), is(Esi::Html, fields)), (of_origin, of_html), "{fields}");
        }
        let html = Policy { esi: Esi::Html, ..Policy::default() };
        for (status, expected) in
            [(200, true), (404, true), (500, true), (204, false), (206, false), (304, false)]
        {
            assert_eq!(is_page(&html, status, b"Content-Type: text/html\r\n"), expected, "{status}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(page in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&page.into(), 9);
        }

        #[test]
        fn any_marks_are_read(marks in proptest::collection::vec(
            prop_oneof![
                Just("<esi:include src=\"/a\"/>"), Just("<esi:try>"), Just("</esi:try>"),
                Just("<esi:attempt>"), Just("</esi:attempt>"), Just("<esi:except>"), Just("</esi:except>"),
                Just("<!--esi "), Just("-->"), Just("<esi:remove>"), Just("</esi:remove>"), Just("<esi:"),
                Just("x"), Just("'"), Just("/>"),
            ], 0..20)) {
            let _ = parse(&marks.concat().into_bytes().into(), 9);
        }
    }
}
