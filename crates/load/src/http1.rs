//! HTTP/1 without TLS, directly on the socket. This is the fastest path, and the one of most runs. A
//! connection has one client, whose state is also that of the connection.

use crate::answer::{AnswerAtClose, MalformedAnswer};
use crate::client::{ClientState, Phase};
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::ErrorKind;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// The most full receive buffers that one connection processes in a turn.
pub(crate) const RECEIVES_AT_ONCE: usize = 16;
/// The number of connections whose first requests are sent together. Enough to share the cost of waking the
/// server, and few enough that the first request is not delayed for long.
const FIRST_SENDS_AT_ONCE: usize = 32;

impl Engine<'_> {
    pub(crate) fn on_plain_event(&mut self, index: usize, flags: EventFlags) {
        let connection = &mut self.connections[index];
        let client = connection.first_client;
        if self.clients[client].connection != index || self.clients[client].state == ClientState::Idle {
            // No request is active: the server has closed the connection, or sent the reason why it will
            // close it (RFC 9110, section 15.5.9). Neither is an error; the next request opens a new
            // connection.
            if connection.peer_closed || flags.contains(EventFlags::IN) {
                connection.close();
            }
            return;
        }
        match self.clients[client].state {
            ClientState::Waiting | ClientState::Sending => {
                self.send(client);
                // An answer can arrive before the whole request is sent.
                if self.clients[client].state == ClientState::Sending && flags.contains(EventFlags::IN) {
                    self.receive(index);
                }
            }
            // The connection will continue to receive in its next turn.
            _ if connection.unfinished => {}
            _ => self.receive(index),
        }
    }

    /// The unsent part of the client's request.
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

    /// Sends the unsent part of the client's request. The connection is established when the socket has
    /// accepted the first byte.
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
            Err(_) => self.on_plain_error(index),
        }
    }

    /// Receives the available bytes.
    pub(crate) fn receive(&mut self, index: usize) {
        let owner = self.connections[index].first_client;
        for _ in 0..RECEIVES_AT_ONCE {
            let connection = &self.connections[index];
            let Some(socket) = &connection.socket else { return };
            let received = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return self.on_plain_close(index),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => return self.on_plain_error(index),
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
                Ok(None) if received < self.buffer.len() && !connection.peer_closed => return,
                Ok(None) => {}
                Err(MalformedAnswer) => return self.fail(owner, ErrorKind::Malformed),
            }
        }
        if !self.connections[index].unfinished {
            self.connections[index].unfinished = true;
            self.unfinished.push_back(index);
        }
    }

    /// Queues the first request of the connection, to be sent together with those of other connections.
    pub(crate) fn queue_first_request(&mut self, index: usize) {
        self.first_sends.push(index);
        if self.first_sends.len() >= FIRST_SENDS_AT_ONCE {
            self.send_first_requests();
        }
    }

    /// Sends the queued first requests.
    pub(crate) fn send_first_requests(&mut self) {
        // The list does not grow during the loop: a client whose first send fails pauses before it connects
        // again.
        for position in 0..self.first_sends.len() {
            self.send_first_request(self.first_sends[position]);
        }
        self.first_sends.clear();
    }

    /// Sends the first request of a connection. This succeeds if the TCP handshake is done; otherwise an
    /// event of the socket reports when it is.
    pub(crate) fn send_first_request(&mut self, index: usize) {
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
        // The socket is registered after the send, because a writable socket that is registered for output
        // produces an unneeded event.
        let mut interest = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if self.clients[client].state != ClientState::Receiving {
            interest |= EventFlags::OUT;
        }
        let connection = &self.connections[index];
        let (event_token, Some(socket)) = (connection.event_token(index), &connection.socket) else { return };
        if epoll::add(&self.epoll, socket, EventData::new_u64(event_token), interest).is_err() {
            self.fail(client, ErrorKind::Connect);
        }
    }

    /// Registers the socket for an event when it is writable. Requests are small, so this is rare.
    fn await_writable(&mut self, index: usize) {
        let connection = &self.connections[index];
        let (event_token, Some(socket)) = (connection.event_token(index), &connection.socket) else { return };
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::modify(&self.epoll, socket, EventData::new_u64(event_token), interest).is_err() {
            self.fail(connection.first_client, ErrorKind::Reset);
        }
    }

    /// Handles the end of the connection during an active request.
    fn on_plain_close(&mut self, index: usize) {
        let client = self.connections[index].first_client;
        match self.clients[client].answer.at_close() {
            AnswerAtClose::Complete(answer) => self.complete(client, &answer),
            AnswerAtClose::ShortBody => self.fail(client, ErrorKind::ShortBody),
            AnswerAtClose::Nothing | AnswerAtClose::InHead => self.on_plain_error(index),
        }
    }

    fn on_plain_error(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.close();
        let (client, was_reused) = (connection.first_client, connection.reused);
        let is_unanswered = self.clients[client].answer.is_unanswered();
        self.retry_or_fail(client, was_reused, is_unanswered);
    }
}
