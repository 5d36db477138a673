//! The answer of a rule that refuses a request: a status and its fields. The connection builds the response,
//! with the site's error page for the status.

use super::rate::RateExceeded;
use touchstone_handler::answer::Answer;

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status: 401, 403, 429, 500 or 503.
    pub status: u16,
    /// Field lines with their CRLF.
    pub fields: String,
}

impl Refusal {
    /// A refusal without fields.
    pub fn new(status: u16) -> Refusal {
        Refusal { status, fields: String::new() }
    }

    /// Adds a field line. The caller must check a name or value that comes from outside.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Refusal {
        for piece in [name, ": ", value, "\r\n"] {
            self.fields.push_str(piece);
        }
        self
    }

    /// The refusal as an answer, with the page of its status.
    pub fn answer(&self) -> Answer {
        let mut answer = Answer::error(self.status);
        answer.fields.extend_from_slice(self.fields.as_bytes());
        answer
    }

    /// 429 with the time to wait.
    pub fn too_many(too_many: RateExceeded) -> Refusal {
        Refusal::new(429).field("Retry-After", &too_many.retry_after_seconds().to_string())
    }
}
