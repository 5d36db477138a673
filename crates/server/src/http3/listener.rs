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

use super::response::encode_section;
use touchstone_exchange::core::Core;
use touchstone_exchange::core::cache_lookup::HitRoute;
use touchstone_exchange::core::header_blocks::HeaderBlocks;

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
    sections: RefCell<Sections>,
}

/// The header sections of cached responses in this second.
struct Sections {
    unix_seconds: i64,
    blocks: HeaderBlocks,
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
            sections: RefCell::new(Sections { unix_seconds: 0, blocks: HeaderBlocks::new(encode_section) }),
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

    /// The header section of a cached answer, as a whole frame.
    pub fn section(&self, of: HitRoute, path: &[u8], prepared: &Arc<PreparedResponse>) -> Vec<u8> {
        let sections = &mut *self.sections.borrow_mut();
        let now = self.core.clock.second().unix_seconds;
        if sections.unix_seconds != now {
            sections.unix_seconds = now;
            sections.blocks.clear();
        }
        sections.blocks.block(of.file_site(), path, prepared).to_vec()
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
