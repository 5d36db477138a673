//! The check of field lines that a program has written, before a client gets them.

use std::fmt;

use crate::grammar::{field_value_length, is_token};

/// How many bytes of the name of an invalid line are reported.
const NAMED_BYTES: usize = 80;

/// A line that is not valid: its name, or its beginning if it has none, but not the value, which may be a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFieldLine(pub Vec<u8>);

impl fmt::Display for InvalidFieldLine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "the header field \"{}\" is refused: its name may contain letters, digits and hyphens, and its \
             value no control characters",
            self.0.escape_ascii()
        )
    }
}

/// Whether each line has a name, a value without control characters, and a CRLF.
pub fn are_valid(lines: &[u8]) -> bool {
    check(lines).is_ok()
}

/// The same; the error is the first line for which this is not so.
pub fn check(mut rest: &[u8]) -> Result<(), InvalidFieldLine> {
    while !rest.is_empty() {
        let next = rest.iter().position(|byte| *byte == b':').and_then(|colon| {
            let value = &rest[colon + 1..];
            let end = &value[field_value_length(value)..];
            end.strip_prefix(b"\r\n").filter(|_| is_token(&rest[..colon]))
        });
        let Some(next) = next else {
            let name = rest.split(|byte| matches!(byte, b'\r' | b':')).next().unwrap_or_default();
            return Err(InvalidFieldLine(name[..name.len().min(NAMED_BYTES)].to_vec()));
        };
        rest = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::is_field_value_byte;
    use proptest::prelude::*;

    #[test]
    fn the_name_of_the_first_invalid_line_is_reported() {
        for (lines, name) in [
            ("A; b\r\n", "A; b"),
            (": b\r\n", ""),
            ("A: \0\r\n", "A"),
            ("A: b\r\nB: c\nD: e\r\n", "B"),
            ("A: b\r\na b: c\r\n", "a b"),
            ("A: b", "A"),
        ] {
            assert_eq!(check(lines.as_bytes()), Err(InvalidFieldLine(name.into())), "{lines:?}");
        }
        assert!(are_valid(b"A: b\r\nB:\r\n") && are_valid(b""));
    }

    proptest! {
        #[test]
        fn lines_are_lines_however_they_are_looked_for(text in "[A:; \\r\\n\\x00]{0,24}") {
            let by_line = text.strip_suffix("\r\n").map(|lines| {
                lines.split("\r\n").all(|line| {
                    line.split_once(':').is_some_and(|(name, value)| {
                        is_token(name.as_bytes()) && value.bytes().all(is_field_value_byte)
                    })
                })
            });
            prop_assert_eq!(are_valid(text.as_bytes()), text.is_empty() || by_line == Some(true));
        }
    }
}
