//! One request on an HTTP/1.1 connection to an origin: sends its head and body, and returns the response (RFC
//! 9112).
//!
//! The request is sent and the response is received at the same time. When the response's head has arrived,
//! the answer is returned, and a task forwards the bodies until they end, an error occurs or the client
//! disconnects. The connection is released to the pool only if both messages are complete and no unexpected
//! bytes have arrived.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout, timeout_at};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::{Sender, pipe};
use touchstone_handler::reason_phrase::ReasonPhrase;
use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits, LAST_CHUNK, chunk_head};
use touchstone_http::response::{BodyFraming, Parsed, ResponseHead, body_framing, parse_response_head};

use super::body_limits::{BUFFERED_BYTES, BUFFERING_TIME, MOST_INTERIM, PIPE_BYTES};
use super::connections::Connection;
use super::failure::{Failure, TimedStep};
use super::fields::{OutboundRequest, is_for_client, response_date, response_fields};
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::tunnel;
use touchstone_upstream::stream::Stream;

/// Sends the request's body; ready when all of it is written.
type Upload = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// Sends the request and returns the answer when the response's head has arrived. The connection is
/// released to the pool when both bodies have ended and it can be used again.
pub async fn call(
    attempt: OriginAttempt,
    mut connection: Connection,
    outbound: &Rc<OutboundRequest>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let head = outbound.http1_head(attempt.settings(), &attempt.member().spec.url);
    let input = std::mem::take(&mut connection.received);
    let connection = Rc::new(connection);
    let mut upload: Option<Upload> = None;
    if outbound.has_no_body() || outbound.is_upgrade() {
        send(&connection.stream, &head, &[], attempt.settings().times.send).await?;
    } else {
        let (connection, body) = (connection.clone(), body.clone());
        let (length, limit) = (outbound.body_length, attempt.settings().times.send);
        upload = Some(Box::pin(send_request(connection, head, body, length, limit)));
    }
    receive_answer(attempt, Response { connection, input, sent_at: None }, upload, (outbound, body)).await
}

/// Continues a request without a body that was sent on this connection at `sent_at`, see [`call`].
pub async fn continue_call(
    attempt: OriginAttempt,
    mut connection: Connection,
    sent_at: std::time::Instant,
    outbound: &Rc<OutboundRequest>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let input = std::mem::take(&mut connection.received);
    let connection = Rc::new(connection);
    let response = Response { connection, input, sent_at: Some(sent_at.into()) };
    receive_answer(attempt, response, None, (outbound, body)).await
}

/// Receives the head of the final response, and a small body. A task forwards a longer body.
async fn receive_answer(
    attempt: OriginAttempt,
    mut response: Response,
    mut upload: Option<Upload>,
    (outbound, body): (&Rc<OutboundRequest>, &Rc<RequestBody>),
) -> Result<Answer, Failure> {
    let head = response.read_head(&mut upload, &attempt, outbound).await?;
    if head.status == 101 {
        if !outbound.is_upgrade() {
            return Err(Failure::Response("101 to a request without Upgrade".to_string()));
        }
        if !outbound.requested_protocol_of(&head) {
            return Err(Failure::Response("101 to a protocol that the client did not request".to_string()));
        }
        return Ok(tunnel::begin(attempt, response.connection, response.input, &head, body.clone()));
    }
    let framing = body_framing(outbound.is_head, &head);
    let mut answer = answer_of(&head, outbound.response_fields(&head));
    if matches!(framing, BodyFraming::None) {
        let may_declare = outbound.is_head || head.status == 304;
        answer.declared_length = head.content_length.filter(|_| may_declare);
    }
    // RFC 9110 section 8.6: 204 has no length. An origin that sends a length may also send a body.
    let may_have_body =
        head.status == 204 && (head.content_length.is_some_and(|length| length > 0) || head.chunked);
    let is_reusable = head.is_persistent() && framing != BodyFraming::UntilClose && !may_have_body;
    let length = match framing {
        BodyFraming::None => Some(0),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked | BodyFraming::UntilClose => None,
    };
    // Small responses are received completely: they need no task and no pipe, and the client never gets an
    // incomplete one.
    if upload.is_none()
        && let Some(length) = length.filter(|length| *length <= BUFFERED_BYTES)
        && let Some(whole) = response.receive_whole(length as usize).await?
    {
        if !whole.is_empty() {
            answer.body.push(BodyPart::Bytes(whole.into()));
        }
        response.finish(attempt, is_reusable);
        return Ok(answer);
    }
    let (sender, receiver) = pipe(PIPE_BYTES);
    answer.body.push(BodyPart::Stream { body: receiver, length });
    let accepts_trailers = outbound.accepts_trailers;
    tokio::task::spawn_local(async move {
        let idle_timeout = attempt.settings().times.idle;
        let forwarding = response.forward_body(framing, upload, sender, accepts_trailers, idle_timeout);
        let body_end = attempt.within_deadline(async { Ok(forwarding.await) }).await;
        let is_reusable = match body_end {
            Ok(BodyEnd::Complete { is_upload_done }) => is_reusable && is_upload_done,
            Ok(BodyEnd::ClientGone) => false,
            Ok(BodyEnd::Incomplete(reason)) | Err(reason) => {
                attempt.record_broken_body(&reason);
                false
            }
        };
        response.finish(attempt, is_reusable);
    });
    Ok(answer)
}

