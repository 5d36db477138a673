//! The results of answering a request of HTTP/1 directly from its connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_files::cache::PreparedResponse;
use touchstone_handler::handler::{Caller, Handler, ImmediateAnswer, PendingCall};
use touchstone_sites::site::Snapshot;

use touchstone_exchange::steps::{ExchangeAnswer, Progress};

/// The result of trying to answer from the cache.
pub enum CacheAttempt {
    /// It was answered, or its answer was collected; `persistent`: the connection continues.
    Answered { persistent: bool },
    /// It was answered in part.
    PartlySent { prepared: Arc<PreparedResponse>, sent: usize },
    /// A program has answered, and the answer cannot be sent directly.
    Ready(Box<ReadyAnswer>),
    /// A program was called, and the connection has returned to its core before the answer.
    ConnectionReturned,
    /// A program is making the answer.
    Pending(Box<PendingAnswer>),
    /// It is not a plain hit.
    NeedsExchange,
    /// The connection failed.
    ConnectionFailed,
}

/// An answer of a program, and the state of its request.
pub struct ReadyAnswer {
    /// The answer.
    pub answered: ExchangeAnswer,
    /// The state of the exchange.
    pub progress: Rc<Progress>,
    /// When the request was complete.
    pub started: Instant,
    /// The configuration under which it is answered.
    pub snapshot: Arc<Snapshot>,
}

/// The location of the whole body of an answer.
pub enum Body<'a> {
    /// In this slice.
    Bytes(&'a [u8]),
    /// In a buffer of the caller that has called the program.
    Called(&'a mut dyn Caller),
}

impl Body<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Called(caller) => caller.body(),
        }
    }

    /// The body after `head`, in one piece or two.
    pub fn with_head<'a>(&'a mut self, head: &'a [u8]) -> [&'a [u8]; 2] {
        match self {
            Body::Bytes(bytes) => [head, bytes],
            Body::Called(caller) => caller.with_head(head),
        }
    }
}

impl ReadyAnswer {
    /// Adds the fields that the site adds to all its answers.
    pub fn with_site_fields(mut self) -> ReadyAnswer {
        let site = self.progress.facts.site().unwrap_or_default();
        let site = &self.snapshot.sites[site];
        let fields = &mut self.answered.answer.fields;
        fields.extend_from_slice(&site.fields);
        if let Some(rules) = &site.rules {
            rules.add_common_fields(self.progress.facts.route(), fields);
        }
        self
    }
}

/// A request that waits for its answer.
pub struct PendingAnswer {
    /// The state of the request; it has no answer yet.
    pub ready_answer: ReadyAnswer,
    /// The handler that makes it.
    pub handler: Rc<dyn Handler>,
    /// The call that the handler has started; `None`: the handler needs the whole request.
    pub call: Option<Box<dyn PendingCall>>,
}

impl PendingAnswer {
    /// The result of `handler` for a request.
    pub fn new(
        ready_answer: ReadyAnswer,
        handler: Rc<dyn Handler>,
        immediate: ImmediateAnswer,
    ) -> PendingAnswer {
        let call = if let ImmediateAnswer::Pending(call) = immediate { Some(call) } else { None };
        PendingAnswer { ready_answer, handler, call }
    }
}
