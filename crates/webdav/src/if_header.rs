//! The parser of the If field (RFC 4918 section 10.4).
//!
//! ```text
//! If = 1*( list ) | 1*( "<" resource ">" 1*( list ) )
//! list = "(" 1*( ["Not"] ( "<" state token ">" | "[" entity tag "]" ) ) ")"
//! ```

/// The most conditions of a field.
const MOST_CONDITIONS: usize = 256;

/// A parsed field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IfHeader {
    /// The lists, of which one must hold.
    pub lists: Vec<StateList>,
}

/// Conditions that must hold together, for one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateList {
    /// The URL of the resource; `None`: that of the request.
    pub resource: Option<Vec<u8>>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The condition must not hold.
    pub not: bool,
    /// What is compared.
    pub state: State,
}

/// What is compared with the state of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The token of a lock.
    Token(String),
    /// An entity tag with its quotes.
    EntityTag(Vec<u8>),
}

impl IfHeader {
    /// Parses the value of a field; `None`: it is not one.
    pub fn parse(value: &[u8]) -> Option<IfHeader> {
        let mut parser = Parser { rest: value, conditions: 0 };
        let mut lists = Vec::new();
        let mut resource = None;
        let mut has_list = false;
        let is_tagged = parser.peek()? == b'<';
        while let Some(byte) = parser.peek() {
            match byte {
                b'<' if is_tagged && (has_list || resource.is_none()) => {
                    resource = Some(parser.bracketed(b'>')?.to_vec());
                    has_list = false;
                }
                b'(' => {
                    let conditions = parser.list()?;
                    lists.push(StateList { resource: resource.clone(), conditions });
                    has_list = true;
                }
                _ => return None,
            }
        }
        has_list.then_some(IfHeader { lists })
    }

    /// All tokens of locks, which a client submits by naming them (section 10.4.1).
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().flat_map(|list| &list.conditions).filter_map(|condition| match &condition.state {
            State::Token(token) => Some(token.as_str()),
            State::EntityTag(_) => None,
        })
    }
}

struct Parser<'a> {
    rest: &'a [u8],
    conditions: usize,
}

impl<'a> Parser<'a> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    /// The text up to the byte `end`; the byte before it is skipped.
    fn bracketed(&mut self, end: u8) -> Option<&'a [u8]> {
        let rest = self.rest.get(1..)?;
        let length = rest.iter().position(|&byte| byte == end)?;
        self.rest = &rest[length + 1..];
        let text = &rest[..length];
        let is_text = text.iter().all(|&byte| byte > b' ' && byte != 0x7f);
        (is_text && !text.is_empty()).then_some(text)
    }

    /// An entity tag in brackets. Its quotes may contain a bracket.
    fn entity_tag(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.get(1..)?;
        let mark = if rest.starts_with(b"W/") { 2 } else { 0 };
        let quoted = rest.get(mark..)?.strip_prefix(b"\"")?;
        let end = mark + 2 + quoted.iter().position(|&byte| byte == b'"')?;
        let tag = &rest[..end];
        self.rest = rest[end..].strip_prefix(b"]")?;
        Some(tag)
    }

    fn list(&mut self) -> Option<Vec<Condition>> {
        self.rest = self.rest.get(1..)?;
        let mut conditions = Vec::new();
        loop {
            let byte = self.peek()?;
            if byte == b')' {
                self.rest = &self.rest[1..];
                return (!conditions.is_empty()).then_some(conditions);
            }
            let not = self.rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"not"));
            if not {
                self.rest = &self.rest[3..];
            }
            let state = match self.peek()? {
                b'<' => State::Token(std::str::from_utf8(self.bracketed(b'>')?).ok()?.to_string()),
                b'[' => State::EntityTag(self.entity_tag()?.to_vec()),
                _ => return None,
            };
            self.conditions += 1;
            if self.conditions > MOST_CONDITIONS {
                return None;
            }
            conditions.push(Condition { not, state });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(not: bool, text: &str) -> Condition {
        Condition { not, state: State::Token(text.to_string()) }
    }

    fn tag(not: bool, text: &str) -> Condition {
        Condition { not, state: State::EntityTag(text.into()) }
    }

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 4918 sections 10.4.6 to 10.4.10.
        let untagged = IfHeader::parse(
            b"(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2> [\"I am an ETag\"]) ([\"I am another ETag\"])",
        )
        .unwrap();
        let expected = [
            vec![
                token(false, "urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2"),
                tag(false, "\"I am an ETag\""),
            ],
            vec![tag(false, "\"I am another ETag\"")],
        ];
        assert!(untagged.lists.iter().map(|list| &list.conditions).eq(&expected));
        assert!(untagged.lists.iter().all(|list| list.resource.is_none()));
        let not = IfHeader::parse(b"(Not <urn:uuid:1> <urn:uuid:2>)").unwrap();
        assert_eq!(not.lists[0].conditions, [token(true, "urn:uuid:1"), token(false, "urn:uuid:2")]);
        let always = IfHeader::parse(b"(<urn:uuid:1>)(Not <DAV:no-lock>)").unwrap();
        assert_eq!(always.lists[1].conditions, [token(true, "DAV:no-lock")]);
        let tagged = IfHeader::parse(
            b"</resource1> (<urn:uuid:1> [W/\"A weak ETag\"]) ([\"strong ETag\"])\t<http://a/b> (<urn:c>)",
        )
        .unwrap();
        let resources: Vec<_> = tagged.lists.iter().map(|list| list.resource.as_deref()).collect();
        assert_eq!(resources, [Some(&b"/resource1"[..]), Some(b"/resource1"), Some(b"http://a/b")]);
        assert_eq!(tagged.lists[0].conditions[1], tag(false, "W/\"A weak ETag\""));
        assert_eq!(tagged.tokens().collect::<Vec<_>>(), ["urn:uuid:1", "urn:c"]);
    }

    #[test]
    fn what_is_not_an_if_field() {
        for value in [
            "",
            " ",
            "()",
            "(",
            "(<a>",
            "(<>)",
            "<a>",
            "<a> <b> (<c>)",
            "(<a>) <b> (<c>)",
            "(a)",
            "(<a>) x",
            "([a])",
            "([\"a)",
            "([\"a\")",
            "(Not)",
            "(Not Not <a>)",
            "(<a b>)",
            "<a>(<b>)<c>",
        ] {
            assert_eq!(IfHeader::parse(value.as_bytes()), None, "{value}");
        }
        let many = "(<a>)".repeat(MOST_CONDITIONS + 1);
        assert_eq!(IfHeader::parse(many.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = IfHeader::parse(&bytes);
        }

        #[test]
        fn what_looks_like_one_is_read(text in "([(<>)\\[\\]\" aNot/W]|<urn:a>|\\(|\\)|\\[\"x\"\\]){0,24}") {
            if let Some(parsed) = IfHeader::parse(text.as_bytes()) {
                prop_assert!(!parsed.lists.is_empty());
                prop_assert!(parsed.lists.iter().all(|list| !list.conditions.is_empty()));
                let tagged = parsed.lists.iter().filter(|list| list.resource.is_some()).count();
                prop_assert!(tagged == 0 || tagged == parsed.lists.len());
            }
        }
    }
}
