//! The share of each engine thread in a run: its clients, their connections, and its state of the targets.

use crate::client::Connection;
use crate::target::HttpVersion;
use crate::target::Target;
use crate::tls_setup::{TlsBase, TlsSetup};
use std::net::SocketAddr;
use std::ops::Range;

/// A target, with the state that a thread keeps for it.
pub(crate) struct EngineTarget {
    pub(crate) address: SocketAddr,
    pub(crate) is_loopback: bool,
    pub(crate) tls: Option<TlsSetup>,
    pub(crate) version: HttpVersion,
    /// The plan opens WebSockets to the target.
    pub(crate) has_websockets: bool,
    /// Several clients share a connection of HTTP/1.1.
    pub(crate) is_pipelined: bool,
}

/// The share of one thread.
pub(crate) struct ThreadShare {
    pub(crate) clients: Range<usize>,
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    /// The number of requests that it may start.
    pub(crate) request_limit: u64,
}

/// The clients of one thread out of `threads`: consecutive numbers in whole groups of `streams` clients. The
/// shares of the threads differ by one group at most.
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

/// The connections of all groups; those of a group are consecutive.
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
        fn threads_cover_all_clients(clients in 1usize..5000, streams in 1usize..20, threads in 1usize..64) {
            let part = |thread| clients_of_thread(clients, streams, threads, thread);
            let parts: Vec<Range<usize>> = (0..threads).map(part).collect();
            prop_assert_eq!(parts[0].start, 0);
            prop_assert_eq!(parts[threads - 1].end, clients);
            prop_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            // Groups are not divided, except for the last.
            prop_assert!(parts.iter().all(|part| part.start % streams == 0 || part.start == clients));
            let groups = |part: &Range<usize>| part.len().div_ceil(streams);
            let most = parts.iter().map(groups).max().unwrap_or(0);
            let fewest = parts.iter().map(groups).min().unwrap_or(0);
            prop_assert!(most - fewest <= 1);
        }
    }
}
