//! Sends a case and records the answer: raw bytes of HTTP/1 over TCP, frames of HTTP/2 over TLS, frames of
//! HTTP/3 on the streams of QUIC. Time and bytes are limited.

mod http1;
mod http2;
mod http3;
mod tls;

use crate::case::{Case, Facts, Script};
use crate::transcript::Transcript;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The addresses to which cases are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// HTTP/1 without TLS.
    pub plain: SocketAddr,
    /// HTTP/2 with TLS, and HTTP/3 on the UDP port of the same number.
    pub secure: Option<SocketAddr>,
}

/// The time limits of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// The maximum time.
    pub whole: Duration,
    /// The time to wait after the conditions are true, if the case has conditions about what is not received.
    pub linger: Duration,
}

/// When a running exchange may stop.
pub(crate) struct Watch<'a> {
    /// Whether the conditions are true for what has been received so far.
    pub is_kept: &'a dyn Fn(&Transcript) -> bool,
    pub patience: TimeLimits,
    /// Whether to wait on after the conditions are true.
    pub lingers: bool,
}

impl Watch<'_> {
    /// Whether to stop: `waited` is the time since the last byte was sent, `kept` the time at which the
    /// conditions became true.
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
            None => Err("the server has no HTTP/2 address".to_owned()),
        },
        Script::Http3(steps) => match target.secure {
            Some(address) => http3::connection(address, steps, facts, watch),
            None => Err("the server has no HTTP/3 address".to_owned()),
        },
    };
    sent.unwrap_or_else(|reason| Transcript { not_sent: Some(reason), ..Transcript::default() })
}

/// Sends one request of HTTP/1, and returns its answer as far as it was received.
pub(crate) fn request(address: SocketAddr, text: &str, patience: TimeLimits) -> Result<Transcript, String> {
    let watch = Watch { is_kept: &http1::is_answered, patience, lingers: false };
    http1::connection(address, text, &watch)
}

/// Whether the server supports HTTP/3.
pub(crate) fn speaks_http3(address: SocketAddr, patience: TimeLimits) -> bool {
    let watch = Watch { is_kept: &|_| true, patience, lingers: false };
    http3::connection(address, &[], &Facts::default(), &watch).is_ok()
}

/// Whether the server agrees to HTTP/2.
pub(crate) fn speaks_http2(address: SocketAddr, patience: TimeLimits) -> bool {
    let watch = Watch { is_kept: &|_| true, patience, lingers: false };
    http2::connection(address, &[], &Facts::default(), &watch).is_ok()
}

/// The Unix time.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
