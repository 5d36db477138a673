//! Why an origin has not answered: what the client is told, whether another attempt may be made, and whose
//! fault it is.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Its host has no address that can be found.
    Resolve(io::Error),
    /// It cannot be reached.
    Connect(io::Error),
    /// TLS could not be agreed on.
    Tls(String),
    /// It closed the connection before it said anything.
    Closed(io::Error),
    /// It says that it has done nothing with the request (RFC 9113 section 8.7).
    Refused(String),
    /// It says something that is no response.
    Response(String),
    /// A step took too long.
    Timeout(Step, Duration),
    /// All its connections are in use, and too many requests wait, or have waited too long.
    Full(&'static str),
    /// The client's body broke off.
    RequestBody(io::Error),
}

/// A step of a request that has a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Looking up the host.
    Resolve,
    /// Connecting.
    Connect,
    /// Agreeing on TLS.
    Handshake,
    /// Sending the request.
    Send,
    /// Waiting for the head of the response.
    Response,
    /// Waiting for more of the response.
    Body,
    /// All of it.
    Total,
}

impl Failure {
    /// The status that the client is told.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Timeout(..) => 504,
            Failure::Connect(error) if error.kind() == io::ErrorKind::TimedOut => 504,
            Failure::Full(_) => 503,
            // What the server holds against a body has a status of its own; see the connection.
            Failure::RequestBody(_) => 400,
            _ => 502,
        }
    }

    /// Whether the origin has certainly done nothing with the request.
    pub fn is_untouched(&self) -> bool {
        matches!(
            self,
            Failure::Resolve(_)
                | Failure::Connect(_)
                | Failure::Tls(_)
                | Failure::Refused(_)
                | Failure::Full(_)
                | Failure::Timeout(Step::Resolve | Step::Connect | Step::Handshake, _)
        )
    }

    /// Whether it says something about the origin's health.
    pub fn is_of_origin(&self) -> bool {
        !matches!(self, Failure::Full(_) | Failure::RequestBody(_) | Failure::Timeout(Step::Total, _))
    }

    /// Whether asking again, here or elsewhere, might help.
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self, Failure::RequestBody(_) | Failure::Timeout(Step::Total, _))
    }

    /// What it is called in metrics.
    pub fn label(&self) -> FailureLabel {
        match self {
            Failure::Resolve(_) | Failure::Timeout(Step::Resolve, _) => FailureLabel::Resolve,
            Failure::Connect(_) | Failure::Timeout(Step::Connect, _) => FailureLabel::Connect,
            Failure::Tls(_) | Failure::Timeout(Step::Handshake, _) => FailureLabel::Tls,
            Failure::Closed(_) | Failure::Refused(_) => FailureLabel::Closed,
            Failure::Response(_) => FailureLabel::Response,
            Failure::Timeout(..) => FailureLabel::Timeout,
            Failure::Full(_) => FailureLabel::Full,
            Failure::RequestBody(_) => FailureLabel::Client,
        }
    }
}

/// Failures as they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FailureLabel {
    /// The host could not be looked up.
    Resolve,
    /// No connection.
    Connect,
    /// No TLS.
    Tls,
    /// Closed without an answer.
    Closed,
    /// What came was no response, or broke off.
    Response,
    /// Too slow.
    Timeout,
    /// No room.
    Full,
    /// The client's fault.
    Client,
}

impl FailureLabel {
    /// All, in the order of their numbers, as metrics call them.
    pub const LABELS: [&'static str; 8] =
        ["resolve", "connect", "tls", "closed", "response", "timeout", "full", "client"];
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Resolve(error) => write!(formatter, "its host cannot be looked up: {error}"),
            Failure::Connect(error) => write!(formatter, "cannot connect: {error}"),
            Failure::Tls(what) => write!(formatter, "no TLS: {what}"),
            Failure::Closed(error) => write!(formatter, "no response: {error}"),
            Failure::Refused(what) => write!(formatter, "it refuses the request: {what}"),
            Failure::Response(what) => formatter.write_str(what),
            Failure::Timeout(step, limit) => {
                let what = match step {
                    Step::Resolve => "its host was not found",
                    Step::Connect => "no connection came about",
                    Step::Handshake => "TLS was not agreed on",
                    Step::Send => "it took nothing more of the request",
                    Step::Response => "a response did not come",
                    Step::Body => "nothing more of its response came",
                    Step::Total => "it was not done",
                };
                write!(formatter, "{what} within {} s", limit.as_secs_f64())
            }
            Failure::Full(why) => formatter.write_str(why),
            Failure::RequestBody(error) => write!(formatter, "the request's body: {error}"),
        }
    }
}
