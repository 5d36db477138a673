//! The sockets of clients.

use crate::plan::ConnectionUse;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use std::net::SocketAddr;

/// A request up to this length fits into one segment of any usual size, so that Nagle's algorithm does not
/// delay it on a new connection.
const ONE_SEGMENT_BYTES: usize = 536;

/// Creates a socket for a connection to the address.
pub(crate) fn new_socket(
    address: SocketAddr,
    connections: ConnectionUse,
    request_bytes: usize,
) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // A single segment on a new connection is not delayed, so that the call would have no effect.
    if connections != ConnectionUse::New || request_bytes > ONE_SEGMENT_BYTES {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}
