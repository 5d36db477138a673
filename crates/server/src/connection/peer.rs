//! The other end of a connection: its address, its number and the facts of its TLS session.

use std::net::SocketAddr;
use std::sync::Arc;

use touchstone_access::ConnectionPermit;
use touchstone_handler::request::{Protocol, TlsFacts};
use touchstone_http::request_view::LOST_CLIENT;
use touchstone_transport::Transport;

use super::Connection;
use crate::accounting::ClientConnection;
use touchstone_exchange::connection_number::ConnectionNumber;

/// The client of a connection.
pub struct Peer {
    /// Its address; `None` if it was not needed when the connection was accepted.
    pub address: Option<SocketAddr>,
    /// The address as text, written for the first log line.
    pub text: String,
    /// The facts of the TLS session, collected for the first request that is not a plain hit.
    pub tls: Option<Arc<TlsFacts>>,
    /// The number of the connection.
    pub number: ConnectionNumber,
    /// Counts the connection for its client.
    pub permit: Option<ConnectionPermit>,
}

impl Peer {
    /// The client of a connection that has just been accepted.
    pub fn new(address: Option<SocketAddr>, permit: Option<ConnectionPermit>) -> Peer {
        Peer { address, text: String::new(), tls: None, number: ConnectionNumber::default(), permit }
    }

    /// The facts of the TLS session for handlers and logs.
    fn tls_facts(&mut self, transport: &Transport) -> Option<Arc<TlsFacts>> {
        if self.tls.is_none() {
            self.tls = transport.tls_facts().map(Arc::new);
        }
        self.tls.clone()
    }
}

impl Connection {
    /// The client's address; it is queried from the transport once if it was not recorded on acceptance.
    /// Those of unix sockets are always recorded.
    pub(super) fn peer_address(&mut self) -> Option<SocketAddr> {
        let lost = SocketAddr::new(LOST_CLIENT, 0);
        let address = self.peer.address.unwrap_or_else(|| self.transport.peer().unwrap_or(lost));
        self.peer.address = Some(address);
        self.peer.address
    }

    /// The facts of the TLS session for handlers and logs.
    pub(super) fn tls_facts(&mut self) -> Option<Arc<TlsFacts>> {
        self.peer.tls_facts(&self.transport)
    }

    /// The client and the connection of its requests.
    pub(super) fn origin(&mut self, protocol: Protocol) -> ClientConnection<'_> {
        let Peer { address, text, tls, .. } = &mut self.peer;
        ClientConnection { protocol, peer: *address, peer_text: text, tls: tls.as_deref() }
    }
}
