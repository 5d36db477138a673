//! Parses structured fields (RFC 9651) as far as caching needs them: dictionaries and lists. Callers ignore
//! an invalid field as a whole, because its meaning is unknown.

/// A value, as far as caching needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `?0` or `?1`, or a key without a value.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A string.
    Text(Vec<u8>),
    /// A token.
    Token(Vec<u8>),
    /// An inner list.
    InnerList(Vec<Value>),
    /// A decimal, a date or a byte sequence.
    Other,
}

/// The members of a dictionary; of those with the same key the last one (RFC 9651 section 4.2.2).
pub fn dictionary(text: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut parser = Parser { rest: text.trim_ascii_start() };
    let mut members: Vec<(Vec<u8>, Value)> = Vec::new();
    while !parser.rest.is_empty() {
        let key = parser.key()?;
        let value = match parser.take(b'=') {
            true if parser.rest.first() == Some(&b'(') => parser.inner_list()?,
            true => parser.item()?,
            false => Value::Boolean(true),
        };
        parser.parameters()?;
        members.retain(|(other, _)| *other != key);
        members.push((key, value));
        parser.end_of_member()?;
    }
    Some(members)
}

/// The members of a list, without their parameters (RFC 9651 section 4.2.1).
pub fn list(text: &[u8]) -> Option<Vec<Value>> {
    let mut parser = Parser { rest: text.trim_ascii_start() };
    let mut members = Vec::new();
    while !parser.rest.is_empty() {
        members.push(match parser.rest.first() {
            Some(b'(') => {
                let value = parser.inner_list()?;
                parser.parameters()?;
                value
            }
            _ => parser.item()?,
        });
        parser.end_of_member()?;
    }
    Some(members)
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn white_space(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Reads the end of a member: the end of the text, or a comma before another member.
    fn end_of_member(&mut self) -> Option<()> {
        self.white_space();
        if self.rest.is_empty() {
            return Some(());
        }
        if !self.take(b',') {
            return None;
        }
        self.white_space();
        (!self.rest.is_empty()).then_some(())
    }

    fn while_bytes(&mut self, good: impl Fn(u8) -> bool) -> &[u8] {
        let length = self.rest.iter().position(|&byte| !good(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.rest.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        let is_key = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
        };
        Some(self.while_bytes(is_key).to_vec())
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            while self.take(b' ') {}
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn item(&mut self) -> Option<Value> {
        let value = self.bare_item()?;
        self.parameters()?;
        Some(value)
    }

    fn inner_list(&mut self) -> Option<Value> {
        self.take(b'(');
        let mut items = Vec::new();
        loop {
            while self.take(b' ') {}
            if self.take(b')') {
                return Some(Value::InnerList(items));
            }
            items.push(self.item()?);
            if !matches!(self.rest.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                let (value, rest) = match self.rest {
                    [_, b'0', rest @ ..] => (false, rest),
                    [_, b'1', rest @ ..] => (true, rest),
                    _ => return None,
                };
                self.rest = rest;
                Some(Value::Boolean(value))
            }
            b':' => {
                self.take(b':');
                self.while_bytes(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.take(b':').then_some(Value::Other)
            }
            b'@' => {
                self.take(b'@');
                match self.number()? {
                    Value::Integer(_) => Some(Value::Other),
                    _ => None,
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'*' => {
                let token = self.while_bytes(|byte| {
                    touchstone_http::grammar::is_token_byte(byte) || matches!(byte, b':' | b'/')
                });
                Some(Value::Token(token.to_vec()))
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal with at most 12 before its point and 3 after it.
    fn number(&mut self) -> Option<Value> {
        let is_negative = self.take(b'-');
        let digits = self.while_bytes(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        let whole = digits.iter().fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        let length = digits.len();
        if self.take(b'.') {
            let behind = self.while_bytes(|byte| byte.is_ascii_digit()).len();
            return (length <= 12 && (1..=3).contains(&behind)).then_some(Value::Other);
        }
        Some(Value::Integer(if is_negative { -whole } else { whole }))
    }

    fn string(&mut self) -> Option<Value> {
        self.take(b'"');
        let mut text = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(Value::Text(text)),
                b'\\' => {
                    let (&escaped @ (b'"' | b'\\'), rest) = rest.split_first()? else { return None };
                    text.push(escaped);
                    self.rest = rest;
                }
                0x20..=0x7e => text.push(byte),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        for (value, expected) in [
            ("", Some(vec![])),
            ("\"a\"", Some(vec![text("a")])),
            ("\"a\";x=1, \"b c\" ", Some(vec![text("a"), text("b c")])),
            ("\"a\\\"\\\\\"", Some(vec![text("a\"\\")])),
            ("a, ?1", Some(vec![Value::Token(b"a".to_vec()), Value::Boolean(true)])),
            ("(\"a\" 1);p", Some(vec![Value::InnerList(vec![text("a"), Value::Integer(1)])])),
            ("\"a\",", None),
            ("\"a\" \"b\"", None),
            ("\"a", None),
            ("(\"a\"", None),
            ("\"\u{e9}\"", None),
        ] {
            assert_eq!(list(value.as_bytes()), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            list(&value);
            dictionary(&value);
        }
    }
}
