//! A connection of HTTP/3 to an origin (RFC 9114): unidirectional streams, GOAWAY, and connection errors. The
//! http crate parses frames and field sections.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt};
use tokio::sync::watch;
use tokio::time::{Duration, timeout};
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::settings::{self, SettingId};
use touchstone_http::h3::unidirectional::CONTROL;
use touchstone_http::h3::{
    self, ControlEvent, CriticalStreams, ErrorCode, SectionLimits, Sender, UnidirectionalStream, varint,
};

use super::failure::{Failure, TimedStep, timed};
use super::origin::NewHttp3;
use super::quic::{QuicConnection, QuicEndpoint, tls_error};
use super::sessions::{Multiplexed, SessionUse, Sessions};
use super::settings::ProxySettings;

/// How many bytes are received from a stream at a time.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// The period of the limits for frames on unidirectional streams.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the connection stays open after the kernel has reported that the port is unreachable.
const REFUSAL_GRACE: Duration = Duration::from_secs(1);

/// The value of `goaway_id` before a GOAWAY.
const NO_GOAWAY: u64 = u64::MAX;

/// One connection. It is closed when it is dropped.
pub struct Http3Connection {
    pub(super) state: Rc<ConnectionState>,
    /// The control stream. It must stay open as long as the connection (RFC 9114 section 6.2.1).
    _control: SendStream,
    endpoint: Rc<QuicEndpoint>,
    /// The refusals of the endpoint when the connection was opened.
    refusals: u64,
}

/// The part of a connection that its streams use.
pub struct ConnectionState {
    quic: Connection,
    /// The identifier in GOAWAY: requests on this stream and later ones are not processed.
    goaway_id: watch::Sender<u64>,
    /// The protocol error of the origin, for which the connection was closed.
    protocol_error: RefCell<Option<String>>,
    /// The connection was closed because the port is unreachable.
    is_refused: Cell<bool>,
    critical: RefCell<CriticalStreams>,
    /// How large header sections may be.
    pub limits: SectionLimits,
    /// The fields of the section that was read last; valid until the next `await`.
    pub fields: RefCell<FieldList>,
}

/// The two directions of a request's stream.
pub struct RequestStreams {
    /// To the origin.
    pub send: SendHalf,
    /// From the origin.
    pub receive: ReceiveHalf,
}

/// The direction to the origin. A stream that is dropped before its end is reset: otherwise an incomplete
/// request would look complete.
pub struct SendHalf {
    /// The stream.
    pub stream: SendStream,
    /// Everything was sent, or the stream needs no reset.
    pub is_ended: bool,
}

/// The direction from the origin. If it is dropped before its end, STOP_SENDING is sent.
pub struct ReceiveHalf {
    /// The stream.
    pub stream: RecvStream,
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        if !self.is_ended {
            // Fails if the stream has ended meanwhile: then it needs no reset.
            let _ = self.stream.reset(code(ErrorCode::REQUEST_CANCELLED));
        }
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        let _ = self.stream.stop(code(ErrorCode::REQUEST_CANCELLED));
    }
}

impl Drop for Http3Connection {
    fn drop(&mut self) {
        self.state.quic.close(code(ErrorCode::NO_ERROR), b"");
    }
}

impl Multiplexed for Http3Connection {
    type Stream = RequestStreams;

    fn is_usable(&self) -> bool {
        // If the port is unreachable, new requests open a new connection, which fails at once. Requests in
        // progress continue for a moment: the ICMP message can be forged.
        self.endpoint.refusals() == self.refusals
            && *self.state.goaway_id.borrow() == NO_GOAWAY
            && self.state.quic.close_reason().is_none()
    }

    fn try_open(&self, _in_progress: usize) -> Option<RequestStreams> {
        let opening = pin!(self.state.quic.open_bi());
        match opening.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(streams)) => Some(RequestStreams::new(streams)),
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }
}

