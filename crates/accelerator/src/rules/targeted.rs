//! `CDN-Cache-Control`, which speaks to caches like this one before `Cache-Control` does: a dictionary of
//! structured fields (RFC 9213, RFC 9651 section 3.2).
//!
//! A field that is no valid dictionary is ignored whole, and so is one whose numbers are not integers: what
//! its author meant is not known.

use super::directives::{MOST_SECONDS, ResponseDirectives};

/// A bare item, as far as caching has a use for it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Boolean(bool),
    Integer(i64),
    Text(Vec<u8>),
    Other,
}

/// What the values of the field say; `None`: nothing valid, or nothing at all.
pub fn parse(values: &[&[u8]]) -> Option<ResponseDirectives> {
    let joined = values.join(&b", "[..]);
    let members = dictionary(&joined)?;
    if members.is_empty() {
        return None;
    }
    let mut directives = ResponseDirectives::default();
    for (key, value) in members {
        let flag = || match value {
            Value::Boolean(is_set) => Some(is_set),
            _ => None,
        };
        let number = || match value {
            Value::Integer(number) => {
                Some(Some(u32::try_from(number.max(0)).unwrap_or(MOST_SECONDS).min(MOST_SECONDS)))
            }
            _ => None,
        };
        match key.as_slice() {
            b"max-age" => directives.max_age = number()?,
            b"s-maxage" => directives.s_maxage = number()?,
            b"stale-while-revalidate" => directives.stale_while_revalidate = number()?,
            b"stale-if-error" => directives.stale_if_error = number()?,
            b"no-store" => directives.no_store = flag()?,
            b"public" => directives.public = flag()?,
            b"must-revalidate" => directives.must_revalidate = flag()?,
            b"proxy-revalidate" => directives.proxy_revalidate = flag()?,
            b"must-understand" => directives.must_understand = flag()?,
            b"immutable" => directives.immutable = flag()?,
            b"no-cache" | b"private" => {
                let is_private = key == b"private";
                match &value {
                    Value::Boolean(is_set) if is_private => directives.private = *is_set,
                    Value::Boolean(is_set) => directives.no_cache = *is_set,
                    Value::Text(names) => {
                        let names = names.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                        directives.fields.extend(names.filter(|name| !name.is_empty()).map(Box::from));
                    }
                    _ => return None,
                }
            }
            _ => {}
        }
    }
    Some(directives)
}

/// The members of a dictionary; of those with the same key the last (RFC 9651 section 4.2.2).
fn dictionary(text: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
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
        parser.white_space();
        if parser.rest.is_empty() {
            break;
        }
        if !parser.take(b',') {
            return None;
        }
        parser.white_space();
        if parser.rest.is_empty() {
            // A comma with nothing behind it.
            return None;
        }
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
        loop {
            while self.take(b' ') {}
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.item()?;
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
                Some(Value::Text(token.to_vec()))
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal with at most 12 before its point and 3 behind.
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
    fn dictionaries() {
        for (value, max_age) in [
            ("max-age=60", Some(Some(60))),
            ("max-age=60, foo;a=1;b, bar=(1 2);x", Some(Some(60))),
            ("max-age=1, max-age=2", Some(Some(2))),
            ("max-age=99999999999", Some(Some(MOST_SECONDS))),
            ("max-age=-5", Some(Some(0))),
            ("no-store", Some(None)),
            ("a=:aGk=:, b=@1, c=?0, d=1.5, e=tok/en", Some(None)),
            ("", None),
            ("MaX-aGe=60", None),
            ("max-age =60", None),
            ("max-age= 60", None),
            ("max-age=\"60\"", None),
            ("max-age=6.5", None),
            ("max-age=60, &&&", None),
            ("max-age=60,", None),
            ("max-age=1234567890123456", None),
            ("no-store=1", None),
            ("a=\"x", None),
        ] {
            assert_eq!(parse(&[value.as_bytes()]).map(|directives| directives.max_age), max_age, "{value}");
        }
        assert!(parse(&[b"private"]).unwrap().private);
        assert!(!parse(&[b"private=?0"]).unwrap().private);
        let limited = parse(&[b"no-cache=\"a, b\""]).unwrap();
        assert!(!limited.no_cache && limited.fields.len() == 2);
        assert_eq!(parse(&[b"max-age=1", b"no-store"]).unwrap().max_age, Some(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&[&value]);
        }
    }
}
