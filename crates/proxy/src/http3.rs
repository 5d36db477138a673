//! One request over HTTP/3 to an origin (RFC 9114), on a connection that several requests share. Trailers
//! are forwarded, so gRPC works.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use quinn::WriteError;
use tokio::time::timeout;
use touchstone_handler::answer::Answer;
use touchstone_http::grammar::{field_value_length, split_fields};
use touchstone_http::h2::Fields;
use touchstone_http::h3::frame::{self, FrameType};
use touchstone_http::h3::request_stream::trailers;
use touchstone_http::h3::{self, ReceivedResponse, ResponseStream, qpack};
use touchstone_http::request::Method;

use super::body_limits::MOST_INTERIM;
use super::failure::{Failure, TimedStep};
use super::fields::{OutboundRequest, client_field_lines};
use super::http3_connection::{
    ConnectionState, Http3Connection, RECEIVE_BYTES, ReceiveHalf, RequestStreams, SendHalf, code,
};
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::sessions::SessionUse;
use super::stream_exchange::{self, Download, Head, Receiving, Sending, Upload};

/// Sends the request and returns the answer when the response's head has arrived.
pub async fn call(
    attempt: OriginAttempt,
    mut session: SessionUse<Http3Connection>,
    outbound: &Rc<OutboundRequest>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let times = attempt.settings().times;
    let head = request_frame(&attempt, outbound)?;
    let Some(RequestStreams { mut send, receive }) = session.stream.take() else {
        return Err(Failure::Full("its HTTP/3 connection has no free stream"));
    };
    let state = session.session.connection.state.clone();
    let id = u64::from(receive.stream.id());
    let mut upload: Option<Upload> = None;
    if outbound.has_no_body() {
        match send_without_body(send, head, times.send).await {
            // The origin's response or error code gives the reason why it does not read.
            Ok(()) | Err(Failure::Closed(_)) => {}
            Err(failure) => return Err(failure),
        }
    } else {
        let (body, length) = (body.clone(), outbound.body_length);
        upload = Some(Box::pin(async move {
            send.write([head, Bytes::new()], times.send).await?;
            stream_exchange::send_body(send, body, length, times.send).await
        }));
    }
    let mut response = Response::new(state.clone(), receive, outbound.is_head);
    let head = async {
        tokio::select! {
            biased;
            head = response.head(outbound) => head,
            () = state.wait_for_rejection(id) => {
                Err(Failure::Refused("it accepts no more requests on this connection".to_string()))
            }
        }
    };
    let head = stream_exchange::wait_for_head(head, &mut upload, times.response, &session).await?;
    let download = Download { received: response, upload, limit: times.idle };
    stream_exchange::answer(attempt, session, head, download, outbound).await
}

/// The HEADERS frame of the request.
fn request_frame(attempt: &OriginAttempt, outbound: &OutboundRequest) -> Result<Bytes, Failure> {
    let refused =
        |what: &str| Failure::RequestBody(io::Error::other(format!("{what} is not valid in HTTP/3")));
    if Method::from_token(&outbound.method) == Method::Connect {
        return Err(refused("its method"));
    }
    let url = &attempt.member().spec.url;
    let path = outbound.path(url);
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b":method", &outbound.method),
        (b":scheme", b"https"),
        (b":authority", outbound.authority(attempt.settings(), url)),
        (b":path", &path),
    ];
    fields.extend(split_fields(outbound.lines()));
    if fields.iter().any(|(_, value)| field_value_length(value) != value.len()) {
        return Err(refused("a field's value"));
    }
    if outbound.accepts_trailers {
        fields.push((b"te", b"trailers"));
    }
    let length = outbound.declared_length().map(|length| length.to_string());
    if let Some(length) = &length {
        fields.push((b"content-length", length.as_bytes()));
    }
    Ok(headers_frame(fields.into_iter()))
}

