//! What comes of answering a request of HTTP/1 in passing.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_files::cache::Prepared;
use touchstone_handler::handler::{AtOnce, Caller, Handler, PendingCall};
use touchstone_sites::site::Snapshot;

use crate::exchange::{Answered, Progress};

/// What came of trying to answer from the cache.
pub enum Hit {
    /// Answered, or gathered to be; the connection goes on, or not.
    Answered { persistent: bool },
    /// Answered in part.
    Partly { prepared: Arc<Prepared>, sent: usize },
    /// A program has made the answer, which cannot be given in passing.
    Ready(Box<ReadyAnswer>),
    /// A program was called, and the connection has gone back to its core meanwhile.
    HandedBack,
    /// A program is to make the answer.
    Pending(Box<PendingAnswer>),
    /// It is not a plain hit.
    Not,
    /// The connection broke.
    Broken,
}

/// An answer that a program has made, and what it was made for.
pub struct ReadyAnswer {
    /// The answer.
    pub answered: Answered,
    /// How the request stands.
    pub progress: Rc<Progress>,
    /// When it was there.
    pub started: Instant,
    /// The configuration that it is answered by.
    pub snapshot: Arc<Snapshot>,
}

/// Where the whole body of an answer lies.
pub enum Body<'a> {
    /// Here.
    Bytes(&'a [u8]),
    /// With the caller of the program that has written it.
    Called(&'a mut dyn Caller),
}

impl Body<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Called(caller) => caller.body(),
        }
    }

    /// Behind the head, in one piece or two.
    pub fn with_head<'a>(&'a mut self, head: &'a [u8]) -> [&'a [u8]; 2] {
        match self {
            Body::Bytes(bytes) => [head, bytes],
            Body::Called(caller) => caller.with_head(head),
        }
    }
}

impl ReadyAnswer {
    /// With what the site says of all its answers.
    pub fn with_site_fields(mut self) -> ReadyAnswer {
        let site = self.progress.site.get().unwrap_or_default();
        let site = &self.snapshot.sites[site];
        let fields = &mut self.answered.answer.fields;
        fields.extend_from_slice(&site.fields);
        let route = self.progress.route.get();
        if let Some(policy) = site.rules.as_ref().and_then(|rules| rules.policy_at(route)) {
            policy.common().apply(fields);
        }
        self
    }
}

/// A request that waits for its answer.
pub struct PendingAnswer {
    /// What is known of the request; it has no answer yet.
    pub made: ReadyAnswer,
    /// The handler that makes it.
    pub handler: Rc<dyn Handler>,
    /// The call that the handler has started; `None`: the handler needs the whole request.
    pub call: Option<Box<dyn PendingCall>>,
}

impl PendingAnswer {
    /// What `handler` has made of a request.
    pub fn new(made: ReadyAnswer, handler: Rc<dyn Handler>, at_once: AtOnce) -> PendingAnswer {
        let call = if let AtOnce::Pending(call) = at_once { Some(call) } else { None };
        PendingAnswer { made, handler, call }
    }
}
