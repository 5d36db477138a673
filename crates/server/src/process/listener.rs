//! Listening sockets: bound at the start, accepted from without an event registration for connections that
//! can be answered at once, and closed so that no established connection is reset.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket as RawSocket, Type};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use touchstone_access::proxy_protocol::ProxySource;
use touchstone_access::{Admission, ConnectionPermit, proxy_header};
use touchstone_config::{ListenAddress, LogLevel};
use touchstone_http::request_view::UNIX_CLIENT;
use touchstone_observe::metrics::ConnectionRefusal;
use touchstone_stream::StreamOfCore;
use touchstone_transport::Socket;

use crate::connection::Connection;
use touchstone_exchange::core::Core;

/// How many connections the kernel queues while the server is busy (it caps this at net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// How many connections are accepted before other connections are served.
const ACCEPT_BATCH: usize = 64;

/// The kernel passes a connection on when its first bytes have arrived, or after about this time.
const DEFER_ACCEPT_SECONDS: u32 = 1;

/// How many bytes of an answer the kernel takes beyond what it can send now (tcp(7), TCP_NOTSENT_LOWAT).
/// Without a limit, each client that stops reading holds megabytes.
const UNSENT_BYTES: u32 = 128 * 1024;

/// After new connections are refused: how long no connection may have arrived before the socket is closed.
const QUIET_BEFORE_CLOSE: Duration = Duration::from_millis(100);

/// Makes one socket for each core on one address; port 0 becomes the same free port for all.
pub fn bind(address: SocketAddr, cores: usize) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    // With SO_REUSEPORT, two servers of one user could share a port without notice. The first socket is bound
    // without it, which fails if another program listens there.
    let first = bind_one(address, false)?;
    let address = first.local_addr()?;
    if cores == 1 {
        first.listen_now()?;
        return Ok((address, vec![first.socket.into()]));
    }
    drop(first);
    let mut listeners = Vec::with_capacity(cores);
    for _ in 0..cores {
        let bound = bind_one(address, true)?;
        bound.listen_now()?;
        listeners.push(bound.socket.into());
    }
    Ok((address, listeners))
}

/// Makes more sockets on an address that already has some of this server's.
pub fn bind_beside(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let bind = || {
        let bound = bind_one(address, true)?;
        bound.listen_now()?;
        Ok(bound.socket.into())
    };
    (0..count).map(|_| bind()).collect()
}

/// Sets this server's options on a socket that another process created.
pub fn adopt(socket: &TcpListener, is_unix: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if is_unix {
        return Ok(());
    }
    SockRef::from(socket).set_tcp_nodelay(true)?;
    SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    let _ = touchstone_transport::sys::set_defer_accept(socket.as_fd(), DEFER_ACCEPT_SECONDS);
    Ok(())
}

struct BoundSocket {
    socket: RawSocket,
}

impl BoundSocket {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    fn listen_now(&self) -> io::Result<()> {
        self.socket.listen(BACKLOG)
    }
}

/// Sets every option once, here: the kernel copies them to each accepted connection.
fn bind_one(address: SocketAddr, shared: bool) -> io::Result<BoundSocket> {
    let socket =
        RawSocket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    set_defer_accept(&socket, DEFER_ACCEPT_SECONDS);
    socket.bind(&address.into())?;
    Ok(BoundSocket { socket })
}

/// TCP_DEFER_ACCEPT only saves a wake-up, so an error is ignored.
fn set_defer_accept(socket: &RawSocket, seconds: u32) {
    let _ = touchstone_transport::sys::set_defer_accept(socket.as_fd(), seconds);
}

/// What a core needs to make a listener.
#[derive(Debug)]
pub struct ListenerSeed {
    /// The address as configured (the port may have been chosen by the kernel).
    pub configured: ListenAddress,
    /// The socket: TCP or unix, which are used in the same way.
    pub socket: TcpListener,
    /// Other processes hold the same socket and continue to use it.
    pub is_shared_with_processes: bool,
}

/// One core's end of one address.
pub struct Listener {
    /// The address as configured (the port may have been chosen by the kernel).
    pub configured: ListenAddress,
    socket: AsyncFd<TcpListener>,
    /// Replaces the address of clients that have none, those of a unix socket.
    peer: Option<SocketAddr>,
    is_shared_with_processes: Cell<bool>,
    /// The stream of the connections; `None`: HTTP. A listener that a reload removes keeps it for the waiting
    /// connections.
    stream: RefCell<Option<Rc<StreamOfCore>>>,
    stop: Notify,
}

