//! One request over HTTP/3 to an origin (RFC 9114), on a connection that many requests share. Trailers are
//! passed on, so gRPC works.

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
use super::fields::{Outbound, lines_passed_back};
use super::http3_connection::{
    ConnectionState, Http3Connection, Incoming, Outgoing, RECEIVE_BYTES, RequestStreams, code,
};
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::sessions::SessionUse;
use super::stream_exchange::{self, Download, Head, Receiving, Sending, Upload};

/// Sends the request and returns the answer when the response's head has arrived.
pub async fn call(
    attempt: OriginAttempt,
    mut session: SessionUse<Http3Connection>,
    outbound: &Rc<Outbound>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let times = attempt.settings().times;
    let section = request(&attempt, outbound)?;
    let Some(RequestStreams { mut send, receive }) = session.stream.take() else {
        return Err(Failure::Full("its HTTP/3 connection has no free stream"));
    };
    let state = session.session.connection.state.clone();
    let id = u64::from(receive.stream.id());
    let mut upload: Option<Upload> = None;
    if outbound.has_no_body() {
        match send_whole(send, section, times.send).await {
            // What comes back says why the origin does not read.
            Ok(()) | Err(Failure::Closed(_)) => {}
            Err(failure) => return Err(failure),
        }
    } else {
        let (body, length) = (body.clone(), outbound.body_length);
        upload = Some(Box::pin(async move {
            send.write([section, Bytes::new()], times.send).await?;
            stream_exchange::send_body(send, body, length, times.send).await
        }));
    }
    let mut response = Response::new(state.clone(), receive, outbound.is_head);
    let head = async {
        tokio::select! {
            biased;
            head = response.head(outbound) => head,
            () = state.left_out(id) => {
                Err(Failure::Refused("it takes no more requests on this connection".to_string()))
            }
        }
    };
    let head = stream_exchange::wait_for_head(head, &mut upload, times.response, &session).await?;
    let download = Download { received: response, upload, limit: times.idle };
    stream_exchange::answer(attempt, session, head, download, outbound).await
}

/// The frame with the request's header section.
fn request(attempt: &OriginAttempt, outbound: &Outbound) -> Result<Bytes, Failure> {
    let refused =
        |what: &str| Failure::RequestBody(io::Error::other(format!("{what} cannot be said in HTTP/3")));
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
    if outbound.takes_trailers {
        fields.push((b"te", b"trailers"));
    }
    let length = outbound.declared_length().map(|length| length.to_string());
    if let Some(length) = &length {
        fields.push((b"content-length", length.as_bytes()));
    }
    Ok(section(fields.into_iter()))
}

/// A HEADERS frame with these fields. The encoder writes names in lower case.
fn section<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Bytes {
    let (mut section, mut bytes) = (Vec::with_capacity(256), Vec::with_capacity(260));
    qpack::encode_fields(fields, &mut section);
    frame::append(FrameType::HEADERS, &section, &mut bytes);
    bytes.into()
}

/// Sends a request without a body.
async fn send_whole(mut send: Outgoing, section: Bytes, limit: Duration) -> Result<(), Failure> {
    send.write([section, Bytes::new()], limit).await?;
    send.finish(b"", limit).await
}

impl Outgoing {
    /// Writes both, as fast as flow control allows.
    async fn write(&mut self, mut pieces: [Bytes; 2], limit: Duration) -> Result<(), Failure> {
        while pieces.iter().any(|piece| !piece.is_empty()) {
            match timeout(limit, self.stream.write_chunks(&mut pieces)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    // The origin does not read: there is nothing to reset.
                    self.is_ended |= matches!(error, WriteError::Stopped(_));
                    return Err(Failure::Closed(error.into()));
                }
                Err(_) => return Err(Failure::Timeout(TimedStep::Send, limit)),
            }
        }
        Ok(())
    }
}

impl Sending for Outgoing {
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
            self.write([section(split_fields(trailers).filter(is_valid)), Bytes::new()], limit).await?;
        }
        self.is_ended = true;
        self.stream.finish().map_err(|error| Failure::Closed(io::Error::other(error)))
    }
}

/// A response that is being received.
struct Response {
    state: Rc<ConnectionState>,
    receive: Incoming,
    stream: ResponseStream,
    /// Received and not examined yet.
    chunk: Bytes,
    trailers: Vec<u8>,
    /// The origin has sent everything.
    is_ended: bool,
}

/// The first item of what was received.
enum Item {
    Nothing,
    /// Status and field lines of an interim response.
    Interim(u16, Vec<u8>),
    Head(Head),
    Data(Bytes),
    /// Field lines.
    Trailers(Vec<u8>),
}

