//! Frames between the server and a child with applications.
//!
//! ```text
//! length of the rest (4)  kind (1)  number of the request (4)  payload
//! ```
//!
//! Both ends are the same program, so there are no versions. An application can overwrite the whole memory of
//! its process, so frames from the child are checked like all bytes from outside.

use touchstone_http::field_lines;

use crate::head::Head;
use crate::java_call::{AnswerEnd, Output};

/// The longest frame.
pub const LONGEST_BYTES: usize = 1 << 20;

/// Bytes before the payload.
const HEAD_BYTES: usize = 9;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To the child: a request.
    Request,
    /// To the child: a piece of its body.
    Body,
    /// To the child: the end of its body, with its trailers.
    BodyEnd,
    /// To the child: its body broke off.
    BodyFailed,
    /// To the child: no client waits for the answer any more.
    Gone,
    /// To the child: the number of bytes of the answer that were sent to the client.
    Taken,
    /// To the child: the order to end.
    Quit,
    /// To the child: the question about the state of its applications.
    AskStatus,
    /// To the server: the answer to it, as JSON.
    Status,
    /// To the server: a part of the answer.
    Answer,
    /// To the server: more of the body is needed.
    Wanted,
    /// To the server: field lines of an interim response 103.
    EarlyHints,
    /// To the server: the trailers of the answer, before its end.
    Trailers,
}

const KINDS: [(Kind, u8); 13] = [
    (Kind::Request, b'R'),
    (Kind::Body, b'B'),
    (Kind::BodyEnd, b'E'),
    (Kind::BodyFailed, b'X'),
    (Kind::Gone, b'G'),
    (Kind::Taken, b'T'),
    (Kind::Quit, b'Q'),
    (Kind::AskStatus, b'S'),
    (Kind::Status, b'U'),
    (Kind::Answer, b'A'),
    (Kind::Wanted, b'W'),
    (Kind::EarlyHints, b'H'),
    (Kind::Trailers, b'F'),
];

/// Adds a frame.
pub fn append(to: &mut Vec<u8>, kind: Kind, number: u32, payload: &[&[u8]]) {
    let length = 5 + payload.iter().map(|piece| piece.len()).sum::<usize>();
    let letter = KINDS.iter().find(|(known, _)| *known == kind).map_or(0, |(_, letter)| *letter);
    to.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
    to.push(letter);
    to.extend_from_slice(&number.to_le_bytes());
    payload.iter().for_each(|piece| to.extend_from_slice(piece));
}

/// The result of [`parse`].
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedFrame<'a> {
    /// A frame: its kind, the number of its request, its payload, and its length.
    Frame(Kind, u32, &'a [u8], usize),
    /// The frame is not complete yet.
    Partial,
    /// The bytes are not a valid frame.
    Wrong,
}

/// Reads a frame.
pub fn parse(bytes: &[u8]) -> ParsedFrame<'_> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return ParsedFrame::Partial };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let kind = KINDS.iter().find(|(_, letter)| *letter == head[4]).map(|(kind, _)| *kind);
    let (Some(kind), 5..=LONGEST_BYTES) = (kind, length) else { return ParsedFrame::Wrong };
    let number = u32::from_le_bytes([head[5], head[6], head[7], head[8]]);
    match bytes.get(HEAD_BYTES..4 + length) {
        Some(payload) => ParsedFrame::Frame(kind, number, payload, 4 + length),
        None => ParsedFrame::Partial,
    }
}

/// The flags of a request's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// There is a body, or bytes after a switch of protocols.
    pub has_body: bool,
    /// The client sends its body without `100 Continue`.
    pub is_body_requested: bool,
}

impl Flags {
    /// The flags as a byte.
    pub fn byte(self) -> u8 {
        u8::from(self.has_body) | u8::from(self.is_body_requested) << 1
    }

    /// The flags of a byte.
    pub fn from_byte(byte: u8) -> Flags {
        Flags { has_body: byte & 1 != 0, is_body_requested: byte & 2 != 0 }
    }
}

/// Adds a part of an answer. Long bodies take several frames.
pub fn append_answer(to: &mut Vec<u8>, number: u32, output: &Output) {
    output.early_hints.iter().for_each(|lines| append(to, Kind::EarlyHints, number, &[lines]));
    if !output.trailers.is_empty() {
        append(to, Kind::Trailers, number, &[&output.trailers]);
    }
    let end = match output.end {
        None => 0,
        Some(AnswerEnd::Whole) => 1,
        Some(AnswerEnd::Broken) => 2,
        Some(AnswerEnd::Unavailable) => 3,
    };
    let mut prefix = Vec::with_capacity(32);
    if let Some(head) = &output.head {
        let length = head.content_length.map_or(-1, |length| i64::try_from(length).unwrap_or(i64::MAX));
        prefix.extend_from_slice(&head.status.to_le_bytes());
        prefix.extend_from_slice(&length.to_le_bytes());
        prefix.extend_from_slice(&u32::try_from(head.fields.len()).unwrap_or(0).to_le_bytes());
        prefix.extend_from_slice(&head.fields);
    }
    let has_head = u8::from(output.head.is_some()) << 4;
    match output.pieces.len() {
        0 => append(to, Kind::Answer, number, &[&[end | has_head], &prefix]),
        1 => append(to, Kind::Answer, number, &[&[end | has_head], &prefix, &output.pieces[0]]),
        _ => {
            append(to, Kind::Answer, number, &[&[has_head], &prefix]);
            output.pieces.iter().for_each(|piece| append(to, Kind::Answer, number, &[&[0], piece]));
            append(to, Kind::Answer, number, &[&[end]]);
        }
    }
}

