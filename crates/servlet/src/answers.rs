//! Creates answers for a client from the output of Java, or an error answer if there is no application.

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};

use crate::head::Head;

/// The Retry-After of answers while applications start, in seconds.
const RETRY_AFTER_S: &str = "2";

/// The answer if there is no application.
pub fn unavailable() -> Answer {
    Answer::error(503).field("Retry-After", RETRY_AFTER_S)
}

/// An answer that is complete.
pub fn complete_answer(head: Head, body: Bytes, is_head: bool) -> Answer {
    if head.status >= 400 && head.fields.is_empty() && body.is_empty() {
        // The container could not make an error page.
        return Answer::error(head.status);
    }
    let declared = head.content_length;
    let mut answer = head.into_answer();
    if is_head || answer.status == 304 {
        answer.declared_length = declared;
    }
    if is_head && declared.is_none() {
        // Its length is unknown.
        return answer;
    }
    answer.part(BodyPart::Bytes(body))
}
