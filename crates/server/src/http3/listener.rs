//! A core's end of the addresses that speak HTTP/3: admits connections, validates addresses, applies new
//! configurations, and closes.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime};
use tokio::sync::{Notify, watch};
use touchstone_access::Admission;
use touchstone_config::LogLevel;
use touchstone_files::cache::Prepared;
use touchstone_http::h2::hpack::FieldList;
use touchstone_sites::site::{ListenerSites, Snapshot};
use touchstone_tls::QuicCrypto;

use super::connection;
use super::connection_id::CoreConnectionIds;
use super::response::encode_section;
use super::secrets::Secrets;
use super::transport::server_config;
use crate::cache_lookup::HitOf;
use crate::core::Core;
use crate::header_blocks::HeaderBlocks;

/// The QUIC version that the server speaks (RFC 9000 section 15).
const QUIC_VERSION: u32 = 1;

/// A core's end of all addresses.
pub struct Listeners {
    core: Rc<Core>,
    cores: usize,
    secrets: Secrets,
    open: Vec<Rc<Listener>>,
}

/// A core's end of one address.
pub struct Listener {
    /// The core.
    pub core: Rc<Core>,
    /// The address as configured (the port may have been chosen by the kernel).
    pub configured: SocketAddr,
    endpoint: Endpoint,
    stop: Notify,
    /// True once connections must end after the answers to their requests.
    leave: watch::Sender<bool>,
    /// Handshakes under way with clients whose addresses are not validated.
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

impl Listeners {
    /// Starts to listen on these sockets, each with its configured address.
    pub fn open(
        core: Rc<Core>,
        cores: usize,
        secrets: Secrets,
        sockets: Vec<(SocketAddr, UdpSocket)>,
    ) -> io::Result<Listeners> {
        let mut listeners = Listeners { core, cores, secrets, open: Vec::new() };
        listeners.add(sockets)?;
        Ok(listeners)
    }

    fn add(&mut self, sockets: Vec<(SocketAddr, UdpSocket)>) -> io::Result<()> {
        let snapshot = self.core.hot.borrow().snapshot.clone();
        for (configured, socket) in sockets {
            let (index, cores) = (self.core.index, self.cores);
            let mut config = EndpointConfig::new(self.secrets.reset_key.clone());
            config
                .supported_versions(vec![QUIC_VERSION])
                .cid_generator(move || Box::new(CoreConnectionIds::new(index, cores)));
            let server = self.config_of(&snapshot, configured);
            let endpoint = Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?;
            let listener = Rc::new(Listener::new(self.core.clone(), configured, endpoint));
            tokio::task::spawn_local(listener.clone().run());
            self.open.push(listener);
        }
        Ok(())
    }

    /// Applies the core's new configuration. Existing connections continue unchanged.
    pub fn reload(&mut self, sockets: Vec<(SocketAddr, UdpSocket)>) -> io::Result<()> {
        let snapshot = self.core.hot.borrow().snapshot.clone();
        for listener in std::mem::take(&mut self.open) {
            match self.config_of(&snapshot, listener.configured) {
                Some(config) => {
                    listener.endpoint.set_server_config(Some(config));
                    self.open.push(listener);
                }
                None => listener.stop(),
            }
        }
        self.add(sockets)
    }

    /// Admits no more connections, and asks the existing ones to end.
    pub fn stop(self) {
        self.open.iter().for_each(|listener| listener.stop());
    }

    fn config_of(&self, snapshot: &Snapshot, address: SocketAddr) -> Option<quinn::ServerConfig> {
        let sites = snapshot.listeners.iter().find(|sites| sites.address == address);
        let tls = QuicCrypto::new(sites.and_then(|sites| sites.tls.clone())?)?;
        Some(server_config(&self.secrets, Arc::new(tls), &snapshot.config.limits))
    }
}

impl Listener {
    fn new(core: Rc<Core>, configured: SocketAddr, endpoint: Endpoint) -> Listener {
        Listener {
            core,
            configured,
            endpoint,
            stop: Notify::new(),
            leave: watch::Sender::new(false),
            unvalidated: Rc::default(),
            fields: RefCell::default(),
            sections: RefCell::new(Sections { unix_seconds: 0, blocks: HeaderBlocks::new(encode_section) }),
        }
    }

    fn stop(&self) {
        self.endpoint.set_server_config(None);
        self.leave.send_replace(true);
        self.stop.notify_one();
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
    pub fn section(&self, of: HitOf, path: &[u8], prepared: &Arc<Prepared>) -> Vec<u8> {
        let sections = &mut *self.sections.borrow_mut();
        let now = self.core.clock.second().unix_seconds;
        if sections.unix_seconds != now {
            sections.unix_seconds = now;
            sections.blocks.clear();
        }
        sections.blocks.block(of.file_site(), path, prepared).to_vec()
    }

    /// Admits connections until it is stopped.
    async fn run(self: Rc<Listener>) {
        loop {
            let incoming = tokio::select! {
                biased;
                () = self.stop.notified() => break,
                incoming = self.endpoint.accept() => incoming,
            };
            let Some(incoming) = incoming else { break };
            self.clone().let_in(incoming);
        }
    }

    fn let_in(self: Rc<Listener>, incoming: Incoming) {
        let client = incoming.remote_address();
        let validated = incoming.remote_address_validated();
        if !validated && self.must_validate() && incoming.may_retry() {
            // The Retry packet tells the client. A forged address then costs nothing more.
            let _ = incoming.retry();
            return;
        }
        let core = &self.core;
        if core.draining.get() || !core.has_room() {
            return incoming.refuse();
        }
        let Admission::Admitted(permit) = core.admit(Some(client)) else {
            core.error_log.limited(
                LogLevel::Debug,
                "HTTP/3 connection refused",
                "a client has limits.connections_per_client connections",
            );
            return incoming.refuse();
        };
        let handshake = (!validated).then(|| Handshake::begin(&self.unvalidated));
        let deadline = core.deadlines.register();
        tokio::task::spawn_local(connection::serve(self, incoming, permit, handshake, deadline));
    }

    /// Whether a client must prove its address (RFC 9000 section 8.1): if many clients have not, or if
    /// clients are counted, because a forged address would be counted for the client that owns it.
    fn must_validate(&self) -> bool {
        let hot = self.core.hot.borrow();
        let limits = &hot.snapshot.config.limits;
        limits.connections_per_client > 0 || self.unvalidated.get() >= limits.http3_unvalidated_handshakes
    }
}

/// A handshake under way with a client whose address is not validated.
pub struct Handshake {
    count: Rc<Cell<usize>>,
}

impl Handshake {
    fn begin(count: &Rc<Cell<usize>>) -> Handshake {
        count.set(count.get() + 1);
        Handshake { count: count.clone() }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}