/// What ends a response early.
enum Broken {
    /// The stream cannot be read.
    Read(quinn::ReadError),
    /// What came is against the protocol.
    Malformed(h3::Error),
}

impl Response {
    fn new(state: Rc<ConnectionState>, receive: Incoming, is_head: bool) -> Response {
        let stream = ResponseStream::new(state.limits, is_head);
        Response { state, receive, stream, chunk: Bytes::new(), trailers: Vec::new(), is_ended: false }
    }

    /// Waits for the head of the final response, and passes interim ones on.
    async fn head(&mut self, outbound: &Outbound) -> Result<Head, Failure> {
        let mut interim = 0;
        loop {
            while !self.chunk.is_empty() {
                match self.take().map_err(|broken| self.failure(broken))? {
                    Item::Interim(status, lines) => {
                        interim += 1;
                        if interim > MOST_INTERIM {
                            return Err(Failure::Response("too many interim responses".to_string()));
                        }
                        outbound.inform(status, lines);
                    }
                    Item::Head(head) => return Ok(head),
                    // Before a head there is nothing else.
                    Item::Nothing | Item::Data(_) | Item::Trailers(_) => {}
                }
            }
            self.fetch().await.map_err(|broken| self.failure(broken))?;
        }
    }

    /// Takes the first item of what was received.
    fn take(&mut self) -> Result<Item, Broken> {
        let fields = &mut *self.state.fields.borrow_mut();
        let (taken, received) = self.stream.receive(&self.chunk, fields).map_err(Broken::Malformed)?;
        let piece = self.chunk.split_to(taken);
        Ok(match received {
            ReceivedResponse::Nothing => Item::Nothing,
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

    /// Receives once. Called only when everything received has been examined, and the end has not come.
    async fn fetch(&mut self) -> Result<(), Broken> {
        match self.receive.stream.read_chunk(RECEIVE_BYTES, true).await.map_err(Broken::Read)? {
            Some(chunk) => self.chunk = chunk.bytes,
            None => {
                self.stream.finish().map_err(Broken::Malformed)?;
                self.is_ended = true;
            }
        }
        Ok(())
    }

    /// Tells the origin what it has done wrong.
    fn refuse(&mut self, error: h3::Error) {
        match error {
            h3::Error::Stream(error) => {
                // It may have sent everything already.
                let _ = self.receive.stream.stop(code(error.code));
            }
            h3::Error::Connection(error) => self.state.fail(error),
        }
    }

    /// Why there is no response.
    fn failure(&mut self, broken: Broken) -> Failure {
        match broken {
            Broken::Read(error) => self.state.failure(self.receive.stream.id().into(), error),
            Broken::Malformed(error) => {
                self.refuse(error);
                Failure::Response(format!("not a response: {error}"))
            }
        }
    }

    /// Why the body breaks off.
    fn reason(&mut self, broken: Broken) -> String {
        match broken {
            Broken::Read(error) => self.state.reason(&error),
            Broken::Malformed(error) => {
                self.refuse(error);
                error.to_string()
            }
        }
    }
}

impl Receiving for Response {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            while !self.chunk.is_empty() {
                match self.take().map_err(|broken| self.reason(broken))? {
                    Item::Data(piece) => return Ok(Some(piece)),
                    Item::Trailers(lines) => self.trailers = lines,
                    // Behind the head of a final response there are no others.
                    Item::Nothing | Item::Interim(..) | Item::Head(_) => {}
                }
            }
            if self.is_ended {
                return Ok(None);
            }
            self.fetch().await.map_err(|broken| self.reason(broken))?;
        }
    }

    async fn trailers(&mut self) -> Result<Vec<u8>, String> {
        Ok(std::mem::take(&mut self.trailers))
    }

    async fn is_at_end(&mut self) -> Result<bool, String> {
        if self.chunk.is_empty() && !self.is_ended {
            let fetched = {
                let mut fetching = pin!(self.fetch());
                poll_fn(|context| match fetching.as_mut().poll(context) {
                    Poll::Ready(fetched) => Poll::Ready(fetched),
                    Poll::Pending => Poll::Ready(Ok(())),
                })
                .await
            };
            fetched.map_err(|broken| self.reason(broken))?;
        }
        Ok(self.is_ended && self.chunk.is_empty())
    }
}

/// Fields as lines, without those that are not passed on to the client.
fn lines_of(fields: Fields<'_>) -> Vec<u8> {
    lines_passed_back(fields.map(|field| (field.name, field.value)))
}