/// A HEADERS frame with these fields. The encoder writes names in lower case.
fn headers_frame<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Bytes {
    let (mut section, mut bytes) = (Vec::with_capacity(256), Vec::with_capacity(260));
    qpack::encode_fields(fields, &mut section);
    frame::append(FrameType::HEADERS, &section, &mut bytes);
    bytes.into()
}

/// Sends a request without a body.
async fn send_without_body(mut send: SendHalf, head: Bytes, limit: Duration) -> Result<(), Failure> {
    send.write([head, Bytes::new()], limit).await?;
    send.finish(b"", limit).await
}

impl SendHalf {
    /// Writes both pieces, as fast as flow control allows.
    async fn write(&mut self, mut pieces: [Bytes; 2], limit: Duration) -> Result<(), Failure> {
        while pieces.iter().any(|piece| !piece.is_empty()) {
            match timeout(limit, self.stream.write_chunks(&mut pieces)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    // The origin has stopped reading: the stream needs no reset.
                    self.is_ended |= matches!(error, WriteError::Stopped(_));
                    return Err(Failure::Closed(error.into()));
                }
                Err(_) => return Err(Failure::Timeout(TimedStep::Send, limit)),
            }
        }
        Ok(())
    }
}

impl Sending for SendHalf {
    async fn send(&mut self, piece: Bytes, limit: Duration) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        let mut head = Vec::with_capacity(10);
        frame::append_header(FrameType::DATA, piece.len() as u64, &mut head);
        self.write([head.into(), piece], limit).await
    }

    async fn finish(&mut self, trailers: &[u8], limit: Duration) -> Result<(), Failure> {
        if !trailers.is_empty() {
            let is_valid = |(_, value): &(&[u8], &[u8])| field_value_length(value) == value.len();
            self.write([headers_frame(split_fields(trailers).filter(is_valid)), Bytes::new()], limit).await?;
        }
        self.is_ended = true;
        self.stream.finish().map_err(|error| Failure::Closed(io::Error::other(error)))
    }
}

/// A response that is being received.
struct Response {
    state: Rc<ConnectionState>,
    receive: ReceiveHalf,
    stream: ResponseStream,
    /// Received bytes that are not parsed yet.
    chunk: Bytes,
    trailers: Vec<u8>,
    /// The origin has sent everything.
    is_ended: bool,
}

/// An item of the received bytes.
enum Item {
    /// Bytes without an item, for example of a frame that is ignored.
    None,
    /// Status and field lines of an interim response.
    Interim(u16, Vec<u8>),
    Head(Head),
    Data(Bytes),
    /// Field lines.
    Trailers(Vec<u8>),
}

/// Why a response is incomplete.
enum ReceiveError {
    /// The stream cannot be read.
    Read(quinn::ReadError),
    /// The received bytes violate the protocol.
    Malformed(h3::Error),
}

impl Response {
    fn new(state: Rc<ConnectionState>, receive: ReceiveHalf, is_head: bool) -> Response {
        let stream = ResponseStream::new(state.limits, is_head);
        Response { state, receive, stream, chunk: Bytes::new(), trailers: Vec::new(), is_ended: false }
    }

    /// Waits for the head of the final response, and forwards interim responses.
    async fn head(&mut self, outbound: &OutboundRequest) -> Result<Head, Failure> {
        let mut interim = 0;
        loop {
            while !self.chunk.is_empty() {
                match self.next_item().map_err(|error| self.failure(error))? {
                    Item::Interim(status, lines) => {
                        interim += 1;
                        if interim > MOST_INTERIM {
                            return Err(Failure::Response("too many interim responses".to_string()));
                        }
                        outbound.forward_interim(status, lines);
                    }
                    Item::Head(head) => return Ok(head),
                    // Nothing else precedes the head.
                    Item::None | Item::Data(_) | Item::Trailers(_) => {}
                }
            }
            self.receive_chunk().await.map_err(|error| self.failure(error))?;
        }
    }

