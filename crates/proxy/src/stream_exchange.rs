//! The exchange of a request and its response on a stream of a shared connection, common to HTTP/2 and
//! HTTP/3. The request is sent and the response is received at the same time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::{timeout, timeout_at};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::{Sender, pipe};

use super::body_limits::{BUFFERED_BYTES, BUFFERING_TIME, PIPE_BYTES};
use super::failure::{Failure, TimedStep};
use super::fields::{OutboundRequest, response_date};
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::sessions::{Multiplexed, SessionUse};

/// Sends the request's body; ready when all of it is sent.
pub type Upload = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// The stream's direction to the origin. If it is dropped before its end, the stream is reset, so that the
/// request does not look complete.
pub trait Sending {
    /// Sends a piece of the body as fast as flow control allows.
    async fn send(&mut self, piece: Bytes, limit: Duration) -> Result<(), Failure>;

    /// Ends the stream, with these field lines as trailers.
    async fn finish(&mut self, trailers: &[u8], limit: Duration) -> Result<(), Failure>;
}

/// The stream's direction from the origin, after the head of the response. All methods are cancel safe.
/// Errors say why the response is incomplete.
pub trait Receiving {
    /// The next piece of the body; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, String>;

    /// The trailers after the body, as lines, without fields that are not forwarded.
    async fn trailers(&mut self) -> Result<Vec<u8>, String>;

    /// Whether the response is known to have ended.
    async fn is_at_end(&mut self) -> Result<bool, String>;
}

/// The head of a response.
pub struct Head {
    /// The status of a final response.
    pub status: u16,
    /// The field lines that are forwarded.
    pub fields: Vec<u8>,
    /// The response's Date, as it is sent to the client.
    pub date: Option<[u8; 29]>,
    /// The value of Content-Length.
    pub length: Option<u64>,
}

impl Head {
    /// A head with the field lines that are forwarded, and the values of Date and Content-Length.
    pub fn new(status: u16, fields: Vec<u8>, date: Option<&[u8]>, length: Option<u64>) -> Head {
        Head { status, fields, date: response_date(date), length }
    }
}

/// Sends the body, and ends the stream.
pub async fn send_body(
    mut stream: impl Sending,
    body: Rc<RequestBody>,
    length: Option<u64>,
    limit: Duration,
) -> Result<(), Failure> {
    let mut sent = 0u64;
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(Failure::RequestBody)?;
        sent += piece.len() as u64;
        stream.send(piece, limit).await?;
    }
    if length.is_some_and(|length| sent != length) {
        return Err(Failure::RequestBody(io::ErrorKind::UnexpectedEof.into()));
    }
    stream.finish(&body.trailers(), limit).await
}

/// Waits for the head of the response, while the request is sent. The time limit begins at the end of the
/// request. After a timeout the connection gets no more requests, because it may be dead.
pub async fn wait_for_head<H, C: Multiplexed>(
    head: impl Future<Output = Result<H, Failure>>,
    upload: &mut Option<Upload>,
    limit: Duration,
    session: &SessionUse<C>,
) -> Result<H, Failure> {
    let head = head_during_upload(head, upload, limit).await;
    if let Err(Failure::Timeout(..)) = head {
        session.session.is_dead.set(true);
    }
    head
}

