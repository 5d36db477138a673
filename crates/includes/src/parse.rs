//! Splits the bytes of a page into static text and directives.
//!
//! Directives, names and values are recognised as by Apache, byte for byte, with one exception: white space
//! may be between the start tag and the name, as in nginx's pages. Parsing is one pass; no byte is read
//! twice.

use bytes::Bytes;

use super::attribute::Attribute;
use super::directive::command;
use super::page::{Command, Directive, Node, Page};
use super::settings::Settings;

/// The size that the cache counts for a directive, its name and attributes besides their bytes.
const NODE_OVERHEAD_BYTES: usize = 160;

/// A directive as it was written.
struct Tag {
    name: Vec<u8>,
    attributes: Vec<Attribute>,
    /// The error in its syntax.
    broken: Option<String>,
    /// The position after it.
    end: usize,
}

/// Parses a page.
pub fn parse(source: &Bytes, settings: &Settings) -> Page {
    let mut nodes = Vec::new();
    let mut bytes = source.len();
    let mut line = 1;
    let mut at = 0;
    let start_tag = memchr::memmem::Finder::new(&settings.start_tag);
    while let Some(found) = start_tag.find(&source[at..]) {
        let start = at + found;
        if start > at {
            nodes.push(Node::Text(source.slice(at..start)));
        }
        line += line_ends(&source[at..start]);
        let tag = read_tag(source, start + settings.start_tag.len(), &settings.end_tag);
        bytes += NODE_OVERHEAD_BYTES + tag.end - start;
        nodes.push(Node::Directive(Directive { line, command: tag.command(settings) }));
        line += line_ends(&source[start..tag.end]);
        at = tag.end;
    }
    if at < source.len() {
        nodes.push(Node::Text(source.slice(at..)));
    }
    find_block_ends(&mut nodes);
    Page { nodes, bytes }
}