/// Begins HTTP/3 on a new connection.
pub async fn begin(
    sessions: &Sessions<Http3Connection>,
    new: NewHttp3,
    settings: &ProxySettings,
) -> Result<SessionUse<Http3Connection>, Failure> {
    let NewHttp3 { quic: QuicConnection { quic, endpoint, address }, permit } = new;
    let refusals = endpoint.refusals();
    let limits = SectionLimits {
        bytes: settings.head_limits.head_bytes as usize,
        fields: settings.head_limits.fields as usize,
    };
    let state = Rc::new(ConnectionState {
        quic,
        goaway_id: watch::Sender::new(NO_GOAWAY),
        protocol_error: RefCell::default(),
        is_refused: Cell::new(false),
        critical: RefCell::default(),
        limits,
        fields: RefCell::default(),
    });
    let limit = settings.times.handshake;
    let opening = timed(limit, TimedStep::Handshake, state.open_control()).await?;
    let control = opening.map_err(|error| state.failure_of_loss(0, error))?;
    let (accepting, watched) = (state.clone().accept_streams(), state.clone());
    let watching = endpoint.watch_refusals();
    let connection_task = async move {
        tokio::select! {
            () = accepting => {}
            () = watched.close_if_refused(watching) => {}
        }
    };
    let connection = Http3Connection { state: state.clone(), _control: control, endpoint, refusals };
    let mut session = sessions.add_connection(connection, Some(address), permit, connection_task);
    // The transport parameters of most origins allow streams; some origins send MAX_STREAMS later.
    let streams = timeout(settings.times.connect, state.quic.open_bi()).await;
    let full = Failure::Full("no stream of its HTTP/3 connection became free");
    let streams = streams.map_err(|_| full)?.map_err(|error| state.failure_of_loss(0, error))?;
    session.stream = Some(RequestStreams::new(streams));
    Ok(session)
}

impl RequestStreams {
    fn new((send, receive): (SendStream, RecvStream)) -> RequestStreams {
        RequestStreams {
            send: SendHalf { stream: send, is_ended: false },
            receive: ReceiveHalf { stream: receive },
        }
    }
}

impl ConnectionState {
    /// Opens the control stream and sends SETTINGS, which leave the dynamic table of QPACK off.
    async fn open_control(&self) -> Result<SendStream, ConnectionError> {
        let mut stream = self.quic.open_uni().await?;
        let mut bytes = Vec::with_capacity(16);
        varint::append(CONTROL, &mut bytes);
        settings::append(&[(SettingId::MAX_FIELD_SECTION_SIZE, self.limits.bytes as u64)], &mut bytes);
        match stream.write_all(&bytes).await {
            Err(quinn::WriteError::ConnectionLost(error)) => Err(error),
            // The only other error is STOP_SENDING, which an origin must not send for this stream.
            Ok(()) | Err(_) => Ok(stream),
        }
    }

    /// Reads the streams that the origin opens, until the connection ends.
    async fn accept_streams(self: Rc<ConnectionState>) {
        while let Ok(stream) = self.quic.accept_uni().await {
            tokio::task::spawn_local(self.clone().read_unidirectional(stream));
        }
    }

    /// Closes the connection if the kernel reports that the port is unreachable and no datagram is received
    /// afterwards: the ICMP message alone can be forged.
    async fn close_if_refused(&self, mut refusals: watch::Receiver<u64>) {
        while refusals.changed().await.is_ok() {
            let received = self.quic.stats().udp_rx.datagrams;
            tokio::time::sleep(REFUSAL_GRACE.max(3 * self.quic.rtt())).await;
            if self.quic.stats().udp_rx.datagrams == received {
                self.is_refused.set(true);
                return self.quic.close(code(ErrorCode::NO_ERROR), b"");
            }
        }
        // Unreachable: the endpoint outlives the connection.
        std::future::pending().await
    }

    async fn read_unidirectional(self: Rc<ConnectionState>, mut receive: RecvStream) {
        let mut stream = UnidirectionalStream::new(Sender::Server);
        let began = Cell::new(Instant::now());
        loop {
            let result = match receive.read_chunk(RECEIVE_BYTES, true).await {
                Ok(Some(chunk)) => {
                    if began.get().elapsed() >= PERIOD {
                        began.set(Instant::now());
                        stream.replenish();
                    }
                    let critical = &mut *self.critical.borrow_mut();
                    stream.receive(&chunk.bytes, critical, |event| self.handle_control(event))
                }
                Ok(None) | Err(ReadError::Reset(_)) => match stream.finish() {
                    Ok(()) => return,
                    Err(error) => Err(error),
                },
                Err(_) => return,
            };
            if let Err(error) = result {
                return self.fail(error);
            }
            if stream.is_ignored() {
                let _ = receive.stop(code(ErrorCode::STREAM_CREATION_ERROR));
                return;
            }
        }
    }

