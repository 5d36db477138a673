//! Decides which connections are accepted and which client they belong to: the limit of connections per
//! client, the PROXY protocol, and trusted proxies.

use std::net::IpAddr;
use std::sync::Arc;

use touchstone_http::forwarded::forwarded_is_https;

use super::client_table::Client;
use super::connections::ConnectionPermit;
use super::real_ip::client_address;
use super::shared::AccessShared;
use touchstone_config::{ClientField, Config, ListenAddress, NetworkSet};
use touchstone_http::request_view::{RequestFields, UNIX_CLIENT, values};

/// The rules for connections, one for the whole configuration.
pub struct ConnectionGate {
    /// The number of connections that one client may have open.
    most_per_client: Option<u32>,
    trusted: NetworkSet,
    client_field: ClientField,
    /// The listening addresses on which trusted peers send a PROXY header.
    proxy_protocol: Box<[ListenAddress]>,
    shared: Arc<AccessShared>,
}

/// Whether a connection is accepted.
pub enum Admission {
    /// It is accepted; the permit, if any, is kept as long as the connection.
    Admitted(Option<ConnectionPermit>),
    /// Its client already has the maximum number of open connections.
    Refused,
}

/// The answer to a refused client over plain HTTP: it is sent if that is possible without waiting, then the
/// connection is closed. A TLS connection is closed without an answer.
pub const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: touchstone\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

impl ConnectionGate {
    /// Creates the rules of a configuration.
    pub fn new(config: &Config, shared: &Arc<AccessShared>) -> ConnectionGate {
        let most = u32::try_from(config.limits.connections_per_client).unwrap_or(u32::MAX);
        ConnectionGate {
            most_per_client: (most != 0).then_some(most),
            trusted: NetworkSet::new(&config.proxies.trusted),
            client_field: config.proxies.client_field,
            proxy_protocol: config.proxies.proxy_protocol.clone().into(),
            shared: shared.clone(),
        }
    }

    /// Whether these rules need the peers' addresses.
    #[inline]
    pub fn needs_peers(&self) -> bool {
        self.most_per_client.is_some() || !self.trusted.is_empty()
    }

    /// Accepts or refuses a new connection. Trusted proxies may have any number of connections, because they
    /// carry many clients; so do the clients of unix sockets, which cannot be distinguished.
    #[inline]
    pub fn admit_connection(&self, peer: Option<IpAddr>) -> Admission {
        match (self.most_per_client, peer) {
            (Some(most), Some(peer)) if peer != UNIX_CLIENT && !self.trusted.contains(peer) => {
                self.admit_client(peer, most)
            }
            _ => Admission::Admitted(None),
        }
    }

    /// Does the same for the client that a PROXY header named; the connection's peer was accepted before.
    pub fn admit_proxied(&self, client: IpAddr) -> Admission {
        match self.most_per_client {
            Some(most) => self.admit_client(client, most),
            None => Admission::Admitted(None),
        }
    }

    /// Whether a connection to this listening address (as configured) from this peer begins with a PROXY
    /// header.
    #[inline]
    pub fn expects_proxy_header(&self, listener: ListenAddress, peer: Option<IpAddr>) -> bool {
        !self.proxy_protocol.is_empty()
            && self.proxy_protocol.contains(&listener)
            && peer.is_some_and(|peer| self.trusted.contains(peer))
    }

    /// Whether the client must be determined for each request; otherwise it is the connection's client.
    #[inline]
    pub fn trusts_fields_of(&self, peer: IpAddr) -> bool {
        self.trusted.contains(peer)
    }

    /// The client of a request on a connection from `peer` (or from the client that a PROXY header named).
    #[inline]
    pub fn client(&self, peer: IpAddr, fields: &dyn RequestFields) -> IpAddr {
        if self.trusted.is_empty() {
            return peer.to_canonical();
        }
        client_address(peer, &self.trusted, self.client_field, values(fields, self.client_field.name()))
    }

    /// Whether the client of a request used TLS, according to the fields of a trusted proxy.
    #[inline]
    pub fn is_secure(&self, peer: Option<IpAddr>, fields: &dyn RequestFields, is_tls: bool) -> bool {
        match peer {
            Some(peer) if !self.trusted.is_empty() && self.trusted.contains(peer) => {
                let first = |name: &'static str| values(fields, name.as_bytes()).next();
                forwarded_is_https(first).unwrap_or(is_tls)
            }
            _ => is_tls,
        }
    }

    fn admit_client(&self, address: IpAddr, most: u32) -> Admission {
        match self.shared.connections.admit(Client::of(address), most) {
            Some(permit) => Admission::Admitted(Some(permit)),
            None => Admission::Refused,
        }
    }
}
