//! `net_*`: the client of a request, and sockets that plug-ins open themselves.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use crate::abi::{IO_EOF, IO_ERROR, IoVec, SendFileData, error_handle};
use crate::handle::{self, Handle, descriptor};
use crate::memory::bytes;
use crate::plugin_request::of_handle;

/// How long a write to a plug-in's own socket may wait.
const WRITE_TIMEOUT_SECONDS: c_int = 60;

/// Reads from a client's body, or a socket; returns the number of bytes, IO_EOF or IO_ERROR.
pub unsafe fn read(sd: *mut c_void, to: &mut [u8], timeout_seconds: c_int) -> c_int {
    if let Some(plugin_request) = of_handle(sd) {
        return match plugin_request.read_body(to) {
            Ok(0) => IO_EOF,
            Ok(read) => read as c_int,
            Err(_) => IO_ERROR,
        };
    }
    let Some(number) = descriptor(sd) else { return IO_ERROR };
    if !wait(number, libc::POLLIN, timeout_seconds) {
        return IO_ERROR;
    }
    match libc::read(number, to.as_mut_ptr().cast(), to.len()) {
        read if read < 0 => IO_ERROR,
        read => read as c_int,
    }
}

/// Writes all bytes to a client, or a socket; returns their number, or IO_ERROR.
pub unsafe fn write(sd: *mut c_void, data: &[u8]) -> c_int {
    if let Some(plugin_request) = of_handle(sd) {
        return match plugin_request.write(data) {
            Ok(()) => data.len() as c_int,
            Err(_) => IO_ERROR,
        };
    }
    let Some(number) = descriptor(sd) else { return IO_ERROR };
    let mut written = 0;
    while written < data.len() {
        if !wait(number, libc::POLLOUT, WRITE_TIMEOUT_SECONDS) {
            return IO_ERROR;
        }
        match libc::write(number, data[written..].as_ptr().cast(), data.len() - written) {
            count if count > 0 => written += count as usize,
            _ => match std::io::Error::last_os_error().kind() {
                std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock => {}
                _ => return IO_ERROR,
            },
        }
    }
    data.len() as c_int
}

/// Waits for a socket; 0 seconds: without limit; negative: not at all.
unsafe fn wait(number: c_int, events: libc::c_short, timeout_seconds: c_int) -> bool {
    let timeout_ms = match timeout_seconds {
        0 => -1,
        seconds if seconds < 0 => 0,
        seconds => seconds.saturating_mul(1_000),
    };
    let mut poll = libc::pollfd { fd: number, events, revents: 0 };
    loop {
        match libc::poll(&mut poll, 1, timeout_ms) {
            -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            ready => return ready > 0,
        }
    }
}

pub unsafe extern "C" fn net_read(
    sd: *mut c_void,
    to: *mut c_void,
    size: c_int,
    timeout_seconds: c_int,
) -> c_int {
    if to.is_null() || size < 0 {
        return IO_ERROR;
    }
    read(sd, std::slice::from_raw_parts_mut(to.cast(), size as usize), timeout_seconds)
}

pub unsafe extern "C" fn net_write(sd: *mut c_void, data: *const c_void, size: c_int) -> c_int {
    if size <= 0 || data.is_null() {
        return if size == 0 { 0 } else { IO_ERROR };
    }
    write(sd, std::slice::from_raw_parts(data.cast(), size as usize))
}

pub unsafe extern "C" fn net_writev(sd: *mut c_void, parts: *const IoVec, count: c_int) -> c_int {
    let mut written = 0;
    for index in 0..count.max(0) as usize {
        let part = &*parts.add(index);
        match net_write(sd, part.iov_base.cast(), part.iov_len) {
            IO_ERROR => return IO_ERROR,
            bytes => written += bytes,
        }
    }
    written
}

pub unsafe extern "C" fn net_flush(sd: *mut c_void) -> c_int {
    match of_handle(sd) {
        Some(plugin_request) => plugin_request.flush().map_or(IO_ERROR, |()| 0),
        None => descriptor(sd).map_or(IO_ERROR, |_| 0),
    }
}

