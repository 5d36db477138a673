//! Sockets of clients.

use crate::plan::ConnectionUse;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use std::net::SocketAddr;

/// A request up to this length goes out in one segment at any usual segment size, so that Nagle's algorithm
/// delays nothing on a new connection.
const ONE_SEGMENT_BYTES: usize = 536;

/// A socket that can be connected to the address.
pub(crate) fn new_socket(
    address: SocketAddr,
    connections: ConnectionUse,
    request_bytes: usize,
) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // One segment on a new connection is never delayed, so the call is skipped if it has no effect.
    if connections != ConnectionUse::New || request_bytes > ONE_SEGMENT_BYTES {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}
