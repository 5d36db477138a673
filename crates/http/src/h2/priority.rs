//! Priorities of responses (RFC 9218), as the `priority` field and `PRIORITY_UPDATE` frames carry them.

/// How urgent a response is, and whether the client can use parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0, the most urgent, to 7.
    pub urgency: u8,
    /// The client can use it as it arrives, so it may share the connection with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    /// The priority of a request that names none (RFC 9218 section 4).
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// The least urgent.
    pub const LOWEST_URGENCY: u8 = 7;

    /// Reads a priority field value: a dictionary of structured fields (RFC 9651) of which only `u` and `i`
    /// matter.
    ///
    /// A value that is not a dictionary is ignored, and so is a member of the wrong type or out of range (RFC
    /// 9218 section 4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        let mut members = Members { rest: value };
        loop {
            match members.next() {
                Ok(Some((b"u", Item::Integer(urgency)))) if (0..=7).contains(&urgency) => {
                    priority.urgency = urgency as u8;
                }
                Ok(Some((b"u", _))) => priority.urgency = Priority::default().urgency,
                Ok(Some((b"i", Item::Boolean(incremental)))) => priority.incremental = incremental,
                Ok(Some((b"i", _))) => priority.incremental = Priority::default().incremental,
                Ok(Some(_)) => {}
                Ok(None) => return priority,
                Err(Malformed) => return Priority::default(),
            }
        }
    }

    /// Reads a priority that is most likely one of those that browsers send, for example `u=1, i`.
    #[inline]
    pub(crate) fn parse_quickly(value: &[u8]) -> Priority {
        match value {
            [b'u', b'=', digit @ b'0'..=b'7'] => Priority { urgency: digit - b'0', incremental: false },
            [b'u', b'=', digit @ b'0'..=b'7', b',', b' ', b'i'] => {
                Priority { urgency: digit - b'0', incremental: true }
            }
            _ => Priority::parse(value),
        }
    }

    /// Appends the priority as a field value, for `PRIORITY_UPDATE` and the `priority` field.
    pub fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'u', b'=', b'0' + self.urgency.min(Priority::LOWEST_URGENCY)]);
        if self.incremental {
            out.extend_from_slice(b", i");
        }
    }
}

/// The value is not a dictionary.
#[derive(Debug, PartialEq, Eq)]
struct Malformed;

/// A bare item, as far as priorities distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Integer(i64),
    Boolean(bool),
    Other,
}

