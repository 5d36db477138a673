//! The limit of requests: the least work that a server can do for each on this kernel.
//!
//! Epoll, and one fixed answer to all input: no parsing, no files, no log. A request on a kept connection
//! costs one receive and one send; a new connection costs an accept and a close more, and is registered for
//! events only if it is kept. Everything that a real server spends beyond this is its own cost.
//!
//! Usually it has one thread. With several, each is on a processor of its own and has its own listener on the
//! same port (`SO_REUSEPORT`), events, connections and copy of the answer, so that the threads share nothing
//! but the kernel.

use crate::placement;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, getsockname, ipproto,
    listen, recv, send, socket_with, sockopt,
};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// The largest body that the limit answers with, in bytes.
pub const MAXIMUM_BODY_BYTES: usize = 1 << 30;

const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
const EVENTS_AT_ONCE: usize = 256;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// The most threads.
pub const MOST_THREADS: usize = 1024;
/// The data of events of the listener and of the end signals; connections have their descriptor.
const LISTENER: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// A server that is as fast as possible, and useful only for this measurement.
#[derive(Debug)]
pub struct LimitServer {
    /// One for each thread.
    listeners: Vec<OwnedFd>,
    address: SocketAddr,
    body_bytes: usize,
}

impl LimitServer {
    /// Listens on the address (port 0: any free one) with this many threads; each answer has a body of this
    /// many bytes.
    pub fn bind(address: SocketAddr, body_bytes: usize, threads: usize) -> io::Result<LimitServer> {
        let refuse = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if body_bytes > MAXIMUM_BODY_BYTES {
            return refuse(format!(
                "a body of {body_bytes} bytes: at most {MAXIMUM_BODY_BYTES} are possible"
            ));
        }
        if threads == 0 || threads > MOST_THREADS {
            return refuse(format!("{threads} threads: from 1 to {MOST_THREADS} are possible"));
        }
        let first = new_listener(address, threads > 1)?;
        let address = SocketAddr::try_from(getsockname(&first)?)?;
        let mut listeners = vec![first];
        for _ in 1..threads {
            listeners.push(new_listener(address, true)?);
        }
        Ok(LimitServer { listeners, address, body_bytes })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `end`, if given, becomes readable or is closed by the other side.
    pub fn run(&self, end: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if let [listener] = &self.listeners[..] {
            return Serving::new(listener, self.body_bytes)?.run(end, None);
        }
        let cpus = placement::allowed()?;
        // The first thread that ends drops `running`; the others see that its pipe is closed.
        let (stopped, running) = io::pipe()?;
        let running = Mutex::new(Some(running));
        let serve = |index: usize| {
            // With more threads than processors the kernel places them.
            if self.listeners.len() <= cpus.len() {
                placement::pin_this_thread(&[cpus[index]])?;
            }
            // Made here, so that the memory of the answers belongs to this thread.
            Serving::new(&self.listeners[index], self.body_bytes)?.run(end, Some(stopped.as_fd()))
        };
        let serve_and_stop = |index| {
            let served = serve(index);
            drop(running.lock().unwrap_or_else(PoisonError::into_inner).take());
            served
        };
        std::thread::scope(|scope| {
            let serve_and_stop = &serve_and_stop;
            let threads: Vec<_> =
                (0..self.listeners.len()).map(|index| scope.spawn(move || serve_and_stop(index))).collect();
            let panicked = || Err(io::Error::other("a serving thread ended in a panic"));
            let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked()));
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

/// The state of a thread that serves.
struct Serving<'a> {
    listener: &'a OwnedFd,
    kept_answer: Vec<u8>,
    closing_answer: Vec<u8>,
    epoll: OwnedFd,
    /// Connections that are registered for events, by their descriptor's number.
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
}

struct Connection {
    socket: OwnedFd,
    /// What could not be sent at once.
    unsent: Option<Unsent>,
}

/// The rest of an answer that the socket did not take whole.
#[derive(Clone, Copy)]
struct Unsent {
    closing: bool,
    sent: usize,
}

/// The next state of a connection.
enum Next {
    /// It waits for the next request.
    Wait,
    /// It waits until the socket accepts more of this.
    Send(Unsent),
    /// It is over.
    Close,
}

impl Serving<'_> {
    fn new(listener: &OwnedFd, body_bytes: usize) -> io::Result<Serving<'_>> {
        Ok(Serving {
            listener,
            kept_answer: answer("", body_bytes),
            closing_answer: answer("Connection: close\r\n", body_bytes),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            buffer: vec![0; RECEIVE_BUFFER_BYTES],
        })
    }