impl Tag {
    fn command(&self, settings: &Settings) -> Command {
        match &self.broken {
            Some(broken) => Command::Broken(broken.clone()),
            None => command(&self.name, &self.attributes, settings),
        }
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// A block ends at the next `endblock`, or at the end of the page.
fn find_block_ends(nodes: &mut [Node]) {
    let mut next_end = nodes.len();
    for (index, node) in nodes.iter_mut().enumerate().rev() {
        let Node::Directive(directive) = node else { continue };
        match &mut directive.command {
            Command::EndBlock => next_end = index,
            Command::Block { end, .. } => *end = next_end,
            _ => {}
        }
    }
}

/// White space as in C.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Reads a directive, from the end of its start tag.
fn read_tag(source: &[u8], start: usize, end_tag: &[u8]) -> Tag {
    let mut reader = Reader { source, at: start, end_tag };
    let mut tag = Tag { name: Vec::new(), attributes: Vec::new(), broken: None, end: source.len() };
    reader.skip_space();
    tag.name = reader.name();
    if tag.name.is_empty() {
        tag.broken = Some("a directive has no name".to_owned());
    }
    loop {
        reader.skip_space();
        if reader.pass_end_tag() {
            break;
        }
        if reader.at == source.len() {
            tag.broken = Some("a directive has no end".to_owned());
            break;
        }
        let attribute = reader.attribute();
        if attribute.name.is_empty() && tag.broken.is_none() {
            tag.broken =
                Some(format!("a value of {} has no name before it", String::from_utf8_lossy(&tag.name)));
        }
        tag.attributes.push(attribute);
    }
    tag.end = reader.at;
    tag
}

struct Reader<'a> {
    source: &'a [u8],
    at: usize,
    end_tag: &'a [u8],
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn pass_end_tag(&mut self) -> bool {
        let ends = self.source[self.at..].starts_with(self.end_tag);
        self.at += if ends { self.end_tag.len() } else { 0 };
        ends
    }

    /// Reads the directive's name: up to white space or the end tag.
    fn name(&mut self) -> Vec<u8> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            if is_space(byte) || self.source[self.at..].starts_with(self.end_tag) {
                break;
            }
            self.at += 1;
        }
        self.source[start..self.at].to_ascii_lowercase()
    }

    /// Reads `name`, `name=value` or `name="value"`; always consumes at least one byte.
    fn attribute(&mut self) -> Attribute {
        let start = self.at;
        if let Some(quote @ (b'"' | b'\'' | b'`')) = self.peek() {
            self.at += 1;
            return Attribute { name: Vec::new(), value: Some(self.quoted(quote)) };
        }
        while self.peek().is_some_and(|byte| !is_space(byte) && byte != b'=') {
            self.at += 1;
        }
        let name = self.source[start..self.at].to_ascii_lowercase();
        self.skip_space();
        if self.peek() != Some(b'=') {
            return Attribute { name, value: None };
        }
        self.at += 1;
        self.skip_space();
        let value = match self.peek() {
            Some(quote @ (b'"' | b'\'' | b'`')) => {
                self.at += 1;
                self.quoted(quote)
            }
            _ => {
                let start = self.at;
                while self.peek().is_some_and(|byte| !is_space(byte)) {
                    self.at += 1;
                }
                self.source[start..self.at].to_vec()
            }
        };
        Attribute { name, value: Some(value) }
    }

    /// Reads up to the closing quote, or to the end of the page. A backslash before a quote makes it part of
    /// the value.
    fn quoted(&mut self, quote: u8) -> Vec<u8> {
        let mut value = Vec::new();
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' if self.peek() == Some(quote) => {
                    value.push(quote);
                    self.at += 1;
                }
                byte if byte == quote => break,
                byte => value.push(byte),
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::Grammar;

    fn tag(text: &str) -> (String, Vec<(String, Option<String>)>, bool, usize) {
        let tag = read_tag(text.as_bytes(), 0, b"-->");
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let attributes = tag
            .attributes
            .iter()
            .map(|attribute| (string(&attribute.name), attribute.value.as_deref().map(string)))
            .collect();
        (string(&tag.name), attributes, tag.broken.is_some(), tag.end)
    }

    fn read(text: &str, expected: &str) {
        let (name, attributes, broken, end) = tag(text);
        let mut shown = name;
        for (name, value) in attributes {
            shown.push_str(&match value {
                Some(value) => format!(" {name}=<{value}>"),
                None => format!(" {name}"),
            });
        }
        if broken {
            shown.push_str(" broken");
        }
        shown.push_str(&format!("|{}", &text[end..]));
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn directives_as_they_are_written() {
        read("echo var=\"a\" -->rest", "echo var=<a>|rest");
        read(" echo var='a'-->rest", "echo var=<a>|rest");
        read("ECHO VAR=`a`-->", "echo var=<a>|");
        read("printenv-->x", "printenv|x");
        read("a-b --> x", "a-b| x");
        read("echo var = a -->", "echo var=<a>|");
        read("echo var=a-->", "echo var=<a-->> broken|");
        read("echo\nvar=\"a\"\n\tencoding=none\n-->", "echo var=<a> encoding=<none>|");
        read("set var=\"a\" value=\"\\\"x\\\" \\y\" -->", "set var=<a> value=<\"x\" \\y>|");
        read("set value='a\"b\\'c' -->", "set value=<a\"b'c>|");
        read("comment some words --x -->", "comment some words --x|");
        read("echo \"a\" -->", "echo =<a> broken|");
        read("echo =a -->", "echo =<a> broken|");
        read("-->", " broken|");
        read("echo var=\"a\"", "echo var=<a> broken|");
        read("echo var=\"a", "echo var=<a> broken|");
        read("echo var=\"a\"encoding=\"b\"-->", "echo var=<a> encoding=<b>|");
    }

    fn parsed(text: &str) -> Page {
        parse(&Bytes::copy_from_slice(text.as_bytes()), &Settings::default())
    }

    #[test]
    fn text_and_lines() {
        let page = parsed("one\n<!--#echo\n var='a' -->two\n<!--#bogus -->");
        let lines: Vec<usize> = page
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Directive(directive) => Some(directive.line),
                Node::Text(_) => None,
            })
            .collect();
        assert_eq!(lines, [2, 4]);
        assert_eq!(page.text(), b"one\ntwo\n");
        assert!(!parsed("<!-- #echo -->").has_directives());
    }

    #[test]
    fn static_text_is_not_copied() {
        let source = Bytes::from_static(b"one<!--#printenv-->two");
        let page = parse(&source, &Settings::default());
        let Some(Node::Text(text)) = page.nodes.last() else { panic!("text is last") };
        assert_eq!(text.as_ptr(), source[19..].as_ptr());
    }

    #[test]
    fn other_tags() {
        let settings =
            Settings { start_tag: b"<%"[..].into(), end_tag: b"%>"[..].into(), ..Settings::default() };
        let page = parse(&Bytes::from_static(b"a<%echo var='x'%>b<!--#echo-->"), &settings);
        assert_eq!(page.text(), b"ab<!--#echo-->");
    }

    proptest! {
        #[test]
        fn any_bytes(source in proptest::collection::vec(any::<u8>(), 0..200)) {
            let source = Bytes::from(source);
            prop_assert!(parse(&source, &Settings::default()).text().len() <= source.len());
        }

        #[test]
        fn any_directives(
            source in "(<!--#(echo|set|if|elif|else|endif|include|block|endblock|config|exec)?|\
                var=|value=|expr=|\"|'|a|\\$|\\\\|=| |-->|--|\n){0,60}",
            grammar in 0usize..3,
        ) {
            let grammar = [Grammar::Apache24, Grammar::Legacy, Grammar::Nginx][grammar];
            let settings = Settings { grammar, ..Settings::default() };
            parse(&Bytes::from(source.into_bytes()), &settings);
        }
    }
}
