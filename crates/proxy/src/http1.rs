//! One request on an HTTP/1.1 connection to an origin: sends its head and body, and returns the response (RFC
//! 9112).
//!
//! Both directions run at once. When the response's head has arrived, the answer is returned, and a task
//! sends the rest; it ends with the bodies, with the first error, or when the client disconnects. A
//! connection is given back only if both messages are complete and no unexpected bytes have arrived.

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

use super::body_limits::{GATHERED_BYTES, GATHERING_TIME, MOST_INTERIM, PIPE_BYTES};
use super::connections::Connection;
use super::failure::{Failure, TimedStep};
use super::fields::{Outbound, passes_back, response_date, response_fields};
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::tunnel;
use touchstone_upstream::stream::Stream;

/// The request's body on its way; done when all of it is written.
type Upload = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// Sends the request and returns the answer when the response's head has arrived. The connection is given
/// back when both bodies have ended and it can be used again.
pub async fn call(
    attempt: OriginAttempt,
    mut connection: Connection,
    outbound: &Rc<Outbound>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let head = outbound.http1_head(attempt.settings(), &attempt.member().spec.url);
    let input = std::mem::take(&mut connection.received);
    let connection = Rc::new(connection);
    let mut upload: Option<Upload> = None;
    if outbound.has_no_body() || outbound.switches() {
        send(&connection.stream, &head, &[], attempt.settings().times.send).await?;
    } else {
        let (connection, body) = (connection.clone(), body.clone());
        let (length, limit) = (outbound.body_length, attempt.settings().times.send);
        upload = Some(Box::pin(send_request(connection, head, body, length, limit)));
    }
    let mut response = Response { connection, input };
    let head = response.read_head(&mut upload, &attempt, outbound).await?;
    if head.status == 101 {
        if !outbound.switches() {
            return Err(Failure::Response("101 where no other protocol was asked for".to_string()));
        }
        if !outbound.asked_for(&head) {
            return Err(Failure::Response("101 to a protocol that was not asked for".to_string()));
        }
        return Ok(tunnel::begin(attempt, response.connection, response.input, &head, body.clone()));
    }
    let framing = body_framing(outbound.is_head, &head);
    let mut answer = Answer::new(head.status);
    answer.reason = ReasonPhrase::new(head.status, head.reason());
    answer.fields = outbound.response_fields(&head);
    answer.date = response_date(head.field(b"date"));
    if matches!(framing, BodyFraming::None) {
        let may_declare = outbound.is_head || head.status == 304;
        answer.declared_length = head.content_length.filter(|_| may_declare);
    }
    // RFC 9110 section 8.6: 204 has no length. An origin that sends a length may also send a body.
    let is_odd = head.status == 204 && (head.content_length.is_some_and(|length| length > 0) || head.chunked);
    let is_reusable = head.is_persistent() && framing != BodyFraming::UntilClose && !is_odd;
    let length = match framing {
        BodyFraming::None => Some(0),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked | BodyFraming::UntilClose => None,
    };
    // Small responses are received completely: they need no task and no pipe, and cannot break off.
    if upload.is_none()
        && let Some(length) = length.filter(|length| *length <= GATHERED_BYTES)
        && let Some(whole) = response.gather(length as usize).await?
    {
        if !whole.is_empty() {
            answer.body.push(BodyPart::Bytes(whole.into()));
        }
        response.end(attempt, is_reusable);
        return Ok(answer);
    }
    let (sender, receiver) = pipe(PIPE_BYTES);
    answer.body.push(BodyPart::Stream { body: receiver, length });
    let takes_trailers = outbound.takes_trailers;
    tokio::task::spawn_local(async move {
        let idle_timeout = attempt.settings().times.idle;
        let forwarding = response.forward_body(framing, upload, sender, takes_trailers, idle_timeout);
        let ending = attempt.in_time(async { Ok(forwarding.await) }).await;
        let is_reusable = match ending {
            Ok(BodyEnding::Whole { is_upload_done }) => is_reusable && is_upload_done,
            Ok(BodyEnding::Left) => false,
            Ok(BodyEnding::Broken(reason)) | Err(reason) => {
                attempt.broke_off(&reason);
                false
            }
        };
        response.end(attempt, is_reusable);
    });
    Ok(answer)
}

