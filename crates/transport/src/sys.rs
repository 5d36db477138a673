//! System calls without a safe library function, each behind a safe function.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a listening socket with this thread's event loop.
pub fn register_listener(socket: TcpListener) -> io::Result<AsyncFd<TcpListener>> {
    // SAFETY: a TcpListener owns its descriptor: as_raw_fd returns the same open one until the listener is
    // dropped. That is after the AsyncFd that owns it has deregistered it.
    Ok(unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?)
}

/// Registers an owned descriptor that becomes readable with this thread's event loop.
pub fn register_descriptor(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open, and as_raw_fd returns the same descriptor, until it is dropped. That is
    // after the AsyncFd that owns it has deregistered it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

/// Makes the kernel pass connections of a listening socket to the server when their first bytes have arrived,
/// or after about `seconds`; 0 switches this off (tcp(7), TCP_DEFER_ACCEPT).
pub fn set_defer_accept(listener: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    let value = seconds.try_into().unwrap_or(libc::c_int::MAX);
    set_int(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, value)
}

/// Lets the kernel cut datagrams that are larger than the path takes into fragments, as it does by default
/// (ip(7), IP_MTU_DISCOVER).
pub fn allow_fragments(socket: BorrowedFd<'_>, is_ipv6: bool) -> io::Result<()> {
    if is_ipv6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0)?;
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT)
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT)
    }
}

/// Sets an option whose value is an int.
fn set_int(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the borrow. The callers name options that take one
    // int, whose address and size are passed; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a filter that chooses which of the sockets that share a port gets a packet or connection (socket(7),
/// SO_ATTACH_REUSEPORT_CBPF). It applies to all of them, including those that are bound later.
pub fn attach_reuse_port_filter(socket: BorrowedFd<'_>, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the descriptor is open for the length of the borrow. The option takes a sock_fprog, whose
    // address and size are passed, and whose pointer and length are those of a slice that outlives the call.
    // The kernel only reads both.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
