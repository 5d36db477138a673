//! QUIC to origins (RFC 9000). A core has one endpoint for each address of an origin. Its socket is connected
//! to that address, so that the kernel reports an unreachable port.
//!
//! Early data (0-RTT) is not sent: an attacker can replay it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, TokioRuntime,
    TransportConfig, TransportErrorCode, VarInt,
};
use tokio::io::Interest;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::body_limits::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use super::failure::{Failure, TimedStep, timed};
use super::settings::TimeLimits;

/// The idle timeout of connections. The origin's own timeout may be shorter.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The interval of PING frames, which detect dead connections and prevent the idle timeout.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The most unacknowledged bytes of a connection.
const SEND_WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// The most unidirectional streams that an origin may open: it needs three, and more for extensions, which
/// are ignored.
const UNIDIRECTIONAL_STREAMS: u32 = 16;

/// The error codes of TLS alerts (RFC 9001 section 4.8).
const ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// The alert of a server that supports none of the offered protocols (RFC 7301 section 3.2).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// The limits of connections; the same for all origins.
static TRANSPORT: LazyLock<Arc<TransportConfig>> = LazyLock::new(|| {
    let mut transport = TransportConfig::default();
    transport
        // RFC 9114 section 6.1: a server opens no bidirectional streams.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .keep_alive_interval(Some(PING_INTERVAL))
        .datagram_receive_buffer_size(None);
    Arc::new(transport)
});

/// A core's endpoints by address.
type Endpoints = BTreeMap<SocketAddr, Weak<QuicEndpoint>>;

thread_local! {
    static OF_CORE: RefCell<Endpoints> = const { RefCell::new(Endpoints::new()) };
}

/// A core's endpoint for one address. It exists while there are connections to that address.
pub struct QuicEndpoint {
    endpoint: Endpoint,
    /// How often the kernel has reported an unreachable port (ICMP).
    refusals: watch::Sender<u64>,
    watching: RefCell<Option<JoinHandle<()>>>,
}

impl Drop for QuicEndpoint {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.get_mut() {
            watching.abort();
        }
    }
}

/// A new connection.
pub struct QuicConnection {
    /// The connection.
    pub quic: Connection,
    /// The endpoint that carries it.
    pub endpoint: Rc<QuicEndpoint>,
    /// Its address.
    pub address: SocketAddr,
}

/// Connects to the first of these addresses that answers. `name` is the name that the certificate must
/// contain.
pub async fn connect(
    tls: &Arc<QuicClientConfig>,
    name: &str,
    addresses: Vec<SocketAddr>,
    times: &TimeLimits,
) -> Result<QuicConnection, Failure> {
    let mut config = ClientConfig::new(tls.clone());
    config.transport_config(TRANSPORT.clone());
    // The time limit is divided by the number of addresses, so that each of them can be tried.
    let limit = times.connect / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = Failure::Connect(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        let endpoint = match QuicEndpoint::of_core(address) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                last = Failure::Connect(error);
                continue;
            }
        };
        let mut refusals = endpoint.refusals.subscribe();
        let mut connecting = match endpoint.endpoint.connect_with(config.clone(), address, name) {
            Ok(connecting) => connecting,
            Err(error) => {
                last = Failure::Connect(io::Error::other(error));
                continue;
            }
        };
        let answered = tokio::select! {
            answered = timeout(limit, connecting.handshake_data()) => answered,
            _ = refusals.changed() => {
                last = Failure::Connect(io::ErrorKind::ConnectionRefused.into());
                continue;
            }
        };
        match answered {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                last = failure_of_handshake(error);
                if matches!(last, Failure::Tls(_)) {
                    return Err(last);
                }
                continue;
            }
            Err(_) => {
                last = Failure::Timeout(TimedStep::Quic, times.connect);
                continue;
            }
        }
        let connected = timed(times.handshake, TimedStep::Handshake, connecting).await?;
        return match connected {
            Ok(quic) => Ok(QuicConnection { quic, endpoint, address }),
            Err(error) => Err(failure_of_handshake(error)),
        };
    }
    Err(last)
}

