//! The counts of one core, in memory that only this core writes.

use touchstone_handler::request::Protocol;

use super::count::{Count, zeroed};

/// Every version of HTTP, in the order of its counts.
pub const PROTOCOLS: [Protocol; 4] = [Protocol::Http10, Protocol::Http11, Protocol::Http2, Protocol::Http3];

/// The value of the label `version`.
pub fn version_label(protocol: Protocol) -> &'static str {
    ["1.0", "1.1", "2", "3"][protocol as usize]
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// It waits for a request, and no byte of it has arrived.
    #[default]
    Idle,
    /// A part of a request has arrived.
    Reading,
    /// A request is being answered.
    Answering,
    /// An answer waits for the client to read it.
    Writing,
}

impl ConnectionState {
    /// All of them.
    pub const ALL: [ConnectionState; 4] = [
        ConnectionState::Idle,
        ConnectionState::Reading,
        ConnectionState::Answering,
        ConnectionState::Writing,
    ];

    /// The value of the label `state`.
    pub fn label(self) -> &'static str {
        ["idle", "reading", "answering", "writing"][self as usize]
    }
}

/// Why a connection was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// Its client has too many (`limits.connections_per_client`).
    PerClient,
    /// `limits.connections` was reached; counted once for each time that accepting paused.
    Limit,
    /// The system could not accept it.
    AcceptFailed,
    /// Its PROXY header was invalid or late.
    ProxyHeader,
}

impl ConnectionRefusal {
    /// All of them.
    pub const ALL: [ConnectionRefusal; 4] = [
        ConnectionRefusal::PerClient,
        ConnectionRefusal::Limit,
        ConnectionRefusal::AcceptFailed,
        ConnectionRefusal::ProxyHeader,
    ];

    /// The value of the label `reason`.
    pub fn label(self) -> &'static str {
        ["per_client", "limit", "accept_failed", "proxy_header"][self as usize]
    }
}

/// The timeout that a client has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// The head of a request (`limits.header_timeout`).
    Header,
    /// The next request (`limits.keep_alive_timeout`), or the first.
    Idle,
    /// The body of a request (`limits.stall_timeout`, `limits.minimum_receive_rate`).
    Body,
    /// Reading an answer (`limits.stall_timeout`, `limits.minimum_send_rate`).
    Send,
    /// An idle connection was ended to make room for another.
    MadeRoom,
}

impl Timeout {
    /// All of them.
    pub const ALL: [Timeout; 5] =
        [Timeout::Header, Timeout::Idle, Timeout::Body, Timeout::Send, Timeout::MadeRoom];

    /// The value of the label `kind`.
    pub fn label(self) -> &'static str {
        ["header", "idle", "body", "send", "made_room"][self as usize]
    }
}

/// The versions of TLS, as labels.
pub const TLS_VERSIONS: [&str; 3] = ["1.2", "1.3", "other"];

/// Why handshakes fail, as labels: the words of `TlsError::kind`, and a client that disconnects during the
/// handshake.
pub const HANDSHAKE_FAILURES: [&str; 10] = [
    "plain_http",
    "ended_by_client",
    "nothing_in_common",
    "client_certificate",
    "no_certificate",
    "broken",
    "too_much",
    "keys_used_up",
    "not_open",
    "abandoned",
];

/// Status codes that are counted separately: 100 to 599.
pub const STATUSES: std::ops::Range<u16> = 100..600;