    /// Serves until one of the descriptors becomes readable or is closed by the other side.
    fn run(&mut self, end: Option<BorrowedFd<'_>>, stopped: Option<BorrowedFd<'_>>) -> io::Result<()> {
        epoll::add(&self.epoll, self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        for signal in end.into_iter().chain(stopped) {
            epoll::add(&self.epoll, signal, EventData::new_u64(END), EventFlags::IN)?;
        }
        let mut space = [MaybeUninit::<Event>::uninit(); EVENTS_AT_ONCE];
        loop {
            let (events, _) = match epoll::wait(&self.epoll, &mut space, None) {
                Err(Errno::INTR) => continue,
                waited => waited?,
            };
            for event in events.iter() {
                match event.data.u64() {
                    LISTENER => self.accept_all()?,
                    END => return Ok(()),
                    descriptor => self.on_event(descriptor as usize),
                }
            }
        }
    }

    fn accept_all(&mut self) -> io::Result<()> {
        loop {
            match accept_with(self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.begin(socket),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Nothing can be accepted until a connection ends, so the waiting ones keep waiting.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads at once: the listener returns connections when their first bytes have arrived.
    fn begin(&mut self, socket: OwnedFd) {
        let next = self.exchange(&socket);
        let unsent = match next {
            Next::Close => return,
            Next::Wait => None,
            Next::Send(unsent) => Some(unsent),
        };
        let mut interest = EventFlags::IN | EventFlags::ET;
        if unsent.is_some() {
            interest |= EventFlags::OUT;
        }
        let descriptor = socket.as_raw_fd() as usize;
        if epoll::add(&self.epoll, &socket, EventData::new_u64(descriptor as u64), interest).is_err() {
            return;
        }
        if self.connections.len() <= descriptor {
            self.connections.resize_with(descriptor + 1, || None);
        }
        self.connections[descriptor] = Some(Connection { socket, unsent });
    }

    fn on_event(&mut self, descriptor: usize) {
        let Some(connection) = self.connections.get_mut(descriptor).and_then(Option::take) else { return };
        let next = match connection.unsent {
            Some(unsent) => self.send(&connection.socket, unsent),
            None => self.exchange(&connection.socket),
        };
        let unsent = match next {
            Next::Close => return,
            Next::Wait => None,
            Next::Send(unsent) => {
                let interest = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                let mark = EventData::new_u64(descriptor as u64);
                if epoll::modify(&self.epoll, &connection.socket, mark, interest).is_err() {
                    return;
                }
                Some(unsent)
            }
        };
        self.connections[descriptor] = Some(Connection { unsent, ..connection });
    }

    /// One receive, one send. Each receive counts as one request.
    fn exchange(&mut self, socket: &OwnedFd) -> Next {
        match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => Next::Close,
            Ok((received, _)) => {
                let closing = memchr::memmem::find(&self.buffer[..received], b"onnection: close").is_some();
                self.send(socket, Unsent { closing, sent: 0 })
            }
            Err(Errno::AGAIN | Errno::INTR) => Next::Wait,
            Err(_) => Next::Close,
        }
    }

    fn send(&self, socket: &OwnedFd, unsent: Unsent) -> Next {
        let answer = if unsent.closing { &self.closing_answer } else { &self.kept_answer };
        let sent = match send(socket, &answer[unsent.sent..], SendFlags::NOSIGNAL) {
            Ok(sent) => unsent.sent + sent,
            Err(Errno::AGAIN | Errno::INTR) => unsent.sent,
            Err(_) => return Next::Close,
        };
        match (sent == answer.len(), unsent.closing) {
            (false, closing) => Next::Send(Unsent { closing, sent }),
            (true, true) => Next::Close,
            (true, false) => Next::Wait,
        }
    }
}

fn answer(connection_field: &str, body_bytes: usize) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\nServer: limit\r\nDate: Fri, 20 Nov 2026 09:42:00 GMT\r\n\
         Content-Type: text/html\r\n\
         {connection_field}Content-Length: {body_bytes}\r\n\r\n"
    )
    .into_bytes();
    bytes.resize(bytes.len() + body_bytes, b'x');
    bytes
}

/// `shared`: other listeners of this user may be on the same port.
fn new_listener(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    if shared {
        sockopt::set_socket_reuseport(&listener, true)?;
    }
    // Connections inherit this from the listener, so that it has no cost for each.
    sockopt::set_tcp_nodelay(&listener, true)?;
    set_defer_accept(listener.as_fd())?;
    bind(&listener, &address)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Makes the listener return a connection only when its first bytes have arrived, for up to a second
/// (tcp(7)).
fn set_defer_accept(listener: BorrowedFd<'_>) -> io::Result<()> {
    let seconds: libc::c_int = 1;
    // SAFETY: the descriptor is open, as it is borrowed, and the kernel reads as many bytes from `seconds` as
    // the last argument states, which is its size.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Runs a server with a body of this length while `client` does its work.
    fn while_serving(body_bytes: usize, client: impl FnOnce(SocketAddr)) {
        while_threads_serve(1, body_bytes, client);
    }

    fn while_threads_serve(threads: usize, body_bytes: usize, client: impl FnOnce(SocketAddr)) {
        let server = LimitServer::bind(([127, 0, 0, 1], 0).into(), body_bytes, threads).unwrap();
        let (end, ending) = io::pipe().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| server.run(Some(end.as_fd())).unwrap());
            // Closed when the client is done or fails, so that the server ends in either case.
            let _ending = ending;
            client(server.address());
        });
    }

    fn read_answer(stream: &mut TcpStream, body_bytes: usize) -> String {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&bytes);
            if let Some(head) = text.find("\r\n\r\n")
                && bytes.len() == head + 4 + body_bytes
            {
                return text[..head].to_string();
            }
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0, "the connection ended in the answer");
            bytes.extend_from_slice(&piece[..length]);
        }
    }

    #[test]
    fn a_kept_connection_is_answered_again_and_again() {
        while_serving(300, |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            for _ in 0..3 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let head = read_answer(&mut stream, 300);
                assert!(
                    head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 300"),
                    "{head}"
                );
                assert!(!head.contains("close"), "{head}");
            }
        });
    }

    #[test]
    fn a_connection_that_is_to_close_is_closed() {
        while_serving(0, |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.contains("Connection: close\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        });
    }

    #[test]
    fn a_long_answer_goes_out_whole_to_a_slow_reader() {
        let body_bytes = 20_000_000;
        while_serving(body_bytes, |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            assert!(bytes.len() > body_bytes && bytes.ends_with(b"xxx"));
        });
    }

    #[test]
    fn an_address_in_use_is_an_error() {
        let server = LimitServer::bind(([127, 0, 0, 1], 0).into(), 1, 1).unwrap();
        for threads in [1, 2] {
            let error = LimitServer::bind(server.address(), 1, threads).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
        for (body_bytes, threads) in [(MAXIMUM_BODY_BYTES + 1, 1), (1, 0), (1, MOST_THREADS + 1)] {
            let error = LimitServer::bind(([127, 0, 0, 1], 0).into(), body_bytes, threads).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn several_threads_serve_one_port_and_end_together() {
        // More threads than processors, on most machines.
        for threads in [2, 65] {
            while_threads_serve(threads, 10, |address| {
                // The kernel spreads them over the listeners: each thread that has one answers it.
                let mut streams: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
                for stream in &mut streams {
                    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                }
                for stream in &mut streams {
                    assert!(read_answer(stream, 10).starts_with("HTTP/1.1 200 OK\r\n"));
                }
            });
        }
    }
}