pub unsafe extern "C" fn net_sendfile(sd: *mut c_void, data: *mut SendFileData) -> c_int {
    let Some(data) = data.as_ref() else { return IO_ERROR };
    let Some(file) = descriptor(data.fd) else { return IO_ERROR };
    let mut sent = net_write(sd, data.header, data.hlen);
    if sent == IO_ERROR {
        return IO_ERROR;
    }
    let mut offset = data.offset;
    let mut left = if data.len == 0 { usize::MAX } else { data.len };
    let mut piece = vec![0u8; 64 * 1024];
    while left > 0 {
        let wanted = piece.len().min(left);
        match libc::pread(file, piece.as_mut_ptr().cast(), wanted, offset as libc::off_t) {
            0 => break,
            read if read < 0 => return IO_ERROR,
            read => {
                if write(sd, &piece[..read as usize]) == IO_ERROR {
                    return IO_ERROR;
                }
                offset += read as usize;
                left -= read as usize;
                sent = sent.saturating_add(read as c_int);
            }
        }
    }
    match net_write(sd, data.trailer, data.tlen) {
        IO_ERROR => IO_ERROR,
        trailer => sent.saturating_add(trailer),
    }
}

pub unsafe extern "C" fn net_isalive(sd: *mut c_void) -> c_int {
    match of_handle(sd) {
        Some(plugin_request) => c_int::from(plugin_request.is_alive()),
        None => c_int::from(descriptor(sd).is_some()),
    }
}

/// A handle for a descriptor that a system call has opened.
unsafe fn opened(number: c_int) -> *mut c_void {
    if number < 0 { error_handle() } else { Handle::open(OwnedFd::from_raw_fd(number)) }
}

/// Converts the result of a system call to IO_OKAY or IO_ERROR.
fn answer(result: c_int) -> c_int {
    if result == 0 { 0 } else { IO_ERROR }
}

pub unsafe extern "C" fn net_socket(domain: c_int, kind: c_int, protocol: c_int) -> *mut c_void {
    opened(libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol))
}

pub unsafe extern "C" fn net_listen(sd: *mut c_void, backlog: c_int) -> c_int {
    descriptor(sd).map_or(IO_ERROR, |number| answer(libc::listen(number, backlog)))
}

pub unsafe extern "C" fn net_create_listener(address: *const c_char, port: c_int) -> *mut c_void {
    let text = String::from_utf8_lossy(bytes(address)).into_owned();
    let ip = if text.is_empty() { Ok(std::net::Ipv4Addr::UNSPECIFIED.into()) } else { text.parse() };
    let (Ok(ip), Ok(port)) = (ip, u16::try_from(port)) else { return error_handle() };
    match std::net::TcpListener::bind(std::net::SocketAddr::new(ip, port)) {
        Ok(listener) => Handle::open(listener.into()),
        Err(_) => error_handle(),
    }
}

pub unsafe extern "C" fn net_connect(sd: *mut c_void, address: *const c_void, length: c_int) -> c_int {
    descriptor(sd)
        .map_or(IO_ERROR, |number| answer(libc::connect(number, address.cast(), length as libc::socklen_t)))
}

pub unsafe extern "C" fn net_getpeername(
    sd: *mut c_void,
    address: *mut libc::sockaddr,
    length: *mut c_int,
) -> c_int {
    descriptor(sd).map_or(IO_ERROR, |number| answer(libc::getpeername(number, address, length.cast())))
}

pub unsafe extern "C" fn net_close(sd: *mut c_void) -> c_int {
    if handle::close(sd) { 0 } else { IO_ERROR }
}

pub unsafe extern "C" fn net_bind(sd: *mut c_void, address: *const libc::sockaddr, length: c_int) -> c_int {
    descriptor(sd).map_or(IO_ERROR, |number| answer(libc::bind(number, address, length as libc::socklen_t)))
}

pub unsafe extern "C" fn net_accept(
    sd: *mut c_void,
    address: *mut libc::sockaddr,
    length: *mut c_int,
) -> *mut c_void {
    descriptor(sd).map_or(error_handle(), |number| {
        opened(libc::accept4(number, address, length.cast(), libc::SOCK_CLOEXEC))
    })
}

pub unsafe extern "C" fn net_getsockopt(
    sd: *mut c_void,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut c_int,
) -> c_int {
    descriptor(sd)
        .map_or(IO_ERROR, |number| answer(libc::getsockopt(number, level, name, value, length.cast())))
}

