//! One origin, as all cores share it: its health, its connections, its addresses and its counts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::balance::hash;
use super::connections::{Connection, Place, SharedConnections};
use super::counts::OriginCounts;
use super::failure::{Failure, Step};
use super::health::Health;
use super::origin_url::{Address, OriginSpec};
use super::resolve::Addresses;
use super::settings::{ProxySettings, Version};
use crate::outage::Outage;
use crate::stream::{Stream, TlsStream};

/// One origin of a group.
#[derive(Debug)]
pub struct SharedOrigin {
    /// Where it is, and its part in the group.
    pub spec: OriginSpec,
    /// What it is called in logs and metrics: its URL.
    pub name: String,
    /// A hash of the name.
    pub name_hash: u64,
    /// Whether it gets requests.
    pub health: Health,
    /// Whether it fails all the time.
    pub outage: Outage,
    /// What was counted of it.
    pub counts: OriginCounts,
    /// The connections to it.
    pub connections: Arc<SharedConnections>,
    /// `None`: a unix socket.
    pub addresses: Option<Arc<Addresses>>,
    under_way: AtomicU32,
}

/// A request that an origin is busy with.
pub struct Busy {
    origin: Arc<SharedOrigin>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.origin.under_way.fetch_sub(1, Relaxed);
    }
}

/// A connection on which HTTP/2 can begin.
pub struct NewSession {
    /// What carries the bytes.
    pub stream: Stream,
    /// The address that it leads to, where that may change.
    pub address: Option<SocketAddr>,
    /// Its place among the origin's connections.
    pub place: Place,
}

/// A connection that is fit for requests, in one of two versions.
pub enum Opened {
    /// HTTP/1.1.
    Http1(Box<Connection>),
    /// HTTP/2, not begun yet.
    Http2(NewSession),
}

impl SharedOrigin {
    /// An origin of which nothing is known yet.
    pub fn new(spec: OriginSpec, settings: &ProxySettings) -> SharedOrigin {
        let name = spec.url.to_string();
        let addresses = match &spec.url.address {
            Address::Tcp(host, port) => Some(Arc::new(Addresses::new(host, *port))),
            Address::Unix(_) => None,
        };
        SharedOrigin {
            name_hash: hash(name.as_bytes()),
            name,
            health: Health::default(),
            outage: Outage::default(),
            counts: OriginCounts::default(),
            connections: Arc::new(SharedConnections::new(settings.connections.clone())),
            addresses,
            under_way: AtomicU32::new(0),
            spec,
        }
    }

    /// Requests under way.
    pub fn under_way(&self) -> u32 {
        self.under_way.load(Relaxed)
    }

    /// Counts a request as under way; `None` where there are so many already (0: any number may be).
    pub fn begin(self: &Arc<Self>, most: u32) -> Option<Busy> {
        let before = self.under_way.fetch_add(1, Relaxed);
        let busy = Busy { origin: self.clone() };
        (most == 0 || before < most).then_some(busy)
    }

    /// Opens a connection in its place: looks the host up, connects, says for whom it is, agrees on TLS.
    /// `only_http1`: no other version will do.
    pub async fn open(
        &self,
        settings: &ProxySettings,
        place: Place,
        begins_with: &[u8],
        only_http1: bool,
    ) -> Result<Opened, Failure> {
        let (stream, address) = self.connect(settings).await?;
        self.counts.opened.fetch_add(1, Relaxed);
        if !begins_with.is_empty() {
            let sent = timed(settings.times.send, Step::Send, stream.send(begins_with, &[])).await?;
            sent.map_err(Failure::Connect)?;
        }
        let mut speaks_http2 = settings.version == Version::Http2 && !only_http1;
        let mut stream = stream;
        if self.spec.url.is_tls {
            let tls = self.agree_on_tls(settings, stream, only_http1).await?;
            speaks_http2 = tls.speaks_http2();
            if settings.version == Version::Http2 && !only_http1 && !speaks_http2 {
                return Err(Failure::Tls("it does not speak HTTP/2, which 'version' asks for".to_string()));
            }
            stream = Stream::Tls(Box::new(tls));
        }
        Ok(match speaks_http2 {
            true => Opened::Http2(NewSession { stream, address, place }),
            false => Opened::Http1(Box::new(Connection::new(stream, address, place))),
        })
    }

    async fn connect(&self, settings: &ProxySettings) -> Result<(Stream, Option<SocketAddr>), Failure> {
        let times = &settings.times;
        let addresses = match (&self.spec.url.address, &self.addresses) {
            (Address::Unix(path), _) => {
                let connected = timed(times.connect, Step::Connect, UnixStream::connect(path)).await?;
                return Ok((Stream::Unix(connected.map_err(Failure::Connect)?), None));
            }
            (Address::Tcp(..), None) => return Err(Failure::Resolve(io::ErrorKind::NotFound.into())),
            (Address::Tcp(..), Some(addresses)) => addresses,
        };
        let found = timed(times.resolve, Step::Resolve, addresses.get(settings.resolve_interval)).await?;
        let addresses = found.map_err(Failure::Resolve)?;
        // An address that does not answer leaves time for the others.
        let limit = times.connect / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = Failure::Connect(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses {
            last = match timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true).map_err(Failure::Connect)?;
                    return Ok((Stream::Tcp(stream), Some(address)));
                }
                Ok(Err(error)) => Failure::Connect(error),
                Err(_) => Failure::Timeout(Step::Connect, times.connect),
            };
        }
        Err(last)
    }

    async fn agree_on_tls(
        &self,
        settings: &ProxySettings,
        stream: Stream,
        only_http1: bool,
    ) -> Result<TlsStream, Failure> {
        let tls = settings.tls.as_ref().ok_or_else(|| Failure::Tls("it is not set up".to_string()))?;
        let name = tls.server_name(self.spec.url.server_name()).map_err(Failure::Tls)?;
        let agreeing = TlsStream::connect(stream, tls.rules(only_http1), name);
        let agreed = timed(settings.times.handshake, Step::Handshake, agreeing).await?;
        agreed.map_err(|error| Failure::Tls(explained(&error.to_string())))
    }
}

/// What an error of TLS means for the operator.
fn explained(error: &str) -> String {
    match error.contains("UnsupportedCertVersion") {
        true => "its certificate is of X.509 version 1; it must be of version 3".to_string(),
        false => error.to_string(),
    }
}

/// Waits for something no longer than for this long.
pub async fn timed<T>(limit: Duration, step: Step, future: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(limit, future).await.map_err(|_| Failure::Timeout(step, limit))
}
