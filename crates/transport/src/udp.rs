//! UDP sockets that listen.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Binds a socket. `is_shared`: other sockets of this user may have the same address. The kernel's receive
/// buffer is smaller than `receive_bytes` if `net.core.rmem_max` limits it.
pub fn bind(address: SocketAddr, is_shared: bool, receive_bytes: usize) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    if is_shared {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A larger buffer is only a help.
    let _ = socket.set_recv_buffer_size(receive_bytes);
    socket.bind(&address.into())?;
    Ok(socket)
}
