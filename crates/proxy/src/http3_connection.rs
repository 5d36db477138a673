//! A connection of HTTP/3 to an origin (RFC 9114): the streams in one direction, GOAWAY, and errors that end
//! it. Frames and field sections are those of the http crate.

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
use super::quic::{QuicConnection, QuicEndpoint, alert_of};
use super::sessions::{Multiplexed, SessionUse, Sessions};
use super::settings::ProxySettings;

/// How many bytes are received from a stream at a time.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// After this time an origin may send the most frames again.
const PERIOD: Duration = Duration::from_secs(1);

/// How long something may still come after the kernel has said that nothing listens there.
const REFUSAL_GRACE: Duration = Duration::from_secs(1);

/// The identifier of the first stream that is not processed, before a GOAWAY.
const NONE_LEFT_OUT: u64 = u64::MAX;

/// One connection. It is closed when it is dropped.
pub struct Http3Connection {
    pub(super) state: Rc<ConnectionState>,
    /// It must stay open as long as the connection (RFC 9114 section 6.2.1).
    _control: SendStream,
    endpoint: Rc<QuicEndpoint>,
    /// What the endpoint had counted when the connection was made.
    refusals: u64,
}

/// The part of a connection that its streams use.
pub struct ConnectionState {
    quic: Connection,
    /// From this stream on, requests are not processed: what GOAWAY says.
    first_left_out: watch::Sender<u64>,
    /// What the origin has done wrong, for which the connection was closed.
    fault: RefCell<Option<String>>,
    /// Nothing listens there any more, for which the connection was closed.
    is_refused: Cell<bool>,
    critical: RefCell<CriticalStreams>,
    /// How large header sections may be.
    pub limits: SectionLimits,
    /// The fields of the section that was read last; valid until the next wait.
    pub fields: RefCell<FieldList>,
}

/// The two directions of a request's stream.
pub struct RequestStreams {
    /// To the origin.
    pub send: Outgoing,
    /// From the origin.
    pub receive: Incoming,
}

/// The direction to the origin. A stream that is dropped before its end is reset: otherwise a request that
/// broke off would look complete.
pub struct Outgoing {
    /// The stream.
    pub stream: SendStream,
    /// All was sent.
    pub is_ended: bool,
}

/// The direction from the origin. If the end has not come, the origin is told to stop.
pub struct Incoming {
    /// The stream.
    pub stream: RecvStream,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.is_ended {
            // A stream that has ended meanwhile needs no reset.
            let _ = self.stream.reset(code(ErrorCode::REQUEST_CANCELLED));
        }
    }
}

impl Drop for Incoming {
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
        // If nothing listens there any more, a new connection finds out at once. Requests in progress wait a
        // moment: such a message can be forged.
        self.endpoint.refusals() == self.refusals
            && *self.state.first_left_out.borrow() == NONE_LEFT_OUT
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
        first_left_out: watch::Sender::new(NONE_LEFT_OUT),
        fault: RefCell::default(),
        is_refused: Cell::new(false),
        critical: RefCell::default(),
        limits,
        fields: RefCell::default(),
    });
    let limit = settings.times.handshake;
    let opening = timed(limit, TimedStep::Handshake, state.open_control()).await?;
    let control = opening.map_err(|error| state.failure_of_loss(0, error))?;
    let (accepting, watched) = (state.clone().accept(), state.clone());
    let watching = endpoint.watch_refusals();
    let driving = async move {
        tokio::select! {
            () = accepting => {}
            () = watched.end_if_refused(watching) => {}
        }
    };
    let connection = Http3Connection { state: state.clone(), _control: control, endpoint, refusals };
    let mut session = sessions.take_up(connection, Some(address), permit, driving);
    // Streams are allowed with the handshake; some origins allow them a moment later.
    let streams = timeout(settings.times.connect, state.quic.open_bi()).await;
    let full = Failure::Full("no stream of its HTTP/3 connection became free");
    let streams = streams.map_err(|_| full)?.map_err(|error| state.failure_of_loss(0, error))?;
    session.stream = Some(RequestStreams::new(streams));
    Ok(session)
}

impl RequestStreams {
    fn new((send, receive): (SendStream, RecvStream)) -> RequestStreams {
        RequestStreams {
            send: Outgoing { stream: send, is_ended: false },
            receive: Incoming { stream: receive },
        }
    }
}