async fn head_during_upload<H>(
    head: impl Future<Output = Result<H, Failure>>,
    upload: &mut Option<Upload>,
    limit: Duration,
) -> Result<H, Failure> {
    let mut head = std::pin::pin!(head);
    loop {
        let Some(uploading) = upload else {
            return timeout(limit, head).await.map_err(|_| Failure::Timeout(TimedStep::Response, limit))?;
        };
        tokio::select! {
            biased;
            head = &mut head => return head,
            uploaded = uploading.as_mut() => {
                *upload = None;
                match uploaded {
                    // An origin may respond before it has read the whole body.
                    Ok(()) | Err(Failure::Closed(_)) => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
    }
}

/// The answer to a request, once the response's head has arrived. `session_use` is dropped at the end of the
/// stream.
pub async fn answer<R: Receiving + 'static, S: 'static>(
    attempt: OriginAttempt,
    session_use: S,
    head: Head,
    mut download: Download<R>,
    outbound: &OutboundRequest,
) -> Result<Answer, Failure> {
    let mut answer = Answer::new(head.status);
    answer.fields = head.fields;
    answer.date = head.date;
    let length = head.length;
    let has_no_content = outbound.is_head || matches!(answer.status, 204 | 304);
    if has_no_content {
        answer.declared_length = length.filter(|_| answer.status != 204);
        if download.upload.is_none() {
            // Waits for the end of the stream, which has usually arrived. Otherwise the stream is reset.
            let _ = timeout(BUFFERING_TIME, download.received.next()).await;
        }
        return Ok(answer);
    }
    if download.upload.is_none() && download.received.is_at_end().await.map_err(incomplete)? {
        return Ok(answer);
    }
    let accepts_trailers = outbound.accepts_trailers;
    let mut buffer = Vec::new();
    if download.upload.is_none() && length.is_some_and(|length| length <= BUFFERED_BYTES) {
        match download.receive_whole(&mut buffer).await? {
            Some(trailers) if trailers.is_empty() || !accepts_trailers => {
                answer.body.push(BodyPart::Bytes(buffer.into()));
                return Ok(answer);
            }
            Some(trailers) => {
                let (mut sender, receiver) = pipe(PIPE_BYTES);
                sender.push(buffer.into());
                sender.finish_with_trailers(trailers);
                answer.body.push(BodyPart::Stream { body: receiver, length: None });
                return Ok(answer);
            }
            None => {}
        }
    }
    let (mut sender, receiver) = pipe(PIPE_BYTES);
    sender.push(buffer.into());
    // Trailers follow a body only if its length is not declared.
    let length = length.filter(|_| !accepts_trailers);
    answer.body.push(BodyPart::Stream { body: receiver, length });
    tokio::task::spawn_local(async move {
        let _session_use = session_use;
        if let Err(reason) = attempt.within_deadline(download.forward_body(sender, accepts_trailers)).await {
            attempt.record_broken_body(&reason);
        }
    });
    Ok(answer)
}

fn incomplete(reason: String) -> Failure {
    Failure::Response(format!("its response broke off: {reason}"))
}

/// A response's body that is being received.
pub struct Download<R> {
    /// The body.
    pub received: R,
    /// The request's body, if it is still being sent.
    pub upload: Option<Upload>,
    /// The longest pause between two pieces.
    pub limit: Duration,
}

impl<R: Receiving> Download<R> {
    /// The next piece, while the upload continues; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let Some(uploading) = &mut self.upload else {
                let timeout_error =
                    |_| format!("no further bytes were received within {} s", self.limit.as_secs_f64());
                return timeout(self.limit, self.received.next()).await.map_err(timeout_error)?;
            };
            tokio::select! {
                biased;
                next = self.received.next() => return next,
                uploaded = uploading.as_mut() => {
                    self.upload = None;
                    if let Err(failure @ Failure::RequestBody(_)) = uploaded {
                        return Err(failure.to_string());
                    }
                }
            }
        }
    }

    async fn trailers(&mut self) -> Result<Vec<u8>, String> {
        let trailers = timeout(self.limit, self.received.trailers()).await;
        trailers.map_err(|_| "its trailers were not received in time".to_string())?
    }

    /// Waits for a small body, at most for [`BUFFERING_TIME`], and returns the trailers; `None`: it is not
    /// complete, and `buffer` holds the received part.
    async fn receive_whole(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Failure> {
        let deadline = Instant::now() + BUFFERING_TIME;
        loop {
            // Cancel safe: `next` awaits nothing after it has taken a piece.
            let Ok(next) = timeout_at(deadline.into(), self.next()).await else { return Ok(None) };
            match next.map_err(incomplete)? {
                Some(piece) => buffer.extend_from_slice(&piece),
                None => return self.trailers().await.map(Some).map_err(incomplete),
            }
        }
    }

    /// Forwards it to the client; the error says why it is incomplete.
    async fn forward_body(mut self, mut sender: Sender, accepts_trailers: bool) -> Result<(), String> {
        loop {
            let next = tokio::select! {
                () = sender.gone() => return Ok(()),
                next = self.next() => next,
            };
            match next {
                Ok(Some(piece)) => {
                    if sender.send(piece).await.is_err() {
                        return Ok(());
                    }
                }
                Ok(None) => break,
                Err(reason) => {
                    sender.fail(io::Error::other(reason.clone()));
                    return Err(reason);
                }
            }
        }
        match self.trailers().await {
            Ok(trailers) => {
                sender.finish_with_trailers(if accepts_trailers { trailers } else { Vec::new() });
                Ok(())
            }
            Err(reason) => {
                sender.fail(io::Error::other(reason.clone()));
                Err(reason)
            }
        }
    }
}
