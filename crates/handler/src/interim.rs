//! Interim responses (RFC 9110 section 15.2) that a handler sends to its client before the answer.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The most interim responses that wait, which is also the most that an origin may send. Further ones are
/// dropped; a client may ignore any interim response.
const MOST_WAITING: usize = 32;

/// Interim responses that have not been sent yet. The connection takes them each time after it has polled the
/// handler.
#[derive(Debug, Default)]
pub struct InterimResponses {
    waiting: RefCell<VecDeque<InterimResponse>>,
}

/// Passes interim responses on to a client.
pub trait TakesInterim {
    /// The list to which a handler adds them.
    fn interim(&self) -> &InterimResponses;
}

/// One interim response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterimResponse {
    /// 102 to 199; only the server itself sends 100 and 101.
    pub status: u16,
    /// Field lines, each with its CRLF.
    pub fields: Vec<u8>,
}

impl InterimResponses {
    /// Adds an interim response.
    pub fn push(&self, status: u16, fields: Vec<u8>) {
        let mut waiting = self.waiting.borrow_mut();
        if (102..200).contains(&status) && waiting.len() < MOST_WAITING {
            waiting.push_back(InterimResponse { status, fields });
        }
    }

    /// Takes the next one to be sent.
    pub fn take(&self) -> Option<InterimResponse> {
        self.waiting.borrow_mut().pop_front()
    }
}