    /// Parses the first item of the received bytes.
    fn next_item(&mut self) -> Result<Item, ReceiveError> {
        let fields = &mut *self.state.fields.borrow_mut();
        let (taken, received) = self.stream.receive(&self.chunk, fields).map_err(ReceiveError::Malformed)?;
        let piece = self.chunk.split_to(taken);
        Ok(match received {
            ReceivedResponse::Nothing => Item::None,
            ReceivedResponse::Interim(head) => Item::Interim(head.status, lines_of(head.fields(fields))),
            ReceivedResponse::Head(head) => {
                let date = head.fields(fields).find(|field| field.name == b"date").map(|field| field.value);
                let lines = lines_of(head.fields(fields));
                Item::Head(Head::new(head.status, lines, date, head.content_length))
            }
            ReceivedResponse::Data(range) => Item::Data(piece.slice(range)),
            ReceivedResponse::Trailers => Item::Trailers(lines_of(trailers(fields))),
        })
    }

    /// Receives once. Called only when all received bytes are parsed, and the stream has not ended.
    async fn receive_chunk(&mut self) -> Result<(), ReceiveError> {
        match self.receive.stream.read_chunk(RECEIVE_BYTES, true).await.map_err(ReceiveError::Read)? {
            Some(chunk) => self.chunk = chunk.bytes,
            None => {
                self.stream.finish().map_err(ReceiveError::Malformed)?;
                self.is_ended = true;
            }
        }
        Ok(())
    }

    /// Reports an error to the origin, by closing the stream or the connection.
    fn report_error(&mut self, error: h3::Error) {
        match error {
            h3::Error::Stream(error) => {
                // Fails if the origin has sent everything already.
                let _ = self.receive.stream.stop(code(error.code));
            }
            h3::Error::Connection(error) => self.state.fail(error),
        }
    }

    /// The failure of a request without a response.
    fn failure(&mut self, error: ReceiveError) -> Failure {
        match error {
            ReceiveError::Read(error) => self.state.failure(self.receive.stream.id().into(), error),
            ReceiveError::Malformed(error) => {
                self.report_error(error);
                Failure::Response(format!("invalid response: {error}"))
            }
        }
    }

    /// The reason why the body is incomplete.
    fn reason(&mut self, error: ReceiveError) -> String {
        match error {
            ReceiveError::Read(error) => self.state.reason(&error),
            ReceiveError::Malformed(error) => {
                self.report_error(error);
                error.to_string()
            }
        }
    }
}

impl Receiving for Response {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            while !self.chunk.is_empty() {
                match self.next_item().map_err(|error| self.reason(error))? {
                    Item::Data(piece) => return Ok(Some(piece)),
                    Item::Trailers(lines) => self.trailers = lines,
                    // The head of a final response is followed by data and trailers only.
                    Item::None | Item::Interim(..) | Item::Head(_) => {}
                }
            }
            if self.is_ended {
                return Ok(None);
            }
            self.receive_chunk().await.map_err(|error| self.reason(error))?;
        }
    }

    async fn trailers(&mut self) -> Result<Vec<u8>, String> {
        Ok(std::mem::take(&mut self.trailers))
    }

    async fn is_at_end(&mut self) -> Result<bool, String> {
        if self.chunk.is_empty() && !self.is_ended {
            let received = {
                let mut receiving = pin!(self.receive_chunk());
                poll_fn(|context| match receiving.as_mut().poll(context) {
                    Poll::Ready(received) => Poll::Ready(received),
                    Poll::Pending => Poll::Ready(Ok(())),
                })
                .await
            };
            received.map_err(|error| self.reason(error))?;
        }
        Ok(self.is_ended && self.chunk.is_empty())
    }
}

/// Fields as lines, without those that are not forwarded to the client.
fn lines_of(fields: Fields<'_>) -> Vec<u8> {
    client_field_lines(fields.map(|field| (field.name, field.value)))
}