/// The answer with the head of a response and these fields.
pub fn answer_of(head: &ResponseHead, fields: Vec<u8>) -> Answer {
    let mut answer = Answer::new(head.status);
    answer.reason = ReasonPhrase::new(head.status, head.reason());
    answer.fields = fields;
    answer.date = response_date(head.field(b"date"));
    answer
}

async fn send(stream: &Stream, first: &[u8], second: &[u8], limit: Duration) -> Result<(), Failure> {
    match timeout(limit, stream.send(first, second)).await {
        Ok(sent) => sent.map_err(Failure::Closed),
        Err(_) => Err(Failure::Timeout(TimedStep::Send, limit)),
    }
}

/// Sends head and body. The first piece is sent together with the head if it is available. Otherwise the head
/// is sent alone: an origin may refuse the body, and the client may wait for its interim response (100).
async fn send_request(
    connection: Rc<Connection>,
    head: Vec<u8>,
    body: Rc<RequestBody>,
    length: Option<u64>,
    limit: Duration,
) -> Result<(), Failure> {
    let stream = &connection.stream;
    let mut pending = head;
    let mut sent = 0u64;
    loop {
        let piece = tokio::select! {
            biased;
            piece = body.next() => piece,
            // After one turn of the event loop, the body contains all bytes received from the client so far.
            () = tokio::task::yield_now(), if !pending.is_empty() => {
                send(stream, &pending, &[], limit).await?;
                pending.clear();
                body.next().await
            }
        };
        let Some(piece) = piece else { break };
        let piece = piece.map_err(Failure::RequestBody)?;
        sent += piece.len() as u64;
        if length.is_none() {
            pending.extend_from_slice(chunk_head(piece.len() as u64, &mut [0; 18]));
        }
        send(stream, &pending, &piece, limit).await?;
        pending.clear();
        if length.is_none() {
            pending.extend_from_slice(b"\r\n");
        }
    }
    if length.is_some_and(|length| sent != length) {
        return Err(Failure::RequestBody(io::ErrorKind::UnexpectedEof.into()));
    }
    if length.is_none() {
        // LAST_CHUNK with the trailers before its last line end.
        let (last, end) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
        pending.extend([last, &body.trailers(), end].concat());
    }
    send(stream, &pending, &[], limit).await
}

/// A response that is being received.
struct Response {
    connection: Rc<Connection>,
    /// Received and unprocessed bytes.
    input: BytesMut,
    /// When the request was sent, if that was before the call.
    sent_at: Option<Instant>,
}

/// How a body has ended.
enum BodyEnd {
    /// It is complete.
    Complete {
        /// The request was sent completely.
        is_upload_done: bool,
    },
    /// The client has disconnected.
    ClientGone,
    /// It is incomplete, for this reason.
    Incomplete(String),
}

