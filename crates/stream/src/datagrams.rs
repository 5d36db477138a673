//! Datagrams: those of one client address and port are a session, which has a socket of its own to its
//! origin.
//!
//! Each core has a socket on the address, and the kernel gives all datagrams of one client to the same one.
//! Replies leave from the address that the client has sent to, also on a machine with several.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use touchstone_access::StreamPermit;
use touchstone_handler::stream_counts::End;
use touchstone_proxy::DatagramLink;

use crate::record::Record;
use crate::stream_of_core::{FindStream, StreamOfCore};

/// The most bytes received at once: several datagrams of one client may be joined.
const RECEIVE_BYTES: usize = 64 * 1024;

/// How often a socket may receive before other work of the core gets its turn.
const TURNS: usize = 64;

/// How many datagrams wait for the session's socket.
const MOST_WAITING: usize = 16;

/// A core's socket on one address.
pub struct DatagramListener {
    /// The address as configured.
    pub configured: SocketAddr,
    socket: UdpSocket,
    state: UdpSocketState,
    stop: Notify,
    sessions: RefCell<HashMap<SocketAddr, Rc<Session>>>,
}

/// The datagrams of one client.
struct Session {
    record: Record,
    /// The socket to the origin, once it is open.
    link: RefCell<Option<Rc<DatagramLink>>>,
    /// Received before that.
    waiting: RefCell<Vec<Bytes>>,
    /// The address that the client sends to.
    local: Option<IpAddr>,
    moved_at: Cell<Instant>,
    /// The error of a datagram that was sent before, if the next one has reported it.
    send_error: Cell<Option<io::ErrorKind>>,
    _permit: StreamPermit,
}

impl DatagramListener {
    /// Registers a socket with this core's event loop.
    pub fn new(configured: SocketAddr, socket: StdUdpSocket) -> io::Result<Rc<DatagramListener>> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        // The library has switched fragmentation off, which QUIC does not need but other protocols do.
        touchstone_transport::sys::allow_fragments(socket.as_fd(), configured.is_ipv6())?;
        Ok(Rc::new(DatagramListener {
            configured,
            socket: UdpSocket::from_std(socket)?,
            state,
            stop: Notify::new(),
            sessions: RefCell::default(),
        }))
    }

    /// Receives no more; the sessions continue.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Receives until it is stopped.
    pub async fn run(self: Rc<Self>, streams: Weak<dyn FindStream>) {
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            let ready = tokio::select! {
                biased;
                () = self.stop.notified() => return,
                ready = self.socket.readable() => ready,
            };
            if ready.is_err() {
                return;
            }
            let Some(streams) = streams.upgrade() else { return };
            for _ in 0..TURNS {
                let mut meta = [RecvMeta::default()];
                let received = self.socket.try_io(Interest::READABLE, || {
                    self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta)
                });
                match received {
                    Ok(count) if count > 0 => self.take(&*streams, &meta[0], &buffer),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The error belongs to a datagram that was sent before; the next datagram is not
                    // affected.
                    _ => {}
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Passes received datagrams of one client on; several of the same length may be joined.
    fn take(self: &Rc<Self>, streams: &dyn FindStream, meta: &RecvMeta, buffer: &[u8]) {
        let received = &buffer[..meta.len.min(buffer.len())];
        if received.is_empty() {
            return self.take_one(streams, meta, received);
        }
        received.chunks(meta.stride.max(1)).for_each(|datagram| self.take_one(streams, meta, datagram));
    }

    fn take_one(self: &Rc<Self>, streams: &dyn FindStream, meta: &RecvMeta, datagram: &[u8]) {
        let known = self.sessions.borrow().get(&meta.addr).cloned();
        let session = match known {
            Some(session) => session,
            None => match self.begin(streams, meta, datagram.len()) {
                Some(session) => session,
                None => return,
            },
        };
        session.pass_on(datagram);
    }

    /// Begins the session of a client; `None`: it is refused.
    fn begin(
        self: &Rc<Self>,
        streams: &dyn FindStream,
        meta: &RecvMeta,
        bytes: usize,
    ) -> Option<Rc<Session>> {
        let stream = streams.find(self.configured.into(), true)?;
        if bytes > stream.setup.config.datagram_bytes {
            stream.setup.counts.dropped_datagrams.add(1);
            return None;
        }
        let record = Record::begin(&stream, meta.addr);
        let permit = match stream.admit(meta.addr) {
            Ok(permit) => permit,
            Err(end) => {
                stream.setup.counts.dropped_datagrams.add(1);
                record.end(end);
                return None;
            }
        };
        let session = Rc::new(Session {
            record,
            link: RefCell::default(),
            waiting: RefCell::default(),
            local: meta.dst_ip,
            moved_at: Cell::new(Instant::now()),
            send_error: Cell::new(None),
            _permit: permit,
        });
        self.sessions.borrow_mut().insert(meta.addr, session.clone());
        tokio::task::spawn_local(serve(self.clone(), stream, session.clone()));
        Some(session)
    }

    /// Sends a reply to a client; false if it cannot be sent now.
    fn send(&self, session: &Session, contents: &[u8]) -> bool {
        let transmit = Transmit {
            destination: session.record.client.get(),
            ecn: None,
            contents,
            segment_size: None,
            src_ip: session.local,
        };
        let sent =
            self.socket.try_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), &transmit));
        sent.is_ok()
    }
}

