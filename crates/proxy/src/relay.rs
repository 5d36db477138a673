//! The origins of a stream, which get the bytes of TCP connections, or datagrams, instead of requests.
//!
//! Balancing, health, checks, limits, TLS and the PROXY header are the same as for the origins of a proxy.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::UdpSocket;
use tokio::time::timeout;
use touchstone_handler::handler::Server;
use touchstone_http::request_view::UNIX_CLIENT;

use super::connections::{Connection, ConnectionGrant};
use super::failure::{Failure, TimedStep, timed};
use super::group::{Group, SharedGroup};
use super::origin::{NewConnection, RequestGuard};
use super::settings::ProxySettings;
use super::{proxy_header, upkeep};
use touchstone_upstream::hash;
use touchstone_upstream::stream::Stream;

/// The origins of a stream on one core.
pub struct Relay {
    group: Rc<Group>,
}

/// A connection to an origin. It counts as one of the origin's connections until it is dropped.
pub struct RelayConnection {
    connection: Connection,
    /// The origin's name in logs.
    pub origin: String,
    _guard: RequestGuard,
}

impl RelayConnection {
    /// The stream of bytes.
    pub fn stream(&self) -> &Stream {
        &self.connection.stream
    }
}

/// A socket that is connected to an origin, for datagrams in both directions.
pub struct DatagramLink {
    /// The socket.
    pub socket: UdpSocket,
    /// The origin's name in logs.
    pub origin: String,
    group: Rc<Group>,
    index: usize,
    _guard: RequestGuard,
}

impl DatagramLink {
    /// Records that the origin has answered.
    pub fn answered(&self) {
        self.group.record_connection(self.index);
    }

    /// Records that the origin cannot be reached.
    pub fn failed(&self, error: io::Error, name: &str) {
        record_failure(&self.group, self.index, &Failure::Connect(error), name);
    }
}

/// A request for TLS that is sent to an origin before the handshake, and the reply that accepts it.
#[derive(Debug, Clone, Copy)]
pub struct Preface {
    /// The bytes that are sent.
    pub request: &'static [u8],
    /// The byte that accepts the request.
    pub expected_reply: u8,
}

impl Relay {
    /// The origins on this core. Must be called on that core.
    pub fn new(shared: Arc<SharedGroup>, server: Rc<dyn Server>) -> Relay {
        let group = Group::new(shared, server);
        if group.settings().check.is_some() {
            upkeep::begin(&group);
        }
        Relay { group }
    }

    /// Connects to an origin for a client; tries others if one fails. `client` has the client's address and
    /// the server's. `preface` is sent before TLS. Each failure is logged under `name`. `None`: all have
    /// failed.
    pub async fn connect(
        &self,
        client: (SocketAddr, SocketAddr),
        preface: Option<Preface>,
        name: &str,
    ) -> Option<RelayConnection> {
        let (group, settings) = (&self.group, self.group.settings());
        let addresses = (client.0.ip() != UNIX_CLIENT).then_some(client);
        let proxy_header = settings.proxy_header.map(|version| proxy_header::header(version, addresses));
        let proxy_header = proxy_header.unwrap_or_default();
        let open = async |index: usize| -> Result<Connection, Failure> {
            let member = group.member(index);
            let grant = member.origin.connections.grant(group.server.core(), false).await;
            let ConnectionGrant::New(permit) = grant.map_err(Failure::Full)? else {
                return Err(Failure::Full("no new connection may be opened"));
            };
            let opened = member.open(settings, permit, &proxy_header, true).await?;
            let NewConnection::Http1(connection) = opened else {
                return Err(Failure::Tls("it selected a protocol that was not offered".to_string()));
            };
            if let Some(preface) = preface {
                send_preface(&connection.stream, preface, settings).await?;
            }
            Ok(*connection)
        };
        let (connection, index, guard) = self.open_first(client.0, name, open).await?;
        group.record_connection(index);
        Some(RelayConnection { connection, origin: group.member(index).name.clone(), _guard: guard })
    }

