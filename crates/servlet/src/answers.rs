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
    let is_bare = head.fields.is_empty() && head.content_length.is_none() && body.is_empty();
    if head.status >= 400 && is_bare && !is_head {
        // The container has failed. An empty answer of an application has the length zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content_length: Option<u64>) -> Answer {
        complete_answer(Head { status: 404, fields: Vec::new(), content_length }, Bytes::new(), false)
    }

    #[test]
    fn only_a_failure_of_the_container_gets_a_page() {
        assert!(answer(None).is_error_page);
        let of_application = answer(Some(0));
        assert!(!of_application.is_error_page && of_application.fields.is_empty());
    }
}
