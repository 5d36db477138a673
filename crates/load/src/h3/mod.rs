//! The HTTP/3 client of the engine (RFC 9114), on QUIC of the crate quinn-proto. The module has no socket:
//! the caller sends and receives the datagrams.
//!
//! As in HTTP/2, a connection has one slot for each virtual client that shares it. Field sections refer only
//! to the static table in both directions; the settings of the client require this of the server.

use crate::answer::Answer;
use crate::body::SlotSink;
use crate::h2::StreamEvent;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, StreamEvent as QuicStream, StreamId, TransportConfig, VarInt,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::{
    ControlEvent, CriticalStreams, ErrorCode, ReceivedResponse, ResponseStream, SectionLimits, Sender,
    UnidirectionalStream, settings, unidirectional, varint,
};

/// The limits of a field section.
const LIMITS: SectionLimits = SectionLimits { bytes: 256 * 1024, fields: 1000 };
/// The flow control windows. They are large, because the received bytes are not stored.
const STREAM_WINDOW_BYTES: u32 = 1 << 28;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// One connection.
pub(crate) struct Http3 {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    remote: SocketAddr,
    slots: Vec<Stream>,
    open_streams: usize,
    is_connected: bool,
    /// The server accepts no new requests (GOAWAY).
    is_ending: bool,
    /// The unidirectional streams of the server.
    server_streams: Vec<(StreamId, UnidirectionalStream)>,
    critical: CriticalStreams,
    fields: FieldList,
    datagram: Vec<u8>,
}

/// A slot with its active request, if any.
struct Stream {
    id: Option<StreamId>,
    status: u16,
    bytes: u64,
    body_bytes: u64,
    response: ResponseStream,
    /// The encoded request, and the number of sent bytes.
    request: Option<(Arc<[u8]>, usize)>,
}

/// A change of the state of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// The handshake is done; requests can be sent.
    Connected,
    /// The connection has ended; the text is the reason.
    Lost(String),
}

