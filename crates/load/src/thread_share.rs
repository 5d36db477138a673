//! What each engine thread gets of a run: its clients, their connections, and the targets as it sees them.

use crate::client::Connection;
use crate::target::HttpVersion;
use crate::target::Target;
use crate::tls_setup::{TlsBase, TlsSetup};
use std::net::SocketAddr;
use std::ops::Range;

/// A target as a thread sees it.
pub(crate) struct EngineTarget {
    pub(crate) address: SocketAddr,
    pub(crate) is_loopback: bool,
    pub(crate) tls: Option<TlsSetup>,
    pub(crate) version: HttpVersion,
    /// The plan wants WebSockets of it.
    pub(crate) has_websockets: bool,
    /// Several clients share a connection of HTTP/1.1.
    pub(crate) is_pipelined: bool,
}

/// What one thread is to do.
pub(crate) struct ThreadShare {
    pub(crate) clients: Range<usize>,
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    /// Requests that it may start.
    pub(crate) request_limit: u64,
}

/// The clients of one thread out of `threads`: consecutive numbers, as many as there are groups of `streams`
/// clients for it; the parts differ by one group at most and together make the whole.
pub(crate) fn clients_of_thread(
    clients: usize,
    streams: usize,
    threads: usize,
    thread: usize,
) -> Range<usize> {
    let groups = clients.div_ceil(streams);
    let (share, rest) = (groups / threads, groups % threads);
    let first = thread * share + thread.min(rest);
    let last = first + share + usize::from(thread < rest);
    (first * streams).min(clients)..(last * streams).min(clients)
}

impl EngineTarget {
    pub(crate) fn new(target: &Target, version: HttpVersion, tls: Option<&TlsBase>) -> EngineTarget {
        let tls = tls.map(TlsSetup::new);
        let is_loopback = target.address.ip().is_loopback();
        EngineTarget {
            address: target.address,
            is_loopback,
            tls,
            version,
            has_websockets: false,
            is_pipelined: false,
        }
    }
}

/// The connections of all groups, those of a group next to each other.
pub(crate) fn connections(clients: usize, streams: usize, targets: &[EngineTarget]) -> Vec<Connection> {
    let of_group = |group: usize| {
        targets.iter().enumerate().map(move |(number, target)| {
            let has_layers = target.tls.is_some()
                || target.has_websockets
                || target.is_pipelined
                || matches!(target.version, HttpVersion::Http2 | HttpVersion::Http3);
            Connection::new(number, group * streams, has_layers)
        })
    };
    (0..clients.div_ceil(streams)).flat_map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_make_the_whole(clients in 1usize..5000, streams in 1usize..20, threads in 1usize..64) {
            let part = |thread| clients_of_thread(clients, streams, threads, thread);
            let parts: Vec<Range<usize>> = (0..threads).map(part).collect();
            prop_assert_eq!(parts[0].start, 0);
            prop_assert_eq!(parts[threads - 1].end, clients);
            prop_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            // Groups stay whole, except for the last.
            prop_assert!(parts.iter().all(|part| part.start % streams == 0 || part.start == clients));
            let groups = |part: &Range<usize>| part.len().div_ceil(streams);
            let most = parts.iter().map(groups).max().unwrap_or(0);
            let fewest = parts.iter().map(groups).min().unwrap_or(0);
            prop_assert!(most - fewest <= 1);
        }
    }
}
