//! The sockets and timers of HTTP/3 connections.

use crate::client::Phase;
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::h3::{ConnectionEvent, Http3};
use crate::outcome::ErrorKind;
use crate::slots::ClientSlots;
use crate::tls::TlsFailure;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, recv, send, socket_with,
};
use std::time::Instant;

/// The most datagrams that one connection receives in a turn.
const DATAGRAMS_AT_ONCE: usize = 256;

impl Engine<'_> {
    /// Opens a QUIC connection.
    pub(crate) fn open_quic(&mut self, index: usize, now_ns: u64) {
        let slots = self.group(index).len();
        let connection = &mut self.connections[index];
        (connection.reused, connection.peer_closed) = (false, false);
        connection.connect_started_ns = now_ns;
        let target = &mut self.targets[connection.target];
        let Some(setup) = &mut target.tls else { return self.fail_layered(index, ErrorKind::Tls) };
        let (config, name) = setup.next_connection();
        let h3 = match Http3::new(config, &name.to_str(), target.address, slots) {
            Ok(h3) => h3,
            Err(text) => return self.fail_tls(index, TlsFailure(text)),
        };
        let family = if target.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))
            .and_then(|socket| connect(&socket, &target.address).map(|()| socket));
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => return self.fail_layered(index, Failure::system(ErrorKind::Connect, error)),
        };
        let interest = EventFlags::IN | EventFlags::ET;
        if epoll::add(&self.epoll, &socket, EventData::new_u64(connection.event_token(index)), interest)
            .is_err()
        {
            return self.fail_layered(index, ErrorKind::Connect);
        }
        connection.socket = Some(socket);
        connection.phase = Phase::Connecting;
        connection.layers.get_or_insert_default().h3 = Some(Box::new(h3));
        self.drive_quic(index);
    }

    /// Receives the available datagrams.
    pub(crate) fn receive_quic(&mut self, index: usize) {
        for _ in 0..DATAGRAMS_AT_ONCE {
            let connection = &mut self.connections[index];
            let Some(socket) = &connection.socket else { return };
            let received = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return self.drive_quic(index),
                Err(Errno::INTR) => continue,
                // No server listens on the port.
                Err(error) if connection.phase != Phase::Open => {
                    return self.fail_layered(index, Failure::system(ErrorKind::Connect, error));
                }
                Err(_) => return self.on_layered_close(index),
            };
            if let Some(h3) = &mut connection.layers.get_or_insert_default().h3 {
                h3.receive(&self.buffer[..received]);
            }
        }
        self.drive_quic(index);
        if !self.connections[index].unfinished {
            self.connections[index].unfinished = true;
            self.unfinished.push_back(index);
        }
    }

    /// Processes the events of the connection, and sends its output.
    pub(crate) fn drive_quic(&mut self, index: usize) {
        loop {
            let generation = self.connections[index].generation;
            let mut events = std::mem::take(&mut self.stream_events);
            let first_client = self.connections[index].first_client;
            let mut clients = ClientSlots { clients: &mut self.clients, first: first_client };
            let Some(h3) = &mut self.connections[index].layers.get_or_insert_default().h3 else { return };
            let change = h3.poll(&mut events, &mut clients);
            let has_changed = change.is_some() || !events.is_empty();
            for event in events.drain(..) {
                self.on_stream_event(first_client, event);
            }
            self.stream_events = events;
            self.end_complete_streams(index);
            if self.connections[index].generation != generation {
                return;
            }
            match change {
                Some(ConnectionEvent::Connected) => self.on_quic_connected(index),
                Some(ConnectionEvent::Lost(text)) => return self.on_quic_lost(index, text),
                None => {}
            }
            self.start_waiting(index);
            if self.connections[index].generation != generation {
                return;
            }
            if !self.transmit_quic(index) {
                return;
            }
            if !has_changed {
                return self.set_quic_timer(index);
            }
        }
    }

    fn on_quic_connected(&mut self, index: usize) {
        let now_ns = now_ns();
        let connection = &mut self.connections[index];
        connection.phase = Phase::Open;
        connection.connect_returned_ns = now_ns;
        self.record.connected(None, now_ns, now_ns.saturating_sub(connection.connect_started_ns));
    }

    fn on_quic_lost(&mut self, index: usize, text: String) {
        match self.connections[index].phase {
            Phase::Open => self.on_layered_close(index),
            // No server answered. Other texts are reasons of a failed handshake.
            _ if text == "timed out" => self.fail_layered(index, ErrorKind::Connect),
            _ => self.fail_tls(index, TlsFailure(text)),
        }
    }

    /// Sends pending datagrams; returns false if the connection has ended.
    fn transmit_quic(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let layers = connection.layers.get_or_insert_default();
        let (Some(socket), Some(h3)) = (&connection.socket, &mut layers.h3) else { return false };
        while let Some(datagram) = h3.transmit() {
            // A datagram that the socket does not accept counts as lost, and QUIC sends it again. The error
            // ECONNREFUSED reports that no server listens at the address.
            if send(socket, datagram, SendFlags::NOSIGNAL) == Err(Errno::CONNREFUSED) {
                match connection.phase {
                    Phase::Open => self.on_layered_close(index),
                    _ => self.fail_layered(index, ErrorKind::Connect),
                }
                return false;
            }
        }
        true
    }

    /// Schedules [`Engine::on_connection_timer`] if QUIC needs it before the scheduled time.
    fn set_quic_timer(&mut self, index: usize) {
        let now_ns = now_ns();
        let layers = self.connections[index].layers.get_or_insert_default();
        let Some(at) = layers.h3.as_mut().and_then(|h3| h3.timeout()) else { return };
        let at_ns = now_ns + at.saturating_duration_since(Instant::now()).as_nanos() as u64;
        if at_ns < layers.timer_ns || layers.timer_ns <= now_ns {
            layers.timer_ns = at_ns;
            self.connection_timers.set(at_ns, index);
        }
    }

    /// Handles the expired timers of QUIC connections and of WebSockets.
    pub(crate) fn on_connection_timer(&mut self) {
        while let Some((_, index)) = self.connection_timers.take_due(self.now_ns) {
            let layers = self.connections[index].layers.get_or_insert_default();
            layers.timer_ns = 0;
            if let Some(h3) = &mut layers.h3 {
                h3.on_timer();
                self.drive_quic(index);
            } else if layers.websocket.as_ref().is_some_and(|socket| socket.is_open()) {
                self.on_websocket_timer(index);
            }
        }
    }
}

impl Http3 {
    /// Closes the connection and sends the last datagrams, if the socket accepts them at once.
    pub(crate) fn send_close(&mut self, socket: &rustix::fd::OwnedFd) {
        self.close();
        while let Some(datagram) = self.transmit() {
            let _ = send(socket, datagram, SendFlags::NOSIGNAL);
        }
    }
}