    fn handle_control(&self, event: ControlEvent) {
        // SETTINGS are ignored: the encoder does not use the dynamic table.
        if let ControlEvent::GoAway(first) = event {
            self.goaway_id.send_replace(first);
        }
    }

    /// Waits for a GOAWAY which reports that the request on this stream is not processed.
    pub async fn wait_for_rejection(&self, stream: u64) {
        let mut first = self.goaway_id.subscribe();
        if first.wait_for(|first| stream >= *first).await.is_err() {
            // Unreachable: the sender lives as long as `self`.
            std::future::pending::<()>().await;
        }
    }

    /// Closes the connection, because the origin violated the protocol.
    pub fn fail(&self, error: h3::ConnectionError) {
        self.protocol_error.replace(Some(error.to_string()));
        self.quic.close(code(error.code), error.reason.as_bytes());
    }

    /// Describes why a stream cannot be read any further.
    pub fn reason(&self, error: &ReadError) -> String {
        match error {
            ReadError::Reset(code) => format!("its stream was reset: {}", name_of(*code)),
            ReadError::ConnectionLost(error) => self.reason_of_loss(error),
            other => other.to_string(),
        }
    }

    fn reason_of_loss(&self, error: &ConnectionError) -> String {
        match error {
            ConnectionError::LocallyClosed if self.is_refused.get() => "its port is unreachable".to_string(),
            ConnectionError::LocallyClosed => {
                let error = self.protocol_error.borrow().clone();
                error.unwrap_or_else(|| "the connection was closed".to_string())
            }
            ConnectionError::ApplicationClosed(close) => {
                format!("it closed the connection: {}", name_of(close.error_code))
            }
            ConnectionError::TimedOut => "no more bytes were received from it".to_string(),
            other => other.to_string(),
        }
    }

    /// The failure of a request on this stream, whose response cannot be read.
    pub fn failure(&self, stream: u64, error: ReadError) -> Failure {
        match error {
            ReadError::Reset(code) if code.into_inner() == ErrorCode::REQUEST_REJECTED.0 => {
                Failure::Refused(self.reason(&error))
            }
            ReadError::ConnectionLost(error) => self.failure_of_loss(stream, error),
            other => Failure::Response(format!("invalid response: {}", self.reason(&other))),
        }
    }

    fn failure_of_loss(&self, stream: u64, error: ConnectionError) -> Failure {
        if stream >= *self.goaway_id.borrow() {
            return Failure::Refused("it accepts no more requests on this connection".to_string());
        }
        // With TLS 1.3 an origin may verify the client certificate after the handshake.
        if let Some(what) = tls_error(&error) {
            return Failure::Tls(what);
        }
        match error {
            ConnectionError::LocallyClosed | ConnectionError::TransportError(_) if !self.is_refused.get() => {
                Failure::Response(format!("invalid response: {}", self.reason_of_loss(&error)))
            }
            ConnectionError::TimedOut => {
                Failure::Closed(io::Error::new(io::ErrorKind::TimedOut, self.reason_of_loss(&error)))
            }
            _ => Failure::Closed(io::Error::new(io::ErrorKind::ConnectionReset, self.reason_of_loss(&error))),
        }
    }
}

/// A code in the form for QUIC. No code exceeds its range.
pub fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// The name of an error code of the origin, for the log.
fn name_of(code: VarInt) -> String {
    match ErrorCode(code.into_inner()) {
        known if known.name() != ErrorCode::NO_ERROR.name() || known == ErrorCode::NO_ERROR => {
            known.name().to_string()
        }
        other => format!("error {:#x}", other.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        assert_eq!(name_of(code(ErrorCode::REQUEST_REJECTED)), "H3_REQUEST_REJECTED");
        assert_eq!(name_of(code(ErrorCode::NO_ERROR)), "H3_NO_ERROR");
        assert_eq!(name_of(VarInt::from_u32(0x99)), "error 0x99");
    }
}
