//! The head of an answer as bytes, and the check of these bytes by the server.
//!
//! ```text
//! 0 status (2)  2 length of the reason (2)  4 length of the field lines (4)
//! 8 length of the body, -1: unknown (8)
//! 16 reason, field lines with their CRLF; behind them, in a whole answer, the body
//! ```

use std::fmt;

use touchstone_handler::answer::Answer;
use touchstone_handler::reason_phrase::ReasonPhrase;
use touchstone_http::field_lines::{self, InvalidFieldLine};

/// Bytes before the reason.
pub const PREFIX_BYTES: usize = 16;

/// Writes the numbers before reason and field lines.
pub fn prefix(status: u16, reason: usize, lines: usize, body_length: Option<u64>) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..2].copy_from_slice(&status.to_le_bytes());
    prefix[2..4].copy_from_slice(&u16::try_from(reason).unwrap_or(u16::MAX).to_le_bytes());
    prefix[4..8].copy_from_slice(&u32::try_from(lines).unwrap_or(u32::MAX).to_le_bytes());
    let length = body_length.and_then(|length| i64::try_from(length).ok()).unwrap_or(-1);
    prefix[8..].copy_from_slice(&length.to_le_bytes());
    prefix
}

/// The head of an answer.
pub struct Head {
    /// The answer, without a body.
    pub answer: Answer,
    /// The length of the body, if the application has declared it.
    pub content_length: Option<u64>,
}

/// Why the output of a worker is not an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It does not have the right form.
    Form,
    /// The status is not valid in an answer.
    Status(u16),
    /// A field line is invalid.
    Field(InvalidFieldLine),
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Form => to.write_str("it does not have the form of a worker of this version"),
            Fault::Status(status) => {
                write!(to, "{status} is not a valid status: it must be from 200 to 999")
            }
            Fault::Field(line) => write!(to, "{line}"),
        }
    }
}

/// Reads a head; also returns where it ends.
///
/// # Errors
/// It is not valid.
pub fn read(bytes: &[u8]) -> Result<(Head, usize), Fault> {
    let prefix: [u8; PREFIX_BYTES] =
        bytes.get(..PREFIX_BYTES).and_then(|prefix| prefix.try_into().ok()).ok_or(Fault::Form)?;
    let status = u16::from_le_bytes([prefix[0], prefix[1]]);
    let reason = u16::from_le_bytes([prefix[2], prefix[3]]);
    let lines = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
    let mut length = [0; 8];
    length.copy_from_slice(&prefix[8..]);
    if !(200..=999).contains(&status) && status != 101 {
        return Err(Fault::Status(status));
    }
    let rest = &bytes[PREFIX_BYTES..];
    let (reason, rest) = rest.split_at_checked(reason.into()).ok_or(Fault::Form)?;
    let lines = rest.get(..lines as usize).ok_or(Fault::Form)?;
    let mut answer = Answer::new(status);
    answer.reason = ReasonPhrase::new(status, reason);
    // The copy is checked, because the worker could still change the original.
    answer.fields = lines.to_vec();
    field_lines::check(&answer.fields).map_err(Fault::Field)?;
    if status == 101 {
        answer.fields.extend_from_slice(b"Connection: upgrade\r\n");
    }
    let content_length = u64::try_from(i64::from_le_bytes(length)).ok();
    Ok((Head { answer, content_length }, PREFIX_BYTES + reason.len() + lines.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(status: u16, reason: &[u8], lines: &[u8], length: Option<u64>) -> Vec<u8> {
        let mut bytes = prefix(status, reason.len(), lines.len(), length).to_vec();
        bytes.extend_from_slice(reason);
        bytes.extend_from_slice(lines);
        bytes
    }

    #[test]
    fn heads_are_read_and_wrong_ones_are_not() {
        let mut bytes = written(404, b"Gone fishing", b"A: b\r\n", Some(3));
        bytes.extend_from_slice(b"abc");
        let (head, end) = read(&bytes).ok().unwrap();
        assert_eq!((head.answer.status, head.content_length), (404, Some(3)));
        assert_eq!(head.answer.reason.unwrap().as_bytes(), b"Gone fishing");
        assert_eq!((&head.answer.fields[..], &bytes[end..]), (&b"A: b\r\n"[..], &b"abc"[..]));
        for (status, lines, fault) in [
            (99, &b""[..], Fault::Status(99)),
            (100, b"", Fault::Status(100)),
            (200, b"A; b\r\n", Fault::Field(InvalidFieldLine(b"A; b".to_vec()))),
            (200, b": b\r\n", Fault::Field(InvalidFieldLine(Vec::new()))),
            (200, b"A: \0\r\n", Fault::Field(InvalidFieldLine(b"A".to_vec()))),
            (200, b"A: b\r\nB: c\nD: e\r\n", Fault::Field(InvalidFieldLine(b"B".to_vec()))),
            (200, b"A: b", Fault::Field(InvalidFieldLine(b"A".to_vec()))),
        ] {
            assert_eq!(read(&written(status, b"", lines, None)).err(), Some(fault), "{status}");
        }
        assert_eq!(read(&bytes[..20]).err(), Some(Fault::Form));
    }

    proptest! {
        #[test]
        fn nothing_that_a_worker_writes_panics(bytes: Vec<u8>, numbers: (u8, u8, u8)) {
            let _ = read(&bytes);
            let mut head = prefix(200, numbers.0.into(), numbers.1.into(), None).to_vec();
            head.extend_from_slice(&bytes);
            if let Ok((head, end)) = read(&head) {
                prop_assert!(field_lines::are_valid(&head.answer.fields));
                prop_assert!(end <= bytes.len() + PREFIX_BYTES);
            }
        }

        #[test]
        fn reason_and_fields_are_read_as_they_were_written(
            reason in "[ -~]{0,30}",
            fields in proptest::collection::vec(("[A-Za-z-]{1,9}", "[!-~]{1,20}"), 0..9)
        ) {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let (head, _) = read(&written(299, reason.as_bytes(), lines.as_bytes(), None)).ok().unwrap();
            prop_assert_eq!(&head.answer.fields[..], lines.as_bytes());
        }
    }
}