async fn send(stream: &Stream, first: &[u8], second: &[u8], limit: Duration) -> Result<(), Failure> {
    match timeout(limit, stream.send(first, second)).await {
        Ok(sent) => sent.map_err(Failure::Closed),
        Err(_) => Err(Failure::Timeout(TimedStep::Send, limit)),
    }
}

/// Sends head and body. The first piece is sent with the head if it is available; otherwise the head is sent
/// alone, because an origin may refuse the body by the head, and a client may wait for that before it sends
/// any.
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
            // After this turn the body contains all bytes that the client's connection has received.
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
}

/// How a body has ended.
enum BodyEnding {
    /// It is complete.
    Whole {
        /// All of the request was sent, too.
        is_upload_done: bool,
    },
    /// The client has disconnected.
    Left,
    /// It broke off.
    Broken(String),
}

impl Response {
    /// Gives the connection back if it can be used again; otherwise it is closed.
    fn end(self, attempt: OriginAttempt, is_reusable: bool) {
        let Response { connection, input } = self;
        // Unexpected bytes stay visible to the check of the kept connection.
        if let Some(mut connection) = Rc::into_inner(connection).filter(|_| is_reusable) {
            connection.received = input;
            attempt.give_back(connection);
        }
    }

    /// Reads the head of the final response. The time limit begins at the end of the request.
    async fn read_head(
        &mut self,
        upload: &mut Option<Upload>,
        attempt: &OriginAttempt,
        outbound: &Outbound,
    ) -> Result<ResponseHead, Failure> {
        let settings = attempt.settings();
        let mut head = ResponseHead::with_limits(settings.head_limits);
        let mut until = None;
        let mut anything = false;
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
                    outbound.inform(head.status, response_fields(&head));
                    continue;
                }
                Ok(Parsed::Partial) => {}
                Err(error) => return Err(Failure::Response(format!("not a response: {error}"))),
            }
            // The limit counts from the end of the request, however slowly the head arrives.
            let limit = settings.times.response;
            if upload.is_none() {
                until.get_or_insert_with(|| Instant::now() + limit);
            }
            let left = until.map_or(limit, |until| until.saturating_duration_since(Instant::now()));
            match self.read_beside(upload, left, Failure::Timeout(TimedStep::Response, limit)).await? {
                Ok(0) if !anything => return Err(Failure::Closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(0) => {
                    return Err(Failure::Response("it ended within the head of its response".to_string()));
                }
                Ok(_) => anything = true,
                Err(error) if !anything => return Err(Failure::Closed(error)),
                Err(error) => return Err(Failure::Response(format!("cannot be read from: {error}"))),
            }
        }
    }

    /// Receives once, and continues the upload meanwhile. The time limit begins at the end of the upload;
    /// `late` is the error when it is exceeded.
    async fn read_beside(
        &mut self,
        upload: &mut Option<Upload>,
        left: Duration,
        late: Failure,
    ) -> Result<io::Result<usize>, Failure> {
        loop {
            let Some(uploading) = upload else {
                return timeout(left, self.read()).await.map_err(|_| late);
            };
            tokio::select! {
                biased;
                read = self.read() => return Ok(read),
                uploaded = uploading.as_mut() => {
                    *upload = None;
                    // An origin may answer without having read all of a body; then its answer counts.
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

    /// Waits a moment for a body of this length; `None`: it has not arrived in time.
    async fn gather(&mut self, length: usize) -> Result<Option<BytesMut>, Failure> {
        let until = Instant::now() + GATHERING_TIME;
        while self.input.len() < length {
            let Ok(read) = timeout_at(until, self.read()).await else { return Ok(None) };
            let why = match read {
                Ok(1..) => continue,
                Ok(0) => "it closed the connection".to_string(),
                Err(error) => error.to_string(),
            };
            let here = self.input.len();
            let message = format!("its response broke off after {here} of {length} bytes: {why}");
            return Err(Failure::Response(message));
        }
        Ok(Some(self.input.split_to(length)))
    }

    /// Sends the body to its client.
    async fn forward_body(
        &mut self,
        framing: BodyFraming,
        mut upload: Option<Upload>,
        mut sender: Sender,
        takes_trailers: bool,
        idle_timeout: Duration,
    ) -> BodyEnding {
        let mut rest = match framing {
            BodyFraming::None => Rest::Counted(0),
            BodyFraming::Length(length) => Rest::Counted(length),
            BodyFraming::Chunked => Rest::Chunked(Box::new(ChunkedDecoder::new(ChunkedLimits::default()))),
            BodyFraming::UntilClose => Rest::UntilClose,
        };
        let late = || Failure::Timeout(TimedStep::Body, idle_timeout);
        loop {
            loop {
                match rest.take(&mut self.input) {
                    Ok(BodyChunk::Piece(piece)) => {
                        if sender.send(piece).await.is_err() {
                            return BodyEnding::Left;
                        }
                    }
                    Ok(BodyChunk::End(trailers)) => {
                        sender.finish_with_trailers(if takes_trailers { trailers } else { Vec::new() });
                        // If the origin does not read any more, the rest need not be sent; the connection
                        // ends with it.
                        return BodyEnding::Whole { is_upload_done: upload.is_none() };
                    }
                    Ok(BodyChunk::Nothing) => break,
                    Err(error) => {
                        let reason = error.to_string();
                        sender.fail(error);
                        return BodyEnding::Broken(reason);
                    }
                }
            }
            let read = tokio::select! {
                () = sender.gone() => return BodyEnding::Left,
                read = self.read_beside(&mut upload, idle_timeout, late()) => read,
            };
            let error = match read {
                Ok(Ok(0)) if matches!(rest, Rest::UntilClose) => {
                    sender.finish();
                    return BodyEnding::Whole { is_upload_done: false };
                }
                Ok(Ok(0)) => io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"),
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => error,
                // The client caused it.
                Err(Failure::RequestBody(error)) => {
                    sender.fail(error);
                    return BodyEnding::Left;
                }
                Err(failure) => io::Error::other(failure.to_string()),
            };
            let reason = error.to_string();
            sender.fail(error);
            return BodyEnding::Broken(reason);
        }
    }
}

/// The fields of a trailer section that are passed on to the client.
fn trailer_fields(section: &[u8]) -> Vec<u8> {
    let is_for_client = |line: &&[u8]| {
        line.iter().position(|&byte| byte == b':').is_some_and(|colon| passes_back(&line[..colon]))
    };
    section.split_inclusive(|&byte| byte == b'\n').filter(is_for_client).flatten().copied().collect()
}

/// The rest of a response's body.
enum Rest {
    Counted(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

enum BodyChunk {
    Piece(Bytes),
    /// The end, with trailers.
    End(Vec<u8>),
    Nothing,
}

impl Rest {
    fn take(&mut self, input: &mut BytesMut) -> io::Result<BodyChunk> {
        match self {
            Rest::Counted(0) => Ok(BodyChunk::End(Vec::new())),
            _ if input.is_empty() => Ok(BodyChunk::Nothing),
            Rest::UntilClose => Ok(BodyChunk::Piece(input.split().freeze())),
            Rest::Counted(remaining) => {
                let here = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= here as u64;
                Ok(BodyChunk::Piece(input.split_to(here).freeze()))
            }
            Rest::Chunked(decoder) => loop {
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
                    return Ok(BodyChunk::Nothing);
                }
            },
        }
    }
}
