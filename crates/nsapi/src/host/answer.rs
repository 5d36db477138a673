//! Converts the answer of a plug-in to the answer of a handler.

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::reason_phrase::ReasonPhrase;

use crate::connection::{AnswerHead, ClientDisconnected, Connection};

/// The head of an answer, which is passed between threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The reason phrase, if it is not the registered one.
    pub reason: Option<ReasonPhrase>,
    /// The field lines with their CRLF.
    pub fields: Vec<u8>,
    /// The declared length.
    pub content_length: Option<u64>,
}

impl Head {
    /// Copies the fields, which were checked before.
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

    /// An answer with a complete body. For HEAD the body was left out, and the declared length is that of the
    /// body.
    pub fn into_whole_answer(self, is_head: bool, body: Bytes) -> Answer {
        let declared_length = self.content_length.filter(|_| is_head || self.status == 304);
        let answer = Answer { declared_length, ..self.into_answer() };
        if is_head && body.is_empty() { answer } else { answer.part(BodyPart::Bytes(body)) }
    }

    /// An answer without a body.
    pub fn into_answer(self) -> Answer {
        Answer { reason: self.reason, fields: self.fields, ..Answer::new(self.status) }
    }
}

/// Writes `content-type` in its usual form: plug-ins often use names in lower case.
fn append_name(out: &mut Vec<u8>, name: &[u8]) {
    let mut is_first = true;
    for byte in name {
        out.push(if is_first { byte.to_ascii_uppercase() } else { *byte });
        is_first = *byte == b'-';
    }
}

/// A connection for functions that run on a core: the request's body has arrived already, and the answer's
/// body is collected.
#[derive(Default)]
pub struct CollectedAnswer {
    /// The unread part of the request's body.
    pub body: Bytes,
    /// The head, once it was written.
    pub head: Option<Head>,
    /// The body so far.
    pub written: Vec<u8>,
}

impl Connection for CollectedAnswer {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, ClientDisconnected> {
        let read = self.body.len().min(to.len());
        to[..read].copy_from_slice(&self.body.split_to(read));
        Ok(read)
    }

    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), ClientDisconnected> {
        self.head = Some(Head::of(head));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientDisconnected> {
        self.written.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ClientDisconnected> {
        Ok(())
    }

    fn is_alive(&self) -> bool {
        true
    }
}
