//! Header fields that a route sets on answers, instead of those that they have.

use std::collections::BTreeMap;

/// Fields to set and fields to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerFields {
    /// Names in lower case; all of them are first removed from the answer.
    names: Box<[Box<[u8]>]>,
    /// Field lines with their CRLF.
    lines: Box<[u8]>,
}

impl AnswerFields {
    /// Makes it from checked names and values; an empty value removes the field.
    pub fn new(fields: &BTreeMap<String, String>) -> AnswerFields {
        let mut lines = Vec::new();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            for piece in [name.as_str(), ": ", value, "\r\n"] {
                lines.extend_from_slice(piece.as_bytes());
            }
        }
        let names = fields.keys().map(|name| name.to_ascii_lowercase().into_bytes().into()).collect();
        AnswerFields { names, lines: lines.into() }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Applies them to field lines, each of which ends with CRLF.
    pub fn apply(&self, fields: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let mut kept = Vec::with_capacity(fields.len() + self.lines.len());
        for line in fields.split_inclusive(|byte| *byte == b'\n') {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            if !self.names.iter().any(|other| name.eq_ignore_ascii_case(other)) {
                kept.extend_from_slice(line);
            }
        }
        kept.extend_from_slice(&self.lines);
        *fields = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::check_answer_field;
    use proptest::prelude::*;

    fn fields(fields: &[(&str, &str)]) -> AnswerFields {
        AnswerFields::new(&fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn set_replace_and_take_away() {
        let mut lines = b"Content-Type: text/html\r\nETag: \"a:b\"\r\nVary: x\r\nvary: y\r\n".to_vec();
        fields(&[("X-New", "1"), ("VARY", "z"), ("etag", "")]).apply(&mut lines);
        assert_eq!(lines, b"Content-Type: text/html\r\nVARY: z\r\nX-New: 1\r\n");
        let mut none = Vec::new();
        fields(&[("A", "1")]).apply(&mut none);
        assert_eq!(none, b"A: 1\r\n");
        fields(&[]).apply(&mut none);
        assert_eq!(none, b"A: 1\r\n");
    }

    #[test]
    fn framing_is_not_to_be_set() {
        for name in ["content-length", "Transfer-Encoding", "CONNECTION", "Date"] {
            assert!(check_answer_field(name).is_err(), "{name}");
        }
        assert_eq!(check_answer_field("date").unwrap_err(), "Date is the server's own to set");
        assert_eq!(check_answer_field("X-Frame-Options"), Ok(()));
    }

    proptest! {
        #[test]
        fn others_stay_as_they_were(names in prop::collection::vec("[a-d]", 0..6), set in "[a-dA-D]") {
            let line_of = |name: &String| format!("{name}: 1\r\n").into_bytes();
            let mut lines: Vec<u8> = names.iter().flat_map(line_of).collect();
            fields(&[(&set, "2")]).apply(&mut lines);
            let mut expected: Vec<u8> = names
                .iter()
                .filter(|name| !name.eq_ignore_ascii_case(&set))
                .flat_map(|name| format!("{name}: 1\r\n").into_bytes())
                .collect();
            expected.extend(format!("{set}: 2\r\n").into_bytes());
            prop_assert_eq!(lines, expected);
        }
    }
}
