//! Sends a case and keeps what comes back: raw bytes of HTTP/1 over TCP, frames of HTTP/2 over TLS, frames of
//! HTTP/3 on the streams of QUIC. Everything has a limit of time and of bytes.

mod http1;
mod http2;
mod http3;
mod tls;

use crate::case::{Case, Facts, Script};
use crate::transcript::Transcript;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the cases are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// HTTP/1 without TLS.
    pub plain: SocketAddr,
    /// HTTP/2 with TLS, and HTTP/3 on the UDP port of the same number.
    pub secure: Option<SocketAddr>,
}

/// How long a case waits for what comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// At most so long.
    pub whole: Duration,
    /// So long after what was wanted came, where the case tells of what does not come.
    pub linger: Duration,
}

/// What is wanted of an exchange that goes on.
pub(crate) struct Watch<'a> {
    /// Whether what came so far is what may come back.
    pub is_kept: &'a dyn Fn(&Transcript) -> bool,
    pub patience: Patience,
    /// Whether to wait on after that.
    pub lingers: bool,
}

impl Watch<'_> {
    /// Whether to stop: `begun` is how long ago the last byte was sent, `kept` since when all was well.
    fn is_over(&self, waited: Duration, kept: Option<Duration>) -> bool {
        let linger = if self.lingers { self.patience.linger } else { Duration::ZERO };
        waited >= self.patience.whole || kept.is_some_and(|kept| waited.saturating_sub(kept) >= linger)
    }
}

/// Sends a case. `url` is its path at the origin.
pub(crate) fn send(target: &Target, case: &Case, facts: &Facts, url: &str, watch: &Watch<'_>) -> Transcript {
    let sent = match &case.script {
        Script::Http1(text) => http1::connection(target.plain, &facts.fill(text, url, now()), watch),
        Script::Steps { steps, .. } => http1::steps(target.plain, steps, facts, url, watch.patience),
        Script::Http2(steps) => match target.secure {
            Some(address) => http2::connection(address, steps, facts, watch),
            None => Err("it does not speak HTTP/2 here".to_owned()),
        },
        Script::Http3(steps) => match target.secure {
            Some(address) => http3::connection(address, steps, facts, watch),
            None => Err("it does not speak HTTP/3 here".to_owned()),
        },
    };
    sent.unwrap_or_else(|reason| Transcript { not_sent: Some(reason), ..Transcript::default() })
}

/// One request of HTTP/1, and its answer as far as it came.
pub(crate) fn request(address: SocketAddr, text: &str, patience: Patience) -> Result<Transcript, String> {
    let watch = Watch { is_kept: &http1::is_answered, patience, lingers: false };
    http1::connection(address, text, &watch)
}

/// Whether the server speaks HTTP/3.
pub(crate) fn speaks_http3(address: SocketAddr, patience: Patience) -> bool {
    let watch = Watch { is_kept: &|_| true, patience, lingers: false };
    http3::connection(address, &[], &Facts::default(), &watch).is_ok()
}

/// Whether the server agrees to HTTP/2.
pub(crate) fn speaks_http2(address: SocketAddr, patience: Patience) -> bool {
    let watch = Watch { is_kept: &|_| true, patience, lingers: false };
    http2::connection(address, &[], &Facts::default(), &watch).is_ok()
}

/// The Unix time.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
