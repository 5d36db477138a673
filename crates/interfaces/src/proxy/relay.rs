//! The origins of a stream: what is sent to them are the bytes of connections, or datagrams, and no requests.
//!
//! Choice, health, checks, limits, TLS and the PROXY header are those of the origins of a proxy; only what
//! is sent differs.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::UdpSocket;
use tokio::time::timeout;
use touchstone_handler::handler::Server;

use super::connections::{Connection, ConnectionGrant};
use super::failure::{Failure, TimedStep};
use super::group::{Group, SharedGroup};
use super::origin::{Opened, RequestGuard, timed};
use super::settings::ProxySettings;
use super::{proxy_header, upkeep};
use crate::stream::Stream;
use crate::upstream::hash;

/// The origins of a stream on one core.
pub struct Relay {
    group: Rc<Group>,
}

/// A connection to an origin. Its place among the origin's connections is free again when it is dropped.
pub struct RelayConnection {
    connection: Connection,
    /// The origin's name in logs.
    pub origin: String,
    _guard: RequestGuard,
}

impl RelayConnection {
    /// What carries the bytes.
    pub fn stream(&self) -> &Stream {
        &self.connection.stream
    }
}

/// A socket whose datagrams go to an origin, and come from there.
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
    /// The origin has answered.
    pub fn answered(&self) {
        self.group.connected(self.index);
    }

    /// The origin cannot be reached.
    pub fn failed(&self, error: io::Error, name: &str) {
        let failure = Failure::Connect(error);
        self.group.failed(self.index, &failure);
        self.group.log_failure(self.index, &failure, name);
    }
}

/// What a message asks of an origin before TLS begins, and the one byte with which it agrees.
#[derive(Debug, Clone, Copy)]
pub struct Preface {
    /// What is sent.
    pub question: &'static [u8],
    /// The byte that agrees.
    pub consent: u8,
}

impl Relay {
    /// The origins on this core. Must be made there.
    pub fn new(settings: ProxySettings, server: Rc<dyn Server>) -> Relay {
        let group = Group::new(SharedGroup::of_process(settings), server);
        if group.settings().check.is_some() {
            upkeep::begin(&group);
        }
        Relay { group }
    }

    /// Connects to an origin for a client, which came to the second address; tries others if one fails.
    /// `preface` is agreed on first. `name` is for the log. The error is that of the last origin.
    pub async fn connect(
        &self,
        client: (SocketAddr, SocketAddr),
        preface: Option<Preface>,
        name: &str,
    ) -> Result<RelayConnection, String> {
        let (group, settings) = (&self.group, self.group.settings());
        let begins_with = settings.proxy_header.map(|version| proxy_header::header(version, Some(client)));
        let begins_with = begins_with.unwrap_or_default();
        let mut tried = Vec::new();
        let mut last = None;
        while let Some((index, guard)) = self.next(&mut tried, client.0, &mut last) {
            let member = group.member(index);
            let opened = async {
                let grant = member.origin.connections.grant(group.server.core(), false).await;
                let ConnectionGrant::New(permit) = grant.map_err(Failure::Full)? else {
                    return Err(Failure::Full("no new connection may be opened"));
                };
                let Opened::Http1(connection) = member.open(settings, permit, &begins_with, true).await?
                else {
                    return Err(Failure::Tls("it has chosen a protocol that was not offered".to_string()));
                };
                if let Some(preface) = preface {
                    agree(&connection.stream, preface, settings).await?;
                }
                Ok(*connection)
            };
            match opened.await {
                Ok(connection) => {
                    group.connected(index);
                    return Ok(RelayConnection { connection, origin: member.name.clone(), _guard: guard });
                }
                Err(failure) => last = Some(self.note(index, failure, name)),
            }
            if tried.len() > settings.retry.most as usize {
                break;
            }
        }
        Err(last.unwrap_or_else(|| "there is no origin that may be asked".to_string()))
    }

    /// Opens a socket to an origin for the datagrams of a client.
    pub async fn open_datagrams(&self, client: SocketAddr, name: &str) -> Result<DatagramLink, String> {
        let (group, settings) = (&self.group, self.group.settings());
        let mut tried = Vec::new();
        let mut last = None;
        while let Some((index, guard)) = self.next(&mut tried, client, &mut last) {
            let member = group.member(index);
            let opened = async {
                let none = || Failure::Resolve(io::ErrorKind::NotFound.into());
                let addresses = member.origin.addresses.as_ref().ok_or_else(none)?;
                let found = timed(
                    settings.times.resolve,
                    TimedStep::Resolve,
                    addresses.get(settings.resolve_interval),
                );
                let found = found.await?.map_err(Failure::Resolve)?;
                let address = *found.first().ok_or_else(none)?;
                let any: IpAddr = match address {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0)).await.map_err(Failure::Connect)?;
                socket.connect(address).await.map_err(Failure::Connect)?;
                Ok(socket)
            };
            match opened.await {
                Ok(socket) => {
                    member.counts.opened.fetch_add(1, Relaxed);
                    let (origin, group) = (member.name.clone(), group.clone());
                    return Ok(DatagramLink { socket, origin, group, index, _guard: guard });
                }
                Err(failure) => last = Some(self.note(index, failure, name)),
            }
            if tried.len() > settings.retry.most as usize {
                break;
            }
        }
        Err(last.unwrap_or_else(|| "there is no origin that may be asked".to_string()))
    }

    /// The next origin that has room, besides those in `tried`, to which it is added.
    fn next(
        &self,
        tried: &mut Vec<usize>,
        client: SocketAddr,
        last: &mut Option<String>,
    ) -> Option<(usize, RequestGuard)> {
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
            let failure = Failure::Full("it has as many connections as it may have");
            *last = Some(format!("{}: {failure}", member.name));
            group.failed(index, &failure);
        }
    }

    /// Records a failure; gives the text of it.
    fn note(&self, index: usize, failure: Failure, name: &str) -> String {
        self.group.failed(index, &failure);
        self.group.log_failure(index, &failure, name);
        format!("{}: {failure}", self.group.member(index).name)
    }
}

/// Sends a question, and waits for the byte that agrees.
async fn agree(stream: &Stream, preface: Preface, settings: &ProxySettings) -> Result<(), Failure> {
    let limit = settings.times.handshake;
    let answer = async {
        stream.send(preface.question, &[]).await.map_err(Failure::Connect)?;
        let mut byte = [0];
        let received = std::future::poll_fn(|context| stream.poll_receive_into(context, &mut byte)).await;
        match received.map_err(Failure::Closed)? {
            1 if byte[0] == preface.consent => Ok(()),
            0 => Err(Failure::Closed(io::ErrorKind::UnexpectedEof.into())),
            _ => Err(Failure::Tls("it does not agree to TLS".to_string())),
        }
    };
    timeout(limit, answer).await.map_err(|_| Failure::Timeout(TimedStep::Handshake, limit))?
}
