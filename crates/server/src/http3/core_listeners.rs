//! A core's part of the addresses with HTTP/3: admits connections, validates addresses, applies new
//! configurations, and closes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime};
use touchstone_access::Admission;
use touchstone_config::LogLevel;
use touchstone_sites::site::Snapshot;
use touchstone_tls::QuicCrypto;

use super::connection_id::CoreConnectionIds;
use super::connection_task;
use super::listener::{Handshake, Listener};
use super::secrets::Secrets;
use super::transport::server_config;
use touchstone_exchange::core::Core;

/// The QUIC version that the server supports (RFC 9000 section 15).
const QUIC_VERSION: u32 = 1;

/// A core's end of all addresses.
pub struct Listeners {
    core: Rc<Core>,
    cores: usize,
    secrets: Secrets,
    open: Vec<Rc<Listener>>,
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
        let snapshot = self.core.state.borrow().snapshot.clone();
        for (configured, socket) in sockets {
            let (index, cores) = (self.core.index, self.cores);
            let mut config = EndpointConfig::new(self.secrets.reset_key.clone());
            config
                .supported_versions(vec![QUIC_VERSION])
                .cid_generator(move || Box::new(CoreConnectionIds::new(index, cores)));
            let server = self.config_of(&snapshot, configured);
            let endpoint = Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?;
            let listener = Rc::new(Listener::new(self.core.clone(), configured, endpoint));
            tokio::task::spawn_local(run(listener.clone()));
            self.open.push(listener);
        }
        Ok(())
    }

    /// Applies the core's new configuration. Existing connections continue unchanged.
    pub fn reload(&mut self, sockets: Vec<(SocketAddr, UdpSocket)>) -> io::Result<()> {
        let snapshot = self.core.state.borrow().snapshot.clone();
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

    /// Admits no more connections, and requests the existing ones to end.
    pub fn stop(self) {
        self.open.iter().for_each(|listener| listener.stop());
    }

    fn config_of(&self, snapshot: &Snapshot, address: SocketAddr) -> Option<quinn::ServerConfig> {
        let sites = snapshot.listeners.iter().find(|sites| sites.address == address);
        let tls = QuicCrypto::new(sites.and_then(|sites| sites.tls.clone())?)?;
        Some(server_config(&self.secrets, Arc::new(tls), &snapshot.config.limits))
    }
}

/// Admits connections until it is stopped.
async fn run(listener: Rc<Listener>) {
    loop {
        let incoming = tokio::select! {
            biased;
            () = listener.stopped.notified() => break,
            incoming = listener.endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        let_in(listener.clone(), incoming);
    }
}

fn let_in(listener: Rc<Listener>, incoming: Incoming) {
    let client = incoming.remote_address();
    let validated = incoming.remote_address_validated();
    if !validated && listener.must_validate() && incoming.may_retry() {
        // The Retry packet informs the client. A forged address then costs no more.
        let _ = incoming.retry();
        return;
    }
    let core = &listener.core;
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
    let handshake = (!validated).then(|| Handshake::begin(&listener));
    let deadline = core.deadlines.register();
    tokio::task::spawn_local(connection_task::serve(listener, incoming, permit, handshake, deadline));
}