pub unsafe extern "C" fn net_setsockopt(
    sd: *mut c_void,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: c_int,
) -> c_int {
    // The server sets the options of the client's connection; plug-ins that set TCP_NODELAY get no error.
    if of_handle(sd).is_some() {
        return 0;
    }
    descriptor(sd).map_or(IO_ERROR, |number| {
        answer(libc::setsockopt(number, level, name, value, length as libc::socklen_t))
    })
}

pub unsafe extern "C" fn net_select(
    count: c_int,
    readable: *mut libc::fd_set,
    writable: *mut libc::fd_set,
    failed: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    libc::select(count, readable, writable, failed, timeout)
}

pub unsafe extern "C" fn net_ioctl(sd: *mut c_void, tag: c_int, result: *mut c_void) -> c_int {
    descriptor(sd).map_or(IO_ERROR, |number| answer(libc::ioctl(number, tag as libc::Ioctl, result)))
}

pub unsafe extern "C" fn net_socketpair(pair: *mut *mut c_void) -> c_int {
    match std::os::unix::net::UnixStream::pair() {
        Ok((one, other)) => {
            *pair = Handle::open(one.into());
            *pair.add(1) = Handle::open(other.into());
            0
        }
        Err(_) => IO_ERROR,
    }
}

pub unsafe extern "C" fn net_dup2(sd: *mut c_void, number: c_int) -> *mut c_void {
    descriptor(sd).map_or(error_handle(), |from| opened(libc::dup2(from, number)))
}

pub unsafe extern "C" fn net_is_stdout(sd: *mut c_void) -> c_int {
    c_int::from(descriptor(sd) == Some(libc::STDOUT_FILENO))
}

pub unsafe extern "C" fn net_is_stdin(sd: *mut c_void) -> c_int {
    c_int::from(descriptor(sd) == Some(libc::STDIN_FILENO))
}

/// The descriptor of a plug-in's own socket; the client has none, because it may use TLS or be one of many
/// streams.
pub unsafe extern "C" fn net_native_handle(sd: *mut c_void) -> c_int {
    descriptor(sd).unwrap_or(-1)
}

/// The name of a host; with `verify`, only if the name resolves back to the address.
pub unsafe extern "C" fn net_ip2host(ip: *const c_char, verify: c_int) -> *mut c_char {
    let Ok(ip) = String::from_utf8_lossy(bytes(ip)).parse::<std::net::IpAddr>() else {
        return ptr::null_mut();
    };
    match host_of(ip, verify != 0) {
        Some(name) => crate::memory::text(name.as_bytes()),
        None => ptr::null_mut(),
    }
}

/// The name of an address by DNS, which may take long.
pub unsafe fn host_of(ip: std::net::IpAddr, verify: bool) -> Option<String> {
    let mut name = [0 as c_char; 1025];
    let no_name = libc::NI_NAMEREQD;
    let result = match std::net::SocketAddr::new(ip, 0) {
        std::net::SocketAddr::V4(address) => {
            let mut raw: libc::sockaddr_in = std::mem::zeroed();
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
            let length = size_of_val(&raw) as libc::socklen_t;
            libc::getnameinfo(
                (&raw const raw).cast(),
                length,
                name.as_mut_ptr(),
                1025,
                ptr::null_mut(),
                0,
                no_name,
            )
        }
        std::net::SocketAddr::V6(address) => {
            let mut raw: libc::sockaddr_in6 = std::mem::zeroed();
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_addr.s6_addr = address.ip().octets();
            let length = size_of_val(&raw) as libc::socklen_t;
            libc::getnameinfo(
                (&raw const raw).cast(),
                length,
                name.as_mut_ptr(),
                1025,
                ptr::null_mut(),
                0,
                no_name,
            )
        }
    };
    if result != 0 {
        return None;
    }
    let name = String::from_utf8_lossy(bytes(name.as_ptr())).into_owned();
    if verify {
        use std::net::ToSocketAddrs;
        let mut addresses = (name.as_str(), 0u16).to_socket_addrs().ok()?;
        if !addresses.any(|address| address.ip() == ip) {
            return None;
        }
    }
    Some(name)
}
