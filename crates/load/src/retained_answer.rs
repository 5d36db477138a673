//! The parts of an answer that are retained if the plan requires more than its length: hash, fields, body.

use crate::body::BodySink;
use crate::failure::Failure;
use crate::messages::{MessageForm, MessageReader};
use crate::outcome::ErrorKind;
use crate::request::PreparedRequest;
use sha2::{Digest, Sha256};
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::response::ResponseHead;
use touchstone_session::{AnswerView, FieldSource};

/// The most retained bytes of a body; the rest of a longer body is ignored.
const MAXIMUM_RETAINED_BYTES: usize = 16 * 1024 * 1024;

/// The retained parts of the answer that a client receives.
#[derive(Default)]
pub(crate) struct RetainedAnswer {
    /// The head of an answer of HTTP/1.
    pub(crate) head: ResponseHead,
    pub(crate) parts: RetainedParts,
}

/// The retained parts, except for the head of HTTP/1.
#[derive(Default)]
pub(crate) struct RetainedParts {
    hasher: Option<Sha256>,
    retains_body: bool,
    body: Vec<u8>,
    retains_fields: bool,
    /// The fields of HTTP/2 and 3.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The answer is one of HTTP/1, with its fields in the head.
    is_http1: bool,
    /// The messages of the answer.
    pub(crate) messages: Option<MessageReader>,
}

impl RetainedAnswer {
    /// Prepares for the answer to a request.
    pub(crate) fn reset(&mut self, request: &PreparedRequest, keeps_cookies: bool) {
        let step = request.step.as_ref();
        self.parts.hasher = request.expected.body_sha256.map(|_| Sha256::new());
        self.parts.retains_body = step.is_some_and(|step| step.reads_body());
        let is_grpc = request.messages.is_some_and(|messages| messages.form == MessageForm::Grpc);
        self.parts.retains_fields = step.is_some() || keeps_cookies || is_grpc;
        self.parts.messages = request.messages.map(MessageReader::new);
        self.parts.is_http1 = request.blocks.is_empty();
        self.parts.body.clear();
        self.parts.fields.clear();
    }

    /// Whether the body has the expected hash; true if no hash is expected.
    pub(crate) fn has_hash(&mut self, expected: Option<&[u8; 32]>) -> bool {
        match (expected, self.parts.hasher.take()) {
            (Some(expected), Some(hasher)) => hasher.finalize().as_slice() == expected,
            _ => true,
        }
    }

    /// Checks the messages of a complete answer.
    pub(crate) fn check_messages(&self) -> Result<(), Failure> {
        let Some(messages) = &self.parts.messages else { return Ok(()) };
        if messages.is_malformed() {
            return Err(ErrorKind::Malformed.into());
        }
        if messages.ends_within_message() {
            return Err(ErrorKind::ShortBody.into());
        }
        if messages.form() != MessageForm::Grpc || messages.has_reached_limit() {
            return Ok(());
        }
        match self.field(b"grpc-status").as_deref() {
            Some(b"0") => Ok(()),
            Some(status) => {
                let number = std::str::from_utf8(status).ok().and_then(|status| status.parse().ok());
                Err(number.map_or(ErrorKind::Malformed.into(), Failure::grpc_status))
            }
            None => Err(ErrorKind::Malformed.into()),
        }
    }

    /// A view of the complete answer.
    pub(crate) fn view(&self) -> AnswerView<'_> {
        AnswerView { fields: self, body: &self.parts.body }
    }

    /// The first field with this name.
    pub(crate) fn field(&self, name: &[u8]) -> Option<Vec<u8>> {
        let mut found = None;
        self.each(name, &mut |value| {
            found = Some(value.to_vec());
            true
        });
        found
    }
}

impl FieldSource for RetainedAnswer {
    fn each(&self, name: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) {
        if !self.parts.is_http1 {
            return self.parts.fields.each(name, take);
        }
        let fields = self.head.fields().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let _ = fields.map(|(_, value)| value).any(take);
    }
}

impl RetainedParts {
    /// Stores a header section of HTTP/2 or 3.
    pub(crate) fn take_section(&mut self, fields: &FieldList) {
        if self.retains_fields {
            let pair = |field| (fields.name(field).to_vec(), fields.value(field).to_vec());
            self.fields.extend(fields.fields().iter().map(pair));
        }
    }
}

impl BodySink for RetainedParts {
    fn take(&mut self, part: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(part);
        }
        if let Some(messages) = &mut self.messages {
            messages.take(part);
        }
        if self.retains_body {
            let room = MAXIMUM_RETAINED_BYTES - self.body.len().min(MAXIMUM_RETAINED_BYTES);
            self.body.extend_from_slice(&part[..part.len().min(room)]);
        }
    }
}