    /// Opens a socket to an origin for the datagrams of a client, in the same way.
    pub async fn open_datagrams(&self, client: SocketAddr, name: &str) -> Option<DatagramLink> {
        let (group, settings) = (&self.group, self.group.settings());
        let open = async |index: usize| -> Result<UdpSocket, Failure> {
            let none = || Failure::Resolve(io::ErrorKind::NotFound.into());
            let addresses = group.origin(index).addresses.as_ref().ok_or_else(none)?;
            let found = addresses.get(settings.resolve_interval);
            let found = timed(settings.times.resolve, TimedStep::Resolve, found).await?;
            let address = *found.map_err(Failure::Resolve)?.first().ok_or_else(none)?;
            let any: IpAddr = match address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, 0)).await.map_err(Failure::Connect)?;
            socket.connect(address).await.map_err(Failure::Connect)?;
            Ok(socket)
        };
        let (socket, index, guard) = self.open_first(client, name, open).await?;
        let member = group.member(index);
        member.counts.opened.fetch_add(1, Relaxed);
        let (origin, group) = (member.name.clone(), group.clone());
        Some(DatagramLink { socket, origin, group, index, _guard: guard })
    }

    /// Calls `open` for one origin after another until it succeeds. Returns its result and the index.
    async fn open_first<T>(
        &self,
        client: SocketAddr,
        name: &str,
        open: impl AsyncFn(usize) -> Result<T, Failure>,
    ) -> Option<(T, usize, RequestGuard)> {
        let mut tried = Vec::new();
        while let Some((index, guard)) = self.next_origin(&mut tried, client) {
            match open(index).await {
                Ok(opened) => return Some((opened, index, guard)),
                Err(failure) => record_failure(&self.group, index, &failure, name),
            }
            if tried.len() > self.group.settings().retry.most as usize {
                break;
            }
        }
        None
    }

    /// The next origin below its limit of connections, except those in `tried`, to which it is added.
    fn next_origin(&self, tried: &mut Vec<usize>, client: SocketAddr) -> Option<(usize, RequestGuard)> {
        let (group, settings) = (&self.group, self.group.settings());
        let key = match client.ip().to_canonical() {
            IpAddr::V4(address) => hash(&address.octets()),
            IpAddr::V6(address) => hash(&address.octets()),
        };
        loop {
            let index = group.choose(tried, None, Some(key))?;
            let member = group.member(index);
            if !tried.is_empty() {
                member.counts.retries.fetch_add(1, Relaxed);
            }
            tried.push(index);
            if let Some(guard) = member.origin.begin(settings.most_requests) {
                member.counts.attempts.fetch_add(1, Relaxed);
                return Some((index, guard));
            }
            group.record_failure(index, &Failure::Full("the limit of connections is reached"));
        }
    }
}

/// Counts a failure of an origin, and logs it under `name`.
fn record_failure(group: &Group, index: usize, failure: &Failure, name: &str) {
    group.record_failure(index, failure);
    group.log_failure(index, failure, name);
}

/// Sends the request for TLS, and waits for the reply that accepts it.
async fn send_preface(stream: &Stream, preface: Preface, settings: &ProxySettings) -> Result<(), Failure> {
    let limit = settings.times.handshake;
    let answer = async {
        stream.send(preface.request, &[]).await.map_err(Failure::Connect)?;
        let mut byte = [0];
        let received = std::future::poll_fn(|context| stream.poll_receive_into(context, &mut byte)).await;
        match received.map_err(Failure::Closed)? {
            1 if byte[0] == preface.expected_reply => Ok(()),
            0 => Err(Failure::Closed(io::ErrorKind::UnexpectedEof.into())),
            _ => Err(Failure::Tls("it refuses TLS".to_string())),
        }
    };
    timeout(limit, answer).await.map_err(|_| Failure::Timeout(TimedStep::Handshake, limit))?
}
