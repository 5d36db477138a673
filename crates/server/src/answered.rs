//! A request that was answered, in the form for accounting, logs and spans.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use touchstone_handler::request::{Protocol, TlsFacts};
use touchstone_http::request::RequestHead;
use touchstone_observe::metrics::RouteTable;

use touchstone_exchange::steps::Progress;

/// The client of a request, and its connection.
pub struct ClientConnection<'a> {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// The other end of the connection.
    pub peer: Option<SocketAddr>,
    /// Its address as text, which is written when it is first needed.
    pub peer_text: &'a mut String,
    /// The TLS session.
    pub tls: Option<&'a TlsFacts>,
}

/// A request that was answered, except by a hit in the cache.
pub struct AnsweredRequest<'a> {
    /// Its client and connection.
    pub origin: ClientConnection<'a>,
    /// Its head, and the bytes of it; `None`: it could not be read.
    pub received: Option<(&'a RequestHead, &'a [u8])>,
    /// The beginning of the received bytes, if the head could not be read.
    pub unread_line: &'a [u8],
    /// The sites and routes of the configuration under which it was answered.
    pub table: &'a Arc<RouteTable>,
    /// The state of the exchange.
    pub progress: &'a Progress,
    /// The client, behind trusted proxies; `None`: the peer of the connection.
    pub client: Option<IpAddr>,
    /// The user that was authenticated.
    pub user: Option<&'a str>,
    /// The status.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub body_bytes: u64,
    /// When the request was complete.
    pub started: Instant,
}

/// The address of the other end, without the form of IPv6 for IPv4.
pub fn canonical(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

/// The label of an unknown value appears in counts only.
pub fn known(label: &str) -> &str {
    if label == "-" { "" } else { label }
}