/// A part of an answer, as the server reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct AnswerPart<'a> {
    /// The head, in the first part.
    pub head: Option<Head>,
    /// A piece of the body.
    pub body: &'a [u8],
    /// How it has ended.
    pub end: Option<AnswerEnd>,
}

/// Reads a part of an answer; `None` if it is not valid.
pub fn parse_answer(payload: &[u8]) -> Option<AnswerPart<'_>> {
    let (&flags, rest) = payload.split_first()?;
    let end = match flags & 0x0F {
        0 => None,
        1 => Some(AnswerEnd::Whole),
        2 => Some(AnswerEnd::Broken),
        3 => Some(AnswerEnd::Unavailable),
        _ => return None,
    };
    if flags & 0x10 == 0 {
        return Some(AnswerPart { head: None, body: rest, end });
    }
    let (status, rest) = rest.split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (fields_length, rest) = rest.split_first_chunk::<4>()?;
    let status = u16::from_le_bytes(*status);
    let (fields, body) = rest.split_at_checked(u32::from_le_bytes(*fields_length) as usize)?;
    if !((200..=999).contains(&status) || status == 101) || !field_lines::are_valid(fields) {
        return None;
    }
    let content_length = u64::try_from(i64::from_le_bytes(*length)).ok();
    Some(AnswerPart { head: Some(Head { status, fields: fields.to_vec(), content_length }), body, end })
}

/// Reads bytes as frames, for fuzzing.
pub fn read_anything(mut bytes: &[u8]) {
    while let ParsedFrame::Frame(_, _, payload, length) = parse(bytes) {
        parse_answer(payload);
        bytes = &bytes[length..];
    }
    parse_answer(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_comes_from_a_broken_child_panics_nowhere(bytes: Vec<u8>) {
            if let ParsedFrame::Frame(_, _, payload, length) = parse(&bytes) {
                prop_assert!(length <= bytes.len());
                parse_answer(payload);
            }
            parse_answer(&bytes);
        }

        #[test]
        fn answers_arrive_as_they_were_sent(
            status in 200u16..=999, value in "[a-z]{0,9}", length: Option<u32>,
            pieces: Vec<Vec<u8>>, end in 0usize..4, has_head: bool,
        ) {
            let ends = [None, Some(AnswerEnd::Whole), Some(AnswerEnd::Broken), Some(AnswerEnd::Unavailable)];
            let end = ends[end];
            let fields = format!("A: {value}\r\n").into_bytes();
            let head = has_head.then_some(Head { status, fields, content_length: length.map(u64::from) });
            let mut bytes = Vec::new();
            let output =
                Output { head: head.clone(), pieces: pieces.clone().into(), end, ..Output::default() };
            append_answer(&mut bytes, 7, &output);
            let (mut rest, mut body, mut heads, mut ends) = (&bytes[..], Vec::new(), Vec::new(), Vec::new());
            while !rest.is_empty() {
                let ParsedFrame::Frame(Kind::Answer, 7, payload, length) = parse(rest) else {
                    panic!("no frame")
                };
                let answered = parse_answer(payload).unwrap();
                heads.extend(answered.head);
                ends.extend(answered.end);
                body.extend_from_slice(answered.body);
                rest = &rest[length..];
            }
            prop_assert_eq!(heads, Vec::from_iter(head));
            prop_assert_eq!(ends, Vec::from_iter(end));
            prop_assert_eq!(body, pieces.concat());
        }
    }

    #[test]
    fn frames_that_are_too_long_or_unknown_are_refused() {
        let mut bytes = Vec::new();
        append(&mut bytes, Kind::Taken, 3, &[&[1, 2, 3, 4]]);
        assert_eq!(parse(&bytes), ParsedFrame::Frame(Kind::Taken, 3, &[1, 2, 3, 4], 13));
        assert_eq!(parse(&bytes[..12]), ParsedFrame::Partial);
        bytes[4] = b'?';
        assert_eq!(parse(&bytes), ParsedFrame::Wrong);
        assert_eq!(parse(&[255, 255, 255, 255, b'T', 0, 0, 0, 0]), ParsedFrame::Wrong);
        assert_eq!(Flags::from_byte(Flags { has_body: true, is_body_requested: false }.byte()).byte(), 1);
    }
}
