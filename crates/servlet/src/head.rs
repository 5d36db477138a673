//! The head of an answer in Java's form: the length of the field lines, the status, the length of the body;
//! then free space, in which the server can write a whole head directly before the body, and the lines.

use std::fmt;

use touchstone_handler::answer::Answer;
use touchstone_http::field_lines::{self, InvalidFieldLine};

/// The bytes before the field lines: the numbers and the free space. `ResponseHead.java` has the same value.
pub const PREFIX_BYTES: usize = 512;

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The field lines with their CRLF.
    pub fields: Vec<u8>,
    /// The length of the body, if known.
    pub content_length: Option<u64>,
}

/// The contents of a slab's output: the head if it was not sent before, and a part of the body.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The head.
    pub head: Option<Head>,
    /// A part of the body.
    pub body: &'a [u8],
}

/// Why the output of Java is not an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It does not have the form that Java writes.
    Form,
    /// The status is not valid in a response.
    Status(i32),
    /// A field line is invalid.
    Field(InvalidFieldLine),
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Form => to.write_str("it does not have the form of the jars of this version"),
            Fault::Status(status) => {
                write!(to, "{status} is not a valid status: it must be from 200 to 999")
            }
            Fault::Field(line) => write!(to, "{line}"),
        }
    }
}

/// Reads the output of Java.
///
/// # Errors
/// It is not an answer.
pub fn read(bytes: &[u8]) -> Result<Piece<'_>, Fault> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX_BYTES).ok_or(Fault::Form)?;
    let number = |at: usize| i32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]);
    // The number is the length plus one, so that a head without fields differs from no head.
    let Some(lines) = usize::try_from(number(0)).map_err(|_| Fault::Form)?.checked_sub(1) else {
        return Ok(Piece { head: None, body: rest });
    };
    let status =
        u16::try_from(number(4)).ok().filter(|status| (200..=999).contains(status) || *status == 101);
    let status = status.ok_or(Fault::Status(number(4)))?;
    let (fields, body) = rest.split_at_checked(lines).ok_or(Fault::Form)?;
    field_lines::check(fields).map_err(Fault::Field)?;
    let length = i64::from_le_bytes(prefix[8..16].try_into().map_err(|_| Fault::Form)?);
    let head = Head { status, fields: fields.to_vec(), content_length: u64::try_from(length).ok() };
    Ok(Piece { head: Some(head), body })
}

impl Head {
    /// An answer with this head, and without a body so far.
    pub fn into_answer(self) -> Answer {
        let mut answer = Answer::new(self.status);
        answer.fields = self.fields;
        if self.status == 101 {
            answer.fields.extend_from_slice(b"Connection: upgrade\r\n");
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(lines: i32, status: i32, length: i64, rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&lines.to_le_bytes());
        bytes.extend_from_slice(&status.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.resize(PREFIX_BYTES, 0);
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn heads_are_read_and_wrong_ones_are_not() {
        let bytes = piece(7, 200, 3, b"A: b\r\nabc");
        let head = Head { status: 200, fields: b"A: b\r\n".to_vec(), content_length: Some(3) };
        assert_eq!(read(&bytes), Ok(Piece { head: Some(head), body: b"abc" }));
        assert_eq!(read(&piece(0, 0, 0, b"abc")), Ok(Piece { head: None, body: b"abc" }));
        let empty = Head { status: 404, fields: Vec::new(), content_length: None };
        assert_eq!(read(&piece(1, 404, -1, b"")), Ok(Piece { head: Some(empty), body: b"" }));
        for (lines, status, rest) in [
            (7, 99, &b"A: b\r\n"[..]),
            (7, 100, b"A: b\r\n"),
            (6, 200, b"A: b\r\n"),
            (8, 200, b"A: b\r\n"),
            (7, 200, b"A; b\r\n"),
            (7, 200, b": bb\r\n"),
            (7, 200, b"A: \0\r\n"),
            (-1, 200, b""),
        ] {
            assert!(read(&piece(lines, status, 0, rest)).is_err(), "{}", rest.escape_ascii());
        }
        assert_eq!(read(&piece(1, 42, 0, b"")), Err(Fault::Status(42)));
        let wrong = piece(15, 200, 0, b"A: b\r\na b: c\r\n");
        assert_eq!(read(&wrong), Err(Fault::Field(InvalidFieldLine(b"a b".to_vec()))));
    }

    proptest! {
        #[test]
        fn nothing_that_java_writes_panics(numbers: [u8; 16], is_cut: bool, rest: Vec<u8>) {
            let mut bytes = numbers.to_vec();
            if !is_cut {
                bytes.resize(PREFIX_BYTES, 0);
            }
            bytes.extend_from_slice(&rest);
            let _ = read(&bytes);
        }
    }
}
