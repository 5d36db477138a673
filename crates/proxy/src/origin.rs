//! One origin, shared by all cores and routes: its health, its connections and its addresses.
//!
//! Routes share an origin if its address and all rules for its connections and its health are equal
//! ([`OriginKey`]). Then they share its health, the limits of connections and requests apply to all of them
//! together, and one of them makes the active checks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use touchstone_http::response::ResponseLimits;

use super::check_rules::CheckRules;
use super::connections::{Connection, ConnectionPermit, ConnectionRules, SharedConnections};
use super::failure::{Failure, TimedStep, timed};
use super::origin_url::{Address, OriginUrl};
use super::proxy_header::ProxyHeader;
use super::quic::{self, QuicConnection};
use super::resolve::Addresses;
use super::settings::ProxySettings;
use super::tls::OriginTls;
use super::version::Version;
use touchstone_upstream::outage::Outage;
use touchstone_upstream::stream::{Stream, TlsStream};
use touchstone_upstream::{Health, HealthRules};

/// Identifies a shared origin: routes share an origin if these values are equal.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginKey {
    address: Address,
    /// With TLS: the host and the TLS configuration.
    tls: Option<(String, Option<Arc<OriginTls>>)>,
    version: Version,
    connections: ConnectionRules,
    most_requests: u32,
    health: HealthRules,
    /// With active checks: their rules and the URL.
    check: Option<(CheckRules, OriginUrl)>,
    proxy_header: Option<ProxyHeader>,
    head_limits: ResponseLimits,
    resolve_interval: Duration,
}

impl OriginKey {
    /// The key of one origin of a route with these settings.
    pub fn new(url: &OriginUrl, settings: &ProxySettings) -> OriginKey {
        OriginKey {
            address: url.address.clone(),
            tls: url.is_tls.then(|| (url.server_name().to_string(), settings.tls.clone())),
            version: settings.version,
            connections: settings.connections.clone(),
            most_requests: settings.most_requests,
            health: settings.health,
            check: settings.check.clone().map(|rules| (rules, url.clone())),
            proxy_header: settings.proxy_header,
            head_limits: settings.head_limits,
            resolve_interval: settings.resolve_interval,
        }
    }
}

/// One origin, shared by its routes.
#[derive(Debug)]
pub struct SharedOrigin {
    /// The values that are equal for all its routes.
    pub key: OriginKey,
    /// Its health, from answers and active checks.
    pub health: Health,
    /// Limits the log lines of an origin that fails continuously.
    pub outage: Outage,
    /// The connections to it.
    pub connections: Arc<SharedConnections>,
    /// `None`: a unix socket.
    pub addresses: Option<Arc<Addresses>>,
    /// A core makes the active checks.
    pub is_checked: AtomicBool,
    under_way: AtomicU32,
}

/// Counts a request in progress at an origin until it is dropped.
pub struct RequestGuard {
    origin: Arc<SharedOrigin>,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.origin.under_way.fetch_sub(1, Relaxed);
    }
}

/// A connection on which HTTP/2 can begin.
pub struct NewHttp2 {
    /// The stream of bytes.
    pub stream: Stream,
    /// The address that it is connected to, if the origin's address can change.
    pub address: Option<SocketAddr>,
    /// Its permit.
    pub permit: ConnectionPermit,
}

/// A connection on which HTTP/3 can begin.
pub struct NewHttp3 {
    /// The QUIC connection.
    pub quic: QuicConnection,
    /// Its permit.
    pub permit: ConnectionPermit,
}

/// A new connection of any version of HTTP.
pub enum NewConnection {
    /// HTTP/1.1.
    Http1(Box<Connection>),
    /// HTTP/2, before the connection preface.
    Http2(NewHttp2),
    /// HTTP/3, before the control stream is opened.
    Http3(NewHttp3),
}

impl SharedOrigin {
    /// A new origin, assumed to be up.
    pub fn new(key: OriginKey) -> SharedOrigin {
        let addresses = match &key.address {
            Address::Tcp(host, port) => Some(Arc::new(Addresses::new(host, *port))),
            Address::Unix(_) => None,
        };
        SharedOrigin {
            health: Health::default(),
            outage: Outage::default(),
            connections: Arc::new(SharedConnections::new(key.connections.clone())),
            addresses,
            is_checked: AtomicBool::new(false),
            under_way: AtomicU32::new(0),
            key,
        }
    }

    /// The number of requests in progress.
    pub fn under_way(&self) -> u32 {
        self.under_way.load(Relaxed)
    }

    /// Counts a request as in progress; `None` if the limit `most` is reached (0: any number).
    pub fn begin(self: &Arc<Self>, most: u32) -> Option<RequestGuard> {
        let before = self.under_way.fetch_add(1, Relaxed);
        let guard = RequestGuard { origin: self.clone() };
        (most == 0 || before < most).then_some(guard)
    }

