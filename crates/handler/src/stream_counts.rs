//! Counts of streams, for metrics and status: connections and datagrams that are passed on unchanged.

use crate::count::Count;

/// Why a connection, or a client's exchange of datagrams, has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides have ended it, or all expected replies have arrived.
    Done = 0,
    /// The client has broken it off.
    Client = 1,
    /// The origin has broken it off.
    Origin = 2,
    /// Nothing was sent for too long.
    Idle = 3,
    /// It has reached its longest time.
    Lifetime = 4,
    /// The server has ended.
    Stopped = 5,
    /// No origin could be reached.
    NoOrigin = 6,
    /// The client's address is not admitted.
    Denied = 7,
    /// A limit on connections.
    Limit = 8,
    /// A limit on new connections in a time.
    Rate = 9,
    /// No PROXY header, or one that is wrong.
    ProxyHeader = 10,
    /// The first bytes did not arrive in time, or are too many.
    Hello = 11,
    /// No route matches the name that the client requests.
    NoRoute = 12,
    /// The TLS handshake with the client has failed.
    Tls = 13,
}

impl End {
    /// All reasons, in the order of their numbers.
    pub const ALL: [End; 14] = [
        End::Done,
        End::Client,
        End::Origin,
        End::Idle,
        End::Lifetime,
        End::Stopped,
        End::NoOrigin,
        End::Denied,
        End::Limit,
        End::Rate,
        End::ProxyHeader,
        End::Hello,
        End::NoRoute,
        End::Tls,
    ];

    /// Its name in metrics and logs.
    pub fn label(self) -> &'static str {
        [
            "done",
            "client",
            "origin",
            "idle",
            "lifetime",
            "stopped",
            "no_origin",
            "denied",
            "limit",
            "rate",
            "proxy_header",
            "hello",
            "no_route",
            "tls",
        ][self as usize]
    }
}

/// The counts of one stream.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counts {
    /// Connections that were accepted, or clients that have begun to send datagrams.
    pub accepted: Count,
    /// Those that are open now.
    pub open: Count,
    /// Bytes from clients.
    pub received_bytes: Count,
    /// Bytes to clients.
    pub sent_bytes: Count,
    /// Datagrams from clients.
    pub received_datagrams: Count,
    /// Datagrams to clients.
    pub sent_datagrams: Count,
    /// Datagrams that were dropped: too large, or without a session.
    pub dropped_datagrams: Count,
    ends: [Count; End::ALL.len()],
}

impl Counts {
    /// Counts an end.
    pub fn ended(&self, end: End) {
        self.ends[end as usize].add(1);
    }

    /// How many have ended for this reason.
    pub fn ends(&self, end: End) -> u64 {
        self.ends[end as usize].get()
    }
}

/// The name of a stream, and `tcp` or `udp`.
pub type Name = (String, &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_by_reason() {
        let counts = Counts::default();
        counts.ended(End::NoRoute);
        assert_eq!((counts.ends(End::NoRoute), counts.ends(End::Done)), (1, 0));
        for (number, end) in End::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, number);
        }
    }
}
