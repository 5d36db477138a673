//! HTTP/1 straight on a socket: the shortest way, which most runs take. A connection has one client, and the
//! client's state is the connection's.

use crate::answer::{AtClose, Malformed};
use crate::client::{ClientState, Phase};
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::ErrorKind;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Full receive buffers that one connection may take in before the others have their turn.
pub(crate) const RECEIVES_AT_ONCE: usize = 16;
/// Connections whose first requests are sent one after the other. Enough to share the cost of waking the
/// server, and few enough that the first of them does not wait long for the others.
const FIRST_SENDS_AT_ONCE: usize = 32;

impl Engine<'_> {
    pub(crate) fn on_plain_event(&mut self, index: usize, flags: EventFlags) {
        let connection = &mut self.connections[index];
        let client = connection.first_client;
        if self.clients[client].connection != index || self.clients[client].state == ClientState::Resting {
            // Nothing was asked, so the server has closed the connection, or said why it is about to (RFC
            // 9110, section 15.5.9). Neither is an error; the next request makes a new connection.
            if connection.hung_up || flags.contains(EventFlags::IN) {
                connection.close();
            }
            return;
        }
        match self.clients[client].state {
            ClientState::Waiting | ClientState::Sending => {
                self.send(client);
                // An answer can come before the whole request is sent.
                if self.clients[client].state == ClientState::Sending && flags.contains(EventFlags::IN) {
                    self.receive(index);
                }
            }
            // A connection that waits for its turn to continue receiving has it soon anyway.
            _ if connection.unfinished => {}
            _ => self.receive(index),
        }
    }

    /// What is left to send of the client's request.
    fn unsent_bytes(&self, client: usize) -> &[u8] {
        let client = &self.clients[client];
        let request = &self.shared.requests[client.request];
        if client.is_written
            && let Some(written) = &client.written
        {
            return &written.bytes[client.sent..];
        }
        let bytes = if client.is_last && !request.last_bytes.is_empty() {
            &request.last_bytes
        } else {
            &request.bytes
        };
        &bytes[client.sent..]
    }

    /// Sends what is left of the client's request. The connection is known to be made once the first byte was
    /// taken.
    pub(crate) fn send(&mut self, client: usize) {
        let index = self.clients[client].connection;
        let bytes = self.unsent_bytes(client);
        let (length, connection) = (bytes.len(), &self.connections[index]);
        let Some(socket) = &connection.socket else { return };
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                if connection.phase == Phase::Connecting {
                    let connected_ns = now_ns();
                    let connect_ns = connected_ns.saturating_sub(connection.connect_started_ns);
                    self.connections[index].phase = Phase::Open;
                    let class = self.class_of(client);
                    self.record.connected(Some(class), connected_ns, connect_ns);
                }
                let client = &mut self.clients[client];
                client.sent += sent;
                if sent == length {
                    client.state = ClientState::Receiving;
                } else {
                    client.state = ClientState::Sending;
                    self.await_writable(index);
                }
            }
            Err(Errno::AGAIN) if connection.phase == Phase::Open => self.await_writable(index),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) if connection.phase == Phase::Connecting => {
                self.fail(client, Failure::system(ErrorKind::Connect, error));
            }
            Err(_) => self.plain_broken(index),
        }
    }

    /// Receives the available bytes.
    pub(crate) fn receive(&mut self, index: usize) {
        let owner = self.connections[index].first_client;
        for _ in 0..RECEIVES_AT_ONCE {
            let connection = &self.connections[index];
            let Some(socket) = &connection.socket else { return };
            let received = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return self.plain_ended(index),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => return self.plain_broken(index),
            };
            let client = &mut self.clients[owner];
            let head = &mut self.heads[client.request];
            let bytes = &self.buffer[..received];
            let answer = match &mut client.retained {
                None => client.answer.receive(bytes, head, &mut ()),
                Some(retained) => client.answer.receive(bytes, &mut retained.head, &mut retained.parts),
            };
            match answer {
                Ok(Some(answer)) => return self.complete(owner, &answer),
                Ok(None) if client.has_all_messages() => {
                    let answer = client.answer.answer();
                    return self.end_stream(owner, &answer);
                }
                Ok(None) if received < self.buffer.len() && !connection.hung_up => return,
                Ok(None) => {}
                Err(Malformed) => return self.fail(owner, ErrorKind::Malformed),
            }
        }
        if !self.connections[index].unfinished {
            self.connections[index].unfinished = true;
            self.unfinished.push_back(index);
        }
    }

    /// Sends the first request of the connection together with those of others.
    pub(crate) fn send_first_later(&mut self, index: usize) {
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

    /// Sends the first request of a connection. Where the handshake is over, this succeeds; else the socket's
    /// event tells when to try again.
    pub(crate) fn send_first(&mut self, index: usize) {
        let connection = &self.connections[index];
        let client = connection.first_client;
        let bytes = self.unsent_bytes(client);
        let length = bytes.len();
        let Some(socket) = &connection.socket else { return };
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                let (started_ns, returned_ns) =
                    (connection.connect_started_ns, connection.connect_returned_ns);
                let class = self.class_of(client);
                self.record.connected(Some(class), returned_ns, returned_ns.saturating_sub(started_ns));
                self.connections[index].phase = Phase::Open;
                let client = &mut self.clients[client];
                client.sent = sent;
                client.state = if sent == length { ClientState::Receiving } else { ClientState::Sending };
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error @ (Errno::CONNRESET | Errno::PIPE)) => {
                return self.fail(client, Failure::system(ErrorKind::Reset, error));
            }
            Err(error) => return self.fail(client, Failure::system(ErrorKind::Connect, error)),
        }
        // Registered after the send: a socket that is registered for output while it is writable produces
        // useless events.
        let mut interest = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if self.clients[client].state != ClientState::Receiving {
            interest |= EventFlags::OUT;
        }
        let connection = &self.connections[index];
        let (mark, Some(socket)) = (connection.mark(index), &connection.socket) else { return };
        if epoll::add(&self.epoll, socket, EventData::new_u64(mark), interest).is_err() {
            self.fail(client, ErrorKind::Connect);
        }
    }

    /// Asks for an event when more can be sent. Requests are small: this is rare.
    fn await_writable(&mut self, index: usize) {
        let connection = &self.connections[index];
        let (mark, Some(socket)) = (connection.mark(index), &connection.socket) else { return };
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::modify(&self.epoll, socket, EventData::new_u64(mark), interest).is_err() {
            self.fail(connection.first_client, ErrorKind::Reset);
        }
    }

    /// The server has ended the connection while a request was under way.
    fn plain_ended(&mut self, index: usize) {
        let client = self.connections[index].first_client;
        match self.clients[client].answer.at_close() {
            AtClose::Complete(answer) => self.complete(client, &answer),
            AtClose::ShortBody => self.fail(client, ErrorKind::ShortBody),
            AtClose::Nothing | AtClose::InHead => self.plain_broken(index),
        }
    }

    fn plain_broken(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.close();
        let (client, was_reused) = (connection.first_client, connection.reused);
        let is_untouched = self.clients[client].answer.is_untouched();
        self.broken(client, was_reused, is_untouched);
    }
}