    /// Opens a connection with a permit: resolves the host, connects, sends the PROXY header, and makes the
    /// TLS handshake. `only_http1`: only HTTP/1.1 is offered. `opened` counts the connections that the origin
    /// has accepted.
    pub async fn open(
        &self,
        settings: &ProxySettings,
        permit: ConnectionPermit,
        proxy_header: &[u8],
        only_http1: bool,
        opened: &AtomicU64,
    ) -> Result<NewConnection, Failure> {
        if settings.version == Version::Http3 && !only_http1 {
            let new = self.connect_quic(settings, permit).await?;
            opened.fetch_add(1, Relaxed);
            return Ok(NewConnection::Http3(new));
        }
        let (stream, address) = self.connect(settings).await?;
        opened.fetch_add(1, Relaxed);
        if !proxy_header.is_empty() {
            let sent = timed(settings.times.send, TimedStep::Send, stream.send(proxy_header, &[])).await?;
            sent.map_err(Failure::Connect)?;
        }
        let mut is_http2 = settings.version == Version::Http2 && !only_http1;
        let mut stream = stream;
        if let Some((host, rules)) = &self.key.tls {
            let rules = rules.as_ref().ok_or_else(|| Failure::Tls("it is not configured".to_string()))?;
            let tls = tls_handshake(rules, host, settings, stream, only_http1).await?;
            is_http2 = tls.speaks_http2();
            if settings.version == Version::Http2 && !only_http1 && !is_http2 {
                return Err(Failure::Tls("it does not support HTTP/2, which 'version' requires".to_string()));
            }
            stream = Stream::Tls(Box::new(tls));
        }
        Ok(match is_http2 {
            true => NewConnection::Http2(NewHttp2 { stream, address, permit }),
            false => NewConnection::Http1(Box::new(Connection::new(stream, address, permit))),
        })
    }

    async fn connect(&self, settings: &ProxySettings) -> Result<(Stream, Option<SocketAddr>), Failure> {
        let times = &settings.times;
        if let Address::Unix(path) = &self.key.address {
            let connected = timed(times.connect, TimedStep::Connect, UnixStream::connect(path)).await?;
            return Ok((Stream::Unix(connected.map_err(Failure::Connect)?), None));
        }
        let addresses = self.resolve(settings).await?;
        // The time limit is divided by the number of addresses, so that each of them can be tried.
        let limit = times.connect / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = Failure::Connect(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses {
            last = match timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true).map_err(Failure::Connect)?;
                    return Ok((Stream::Tcp(stream), Some(address)));
                }
                Ok(Err(error)) => Failure::Connect(error),
                Err(_) => Failure::Timeout(TimedStep::Connect, times.connect),
            };
        }
        Err(last)
    }

    async fn connect_quic(
        &self,
        settings: &ProxySettings,
        permit: ConnectionPermit,
    ) -> Result<NewHttp3, Failure> {
        let tls = self.key.tls.as_ref().and_then(|(host, rules)| Some((host, rules.as_ref()?)));
        let (host, rules) = tls.ok_or_else(|| Failure::Tls("it is not configured".to_string()))?;
        let tls = rules.quic().ok_or_else(|| Failure::Tls("it is not configured for QUIC".to_string()))?;
        let name = rules.server_name(host).map_err(Failure::Tls)?;
        let addresses = self.resolve(settings).await?;
        let connected = quic::connect(tls, &name.to_str(), addresses, &settings.times).await;
        let quic = connected.map_err(|failure| match failure {
            Failure::Tls(what) => Failure::Tls(explain_tls_error(&what)),
            other => other,
        })?;
        Ok(NewHttp3 { quic, permit })
    }

    /// The addresses of its host.
    async fn resolve(&self, settings: &ProxySettings) -> Result<Vec<SocketAddr>, Failure> {
        let none = || Failure::Resolve(io::ErrorKind::NotFound.into());
        let addresses = self.addresses.as_ref().ok_or_else(none)?.get(settings.resolve_interval);
        timed(settings.times.resolve, TimedStep::Resolve, addresses).await?.map_err(Failure::Resolve)
    }
}

/// Makes the TLS handshake; `host` is the origin's host.
async fn tls_handshake(
    tls: &OriginTls,
    host: &str,
    settings: &ProxySettings,
    stream: Stream,
    only_http1: bool,
) -> Result<TlsStream, Failure> {
    let name = tls.server_name(host).map_err(Failure::Tls)?;
    let handshake = TlsStream::connect(stream, tls.config(only_http1), name);
    let connected = timed(settings.times.handshake, TimedStep::Handshake, handshake).await?;
    connected.map_err(|error| Failure::Tls(explain_tls_error(&error.to_string())))
}

/// A TLS error in the form for the log.
fn explain_tls_error(error: &str) -> String {
    match error.contains("UnsupportedCertVersion") {
        true => "its certificate is of X.509 version 1; it must be of version 3".to_string(),
        false => error.to_string(),
    }
}