impl QuicEndpoint {
    /// This core's endpoint for an address: the existing one, or a new one if that has refusals.
    fn of_core(address: SocketAddr) -> io::Result<Rc<QuicEndpoint>> {
        OF_CORE.with_borrow_mut(|known| {
            known.retain(|_, endpoint| endpoint.strong_count() > 0);
            let existing = known.get(&address).and_then(Weak::upgrade);
            if let Some(endpoint) = existing.filter(|endpoint| endpoint.refusals() == 0) {
                return Ok(endpoint);
            }
            let endpoint = QuicEndpoint::new(address)?;
            known.insert(address, Rc::downgrade(&endpoint));
            Ok(endpoint)
        })
    }

    fn new(address: SocketAddr) -> io::Result<Rc<QuicEndpoint>> {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        let watched = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
        let endpoint =
            QuicEndpoint { endpoint, refusals: watch::Sender::new(0), watching: RefCell::default() };
        let endpoint = Rc::new(endpoint);
        let watching = tokio::task::spawn_local(watch_errors(watched, Rc::downgrade(&endpoint)));
        endpoint.watching.replace(Some(watching));
        Ok(endpoint)
    }

    /// A receiver that changes when the kernel reports an unreachable port.
    pub fn watch_refusals(&self) -> watch::Receiver<u64> {
        self.refusals.subscribe()
    }

    /// How often the kernel has reported an unreachable port.
    pub fn refusals(&self) -> u64 {
        *self.refusals.borrow()
    }
}

/// Counts the unreachable-port errors of a socket.
async fn watch_errors(socket: tokio::net::UdpSocket, endpoint: Weak<QuicEndpoint>) {
    while socket.ready(Interest::ERROR).await.is_ok() {
        let taken = socket.try_io(Interest::ERROR, || match socket.take_error()? {
            Some(error) => Ok(error.kind()),
            // Wait for the next event.
            None => Err(io::ErrorKind::WouldBlock.into()),
        });
        let Some(endpoint) = endpoint.upgrade() else { return };
        if taken.is_ok_and(|kind| kind == io::ErrorKind::ConnectionRefused) {
            endpoint.refusals.send_modify(|count| *count += 1);
        }
    }
}

/// The failure of a handshake.
fn failure_of_handshake(error: ConnectionError) -> Failure {
    if let Some(what) = tls_error(&error) {
        return Failure::Tls(what);
    }
    Failure::Connect(match error {
        ConnectionError::VersionMismatch => {
            io::Error::new(io::ErrorKind::Unsupported, "it does not support version 1 of QUIC")
        }
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
        {
            io::ErrorKind::ConnectionRefused.into()
        }
        ConnectionError::TimedOut => io::ErrorKind::TimedOut.into(),
        other => io::Error::other(other.to_string()),
    })
}

/// The TLS error that closed the connection, on this side or reported by the origin; `None`: another error.
pub fn tls_error(error: &ConnectionError) -> Option<String> {
    let (code, reason, is_own) = match error {
        ConnectionError::TransportError(error) => (error.code, error.reason.clone(), true),
        ConnectionError::ConnectionClosed(close) => {
            (close.error_code, String::from_utf8_lossy(&close.reason).into_owned(), false)
        }
        _ => return None,
    };
    let code = u64::from(code);
    if code == NO_APPLICATION_PROTOCOL {
        return Some("it does not support HTTP/3, which 'version' requires".to_string());
    }
    ALERTS.contains(&code).then(|| match is_own {
        true => reason,
        false => format!("it aborted the handshake with alert {}: {reason}", code - ALERTS.start),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_alerts_are_recognised() {
        let error = |code: TransportErrorCode| ConnectionError::TransportError(code.into());
        assert!(tls_error(&error(TransportErrorCode::crypto(48))).is_some());
        let protocol = tls_error(&error(TransportErrorCode::crypto(120)));
        assert!(protocol.is_some_and(|what| what.contains("does not support HTTP/3")));
        assert_eq!(tls_error(&error(TransportErrorCode::PROTOCOL_VIOLATION)), None);
        assert_eq!(tls_error(&ConnectionError::TimedOut), None);
    }

    #[test]
    fn failures_without_a_connection_may_be_retried() {
        for error in [ConnectionError::VersionMismatch, ConnectionError::TimedOut, ConnectionError::Reset] {
            assert!(failure_of_handshake(error).is_unprocessed());
        }
        assert_eq!(failure_of_handshake(ConnectionError::TimedOut).status(), 504);
    }
}
