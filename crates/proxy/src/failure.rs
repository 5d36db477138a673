//! Failures of requests to origins: the status for the client, whether another attempt may be made, and
//! whether the origin caused the failure.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::time::timeout;

/// Why a request to an origin has failed.
#[derive(Debug)]
pub enum Failure {
    /// The origin's host cannot be resolved.
    Resolve(io::Error),
    /// The connection cannot be established.
    Connect(io::Error),
    /// The TLS handshake failed.
    Tls(String),
    /// The origin closed the connection before it answered.
    Closed(io::Error),
    /// The origin reports that it has not processed the request (RFC 9113 section 8.7).
    Refused(String),
    /// The response is invalid or incomplete.
    Response(String),
    /// A step took too long.
    Timeout(TimedStep, Duration),
    /// A limit of the origin's connections or requests is reached.
    Full(&'static str),
    /// The request's body is incomplete, or cannot be sent.
    RequestBody(io::Error),
}

/// A step of a request that has a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedStep {
    /// Resolving the host.
    Resolve,
    /// Connecting.
    Connect,
    /// Waiting for the first packet of the origin over QUIC.
    Quic,
    /// The TLS handshake.
    Handshake,
    /// Sending the request.
    Send,
    /// Waiting for the head of the response.
    Response,
    /// Waiting for more of the response.
    Body,
    /// The whole request.
    Total,
}

/// Waits for a future, at most for this time.
pub async fn timed<T>(
    limit: Duration,
    step: TimedStep,
    future: impl Future<Output = T>,
) -> Result<T, Failure> {
    timeout(limit, future).await.map_err(|_| Failure::Timeout(step, limit))
}

impl Failure {
    /// The status for the client.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Timeout(..) => 504,
            Failure::Connect(error) if error.kind() == io::ErrorKind::TimedOut => 504,
            Failure::Full(_) => 503,
            // If this server refuses the body, the connection answers with another status.
            Failure::RequestBody(_) => 400,
            _ => 502,
        }
    }

    /// Whether the origin has certainly not processed the request.
    pub fn is_unprocessed(&self) -> bool {
        matches!(
            self,
            Failure::Resolve(_)
                | Failure::Connect(_)
                | Failure::Tls(_)
                | Failure::Refused(_)
                | Failure::Full(_)
                | Failure::Timeout(
                    TimedStep::Resolve | TimedStep::Connect | TimedStep::Quic | TimedStep::Handshake,
                    _,
                )
        )
    }

    /// Whether the failure affects the origin's health.
    pub fn affects_health(&self) -> bool {
        !matches!(self, Failure::Full(_) | Failure::RequestBody(_) | Failure::Timeout(TimedStep::Total, _))
    }

    /// Whether another attempt, at this origin or another, might succeed.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Failure::RequestBody(_) | Failure::Timeout(TimedStep::Total, _))
    }

    /// A copy of the failure, for another request that waited for the same connection.
    pub fn duplicate(&self) -> Failure {
        let copy = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        match self {
            Failure::Resolve(error) => Failure::Resolve(copy(error)),
            Failure::Connect(error) => Failure::Connect(copy(error)),
            Failure::Tls(what) => Failure::Tls(what.clone()),
            Failure::Closed(error) => Failure::Closed(copy(error)),
            Failure::Refused(what) => Failure::Refused(what.clone()),
            Failure::Response(what) => Failure::Response(what.clone()),
            Failure::Timeout(step, limit) => Failure::Timeout(*step, *limit),
            Failure::Full(why) => Failure::Full(why),
            Failure::RequestBody(error) => Failure::RequestBody(copy(error)),
        }
    }

    /// Its label in metrics.
    pub fn label(&self) -> FailureLabel {
        match self {
            Failure::Resolve(_) | Failure::Timeout(TimedStep::Resolve, _) => FailureLabel::Resolve,
            Failure::Connect(_) | Failure::Timeout(TimedStep::Connect | TimedStep::Quic, _) => {
                FailureLabel::Connect
            }
            Failure::Tls(_) | Failure::Timeout(TimedStep::Handshake, _) => FailureLabel::Tls,
            Failure::Closed(_) | Failure::Refused(_) => FailureLabel::Closed,
            Failure::Response(_) => FailureLabel::Response,
            Failure::Timeout(..) => FailureLabel::Timeout,
            Failure::Full(_) => FailureLabel::Full,
            Failure::RequestBody(_) => FailureLabel::Client,
        }
    }
}

/// The labels of failures in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FailureLabel {
    /// The host cannot be resolved.
    Resolve,
    /// The connection cannot be established.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The connection was closed without an answer.
    Closed,
    /// The response is invalid or incomplete.
    Response,
    /// A time limit was exceeded.
    Timeout,
    /// A limit of connections or requests is reached.
    Full,
    /// Caused by the client.
    Client,
}

impl FailureLabel {
    /// All labels, in the order of their numbers.
    pub const LABELS: [&'static str; 8] =
        ["resolve", "connect", "tls", "closed", "response", "timeout", "full", "client"];
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Resolve(error) => write!(formatter, "its host cannot be resolved: {error}"),
            Failure::Connect(error) => write!(formatter, "cannot connect: {error}"),
            Failure::Tls(what) => write!(formatter, "no TLS: {what}"),
            Failure::Closed(error) => write!(formatter, "no response: {error}"),
            Failure::Refused(what) => write!(formatter, "it refuses the request: {what}"),
            Failure::Response(what) => formatter.write_str(what),
            Failure::Timeout(step, limit) => {
                let what = match step {
                    TimedStep::Resolve => "its host was not resolved",
                    TimedStep::Connect => "the connection was not established",
                    TimedStep::Quic => "no answer over QUIC (is UDP to its port allowed?)",
                    TimedStep::Handshake => "the TLS handshake was not completed",
                    TimedStep::Send => "it accepted no further bytes of the request",
                    TimedStep::Response => "no response was received",
                    TimedStep::Body => "no further bytes of its response arrived",
                    TimedStep::Total => "the request was not completed",
                };
                write!(formatter, "{what} within {} s", limit.as_secs_f64())
            }
            Failure::Full(why) => formatter.write_str(why),
            Failure::RequestBody(error) => write!(formatter, "the request's body: {error}"),
        }
    }
}
