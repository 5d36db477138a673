//! From what a plug-in says of its answer to the answer of a handler.

use bytes::Bytes;
use touchstone_handler::answer::{Answer, Part};
use touchstone_handler::reason_phrase::ReasonPhrase;

use crate::connection::{AnswerHead, Connection, Gone};

/// The head of an answer, on its way between threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The reason phrase, where it is not that of the status.
    pub reason: Option<ReasonPhrase>,
    /// The field lines with their CRLF.
    pub fields: Vec<u8>,
    /// The length, where it was said.
    pub content_length: Option<u64>,
}

impl Head {
    /// Writes the fields down, which have been looked at already.
    pub fn of(head: &AnswerHead<'_>) -> Head {
        let mut fields = Vec::with_capacity(128);
        for (name, value) in head.fields {
            append_name(&mut fields, name);
            fields.extend_from_slice(b": ");
            fields.extend_from_slice(value);
            fields.extend_from_slice(b"\r\n");
        }
        let reason = ReasonPhrase::new(head.status, head.reason);
        Head { status: head.status, reason, fields, content_length: head.content_length }
    }

    /// An answer whose body is all there. For HEAD it was left out, and a length that was said is that of the
    /// body.
    pub fn into_whole_answer(self, is_head: bool, body: Bytes) -> Answer {
        let declared_length = self.content_length.filter(|_| is_head || self.status == 304);
        let answer = Answer { declared_length, ..self.into_answer() };
        if is_head && body.is_empty() { answer } else { answer.part(Part::Bytes(body)) }
    }

    /// An answer without a body.
    pub fn into_answer(self) -> Answer {
        Answer { reason: self.reason, fields: self.fields, ..Answer::new(self.status) }
    }
}

/// `content-type` is written as people expect it: names of plug-ins are in lower case often.
fn append_name(out: &mut Vec<u8>, name: &[u8]) {
    let mut is_first = true;
    for byte in name {
        out.push(if is_first { byte.to_ascii_uppercase() } else { *byte });
        is_first = *byte == b'-';
    }
}

/// A connection for functions that run on a core: the body of the request is there already, that of the
/// answer is gathered.
#[derive(Default)]
pub struct Gathered {
    /// What of the request's body is not read yet.
    pub body: Bytes,
    /// The head, once it is there.
    pub head: Option<Head>,
    /// The body so far.
    pub written: Vec<u8>,
}

impl Connection for Gathered {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Gone> {
        let read = self.body.len().min(to.len());
        to[..read].copy_from_slice(&self.body.split_to(read));
        Ok(read)
    }

    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), Gone> {
        self.head = Some(Head::of(head));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.written.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Gone> {
        Ok(())
    }

    fn is_alive(&self) -> bool {
        true
    }
}
