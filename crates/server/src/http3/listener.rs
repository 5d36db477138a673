//! A core's part of one address with HTTP/3, which its connections use.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use quinn::Endpoint;
use tokio::sync::{Notify, watch};
use touchstone_files::cache::PreparedResponse;
use touchstone_http::h2::hpack::FieldList;
use touchstone_sites::site::{ListenerSites, Snapshot};

use super::response::CachedAnswer;
use touchstone_exchange::core::Core;
use touchstone_exchange::core::encoded_responses::EncodedResponses;

/// A core's part of one address.
pub struct Listener {
    /// The core.
    pub core: Rc<Core>,
    /// The address as configured (the port may have been chosen by the kernel).
    pub configured: SocketAddr,
    /// QUIC.
    pub endpoint: Endpoint,
    /// Woken when no more connections are admitted.
    pub stopped: Notify,
    /// True once connections must end after the answers to their requests.
    leave: watch::Sender<bool>,
    /// Active handshakes with clients whose addresses are not validated.
    unvalidated: Rc<Cell<usize>>,
    /// The fields of the request that is being read; valid until the next wait.
    pub fields: RefCell<FieldList>,
    cached: RefCell<CachedAnswers>,
}

/// The cached responses of this second as frames.
struct CachedAnswers {
    unix_seconds: i64,
    answers: EncodedResponses<CachedAnswer>,
}

impl Listener {
    /// A listener without connections.
    pub fn new(core: Rc<Core>, configured: SocketAddr, endpoint: Endpoint) -> Listener {
        Listener {
            core,
            configured,
            endpoint,
            stopped: Notify::new(),
            leave: watch::Sender::new(false),
            unvalidated: Rc::default(),
            fields: RefCell::default(),
            cached: RefCell::new(CachedAnswers {
                unix_seconds: 0,
                answers: EncodedResponses::new(CachedAnswer::new),
            }),
        }
    }

    /// Admits no more connections, and requests the existing ones to end.
    pub fn stop(&self) {
        self.endpoint.set_server_config(None);
        self.leave.send_replace(true);
        self.stopped.notify_one();
    }

    /// Becomes true when connections must end.
    pub fn leaving(&self) -> watch::Receiver<bool> {
        self.leave.subscribe()
    }

    /// The sites of this address; `None` when a reload removed them.
    pub fn sites<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a ListenerSites> {
        snapshot.listeners.iter().find(|sites| sites.address == self.configured)
    }

    /// A cached response as frames.
    pub fn cached_answer(&self, prepared: &Arc<PreparedResponse>) -> CachedAnswer {
        let cached = &mut *self.cached.borrow_mut();
        let now = self.core.clock.second().unix_seconds;
        if cached.unix_seconds != now {
            cached.unix_seconds = now;
            cached.answers.clear();
        }
        cached.answers.get(prepared).clone()
    }

    /// Whether a client must prove its address (RFC 9000 section 8.1): if many clients have not, or if
    /// clients are counted, because a forged address would be counted for the client that owns it.
    pub fn must_validate(&self) -> bool {
        let state = self.core.state.borrow();
        let limits = &state.snapshot.config.limits;
        limits.connections_per_client > 0 || self.unvalidated.get() >= limits.http3_unvalidated_handshakes
    }
}

/// An active handshake with a client whose address is not validated.
pub struct Handshake {
    count: Rc<Cell<usize>>,
}

impl Handshake {
    /// Of a new connection of `listener`.
    pub fn begin(listener: &Listener) -> Handshake {
        let count = &listener.unvalidated;
        count.set(count.get() + 1);
        Handshake { count: count.clone() }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}
