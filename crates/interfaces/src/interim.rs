//! Interim responses (RFC 9110 section 15.2) on their way from a handler to its client, ahead of the answer.

use std::cell::RefCell;
use std::collections::VecDeque;

/// So many wait at most, which are all that an origin may send; more are left out, as a client may do with
/// all of them.
const MOST_WAITING: usize = 32;

/// Interim responses that have not been sent yet. Whoever drives the handler looks here each time that it has
/// polled it.
#[derive(Debug, Default)]
pub struct InterimResponses {
    waiting: RefCell<VecDeque<InterimResponse>>,
}

/// Whoever passes interim responses on to a client.
pub trait TakesInterim {
    /// Where they are left.
    fn interim(&self) -> &InterimResponses;
}

/// One interim response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterimResponse {
    /// 102 to 199; 100 and 101 are for the server to say.
    pub status: u16,
    /// Field lines, each with its CRLF.
    pub fields: Vec<u8>,
}

impl InterimResponses {
    /// Leaves one to be sent.
    pub fn push(&self, status: u16, fields: Vec<u8>) {
        let mut waiting = self.waiting.borrow_mut();
        if (102..200).contains(&status) && waiting.len() < MOST_WAITING {
            waiting.push_back(InterimResponse { status, fields });
        }
    }

    /// The next to be sent.
    pub fn take(&self) -> Option<InterimResponse> {
        self.waiting.borrow_mut().pop_front()
    }
}
