//! Connections with layers between requests and the socket, such as TLS and HTTP/2.
//!
//! Output is buffered on the connection and sent at the end of a turn, so that all requests of a turn on an
//! HTTP/2 connection are sent in one write.

use crate::answer::MalformedAnswer;
use crate::client::{ClientState, Layers, Phase};
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::h2::{ConnectionBroken, Http2, StreamEvent};
use crate::http1::RECEIVES_AT_ONCE;
use crate::outcome::ErrorKind;
use crate::slots::ClientSlots;
use crate::target::HttpVersion;
use crate::tls::{TlsConnection, TlsFailure};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::ops::Range;

/// The state of a connection after received bytes were processed.
enum ReceiveOutcome {
    /// More bytes may follow.
    Continue,
    /// The connection has ended, or no more bytes are expected.
    Done,
}

impl Engine<'_> {
    /// The layers of a connection. Connections without layers do not use this method.
    pub(crate) fn layers(&mut self, index: usize) -> &mut Layers {
        self.connections[index].layers.get_or_insert_default()
    }

    /// The clients that share a connection.
    pub(crate) fn group(&self, index: usize) -> Range<usize> {
        let first = self.connections[index].first_client;
        first..(first + self.streams).min(self.clients.len())
    }

    fn is_http2(&self, index: usize) -> bool {
        self.targets[self.connections[index].target].version == HttpVersion::Http2
    }

    pub(crate) fn mark_dirty(&mut self, index: usize) {
        let layers = self.layers(index);
        if !layers.is_dirty {
            layers.is_dirty = true;
            self.dirty.push(index);
        }
    }

    // ---- starting

    /// Prepares the first output while the socket is connecting.
    pub(crate) fn begin_layers(&mut self, index: usize) {
        let is_http2 = self.is_http2(index);
        let slots = self.group(index).len();
        let connection = &mut self.connections[index];
        let layers = connection.layers.get_or_insert_default();
        if let Some(setup) = &mut self.targets[connection.target].tls {
            let (config, name) = setup.next_connection();
            match TlsConnection::begin(config, name, &mut layers.out) {
                Ok(tls) => layers.tls = Some(tls),
                Err(failure) => return self.fail_tls(index, failure),
            }
        } else {
            if is_http2 {
                layers.h2 = Some(Http2::new(slots, &mut layers.frames));
            }
            self.start_waiting(index);
        }
        let connection = &self.connections[index];
        let (event_token, Some(socket)) = (connection.event_token(index), &connection.socket) else { return };
        let interest = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if epoll::add(&self.epoll, socket, EventData::new_u64(event_token), interest).is_err() {
            return self.fail_layered(index, ErrorKind::Connect);
        }
        self.flush(index);
    }

    /// Queues the client's request, and starts it if its connection is ready.
    pub(crate) fn send_layered(&mut self, client: usize, now_ns: u64) {
        let index = self.clients[client].connection;
        self.clients[client].state = ClientState::Waiting;
        self.layers(index).waiting.push_back(client);
        if self.connections[index].phase == Phase::Closed {
            return self.open_connection(index, now_ns);
        }
        self.start_waiting(index);
        let is_full = |h2: &Http2| !h2.is_ending() && !h2.can_start();
        if self.clients[client].state == ClientState::Waiting
            && self.layers(index).h2.as_ref().is_some_and(is_full)
        {
            self.record.stream_waits += 1;
        }
    }

    /// Starts waiting requests, as many as the connection allows.
    pub(crate) fn start_waiting(&mut self, index: usize) {
        loop {
            let connection = &mut self.connections[index];
            let (phase, first_client, target) =
                (connection.phase, connection.first_client, connection.target);
            let layers = connection.layers.get_or_insert_default();
            let Some(&client) = layers.waiting.front() else { return };
            let under_way = &self.clients[client];
            let request = &self.shared.requests[under_way.request];
            let start = layers.frames.len();
            let written = under_way.written.as_deref().filter(|_| under_way.is_written);
            let blocks = written.map_or(&request.blocks, |written| &written.blocks);
            if let Some(h2) = &mut layers.h2 {
                if h2.is_ending() && h2.open_streams() == 0 {
                    connection.close();
                    return self.open_connection(index, now_ns());
                }
                if !h2.can_start() {
                    return;
                }
                h2.start(client - first_client, blocks, request.is_head, &mut layers.frames);
            } else if let Some(h3) = &mut layers.h3 {
                if h3.is_ending() && h3.open_streams() == 0 {
                    connection.close();
                    return self.open_connection(index, now_ns());
                }
                if !h3.start(client - first_client, &blocks.h3, request.is_head) {
                    return;
                }
            } else if phase == Phase::Open || phase == Phase::Connecting && layers.tls.is_none() {
                let is_last = under_way.is_last && !request.last_bytes.is_empty();
                let bytes = match written {
                    Some(written) => &written.bytes,
                    None if is_last => &request.last_bytes,
                    None => &request.bytes,
                };
                layers.frames.extend_from_slice(bytes);
                if self.targets[target].is_pipelined {
                    layers.pipeline.push_back(client);
                }
                if request.websocket.is_some() {
                    self.request_websocket(index, client, start);
                }
            } else {
                return;
            }
            self.layers(index).waiting.pop_front();
            self.clients[client].state = ClientState::Receiving;
            self.mark_dirty(index);
        }
    }

    // ---- sending

    /// Sends the buffered output of the last turn.
    pub(crate) fn flush_dirty(&mut self) {
        while let Some(index) = self.dirty.pop() {
            self.layers(index).is_dirty = false;
            self.flush(index);
        }
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let layers = connection.layers.get_or_insert_default();
        let Some(socket) = &connection.socket else { return };
        if layers.h3.is_some() {
            return self.drive_quic(index);
        }
        if let Err(failure) = layers.seal() {
            return self.fail_tls(index, failure);
        }
        while layers.sent < layers.out.len() {
            match send(socket, &layers.out[layers.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => layers.sent += sent,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return self.await_writable_layered(index),
                Err(error) if connection.phase == Phase::Connecting => {
                    return self.fail_layered(index, Failure::system(ErrorKind::Connect, error));
                }
                Err(_) => return self.on_layered_close(index),
            }
            if connection.phase == Phase::Connecting {
                connection.phase = if layers.tls.is_some() { Phase::Handshaking } else { Phase::Open };
                connection.connect_returned_ns = now_ns();
                let connect_ns = connection.connect_returned_ns - connection.connect_started_ns;
                self.record.connected(None, connection.connect_returned_ns, connect_ns);
            }
        }
        layers.out.clear();
        layers.sent = 0;
    }

    fn await_writable_layered(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let event_token = connection.event_token(index);
        let layers = connection.layers.get_or_insert_default();
        if layers.awaits_writable {
            return;
        }
        layers.awaits_writable = true;
        let Some(socket) = &connection.socket else { return };
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::modify(&self.epoll, socket, EventData::new_u64(event_token), interest).is_err() {
            self.fail_layered(index, ErrorKind::Reset);
        }
    }

    // ---- receiving

    pub(crate) fn on_layered_event(&mut self, index: usize, flags: EventFlags) {
        if self.layers(index).h3.is_some() {
            self.receive_quic(index);
            return self.flush_dirty();
        }
        if flags.contains(EventFlags::OUT) || self.connections[index].phase == Phase::Connecting {
            self.flush(index);
        }
        let connection = &self.connections[index];
        if !connection.unfinished && (flags.contains(EventFlags::IN) || connection.peer_closed) {
            self.receive_layered(index);
        }
        self.flush_dirty();
    }

    pub(crate) fn receive_layered(&mut self, index: usize) {
        if self.layers(index).h3.is_some() {
            return self.receive_quic(index);
        }
        for _ in 0..RECEIVES_AT_ONCE {
            let connection = &self.connections[index];
            let Some(socket) = &connection.socket else { return };
            let received = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return self.on_layered_close(index),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(error) if connection.phase == Phase::Connecting => {
                    return self.fail_layered(index, Failure::system(ErrorKind::Connect, error));
                }
                Err(_) => return self.on_layered_close(index),
            };
            let (is_full, generation) = (received == self.buffer.len(), connection.generation);
            let after = self.take_layered(index, received);
            if matches!(after, ReceiveOutcome::Done) || self.connections[index].generation != generation {
                return;
            }
            if !is_full && !self.connections[index].peer_closed {
                return;
            }
        }
        if !self.connections[index].unfinished {
            self.connections[index].unfinished = true;
            self.unfinished.push_back(index);
        }
    }

    /// Passes received bytes through the layers.
    fn take_layered(&mut self, index: usize, received: usize) -> ReceiveOutcome {
        let generation = self.connections[index].generation;
        let layers = self.connections[index].layers.get_or_insert_default();
        let Some(tls) = &mut layers.tls else {
            let buffer = std::mem::take(&mut self.buffer);
            let after = self.take_plaintext(index, &buffer[..received]);
            self.buffer = buffer;
            return after;
        };
        self.plaintext.clear();
        let taken = match tls.receive(&mut self.buffer[..received], &mut self.plaintext, &mut layers.out) {
            Ok(taken) => taken,
            Err(failure) => {
                // The alert with the reason is sent if the socket accepts it at once.
                self.flush(index);
                self.fail_tls(index, failure);
                return ReceiveOutcome::Done;
            }
        };
        if !layers.out.is_empty() {
            self.mark_dirty(index);
        }
        if taken.handshake_done && !self.end_handshake(index) {
            return ReceiveOutcome::Done;
        }
        let plaintext = std::mem::take(&mut self.plaintext);
        let after = if plaintext.is_empty() {
            ReceiveOutcome::Continue
        } else {
            self.take_plaintext(index, &plaintext)
        };
        self.plaintext = plaintext;
        match after {
            ReceiveOutcome::Continue if taken.closed && self.connections[index].generation == generation => {
                self.on_layered_close(index);
                ReceiveOutcome::Done
            }
            after => after,
        }
    }

    /// Starts requests after the TLS handshake. Returns false if the connection cannot be used.
    fn end_handshake(&mut self, index: usize) -> bool {
        let is_http2 = self.is_http2(index);
        let slots = self.group(index).len();
        let now_ns = now_ns();
        let connection = &mut self.connections[index];
        let layers = connection.layers.get_or_insert_default();
        let Some(tls) = &layers.tls else { return false };
        let handshake_ns = now_ns.saturating_sub(connection.connect_returned_ns);
        self.record.handshake_completed(now_ns, handshake_ns, tls.is_resumed());
        connection.phase = Phase::Open;
        if is_http2 {
            if tls.protocol() != Some(b"h2") {
                self.fail_tls(index, TlsFailure("the server did not select HTTP/2 (ALPN h2)".to_string()));
                return false;
            }
            layers.h2 = Some(Http2::new(slots, &mut layers.frames));
            self.mark_dirty(index);
        }
        self.start_waiting(index);
        true
    }

    fn take_plaintext(&mut self, index: usize, bytes: &[u8]) -> ReceiveOutcome {
        if self.layers(index).h2.is_some() {
            return self.take_http2(index, bytes);
        }
        if self.targets[self.connections[index].target].is_pipelined {
            return match self.take_pipelined(index, bytes) {
                true => ReceiveOutcome::Continue,
                false => ReceiveOutcome::Done,
            };
        }
        if !self.has_websocket(index) {
            return self.take_http1(index, bytes);
        }
        match self.take_websocket(index, bytes) {
            (true, None) => ReceiveOutcome::Continue,
            (true, Some(beginning)) => self.take_http1(index, &beginning),
            (false, _) => ReceiveOutcome::Done,
        }
    }

    fn take_http2(&mut self, index: usize, bytes: &[u8]) -> ReceiveOutcome {
        let mut events = std::mem::take(&mut self.stream_events);
        let connection = &mut self.connections[index];
        let first_client = connection.first_client;
        let layers = connection.layers.get_or_insert_default();
        let Some(h2) = &mut layers.h2 else { return ReceiveOutcome::Done };
        let mut clients = ClientSlots { clients: &mut self.clients, first: first_client };
        let received = h2.receive(bytes, &mut layers.frames, &mut events, &mut clients);
        if !layers.frames.is_empty() {
            self.mark_dirty(index);
        }
        for event in events.drain(..) {
            self.on_stream_event(first_client, event);
        }
        self.stream_events = events;
        self.end_complete_streams(index);
        if let Err(ConnectionBroken) = received {
            self.fail_layered(index, ErrorKind::Malformed);
            return ReceiveOutcome::Done;
        }
        self.start_waiting(index);
        ReceiveOutcome::Continue
    }

    pub(crate) fn on_stream_event(&mut self, first_client: usize, event: StreamEvent) {
        match event {
            StreamEvent::Answered { slot, answer } => self.complete(first_client + slot, &answer),
            StreamEvent::ShortBody { slot } => self.end_failed(first_client + slot, ErrorKind::ShortBody),
            StreamEvent::Reset { slot } => self.end_failed(first_client + slot, ErrorKind::Reset),
            StreamEvent::Malformed { slot } => self.end_failed(first_client + slot, ErrorKind::Malformed),
            StreamEvent::Unprocessed { slot } if self.clients[first_client + slot].retried => {
                self.end_failed(first_client + slot, ErrorKind::Reset);
            }
            StreamEvent::Unprocessed { slot } => self.repeat(first_client + slot),
        }
    }

    fn take_http1(&mut self, index: usize, bytes: &[u8]) -> ReceiveOutcome {
        let owner = self.connections[index].first_client;
        let client = &mut self.clients[owner];
        if client.connection != index || client.state != ClientState::Receiving {
            // No request is active: the server sends the reason why it will close the connection.
            self.connections[index].close();
            return ReceiveOutcome::Done;
        }
        let head = &mut self.heads[client.request];
        let answer = match &mut client.retained {
            None => client.answer.receive(bytes, head, &mut ()),
            Some(retained) => client.answer.receive(bytes, &mut retained.head, &mut retained.parts),
        };
        match answer {
            Ok(Some(answer)) => self.complete(owner, &answer),
            Ok(None) if client.has_all_messages() => {
                let answer = client.answer.answer();
                self.end_stream(owner, &answer);
            }
            Ok(None) => return ReceiveOutcome::Continue,
            Err(MalformedAnswer) => self.fail(owner, ErrorKind::Malformed),
        }
        ReceiveOutcome::Done
    }
}

impl Layers {
    /// Moves frames to the output for the socket, encrypted if there is TLS.
    pub(crate) fn seal(&mut self) -> Result<(), TlsFailure> {
        if self.frames.is_empty() {
            return Ok(());
        }
        match &mut self.tls {
            Some(tls) => {
                tls.send(&self.frames, &mut self.out)?;
                self.frames.clear();
            }
            None if self.out.is_empty() => std::mem::swap(&mut self.frames, &mut self.out),
            None => self.out.append(&mut self.frames),
        }
        Ok(())
    }
}