impl Http3 {
    /// Starts a connection with this number of slots.
    pub(crate) fn new(
        tls: Arc<rustls::ClientConfig>,
        name: &str,
        remote: SocketAddr,
        slots: usize,
    ) -> Result<Http3, String> {
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(STREAM_WINDOW_BYTES.into());
        transport.receive_window(CONNECTION_WINDOW_BYTES.into());
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, connection) =
            endpoint.connect(Instant::now(), config, remote, name).map_err(|error| error.to_string())?;
        Ok(Http3 {
            endpoint,
            handle,
            connection,
            remote,
            slots: (0..slots).map(|_| Stream::new(false)).collect(),
            open_streams: 0,
            is_connected: false,
            is_ending: false,
            server_streams: Vec::new(),
            critical: CriticalStreams::default(),
            fields: FieldList::new(),
            datagram: Vec::new(),
        })
    }

    /// The number of active requests.
    pub(crate) fn open_streams(&self) -> usize {
        self.open_streams
    }

    /// Whether no further request can start on this connection.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether no byte of the answer on this slot has been received.
    pub(crate) fn is_unanswered(&self, slot: usize) -> bool {
        self.slots[slot].bytes == 0
    }

    /// Starts a request on a free slot; returns false if no stream is available now.
    pub(crate) fn start(&mut self, slot: usize, request: &Arc<[u8]>, is_head: bool) -> bool {
        if !self.is_connected || self.is_ending {
            return false;
        }
        let Some(id) = self.connection.streams().open(Dir::Bi) else { return false };
        self.open_streams += 1;
        self.slots[slot] =
            Stream { id: Some(id), request: Some((request.clone(), 0)), ..Stream::new(is_head) };
        self.send_request(slot);
        true
    }

    /// The received part of the answer on this slot.
    pub(crate) fn answer(&self, slot: usize) -> Answer {
        let Stream { status, bytes, body_bytes, .. } = self.slots[slot];
        Answer { status, keeps_connection: true, bytes, body_bytes }
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, slot: usize) {
        let Some(id) = self.free(slot) else { return };
        let code = code(ErrorCode::REQUEST_CANCELLED);
        // The calls fail if the stream has already ended, which needs no action.
        let _ = self.connection.send_stream(id).reset(code);
        let _ = self.connection.recv_stream(id).stop(code);
    }

    /// Ends the connection.
    pub(crate) fn close(&mut self) {
        self.connection.close(Instant::now(), code(ErrorCode::NO_ERROR), bytes::Bytes::new());
    }

    /// The time at which [`Http3::on_timer`] must be called.
    pub(crate) fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Handles an expired timer of QUIC.
    pub(crate) fn on_timer(&mut self) {
        self.connection.handle_timeout(Instant::now());
    }

    /// Processes a received datagram.
    pub(crate) fn receive(&mut self, datagram: &[u8]) {
        let (bytes, mut answer) = (BytesMut::from(datagram), Vec::new());
        let event = self.endpoint.handle(Instant::now(), self.remote, None, None, bytes, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// The next datagram to send.
    pub(crate) fn transmit(&mut self) -> Option<&[u8]> {
        self.datagram.clear();
        let transmit = self.connection.poll_transmit(Instant::now(), 1, &mut self.datagram)?;
        Some(&self.datagram[..transmit.size])
    }

    /// Processes the received data. Events of requests are appended to `events`, a change of the connection
    /// is returned, and header sections and the bytes of bodies are passed to `slots`.
    pub(crate) fn poll(
        &mut self,
        events: &mut Vec<StreamEvent>,
        slots: &mut impl SlotSink,
    ) -> Option<ConnectionEvent> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    self.open_control();
                    return Some(ConnectionEvent::Connected);
                }
                Event::ConnectionLost { reason } => return Some(ConnectionEvent::Lost(reason.to_string())),
                Event::Stream(QuicStream::Opened { dir: Dir::Uni }) => self.accept(),
                Event::Stream(QuicStream::Readable { id }) if id.dir() == Dir::Uni => {
                    self.read_server_stream(id, events)
                }
                Event::Stream(QuicStream::Readable { id }) => self.read(id, events, slots),
                Event::Stream(QuicStream::Writable { id }) => {
                    if let Some(slot) = self.slot_of(id) {
                        self.send_request(slot);
                    }
                }
                _ => {}
            }
        }
        None
    }

    // ---- sending

    /// Opens the client's control stream (RFC 9114, section 6.2.1), with settings that disable the dynamic
    /// table.
    fn open_control(&mut self) {
        let Some(id) = self.connection.streams().open(Dir::Uni) else { return };
        let mut bytes = Vec::new();
        varint::append(unidirectional::CONTROL, &mut bytes);
        settings::append(&[], &mut bytes);
        // The flow control window of a new connection always allows these few bytes.
        let _ = self.connection.send_stream(id).write(&bytes);
    }

    fn send_request(&mut self, slot: usize) {
        let stream = &mut self.slots[slot];
        let (Some(id), Some((bytes, sent))) = (stream.id, &mut stream.request) else { return };
        let mut quic = self.connection.send_stream(id);
        while *sent < bytes.len() {
            match quic.write(&bytes[*sent..]) {
                Ok(count) => *sent += count,
                // The window is full, or the server has stopped reading.
                Err(_) => return,
            }
        }
        let _ = quic.finish();
        stream.request = None;
    }

    // ---- receiving

    fn slot_of(&self, id: StreamId) -> Option<usize> {
        self.slots.iter().position(|stream| stream.id == Some(id))
    }

    fn free(&mut self, slot: usize) -> Option<StreamId> {
        let stream = &mut self.slots[slot];
        stream.request = None;
        let id = stream.id.take()?;
        self.open_streams -= 1;
        Some(id)
    }

    fn read(&mut self, id: StreamId, events: &mut Vec<StreamEvent>, slots: &mut impl SlotSink) {
        let Some(slot) = self.slot_of(id) else { return };
        let mut quic = self.connection.recv_stream(id);
        let Ok(mut chunks) = quic.read(true) else { return };
        let verdict = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let stream = &mut self.slots[slot];
                    if stream.receive(&chunk.bytes, &mut self.fields, slot, slots).is_err() {
                        break Some(StreamEvent::Malformed { slot });
                    }
                }
                Ok(None) => break Some(self.slots[slot].end(slot)),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) if code.into_inner() == ErrorCode::REQUEST_REJECTED.0 => {
                    break Some(StreamEvent::Unprocessed { slot });
                }
                Err(ReadError::Reset(_)) => break Some(StreamEvent::Reset { slot }),
            }
        };
        let _ = chunks.finalize();
        let Some(event) = verdict else { return };
        match event {
            StreamEvent::Malformed { .. } => self.cancel(slot),
            _ => drop(self.free(slot)),
        }
        events.push(event);
    }

    fn accept(&mut self) {
        while let Some(id) = self.connection.streams().accept(Dir::Uni) {
            self.server_streams.push((id, UnidirectionalStream::new(Sender::Server)));
        }
    }

    /// Reads a unidirectional stream of the server. Only GOAWAY is evaluated; other data is discarded.
    fn read_server_stream(&mut self, id: StreamId, events: &mut Vec<StreamEvent>) {
        self.accept();
        let Some((_, stream)) = self.server_streams.iter_mut().find(|(known, _)| *known == id) else {
            return;
        };
        let mut quic = self.connection.recv_stream(id);
        let Ok(mut chunks) = quic.read(true) else { return };
        let mut goaway = None;
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            goaway = read_goaway(stream, &mut self.critical, &chunk.bytes).or(goaway);
        }
        let _ = chunks.finalize();
        let Some(first_unprocessed) = goaway else { return };
        self.is_ending = true;
        for slot in 0..self.slots.len() {
            if self.slots[slot].id.is_some_and(|id| u64::from(id) >= first_unprocessed) {
                self.cancel(slot);
                events.push(StreamEvent::Unprocessed { slot });
            }
        }
    }
}

fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or_default()
}

/// The answer violates the protocol.
struct ProtocolViolation;

impl Stream {
    fn new(is_head: bool) -> Stream {
        let response = ResponseStream::new(LIMITS, is_head);
        Stream { id: None, status: 0, bytes: 0, body_bytes: 0, response, request: None }
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        fields: &mut FieldList,
        slot: usize,
        slots: &mut impl SlotSink,
    ) -> Result<(), ProtocolViolation> {
        self.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, received) = self.response.receive(rest, fields).map_err(|_| ProtocolViolation)?;
            match received {
                ReceivedResponse::Nothing => return Ok(()),
                // The final answer follows (RFC 9110, section 15.2).
                ReceivedResponse::Interim(_) => {}
                ReceivedResponse::Head(head) => {
                    self.status = head.status;
                    slots.section(slot, fields);
                }
                ReceivedResponse::Trailers => slots.section(slot, fields),
                ReceivedResponse::Data(range) => {
                    self.body_bytes += range.len() as u64;
                    slots.body(slot, &rest[range]);
                }
            }
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// The result of the request when its stream has ended.
    fn end(&self, slot: usize) -> StreamEvent {
        let Stream { status, bytes, body_bytes, .. } = *self;
        match status {
            0 => StreamEvent::Malformed { slot },
            _ if self.response.finish().is_err() => StreamEvent::ShortBody { slot },
            _ => StreamEvent::Answered {
                slot,
                answer: Answer { status, keeps_connection: true, bytes, body_bytes },
            },
        }
    }
}

/// Returns the identifier in a GOAWAY frame: the first request that the server will not process. Protocol
/// violations on these streams are not reported.
fn read_goaway(
    stream: &mut UnidirectionalStream,
    critical: &mut CriticalStreams,
    bytes: &[u8],
) -> Option<u64> {
    let mut goaway = None;
    let _ = stream.receive(bytes, critical, |event| {
        if let ControlEvent::GoAway(first) = event {
            goaway = Some(first);
        }
    });
    goaway
}

#[cfg(test)]
mod tests;