impl Session {
    /// Passes a datagram of the client on, or keeps it until the socket is open.
    fn pass_on(&self, datagram: &[u8]) {
        self.moved_at.set(Instant::now());
        let link = self.link.borrow();
        let is_passed_on = datagram.len() <= self.record.stream().setup.config.datagram_bytes
            && match &*link {
                Some(link) => self.send_to_origin(link, datagram),
                None => {
                    let waiting = &mut *self.waiting.borrow_mut();
                    let has_room = waiting.len() < MOST_WAITING;
                    if has_room {
                        waiting.push(Bytes::copy_from_slice(datagram));
                    }
                    has_room
                }
            };
        match is_passed_on {
            true => self.record.received_datagram(datagram.len()),
            false => self.record.stream().setup.counts.dropped_datagrams.add(1),
        }
    }

    /// Sends a datagram to the origin; false if it cannot be sent now.
    fn send_to_origin(&self, link: &DatagramLink, datagram: &[u8]) -> bool {
        let sent = link.socket.try_send(datagram);
        if let Err(error) = &sent
            && error.kind() != io::ErrorKind::WouldBlock
        {
            self.send_error.set(Some(error.kind()));
        }
        sent.is_ok()
    }

    /// Waits until the kernel reports that the origin cannot be reached.
    async fn origin_failed(&self, link: &DatagramLink) -> io::Error {
        loop {
            if let Err(error) = link.socket.ready(Interest::ERROR).await {
                return error;
            }
            let reported = link.socket.try_io(Interest::ERROR, || match link.socket.take_error()? {
                Some(error) => Ok(error),
                // The error was reported by the next send.
                None => self.send_error.take().map(Into::into).ok_or(io::ErrorKind::WouldBlock.into()),
            });
            if let Ok(error) = reported {
                return error;
            }
        }
    }
}

/// Serves a session until its end.
async fn serve(listener: Rc<DatagramListener>, stream: Rc<StreamOfCore>, session: Rc<Session>) {
    let end = run(&listener, &stream, &session).await;
    session.record.set_end(end);
    listener.sessions.borrow_mut().remove(&session.record.client.get());
}

async fn run(listener: &DatagramListener, stream: &StreamOfCore, session: &Session) -> End {
    let client = session.record.client.get();
    let name = format!("stream {}, client {}", stream.setup.config.name, client.ip().to_canonical());
    // Streams of datagrams have no routes.
    let Some(relay) = stream.relays.first() else { return End::NoRoute };
    // Each failure has been logged with its origin.
    let Some(link) = relay.open_datagrams(client, &name).await else { return End::NoOrigin };
    session.record.origin.replace(link.origin.clone());
    let link = Rc::new(link);
    // Before that, the event loop has no information that the socket is writable.
    if link.socket.writable().await.is_err() {
        return End::Origin;
    }
    for datagram in session.waiting.take() {
        if !session.send_to_origin(&link, &datagram) {
            stream.setup.counts.dropped_datagrams.add(1);
        }
    }
    session.link.replace(Some(link.clone()));
    let limit = stream.setup.config.session_timeout;
    loop {
        tokio::select! {
            received = receive(listener, stream, session, &link) => match received {
                Ok(true) => {}
                Ok(false) => return End::Done,
                Err(error) => {
                    link.failed(error, &name);
                    return End::Origin;
                }
            },
            error = session.origin_failed(&link) => {
                link.failed(error, &name);
                return End::Origin;
            }
            () = sleep_until(session.moved_at.get() + limit) => {
                if session.moved_at.get().elapsed() >= limit {
                    return End::Idle;
                }
            }
        }
    }
}

/// Waits for datagrams of the origin and passes them on; returns false when all expected ones have arrived.
async fn receive(
    listener: &DatagramListener,
    stream: &StreamOfCore,
    session: &Session,
    link: &DatagramLink,
) -> io::Result<bool> {
    poll_fn(|context| link.socket.poll_recv_ready(context)).await?;
    let config = &stream.setup.config;
    for _ in 0..TURNS {
        let passed = stream.scratch.with(RECEIVE_BYTES, |buffer| {
            let count = link.socket.try_recv(buffer)?;
            let is_passed_on = count <= config.datagram_bytes && listener.send(session, &buffer[..count]);
            Ok::<_, io::Error>((count, is_passed_on))
        });
        let (count, is_passed_on) = match passed {
            Ok(passed) => passed,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        session.moved_at.set(Instant::now());
        if session.record.datagrams()[1] == 0 {
            link.answered();
        }
        match is_passed_on {
            true => session.record.sent_datagram(count),
            false => stream.setup.counts.dropped_datagrams.add(1),
        }
        let [requests, replies] = session.record.datagrams();
        if config.replies > 0 && replies >= requests.saturating_mul(config.replies) {
            return Ok(false);
        }
    }
    Ok(true)
}