/// The counts of one core. Aligned so that no other core's writes share a cache line with them (adjacent
/// lines are fetched in pairs).
#[repr(align(128))]
#[derive(Debug)]
pub struct CoreCounts {
    /// Connections accepted.
    pub accepted: Count,
    /// Bytes received, as of the last tick.
    pub received_bytes: Count,
    /// Bytes sent, as of the last tick.
    pub sent_bytes: Count,
    /// Connections that wait, by [`ConnectionState`], as of the last tick.
    pub connections: [Count; 4],
    /// Connections not served, by [`ConnectionRefusal`].
    pub refused: [Count; 4],
    /// Clients too slow, by [`Timeout`].
    pub timeouts: [Count; 5],
    /// Answers other than plain hits, by [`Protocol`].
    pub protocols: [Count; 4],
    /// Answers other than plain hits, by status from 100.
    pub statuses: Box<[Count]>,
    /// Handshakes done, by version of TLS, new ones.
    pub handshakes: [Count; 3],
    /// Handshakes done, by version of TLS, that resumed an earlier session.
    pub resumptions: [Count; 3],
    /// Handshakes that failed, by [`HANDSHAKE_FAILURES`].
    pub handshake_failures: [Count; 10],
    /// Connections that used HTTP/2.
    pub http2_connections: Count,
    /// Streams that clients reset.
    pub http2_resets_received: Count,
    /// Streams that the server reset: refused requests and broken rules.
    pub http2_resets_sent: Count,
    /// HTTP/2 connections that ended because the client broke the protocol.
    pub http2_broken: Count,
    /// Connections that used HTTP/3.
    pub http3_connections: Count,
    /// Requests whose file was in the cache, except plain hits.
    pub cache_hits: Count,
    /// Requests whose file was not in the cache.
    pub cache_misses: Count,
    /// The thread that runs the core, for its processor time.
    pub thread_id: Count,
}

impl Default for CoreCounts {
    fn default() -> CoreCounts {
        CoreCounts {
            accepted: Count::default(),
            received_bytes: Count::default(),
            sent_bytes: Count::default(),
            connections: zeroed(),
            refused: zeroed(),
            timeouts: zeroed(),
            protocols: zeroed(),
            statuses: STATUSES.map(|_| Count::default()).collect(),
            handshakes: zeroed(),
            resumptions: zeroed(),
            handshake_failures: zeroed(),
            http2_connections: Count::default(),
            http2_resets_received: Count::default(),
            http2_resets_sent: Count::default(),
            http2_broken: Count::default(),
            http3_connections: Count::default(),
            cache_hits: Count::default(),
            cache_misses: Count::default(),
            thread_id: Count::default(),
        }
    }
}

impl CoreCounts {
    /// A client was too slow.
    pub fn timed_out(&self, kind: Timeout) {
        self.timeouts[kind as usize].add(1);
    }

    /// A connection was not served.
    pub fn refused(&self, reason: ConnectionRefusal) {
        self.refused[reason as usize].add(1);
    }

    /// A TLS handshake was completed. The version is `TLSv1.3` or `TLSv1.2`.
    pub fn handshake_done(&self, version: Option<&str>, resumed: bool) {
        let version = match version {
            Some("TLSv1.2") => 0,
            Some("TLSv1.3") => 1,
            _ => 2,
        };
        let counts = if resumed { &self.resumptions } else { &self.handshakes };
        counts[version].add(1);
    }

    /// A TLS handshake failed; the kind is one of [`HANDSHAKE_FAILURES`].
    pub fn handshake_failed(&self, kind: &str) {
        if let Some(position) = HANDSHAKE_FAILURES.iter().position(|known| *known == kind) {
            self.handshake_failures[position].add(1);
        }
    }

    /// The count of a status. An invalid status is counted as 599, so that it is part of every sum.
    #[inline]
    pub(super) fn status(&self, status: u16) -> &Count {
        let position = usize::from(status.wrapping_sub(STATUSES.start)).min(self.statuses.len() - 1);
        &self.statuses[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_tls::TlsError;

    #[test]
    fn every_failure_of_a_handshake_has_its_count() {
        let errors = [
            TlsError::PlainHttp,
            TlsError::EndedByClient(rustls::AlertDescription::UnknownCA),
            TlsError::NothingInCommon(String::new()),
            TlsError::ClientCertificate(String::new()),
            TlsError::NoCertificate,
            TlsError::Broken(String::new()),
            TlsError::TooMuch,
            TlsError::KeysUsedUp,
            TlsError::NotOpen,
        ];
        let counts = CoreCounts::default();
        for error in errors {
            counts.handshake_failed(error.kind());
        }
        counts.handshake_failed("abandoned");
        assert!(counts.handshake_failures.iter().all(|count| count.get() == 1));
    }

    #[test]
    fn no_status_is_out_of_bounds() {
        let counts = CoreCounts::default();
        for status in [0, 99, 100, 599, 600, u16::MAX] {
            counts.status(status).add(1);
        }
        assert_eq!(counts.statuses[0].get(), 1);
        assert_eq!(counts.statuses[499].get(), 5);
    }
}