impl ConnectionState {
    /// Opens the control stream, with settings that leave the dynamic table off.
    async fn open_control(&self) -> Result<SendStream, ConnectionError> {
        let mut stream = self.quic.open_uni().await?;
        let mut bytes = Vec::with_capacity(16);
        varint::append(CONTROL, &mut bytes);
        settings::append(&[(SettingId::MAX_FIELD_SECTION_SIZE, self.limits.bytes as u64)], &mut bytes);
        match stream.write_all(&bytes).await {
            Err(quinn::WriteError::ConnectionLost(error)) => Err(error),
            // Another error would be that the origin has stopped reading, which it may not.
            Ok(()) | Err(_) => Ok(stream),
        }
    }

    /// Reads the streams that the origin opens, until the connection ends.
    async fn accept(self: Rc<ConnectionState>) {
        while let Ok(stream) = self.quic.accept_uni().await {
            tokio::task::spawn_local(self.clone().read_unidirectional(stream));
        }
    }

    /// Closes the connection if nothing listens there any more, and nothing comes from there either: the
    /// message alone can be forged.
    async fn end_if_refused(&self, mut refusals: watch::Receiver<u64>) {
        while refusals.changed().await.is_ok() {
            let received = self.quic.stats().udp_rx.datagrams;
            tokio::time::sleep(REFUSAL_GRACE.max(3 * self.quic.rtt())).await;
            if self.quic.stats().udp_rx.datagrams == received {
                self.is_refused.set(true);
                return self.quic.close(code(ErrorCode::NO_ERROR), b"");
            }
        }
        // The endpoint ends later than the connection, so this does not happen.
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
                    stream.receive(&chunk.bytes, critical, |event| self.take_control(event))
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

    fn take_control(&self, event: ControlEvent) {
        // Its settings change nothing: sections here need no table.
        if let ControlEvent::GoAway(first) = event {
            self.first_left_out.send_replace(first);
        }
    }

    /// Waits until GOAWAY says that the request on this stream is not processed.
    pub async fn left_out(&self, stream: u64) {
        let mut first = self.first_left_out.subscribe();
        if first.wait_for(|first| stream >= *first).await.is_err() {
            // The sender lives as long as `self`, so this does not happen.
            std::future::pending::<()>().await;
        }
    }

    /// Ends the connection, because the origin broke the protocol.
    pub fn fail(&self, error: h3::ConnectionError) {
        self.fault.replace(Some(error.to_string()));
        self.quic.close(code(error.code), error.reason.as_bytes());
    }

    /// Why a stream cannot be read any further, in words.
    pub fn reason(&self, error: &ReadError) -> String {
        match error {
            ReadError::Reset(code) => format!("its stream was reset: {}", name_of(*code)),
            ReadError::ConnectionLost(error) => self.reason_of_loss(error),
            other => other.to_string(),
        }
    }

    fn reason_of_loss(&self, error: &ConnectionError) -> String {
        match error {
            ConnectionError::LocallyClosed if self.is_refused.get() => {
                "nothing listens on its port any more".to_string()
            }
            ConnectionError::LocallyClosed => {
                self.fault.borrow().clone().unwrap_or_else(|| "the connection was closed".to_string())
            }
            ConnectionError::ApplicationClosed(close) => {
                format!("it closed the connection: {}", name_of(close.error_code))
            }
            ConnectionError::TimedOut => "nothing more came from it".to_string(),
            other => other.to_string(),
        }
    }

    /// Why the head of a response on this stream does not come.
    pub fn failure(&self, stream: u64, error: ReadError) -> Failure {
        match error {
            ReadError::Reset(code) if code.into_inner() == ErrorCode::REQUEST_REJECTED.0 => {
                Failure::Refused(self.reason(&error))
            }
            ReadError::ConnectionLost(error) => self.failure_of_loss(stream, error),
            other => Failure::Response(format!("not a response: {}", self.reason(&other))),
        }
    }

    fn failure_of_loss(&self, stream: u64, error: ConnectionError) -> Failure {
        if stream >= *self.first_left_out.borrow() {
            return Failure::Refused("it takes no more requests on this connection".to_string());
        }
        // With TLS 1.3 an origin looks at the client's certificate after the handshake.
        if let Some(what) = alert_of(&error) {
            return Failure::Tls(what);
        }
        match error {
            ConnectionError::LocallyClosed | ConnectionError::TransportError(_) if !self.is_refused.get() => {
                Failure::Response(format!("not a response: {}", self.reason_of_loss(&error)))
            }
            ConnectionError::TimedOut => {
                Failure::Closed(io::Error::new(io::ErrorKind::TimedOut, self.reason_of_loss(&error)))
            }
            _ => Failure::Closed(io::Error::new(io::ErrorKind::ConnectionReset, self.reason_of_loss(&error))),
        }
    }
}

/// A code in QUIC's form; all codes are far below its limit.
pub fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// A code of the origin, for the log.
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
