//! WebSockets in the engine: received bytes, due messages, and the end of their connections.
//!
//! It is used for connections to targets with WebSockets. They are connections with layers (see
//! [`crate::layered`]), so that TLS works as for other connections.

use crate::answer::Answer;
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::messages::ReceivedMessage;
use crate::outcome::{ABNORMAL_CLOSURE, ErrorKind};
use crate::websocket::{Fault, ReceiveOutcome, WebSocketEvent, WebSocketOutput};
use rustix::net::{SendFlags, send};

impl Engine<'_> {
    /// Starts the handshake of a WebSocket, whose request is in the output from `start` on.
    pub(crate) fn request_websocket(&mut self, index: usize, client: usize, start: usize) {
        let shared = self.shared;
        let client = &mut self.clients[client];
        let Some(setup) = &shared.requests[client.request].websocket else { return };
        let message =
            client.written.as_deref().filter(|_| client.is_written).map(|written| &written.body[..]);
        let layers = self.connections[index].layers.get_or_insert_default();
        let socket = layers.websocket.get_or_insert_default();
        socket.start_handshake(setup, message, &mut layers.frames[start..], &mut client.random);
    }

    /// Whether received bytes of a connection are for a WebSocket.
    pub(crate) fn has_websocket(&self, index: usize) -> bool {
        let layers = self.connections[index].layers.as_ref();
        layers.and_then(|layers| layers.websocket.as_ref()).is_some_and(|socket| socket.is_active())
    }

    /// Processes received bytes. Returns whether the connection continues, and the bytes for HTTP/1 if the
    /// server has not opened the WebSocket.
    pub(crate) fn take_websocket(&mut self, index: usize, bytes: &[u8]) -> (bool, Option<Vec<u8>>) {
        let now_ns = now_ns();
        let mut websocket_output = std::mem::take(&mut self.websocket_output);
        let client = self.connections[index].first_client;
        let random = &mut self.clients[client].random;
        let layers = self.connections[index].layers.get_or_insert_default();
        let Some(socket) = &mut layers.websocket else { return (true, None) };
        let after = socket.take(bytes, now_ns, &mut websocket_output, random);
        let is_open = socket.is_open();
        self.apply_output(index, websocket_output, now_ns);
        match after {
            Ok(ReceiveOutcome::Continue) => {
                if is_open {
                    self.set_websocket_timer(index, now_ns);
                }
                (true, None)
            }
            Ok(ReceiveOutcome::Refused(beginning)) => (true, Some(beginning)),
            Ok(ReceiveOutcome::Ended(ended)) => {
                self.record.websocket_closed(ended.code);
                self.send_final_frames(index);
                if ended.is_complete {
                    self.complete_websocket(index);
                } else {
                    self.set_failure_detail(index, ended.reason);
                    self.fail(client, Failure::closed(ended.code));
                }
                (false, None)
            }
            Err(fault) => {
                self.send_final_frames(index);
                let failure = match fault {
                    Fault::NotHttp => ErrorKind::Malformed.into(),
                    Fault::Handshake(wrong) => Failure::numbered(ErrorKind::Malformed, wrong.place()),
                    Fault::Frame(wrong) => {
                        let layers = self.layers(index);
                        let beginning = layers.websocket.as_ref().map(|socket| socket.frame_beginning());
                        self.set_failure_detail(index, beginning.unwrap_or_default());
                        Failure::numbered(ErrorKind::WrongFrame, wrong.place())
                    }
                };
                self.fail(client, failure);
                (false, None)
            }
        }
    }

    /// Sends the due messages and pings of a WebSocket.
    pub(crate) fn on_websocket_timer(&mut self, index: usize) {
        let now_ns = now_ns();
        let mut websocket_output = std::mem::take(&mut self.websocket_output);
        let random = &mut self.clients[self.connections[index].first_client].random;
        let layers = self.connections[index].layers.get_or_insert_default();
        let unsent_bytes = layers.frames.len() + layers.out.len() - layers.sent;
        let Some(socket) = &mut layers.websocket else { return };
        let next_ns = socket.on_timer(now_ns, unsent_bytes, &mut websocket_output, random);
        self.apply_output(index, websocket_output, now_ns);
        self.set_connection_timer(index, next_ns, now_ns);
    }

    fn set_websocket_timer(&mut self, index: usize, now_ns: u64) {
        let socket = self.layers(index).websocket.as_ref();
        let next_ns = socket.map_or(u64::MAX, |socket| socket.next_ns());
        self.set_connection_timer(index, next_ns, now_ns);
    }

    fn set_connection_timer(&mut self, index: usize, at_ns: u64, now_ns: u64) {
        let layers = self.layers(index);
        if at_ns < u64::MAX && (at_ns < layers.timer_ns || layers.timer_ns <= now_ns) {
            layers.timer_ns = at_ns;
            self.connection_timers.set(at_ns, index);
        }
    }

    /// Sends the output of a WebSocket and records its events.
    fn apply_output(&mut self, index: usize, mut websocket_output: WebSocketOutput, now_ns: u64) {
        if !websocket_output.out.is_empty() {
            self.layers(index).frames.append(&mut websocket_output.out);
            self.mark_dirty(index);
        }
        let started_ns = self.clients[self.connections[index].first_client].started_ns;
        for event in websocket_output.events.drain(..) {
            if let WebSocketEvent::Message { gap_ns } = event {
                self.record.message(started_ns, ReceivedMessage { at_ns: now_ns, gap_ns });
            } else {
                self.record.websocket(started_ns, now_ns, event);
            }
        }
        self.websocket_output = websocket_output;
    }

    /// Counts a WebSocket that has ended normally as an answer.
    fn complete_websocket(&mut self, index: usize) {
        let client = self.connections[index].first_client;
        let socket = self.layers(index).websocket.as_ref();
        let (bytes, body_bytes) = socket.map_or((0, 0), |socket| socket.received_bytes());
        self.complete(client, &Answer { status: 101, keeps_connection: false, bytes, body_bytes });
    }

    /// Handles the end of a connection without a close frame; returns false if it has no open WebSocket.
    pub(crate) fn fail_unclosed_websocket(&mut self, index: usize) -> bool {
        let socket = self.layers(index).websocket.as_ref();
        if !socket.is_some_and(|socket| socket.is_open()) {
            return false;
        }
        self.record.websocket_closed(ABNORMAL_CLOSURE);
        self.set_failure_detail(index, String::new());
        self.fail(self.connections[index].first_client, Failure::closed(ABNORMAL_CLOSURE));
        true
    }

    /// Closes the WebSockets without a planned end when the run is over.
    pub(crate) fn close_endless_websockets(&mut self) {
        let now_ns = self.now_ns;
        for index in 0..self.connections.len() {
            let mut websocket_output = std::mem::take(&mut self.websocket_output);
            let random = &mut self.clients[self.connections[index].first_client].random;
            let layers = self.connections[index].layers.as_mut();
            if let Some(socket) = layers.and_then(|layers| layers.websocket.as_mut())
                && socket.is_endless()
            {
                socket.close(now_ns, &mut websocket_output, random);
            }
            self.apply_output(index, websocket_output, now_ns);
        }
        self.flush_dirty();
    }

    /// Whether a client that has exceeded the time limit has an open WebSocket within its own time limits.
    /// These apply to each expected answer and close frame, and not to unsolicited messages.
    pub(crate) fn is_within_time_limit(&self, client: usize, timeout_ns: u64) -> bool {
        let layers = self.connections[self.clients[client].connection].layers.as_ref();
        let socket = layers.and_then(|layers| layers.websocket.as_ref());
        socket.is_some_and(|socket| socket.is_open() && !socket.has_timed_out(self.now_ns, timeout_ns))
    }

    fn set_failure_detail(&mut self, index: usize, detail: String) {
        self.layers(index).failure_detail = (!detail.is_empty()).then_some(detail);
    }

    /// Sends the frames if the socket accepts them at once, because the connection is about to be closed.
    fn send_final_frames(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let layers = connection.layers.get_or_insert_default();
        if let (Ok(()), Some(socket)) = (layers.seal(), &connection.socket) {
            let _ = send(socket, &layers.out[layers.sent..], SendFlags::NOSIGNAL);
        }
        layers.out.clear();
        layers.sent = 0;
    }
}
