//! What requests have in common that go over a stream of a shared connection, in HTTP/2 and in HTTP/3: both
//! bodies at once, and the answer made of what has come.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::{timeout, timeout_at};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::{Sender, pipe};

use super::body_limits::{GATHERED_BYTES, GATHERING_TIME, PIPE_BYTES};
use super::failure::{Failure, TimedStep};
use super::fields::{Outbound, response_date};
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::sessions::{Multiplexed, SessionUse};

/// The request's body on its way.
pub type Upload = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// The stream's direction to the origin. If it is dropped before its end, the stream is reset, so that the
/// request does not look complete.
pub trait Sending {
    /// Sends a piece of the body as fast as flow control allows.
    async fn send(&mut self, piece: Bytes, limit: Duration) -> Result<(), Failure>;

    /// Ends the body, with these field lines as trailers.
    async fn finish(&mut self, trailers: &[u8], limit: Duration) -> Result<(), Failure>;
}

/// The stream's direction from the origin, behind the head of the response. Nothing is lost if a call is not
/// awaited to its end. Errors say why the response broke off.
pub trait Receiving {
    /// The next piece of the body; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, String>;

    /// The trailers behind the body, as lines without fields that are not passed on.
    async fn trailers(&mut self) -> Result<Vec<u8>, String>;

    /// Whether the response is known to have ended.
    async fn is_at_end(&mut self) -> Result<bool, String>;
}

/// The head of a response.
pub struct Head {
    /// The status of a final response.
    pub status: u16,
    /// The field lines that are passed on.
    pub fields: Vec<u8>,
    /// The response's time, as the client gets it.
    pub date: Option<[u8; 29]>,
    /// The value of Content-Length.
    pub length: Option<u64>,
}

impl Head {
    /// The head with these fields: the lines that are passed on, and two values.
    pub fn new(status: u16, fields: Vec<u8>, date: Option<&[u8]>, length: Option<u64>) -> Head {
        Head { status, fields, date: response_date(date), length }
    }
}

/// Sends the body to its end.
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
/// request. A connection that does not answer may be dead: other requests must not wait for it.
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
                    // An origin may answer without having read all of a body.
                    Ok(()) | Err(Failure::Closed(_)) => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
    }
}

/// The answer to a request whose head has come. `held` is dropped when the stream has ended.
pub async fn answer<R: Receiving + 'static, H: 'static>(
    attempt: OriginAttempt,
    held: H,
    head: Head,
    mut download: Download<R>,
    outbound: &Outbound,
) -> Result<Answer, Failure> {
    let mut answer = Answer::new(head.status);
    answer.fields = head.fields;
    answer.date = head.date;
    let length = head.length;
    let has_no_content = outbound.is_head || matches!(answer.status, 204 | 304);
    if has_no_content {
        answer.declared_length = length.filter(|_| answer.status != 204);
        if download.upload.is_none() {
            // The end of the stream is usually here, and then the stream need not be broken off.
            let _ = timeout(GATHERING_TIME, download.received.next()).await;
        }
        return Ok(answer);
    }
    if download.upload.is_none() && download.received.is_at_end().await.map_err(broken)? {
        return Ok(answer);
    }
    let takes_trailers = outbound.takes_trailers;
    let mut begun = Vec::new();
    if download.upload.is_none() && length.is_some_and(|length| length <= GATHERED_BYTES) {
        match download.gather(&mut begun).await? {
            Some(trailers) if trailers.is_empty() || !takes_trailers => {
                answer.body.push(BodyPart::Bytes(begun.into()));
                return Ok(answer);
            }
            Some(trailers) => {
                let (mut sender, receiver) = pipe(PIPE_BYTES);
                sender.push(begun.into());
                sender.finish_with_trailers(trailers);
                answer.body.push(BodyPart::Stream { body: receiver, length: None });
                return Ok(answer);
            }
            None => {}
        }
    }
    let (mut sender, receiver) = pipe(PIPE_BYTES);
    sender.push(begun.into());
    // Trailers follow a body only if its length is not declared.
    let length = length.filter(|_| !takes_trailers);
    answer.body.push(BodyPart::Stream { body: receiver, length });
    tokio::task::spawn_local(async move {
        let _held = held;
        if let Err(reason) = attempt.in_time(download.forward_body(sender, takes_trailers)).await {
            attempt.broke_off(&reason);
        }
    });
    Ok(answer)
}

fn broken(reason: String) -> Failure {
    Failure::Response(format!("its response broke off: {reason}"))
}

/// A response's body on its way.
pub struct Download<R> {
    /// What comes.
    pub received: R,
    /// The request's body, if it is still on its way.
    pub upload: Option<Upload>,
    /// How long nothing may come.
    pub limit: Duration,
}

impl<R: Receiving> Download<R> {
    /// The next piece, while the upload continues; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let Some(uploading) = &mut self.upload else {
                let late = |_| format!("nothing more came within {} s", self.limit.as_secs_f64());
                return timeout(self.limit, self.received.next()).await.map_err(late)?;
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
        trailers.map_err(|_| "its trailers did not come".to_string())?
    }

    /// Waits a moment for a whole body, whose length is known to be small, and returns the trailers; `None`:
    /// it is late, and `whole` holds its beginning.
    async fn gather(&mut self, whole: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Failure> {
        let until = Instant::now() + GATHERING_TIME;
        loop {
            // No piece is lost: after a piece was taken, nothing else is awaited.
            let Ok(next) = timeout_at(until.into(), self.next()).await else { return Ok(None) };
            match next.map_err(broken)? {
                Some(piece) => whole.extend_from_slice(&piece),
                None => return self.trailers().await.map(Some).map_err(broken),
            }
        }
    }

    /// Sends it to its client; the error says why it broke off.
    async fn forward_body(mut self, mut sender: Sender, takes_trailers: bool) -> Result<(), String> {
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
                sender.finish_with_trailers(if takes_trailers { trailers } else { Vec::new() });
                Ok(())
            }
            Err(reason) => {
                sender.fail(io::Error::other(reason.clone()));
                Err(reason)
            }
        }
    }
}