/// The members of a dictionary (RFC 9651 section 4.2.2).
struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Members<'a> {
    fn next(&mut self) -> Result<Option<(&'a [u8], Item)>, Malformed> {
        self.skip(b" ");
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.key()?;
        let item = if self.take(b'=') { self.member_value()? } else { Item::Boolean(true) };
        self.parameters()?;
        self.skip(b" \t");
        if !self.rest.is_empty() {
            // A comma must be followed by another member.
            if !self.take(b',') {
                return Err(Malformed);
            }
            self.skip(b" \t");
            if self.rest.is_empty() {
                return Err(Malformed);
            }
        }
        Ok(Some((key, item)))
    }

    fn skip(&mut self, bytes: &[u8]) {
        let length = self.rest.iter().take_while(|byte| bytes.contains(byte)).count();
        self.rest = &self.rest[length..];
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().take_while(|&&byte| belongs(byte)).count();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Result<&'a [u8], Malformed> {
        let begins = |byte: u8| byte.is_ascii_lowercase() || byte == b'*';
        if !self.rest.first().is_some_and(|&byte| begins(byte)) {
            return Err(Malformed);
        }
        Ok(self.take_while(|byte| begins(byte) || byte.is_ascii_digit() || b"_-.".contains(&byte)))
    }

    fn member_value(&mut self) -> Result<Item, Malformed> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Ok(Item::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return Err(Malformed);
            }
        }
    }

    fn parameters(&mut self) -> Result<(), Malformed> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    fn bare_item(&mut self) -> Result<Item, Malformed> {
        match self.rest.first() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'?') => match self.rest.split_at_checked(2) {
                Some((b"?0", rest)) => Ok(self.booleans_end(false, rest)),
                Some((b"?1", rest)) => Ok(self.booleans_end(true, rest)),
                _ => Err(Malformed),
            },
            Some(b'"') => self.string(),
            Some(b':') => self.byte_sequence(),
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'*' => {
                self.take_while(|byte| crate::grammar::is_token_byte(byte) || b":/".contains(&byte));
                Ok(Item::Other)
            }
            _ => Err(Malformed),
        }
    }

    fn booleans_end(&mut self, value: bool, rest: &'a [u8]) -> Item {
        self.rest = rest;
        Item::Boolean(value)
    }

    /// An integer of up to 15 digits, or a decimal of up to 12 and 3.
    fn number(&mut self) -> Result<Item, Malformed> {
        let negative = self.take(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = (1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len());
            return if fits { Ok(Item::Other) } else { Err(Malformed) };
        }
        if digits.len() > 15 {
            return Err(Malformed);
        }
        let value = crate::decimal::parse(digits).ok_or(Malformed)? as i64;
        Ok(Item::Integer(if negative { -value } else { value }))
    }

    fn string(&mut self) -> Result<Item, Malformed> {
        self.take(b'"');
        loop {
            self.take_while(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte));
            if self.take(b'"') {
                return Ok(Item::Other);
            }
            if !(self.take(b'\\') && (self.take(b'"') || self.take(b'\\'))) {
                return Err(Malformed);
            }
        }
    }

    fn byte_sequence(&mut self) -> Result<Item, Malformed> {
        self.take(b':');
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        if self.take(b':') { Ok(Item::Other) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7", 7, false),
            ("i", 3, true),
            ("u=5, i", 5, true),
            ("u=5,i", 5, true),
            ("i, u=1", 1, true),
            ("u=1;x=\"a,b\", i;y", 1, true),
            ("i=?1", 3, true),
            ("i=?0", 3, false),
            ("u=2, unknown=(1 2;a \"x\"), other=:aGk=:, i, t=a/b, d=1.5", 2, true),
            ("  u=2  ", 2, false),
            // The last value of a key applies.
            ("u=1, u=2", 2, false),
            ("i, i=?0", 3, false),
            // Wrong types and values out of range are ignored.
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u", 3, false),
            ("u=1.5", 3, false),
            ("u=a, i", 3, true),
            ("i=1", 3, false),
            ("i=\"x\"", 3, false),
            // A value that is not a dictionary is ignored as a whole.
            ("u=1,", 3, false),
            ("u=1 i", 3, false),
            ("u=1, I", 3, false),
            ("U=1", 3, false),
            ("u=1, \u{1}", 3, false),
            ("u=", 3, false),
            ("u=1, x=(1", 3, false),
            ("u=1, x=(1\"a\")", 3, false),
            ("u=1, x=\"a", 3, false),
            ("u=1, x=\"\\a\"", 3, false),
            ("u=1, x=:a", 3, false),
            ("u=1, x=?2", 3, false),
            ("u=1, x=1.", 3, false),
            ("u=1, x=1.1234", 3, false),
            ("u=1, x=1234567890123456", 3, false),
            ("u=1;", 3, false),
        ] {
            let expected = Priority { urgency, incremental };
            assert_eq!(Priority::parse(value.as_bytes()), expected, "{value:?}");
            assert_eq!(Priority::parse_quickly(value.as_bytes()), expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(urgency in 0u8..=7, incremental in any::<bool>()) {
            let priority = Priority { urgency, incremental };
            let mut out = Vec::new();
            priority.append(&mut out);
            prop_assert_eq!(Priority::parse(&out), priority);
            prop_assert_eq!(Priority::parse_quickly(&out), priority);
        }

        #[test]
        fn never_panics_and_both_ways_agree(
            value in proptest::collection::vec(
                prop_oneof![4 => proptest::sample::select(&b"ui=?01,; \"\\():.-"[..]), 1 => any::<u8>()],
                0..20,
            )
        ) {
            let priority = Priority::parse(&value);
            prop_assert!(priority.urgency <= 7);
            prop_assert_eq!(Priority::parse_quickly(&value), priority);
        }
    }
}