impl Listener {
    /// Registers a socket with this core's event loop.
    pub fn new(seed: ListenerSeed) -> io::Result<Rc<Listener>> {
        Ok(Rc::new(Listener {
            configured: seed.configured,
            peer: seed.configured.unix().map(|_| SocketAddr::new(UNIX_CLIENT, 0)),
            socket: touchstone_transport::sys::register_listener(seed.socket)?,
            is_shared_with_processes: Cell::new(seed.is_shared_with_processes),
            stream: RefCell::default(),
            stop: Notify::new(),
        }))
    }

    /// Ends the accept loop. Another process that holds the same socket accepts the waiting connections.
    pub fn leave(&self) {
        self.is_shared_with_processes.set(true);
        self.stop();
    }

    /// Ends the accept loop; waiting connections are still accepted.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Accepts until it is stopped, then accepts the connections that still wait, and closes.
    pub async fn run(self: Rc<Listener>, core: Rc<Core>) {
        loop {
            let ready = tokio::select! {
                biased;
                () = self.stop.notified() => break,
                ready = self.socket.readable() => ready,
            };
            let Ok(mut ready) = ready else { return };
            match self.accept_batch(&core) {
                AcceptResult::Drained(_) => ready.clear_ready(),
                AcceptResult::More => tokio::task::yield_now().await,
                AcceptResult::Exhausted => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        if !self.is_shared_with_processes.get() {
            self.close(&core).await;
        }
    }

    /// Passes the connections that arrive from now on to a stream, or to HTTP.
    pub fn pass_to(&self, stream: Option<Rc<StreamOfCore>>) {
        // The kernel waits for the first bytes of connections. For streams it must not: in many protocols the
        // server sends first.
        let seconds = if stream.is_some() { 0 } else { DEFER_ACCEPT_SECONDS };
        set_defer_accept(&SockRef::from(self.socket.get_ref()), seconds);
        self.stream.replace(stream);
    }

    fn accept_batch(&self, core: &Rc<Core>) -> AcceptResult {
        if let Some(stream) = &*self.stream.borrow() {
            return self.accept_for_stream(core, stream);
        }
        for accepted in 0..ACCEPT_BATCH {
            if !core.has_room() {
                return AcceptResult::Exhausted;
            }
            let (descriptor, peer) = match self.accept(core.needs_peers()) {
                Ok(accepted) => accepted,
                Err(errno) => match after_failure(core, accepted, errno) {
                    Some(end) => return end,
                    None => continue,
                },
            };
            core.counts.accepted.add(1);
            let Admission::Admitted(permit) = core.admit(peer) else {
                core.counts.refused(ConnectionRefusal::PerClient);
                core.refuse_connection(descriptor, self.configured);
                continue;
            };
            if core.expects_proxy_header(self.configured, peer) {
                self.serve_proxied(core, descriptor, peer);
                continue;
            }
            serve_accepted(core, Socket::fresh(descriptor), peer, permit, self.configured);
        }
        AcceptResult::More
    }

    /// The same for a stream, whose limits are its own.
    fn accept_for_stream(&self, core: &Core, stream: &Rc<StreamOfCore>) -> AcceptResult {
        for accepted in 0..ACCEPT_BATCH {
            match self.accept(true) {
                Ok((descriptor, Some(peer))) => touchstone_stream::accept(stream, descriptor, peer),
                Ok((_, None)) => {}
                Err(errno) => {
                    if let Some(end) = after_failure(core, accepted, errno) {
                        return end;
                    }
                }
            }
        }
        AcceptResult::More
    }

    /// Takes the PROXY header off the connection first; it has nearly always arrived already.
    fn serve_proxied(&self, core: &Rc<Core>, descriptor: std::os::fd::OwnedFd, peer: Option<SocketAddr>) {
        let configured = self.configured;
        match proxy_header::try_read(&descriptor) {
            Ok(Some(source)) => serve_named_client(core, source, Socket::fresh(descriptor), peer, configured),
            Ok(None) => {
                let core = core.clone();
                let limit = core.state.borrow().snapshot.config.limits.header_timeout;
                tokio::task::spawn_local(async move {
                    let Ok(stream) = tokio::net::TcpStream::from_std(descriptor.into()) else { return };
                    match tokio::time::timeout(limit, proxy_header::read(&stream)).await {
                        Ok(Ok(source)) => {
                            serve_named_client(&core, source, Socket::Registered(stream), peer, configured)
                        }
                        _ => core.counts.refused(ConnectionRefusal::ProxyHeader),
                    }
                });
            }
            Err(error) => {
                core.counts.refused(ConnectionRefusal::ProxyHeader);
                core.error_log.limited(LogLevel::Warning, "PROXY header", error);
            }
        }
    }

    /// Accepts a connection. Queries the client's address only if it is needed.
    #[inline]
    fn accept(&self, wants_peer: bool) -> rustix::io::Result<(std::os::fd::OwnedFd, Option<SocketAddr>)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        if wants_peer {
            let (descriptor, address) = rustix::net::acceptfrom_with(self.socket.get_ref(), flags)?;
            let address = address.and_then(|address| SocketAddr::try_from(address).ok());
            Ok((descriptor, address.or(self.peer)))
        } else {
            Ok((rustix::net::accept_with(self.socket.get_ref(), flags)?, self.peer))
        }
    }

    /// Closes the socket without a reset. The kernel resets every connection in the queue of a listening
    /// socket that is closed. So a filter first drops the SYN of new connections; the client sends it again
    /// and reaches the next server, if there is one. Then the established connections are accepted until no
    /// more arrive.
    async fn close(&self, core: &Rc<Core>) {
        let socket = SockRef::from(self.socket.get_ref());
        let filtered = socket.attach_filter(&REFUSE_NEW_CONNECTIONS).is_ok();
        set_defer_accept(&socket, 0);
        let mut quiet = Duration::ZERO;
        let pause = QUIET_BEFORE_CLOSE / 10;
        // Without the filter (for example if the container forbids it), arrivals do not stop under load.
        let attempts = if filtered { 100 } else { 1 };
        for _ in 0..attempts {
            match self.accept_batch(core) {
                AcceptResult::Drained(0) => quiet += pause,
                AcceptResult::Drained(_) | AcceptResult::More | AcceptResult::Exhausted => {
                    quiet = Duration::ZERO
                }
            }
            if quiet >= QUIET_BEFORE_CLOSE {
                break;
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// The result of a turn whose next accept has failed; `None`: the turn continues.
fn after_failure(core: &Core, accepted: usize, errno: rustix::io::Errno) -> Option<AcceptResult> {
    match errno {
        rustix::io::Errno::AGAIN => Some(AcceptResult::Drained(accepted)),
        // The client has aborted the connection; that needs no handling.
        rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR => None,
        _ => {
            let message = format_args!("cannot accept a connection: {errno}");
            core.counts.refused(ConnectionRefusal::AcceptFailed);
            core.error_log.limited(LogLevel::Error, "accept failed", message);
            Some(AcceptResult::Exhausted)
        }
    }
}

/// Serves what needs no wait, and makes the rest a task.
pub fn serve_accepted(
    core: &Rc<Core>,
    socket: Socket,
    peer: Option<SocketAddr>,
    permit: Option<ConnectionPermit>,
    listener: ListenAddress,
) {
    let transport = core.transport(socket, listener);
    Connection::new(core.clone(), transport, peer, listener, permit).begin_or_start();
}

/// The same for the client that a PROXY header named.
fn serve_named_client(
    core: &Rc<Core>,
    source: ProxySource,
    socket: Socket,
    peer: Option<SocketAddr>,
    listener: ListenAddress,
) {
    let (client, permit) = match source {
        ProxySource::Local => (peer, None),
        ProxySource::Client { client, .. } => {
            let Admission::Admitted(permit) = core.admit_proxied(client) else {
                return core.counts.refused(ConnectionRefusal::PerClient);
            };
            (Some(client), permit)
        }
    };
    serve_accepted(core, socket, client, permit, listener);
}

enum AcceptResult {
    /// No connection waits any more; this many were accepted.
    Drained(usize),
    /// More connections may wait.
    More,
    /// Descriptors or memory are exhausted: retry later.
    Exhausted,
}

/// Classic BPF on the TCP header: drop a segment that has SYN and not ACK, pass all others.
const REFUSE_NEW_CONNECTIONS: [SockFilter; 5] = [
    SockFilter::new(0x30, 0, 0, 13),   // load the byte at offset 13: the flags
    SockFilter::new(0x54, 0, 0, 0x12), // keep SYN (0x02) and ACK (0x10)
    SockFilter::new(0x15, 0, 1, 0x02), // SYN alone?
    SockFilter::new(0x06, 0, 0, 0),    // drop
    SockFilter::new(0x06, 0, 0, 0xffff_ffff), // pass
];