impl Response {
    /// Releases the connection to the pool if it can be used again; otherwise it is closed.
    fn finish(self, attempt: OriginAttempt, is_reusable: bool) {
        let Response { connection, input, .. } = self;
        // If there are unexpected bytes, the pool does not keep the connection.
        if let Some(mut connection) = Rc::into_inner(connection).filter(|_| is_reusable) {
            connection.received = input;
            attempt.release(connection);
        }
    }

    /// Reads the head of the final response. The time limit begins at the end of the request.
    async fn read_head(
        &mut self,
        upload: &mut Option<Upload>,
        attempt: &OriginAttempt,
        outbound: &OutboundRequest,
    ) -> Result<ResponseHead, Failure> {
        let settings = attempt.settings();
        let mut head = ResponseHead::with_limits(settings.head_limits);
        let mut deadline = self.sent_at.map(|sent_at| sent_at + settings.times.response);
        let mut has_received = !self.input.is_empty();
        let mut interim = 0;
        loop {
            match parse_response_head(&self.input, &mut head) {
                Ok(Parsed::Complete(length)) => {
                    let _ = self.input.split_to(length);
                    if !matches!(head.status, 100 | 102..=199) {
                        return Ok(head);
                    }
                    interim += 1;
                    if interim > MOST_INTERIM {
                        return Err(Failure::Response("too many interim responses".to_string()));
                    }
                    outbound.forward_interim(head.status, response_fields(&head));
                    continue;
                }
                Ok(Parsed::Partial) => {}
                Err(error) => return Err(Failure::Response(format!("invalid response: {error}"))),
            }
            // The limit applies to the whole head, from the end of the request.
            let limit = settings.times.response;
            if upload.is_none() {
                deadline.get_or_insert_with(|| Instant::now() + limit);
            }
            let left = deadline.map_or(limit, |time| time.saturating_duration_since(Instant::now()));
            match self.read_during_upload(upload, left, Failure::Timeout(TimedStep::Response, limit)).await? {
                Ok(0) if !has_received => return Err(Failure::Closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(0) => {
                    return Err(Failure::Response("it ended within the head of its response".to_string()));
                }
                Ok(_) => has_received = true,
                Err(error) if !has_received => return Err(Failure::Closed(error)),
                Err(error) => return Err(Failure::Response(format!("cannot be read from: {error}"))),
            }
        }
    }

    /// Receives once, and continues the upload at the same time. The time limit begins at the end of the
    /// upload; `timeout_error` is the error when it is exceeded.
    async fn read_during_upload(
        &mut self,
        upload: &mut Option<Upload>,
        left: Duration,
        timeout_error: Failure,
    ) -> Result<io::Result<usize>, Failure> {
        loop {
            let Some(uploading) = upload else {
                return timeout(left, self.read()).await.map_err(|_| timeout_error);
            };
            tokio::select! {
                biased;
                read = self.read() => return Ok(read),
                uploaded = uploading.as_mut() => {
                    *upload = None;
                    // An origin may respond before it has read the whole body; then its response is used.
                    match uploaded {
                        Ok(()) | Err(Failure::Closed(_)) => {}
                        Err(failure) => return Err(failure),
                    }
                }
            }
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.connection.stream.receive(&mut self.input).await
    }

    /// Waits for a body of this length, at most for [`BUFFERING_TIME`]; `None`: it has not arrived in time.
    async fn receive_whole(&mut self, length: usize) -> Result<Option<BytesMut>, Failure> {
        let deadline = Instant::now() + BUFFERING_TIME;
        while self.input.len() < length {
            let Ok(read) = timeout_at(deadline, self.read()).await else { return Ok(None) };
            let why = match read {
                Ok(1..) => continue,
                Ok(0) => "it closed the connection".to_string(),
                Err(error) => error.to_string(),
            };
            let received = self.input.len();
            let message = format!("its response broke off after {received} of {length} bytes: {why}");
            return Err(Failure::Response(message));
        }
        Ok(Some(self.input.split_to(length)))
    }

    /// Forwards the body to the client.
    async fn forward_body(
        &mut self,
        framing: BodyFraming,
        mut upload: Option<Upload>,
        mut sender: Sender,
        accepts_trailers: bool,
        idle_timeout: Duration,
    ) -> BodyEnd {
        let mut reader = match framing {
            BodyFraming::None => BodyReader::Length(0),
            BodyFraming::Length(length) => BodyReader::Length(length),
            BodyFraming::Chunked => {
                BodyReader::Chunked(Box::new(ChunkedDecoder::new(ChunkedLimits::default())))
            }
            BodyFraming::UntilClose => BodyReader::UntilClose,
        };
        let timeout_error = || Failure::Timeout(TimedStep::Body, idle_timeout);
        loop {
            loop {
                match reader.next_chunk(&mut self.input) {
                    Ok(BodyChunk::Piece(piece)) => {
                        if sender.send(piece).await.is_err() {
                            return BodyEnd::ClientGone;
                        }
                    }
                    Ok(BodyChunk::End(trailers)) => {
                        sender.finish_with_trailers(if accepts_trailers { trailers } else { Vec::new() });
                        // If the request is not sent completely, the connection is closed.
                        return BodyEnd::Complete { is_upload_done: upload.is_none() };
                    }
                    Ok(BodyChunk::Incomplete) => break,
                    Err(error) => {
                        let reason = error.to_string();
                        sender.fail(error);
                        return BodyEnd::Incomplete(reason);
                    }
                }
            }
            let read = tokio::select! {
                () = sender.gone() => return BodyEnd::ClientGone,
                read = self.read_during_upload(&mut upload, idle_timeout, timeout_error()) => read,
            };
            let error = match read {
                Ok(Ok(0)) if matches!(reader, BodyReader::UntilClose) => {
                    sender.finish();
                    return BodyEnd::Complete { is_upload_done: false };
                }
                Ok(Ok(0)) => io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"),
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => error,
                // The client caused the error.
                Err(Failure::RequestBody(error)) => {
                    sender.fail(error);
                    return BodyEnd::ClientGone;
                }
                Err(failure) => io::Error::other(failure.to_string()),
            };
            let reason = error.to_string();
            sender.fail(error);
            return BodyEnd::Incomplete(reason);
        }
    }
}

/// The fields of a trailer section that are forwarded to the client.
fn trailer_fields(section: &[u8]) -> Vec<u8> {
    let is_kept = |line: &&[u8]| {
        line.iter().position(|&byte| byte == b':').is_some_and(|colon| is_for_client(&line[..colon]))
    };
    section.split_inclusive(|&byte| byte == b'\n').filter(is_kept).flatten().copied().collect()
}

/// Reads a response's body from the received bytes, according to its framing.
enum BodyReader {
    /// This many bytes are left.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

enum BodyChunk {
    Piece(Bytes),
    /// The end, with trailers.
    End(Vec<u8>),
    /// More bytes must be received first.
    Incomplete,
}

impl BodyReader {
    fn next_chunk(&mut self, input: &mut BytesMut) -> io::Result<BodyChunk> {
        match self {
            BodyReader::Length(0) => Ok(BodyChunk::End(Vec::new())),
            _ if input.is_empty() => Ok(BodyChunk::Incomplete),
            BodyReader::UntilClose => Ok(BodyChunk::Piece(input.split().freeze())),
            BodyReader::Length(remaining) => {
                let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= length as u64;
                Ok(BodyChunk::Piece(input.split_to(length).freeze()))
            }
            BodyReader::Chunked(decoder) => loop {
                let decoded = decoder.decode(input).map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, format!("the response's chunks: {error}"))
                })?;
                let consumed = input.split_to(decoded.consumed).freeze();
                let piece = consumed.slice(decoded.data);
                if decoded.done {
                    // The end of a body contains no data.
                    return Ok(BodyChunk::End(trailer_fields(decoder.trailers())));
                }
                if !piece.is_empty() {
                    return Ok(BodyChunk::Piece(piece));
                }
                if decoded.consumed == 0 || input.is_empty() {
                    return Ok(BodyChunk::Incomplete);
                }
            },
        }
    }
}
