//! One exchange of a virtual client: start, connect, send, receive, and what follows its end.

use crate::answer::{Answer, AtEnd, Malformed};
use crate::clock::{self, now_ns};
use crate::engine::{ClientState, Engine};
use crate::outcome::ErrorKind;
use crate::plan::ConnectionUse;
use crate::record::AnswerNote;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, recv, send, socket_with,
    sockopt,
};

/// The pause of a client after a connection that was refused or broke, so that a dead server is not hammered.
const PAUSE_AFTER_ERROR_NS: u64 = 10_000_000;
/// Full receive buffers that one client may take in before the others have their turn.
const RECEIVES_AT_ONCE: usize = 16;
/// Connections whose first requests are sent one after the other. Enough to share the cost of waking the server, and
/// few enough that the first of them does not wait long for the others.
const FIRST_SENDS_AT_ONCE: usize = 32;
/// A request up to this length goes out in one segment at any usual segment size, so that Nagle's algorithm has
/// nothing to hold back on a new connection.
const ONE_SEGMENT_BYTES: usize = 536;

impl Engine<'_> {
    /// Starts the client's next request. `intended_ns` is where its latency begins.
    pub(crate) fn start_request(&mut self, index: usize, intended_ns: u64, now_ns: u64) {
        let choice = self.shared.choice;
        let requests = self.shared.requests;
        let client = &mut self.clients[index];
        client.request = if requests.len() == 1 { 0 } else { choice.draw(client.random.next()) };
        client.sent = 0;
        client.retried = false;
        client.started_ns = intended_ns;
        client.service_started_ns = now_ns;
        client.turns += 1;
        client.answer.reset();
        self.under_way += 1;
        self.record.started(now_ns);
        if self.clients[index].socket.is_some() {
            self.clients[index].state = ClientState::Sending;
            self.send(index);
        } else {
            self.open_connection(index, now_ns);
        }
    }

    /// When the client's next request should start by the schedule; `None` in a closed loop.
    pub(crate) fn intended_start(&self, index: usize) -> Option<u64> {
        let client = &self.clients[index];
        let due_ns = self.schedule?.due_ns(client.number, client.turns);
        Some(self.record.times.start_ns.saturating_add(due_ns))
    }

    /// Sends what is left of the request. The connection is known to be made once the first byte was taken.
    pub(crate) fn send(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let bytes = &self.shared.requests[client.request].bytes[client.sent..];
        let Some(socket) = &client.socket else { return };
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                if client.state == ClientState::Connecting {
                    let connected_ns = now_ns();
                    self.record
                        .connected(connected_ns, connected_ns.saturating_sub(client.connect_started_ns));
                }
                client.sent += sent;
                if sent == bytes.len() {
                    client.state = ClientState::Receiving;
                } else {
                    client.state = ClientState::Sending;
                    self.await_writable(index);
                }
            }
            Err(Errno::AGAIN) if client.state == ClientState::Sending => self.await_writable(index),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) if client.state == ClientState::Connecting => self.fail(index, ErrorKind::Connect),
            Err(_) => self.broken(index),
        }
    }

    /// Receives what has come.
    pub(crate) fn receive(&mut self, index: usize) {
        for _ in 0..RECEIVES_AT_ONCE {
            let client = &mut self.clients[index];
            let Some(socket) = &client.socket else { return };
            let received = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return self.connection_ended(index),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => return self.broken(index),
            };
            let head = &mut self.heads[client.request];
            match client.answer.receive(&self.buffer[..received], head) {
                Ok(Some(answer)) => return self.complete(index, &answer),
                Ok(None) if received < self.buffer.len() && !client.hung_up => return,
                Ok(None) => {}
                Err(Malformed) => return self.fail(index, ErrorKind::Malformed),
            }
        }
        if !self.clients[index].unfinished {
            self.clients[index].unfinished = true;
            self.unfinished.push_back(index);
        }
    }

    /// Ends the request that is under way as failed, and its connection with it.
    pub(crate) fn fail(&mut self, index: usize, kind: ErrorKind) {
        let now_ns = now_ns();
        self.now_ns = now_ns;
        self.clients[index].socket = None;
        self.record.failed(index, kind, now_ns);
        let pause_ns = match kind {
            ErrorKind::Connect | ErrorKind::Reset => PAUSE_AFTER_ERROR_NS,
            _ => 0,
        };
        self.rest(index, now_ns, pause_ns);
    }

    /// Begins a new connection; its request is sent by [`Engine::send_first`].
    ///
    /// On the loopback interface the handshake is over when connect returns, and the requests of several connections
    /// are then sent one right after the other: a server that waits is woken once for all of them, and to wake it is
    /// dearer than to send.
    fn open_connection(&mut self, index: usize, now_ns: u64) {
        let client = &mut self.clients[index];
        client.reused = false;
        client.hung_up = false;
        client.connect_started_ns = now_ns;
        let request_bytes = self.shared.requests[client.request].bytes.len();
        let Ok(socket) = new_socket(self.address, self.connections, request_bytes) else {
            return self.fail(index, ErrorKind::Connect);
        };
        match connect(&socket, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(_) => return self.fail(index, ErrorKind::Connect),
        }
        client.connect_returned_ns = clock::now_ns();
        client.state = ClientState::Connecting;
        client.socket = Some(socket);
        if !self.is_loopback {
            return self.send_first(index);
        }
        self.unsent.push(index);
        if self.unsent.len() >= FIRST_SENDS_AT_ONCE {
            self.send_all_first();
        }
    }

    /// Sends the first request of every connection that was begun.
    pub(crate) fn send_all_first(&mut self) {
        // Nothing is added meanwhile: a client whose first send fails pauses before it connects again.
        for position in 0..self.unsent.len() {
            self.send_first(self.unsent[position]);
        }
        self.unsent.clear();
    }

    /// Sends the first request of a connection. Where the handshake is over, this succeeds; else the socket's event
    /// tells when to try again.
    fn send_first(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let request = &self.shared.requests[client.request].bytes;
        let Some(socket) = &client.socket else { return };
        match send(socket, request, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                client.sent = sent;
                client.state =
                    if sent == request.len() { ClientState::Receiving } else { ClientState::Sending };
                let connect_ns = client.connect_returned_ns.saturating_sub(client.connect_started_ns);
                self.record.connected(client.connect_returned_ns, connect_ns);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::CONNRESET | Errno::PIPE) => return self.fail(index, ErrorKind::Reset),
            Err(_) => return self.fail(index, ErrorKind::Connect),
        }
        // Registered after the send: a socket that is registered for output while it can be written brings an event
        // that says nothing.
        let mut interest = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if client.state != ClientState::Receiving {
            interest |= EventFlags::OUT;
        }
        if epoll::add(&self.epoll, socket, EventData::new_u64(index as u64), interest).is_err() {
            self.fail(index, ErrorKind::Connect);
        }
    }

    /// Asks for an event when more can be sent. Requests are small: this is rare.
    fn await_writable(&mut self, index: usize) {
        let Some(socket) = &self.clients[index].socket else { return };
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), interest).is_err() {
            self.fail(index, ErrorKind::Reset);
        }
    }

    /// The answer is complete: it is checked, counted, and the client goes on.
    fn complete(&mut self, index: usize, answer: &Answer) {
        let now_ns = now_ns();
        self.now_ns = now_ns;
        let client = &mut self.clients[index];
        let request = &self.shared.requests[client.request];
        let usable = answer.keeps_connection && !client.hung_up && client.state == ClientState::Receiving;
        if usable && self.connections == ConnectionUse::Kept {
            client.reused = true;
        } else {
            client.socket = None;
        }
        if !(200..400).contains(&answer.status) {
            self.record.failed(index, ErrorKind::BadStatus, now_ns);
        } else if request.expected_body_bytes.is_some_and(|expected| expected != answer.body_bytes) {
            self.record.failed(index, ErrorKind::ShortBody, now_ns);
        } else {
            let note = AnswerNote {
                ended_ns: now_ns,
                latency_ns: now_ns.saturating_sub(client.started_ns),
                service_ns: now_ns.saturating_sub(client.service_started_ns),
                class: request.class,
                bytes: answer.bytes,
                body_bytes: answer.body_bytes,
            };
            self.record.answered(index, &note);
        }
        self.rest(index, now_ns, 0);
    }

    /// The server has ended the connection while a request was under way.
    fn connection_ended(&mut self, index: usize) {
        match self.clients[index].answer.at_end() {
            AtEnd::Complete(answer) => self.complete(index, &answer),
            AtEnd::ShortBody => self.fail(index, ErrorKind::ShortBody),
            AtEnd::Nothing | AtEnd::InHead => self.broken(index),
        }
    }

    /// The connection broke. On a kept connection, before any byte of an answer, the server has most likely closed it
    /// between two requests: the request is sent once more on a new one (RFC 9112, section 9.3.1), with its latency
    /// counted from its first start.
    fn broken(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if !client.reused || client.retried || !client.answer.is_untouched() {
            return self.fail(index, ErrorKind::Reset);
        }
        client.socket = None;
        client.retried = true;
        client.sent = 0;
        self.record.total_retries += 1;
        self.open_connection(index, now_ns());
    }

    /// The exchange is over; the next one starts now or at its moment.
    fn rest(&mut self, index: usize, now_ns: u64, pause_ns: u64) {
        self.under_way -= 1;
        self.clients[index].state = ClientState::Resting;
        if now_ns >= self.stop_ns {
            self.clients[index].socket = None;
            return;
        }
        let intended_ns = self.intended_start(index);
        let at_ns = intended_ns.unwrap_or(now_ns + self.think_ns).max(now_ns + pause_ns);
        if at_ns > now_ns {
            self.timers.set(at_ns, index);
        } else {
            self.start_request(index, intended_ns.unwrap_or(now_ns), now_ns);
        }
    }
}

fn new_socket(
    address: std::net::SocketAddr,
    connections: ConnectionUse,
    request_bytes: usize,
) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // One segment on a new connection is never held back, so the call is spared where it changes nothing.
    if connections == ConnectionUse::Kept || request_bytes > ONE_SEGMENT_BYTES {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}
