//! Who may connect, and who a connection is from: the limit of connections per client, the PROXY protocol,
//! and the proxies whose word counts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use touchstone_http::forwarded::forwarded_is_https;

use super::client_table::Client;
use super::connections::ConnectionPermit;
use super::real_ip::client_address;
use super::shared::AccessShared;
use touchstone_config::{ClientField, Config, NetworkSet};
use touchstone_http::request_view::{RequestFields, values};

/// The rules for connections, one for the whole configuration.
pub struct ConnectionGate {
    /// Connections that one client may have open.
    most_per_client: Option<u32>,
    trusted: NetworkSet,
    client_field: ClientField,
    /// Listening addresses where trusted peers begin with a PROXY header.
    proxy_protocol: Box<[SocketAddr]>,
    shared: Arc<AccessShared>,
}

/// Whether a connection is let in.
pub enum Admission {
    /// It is; the permit, if there is one, is kept as long as the connection.
    Admitted(Option<ConnectionPermit>),
    /// Its client has as many open as it may.
    Refused,
}

/// What a refused client over plain HTTP is told before the connection is closed: sent if it can be at once.
/// Over TLS the connection is just closed.
pub const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: touchstone\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

impl ConnectionGate {
    /// The rules of a configuration.
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

    /// Whether peers' addresses must be known for these rules.
    #[inline]
    pub fn wants_peers(&self) -> bool {
        self.most_per_client.is_some() || !self.trusted.is_empty()
    }

    /// Lets a new connection in, or not. Trusted proxies may have any number: they come for many clients.
    #[inline]
    pub fn admit_connection(&self, peer: Option<IpAddr>) -> Admission {
        match (self.most_per_client, peer) {
            (Some(most), Some(peer)) if !self.trusted.contains(peer) => self.admit_client(peer, most),
            _ => Admission::Admitted(None),
        }
    }

    /// The same for the client that a PROXY header named; the connection's peer was let in before.
    pub fn admit_proxied(&self, client: IpAddr) -> Admission {
        match self.most_per_client {
            Some(most) => self.admit_client(client, most),
            None => Admission::Admitted(None),
        }
    }

    /// Whether a connection to this listening address (as configured) from this peer begins with a PROXY
    /// header.
    #[inline]
    pub fn expects_proxy_header(&self, listener: SocketAddr, peer: Option<IpAddr>) -> bool {
        !self.proxy_protocol.is_empty()
            && self.proxy_protocol.contains(&listener)
            && peer.is_some_and(|peer| self.trusted.contains(peer))
    }

    /// Whether requests must be asked for their client: where not, it is the connection's.
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

    /// Whether the client of a request asked over TLS: of a proxy that is trusted, what its fields say.
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
