//! Requests over HTTP/2 to an origin (RFC 9113): a core's connections to it, each shared by many requests,
//! and one request on them. Trailers are passed on, so gRPC works.
//!
//! The h2 crate handles frames: the engine of the http crate supports the server's side only, and its
//! advantage there (thousands of cached responses in a few writes) does not matter for a client of origins.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use tokio::time::{timeout, timeout_at};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::{Sender, pipe};

use super::body_limits::{GATHERED_BYTES, GATHERING_TIME, PIPE_BYTES};
use super::failure::{Failure, TimedStep};
use super::fields::{Outbound, passes_back, response_date};
use super::http2_sessions::SessionUse;
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;

/// Sends the request and returns the answer when the response's head has arrived.
pub async fn call(
    attempt: OriginAttempt,
    session: SessionUse,
    outbound: &Rc<Outbound>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let times = attempt.settings().times;
    let request = request(&attempt, outbound)?;
    let ready = timeout(times.connect, session.session.send.clone().ready()).await;
    let mut send = match ready {
        Ok(Ok(send)) => send,
        // Nothing was sent: the connection had ended.
        Ok(Err(error)) => {
            session.session.is_dead.set(true);
            return Err(Failure::Refused(error.to_string()));
        }
        Err(_) => return Err(Failure::Full("no stream of its HTTP/2 connection became free")),
    };
    let has_no_body = outbound.has_no_body();
    let (mut response, stream) =
        send.send_request(request, has_no_body).map_err(|error| failure_of(&error, false))?;
    drop(send);
    let mut upload: Option<Upload> = None;
    if !has_no_body {
        upload = Some(Box::pin(send_body(stream, body.clone(), outbound.body_length, times.send)));
    }
    let head = read_head(&mut response, &mut upload, &attempt, outbound).await;
    let head = match head {
        Ok(head) => head,
        Err(failure) => {
            // A connection that does not answer may be dead; other requests must not wait for it.
            if matches!(failure, Failure::Timeout(..)) {
                session.session.is_dead.set(true);
            }
            return Err(failure);
        }
    };
    let (parts, received) = head.into_parts();
    let mut answer = Answer::new(parts.status.as_u16());
    if answer.status == 101 {
        return Err(Failure::Response("101, which HTTP/2 has not".to_string()));
    }
    answer.fields = lines_of(&parts.headers);
    answer.date = response_date(parts.headers.get("date").map(HeaderValue::as_bytes));
    let length =
        parts.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let has_no_content = outbound.is_head || matches!(answer.status, 204 | 304);
    if has_no_content {
        answer.declared_length = length.filter(|_| answer.status != 204);
        return Ok(answer);
    }
    let mut download = Download { received, upload, limit: times.idle };
    if download.received.is_end_stream() && download.upload.is_none() {
        return Ok(answer);
    }
    let mut begun = Vec::new();
    if download.upload.is_none() && length.is_some_and(|length| length <= GATHERED_BYTES) {
        let gathered = download.gather(&mut begun).await?;
        let is_all = |trailers: &Vec<u8>| trailers.is_empty() || !outbound.takes_trailers;
        match gathered {
            Some(trailers) if is_all(&trailers) => {
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
    let takes_trailers = outbound.takes_trailers;
    let (mut sender, receiver) = pipe(PIPE_BYTES);
    sender.push(begun.into());
    // Trailers follow a body only if its length is not declared.
    let length = length.filter(|_| !takes_trailers);
    answer.body.push(BodyPart::Stream { body: receiver, length });
    tokio::task::spawn_local(async move {
        let _session = session;
        if let Err(reason) = attempt.in_time(download.forward_body(sender, takes_trailers)).await {
            attempt.broke_off(&reason);
        }
    });
    Ok(answer)
}

/// The request's body on its way.
type Upload = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

fn request(attempt: &OriginAttempt, outbound: &Outbound) -> Result<Request<()>, Failure> {
    let refused =
        |what: &str| Failure::RequestBody(io::Error::other(format!("{what} cannot be said in HTTP/2")));
    let url = &attempt.member().spec.url;
    let mut uri = Vec::with_capacity(256);
    uri.extend_from_slice(if url.is_tls { b"https://" } else { b"http://" });
    uri.extend_from_slice(outbound.authority(attempt.settings(), url));
    uri.extend_from_slice(&outbound.path(url));
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = Method::from_bytes(&outbound.method).map_err(|_| refused("its method"))?;
    *request.uri_mut() = http::Uri::from_maybe_shared(Bytes::from(uri)).map_err(|_| refused("its target"))?;
    let headers = request.headers_mut();
    for line in outbound.lines().split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| refused("a field's name"))?;
        let value = line[colon + 1..].trim_ascii();
        headers.append(name, HeaderValue::from_bytes(value).map_err(|_| refused("a field's value"))?);
    }
    if outbound.takes_trailers {
        headers.insert("te", HeaderValue::from_static("trailers"));
    }
    if let Some(length) = outbound.declared_length() {
        headers.insert("content-length", HeaderValue::from(length));
    }
    Ok(request)
}

async fn read_head(
    response: &mut ResponseFuture,
    upload: &mut Option<Upload>,
    attempt: &OriginAttempt,
    outbound: &Outbound,
) -> Result<http::Response<RecvStream>, Failure> {
    let limit = attempt.settings().times.response;
    let head = poll_fn(|context| {
        while let Poll::Ready(Some(Ok(interim))) = response.poll_informational(context) {
            outbound.inform(interim.status().as_u16(), lines_of(interim.headers()));
        }
        Pin::new(&mut *response).poll(context)
    });
    let mut head = std::pin::pin!(head);
    loop {
        let Some(uploading) = upload else {
            let head =
                timeout(limit, head).await.map_err(|_| Failure::Timeout(TimedStep::Response, limit))?;
            return head.map_err(|error| failure_of(&error, false));
        };
        tokio::select! {
            biased;
            head = &mut head => return head.map_err(|error| failure_of(&error, false)),
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

/// Sends the body as fast as flow control allows.
async fn send_body(
    mut stream: SendStream<Bytes>,
    body: Rc<RequestBody>,
    length: Option<u64>,
    limit: Duration,
) -> Result<(), Failure> {
    let mut sent = 0u64;
    while let Some(piece) = body.next().await {
        let mut piece = piece.map_err(Failure::RequestBody)?;
        sent += piece.len() as u64;
        while !piece.is_empty() {
            stream.reserve_capacity(piece.len());
            let capacity = timeout(limit, poll_fn(|context| stream.poll_capacity(context))).await;
            let room = match capacity {
                Ok(Some(Ok(room))) => room.min(piece.len()),
                Ok(Some(Err(error))) => return Err(Failure::Closed(io::Error::other(error))),
                Ok(None) => return Err(Failure::Closed(io::ErrorKind::BrokenPipe.into())),
                Err(_) => return Err(Failure::Timeout(TimedStep::Send, limit)),
            };
            let part = piece.split_to(room);
            stream.send_data(part, false).map_err(|error| Failure::Closed(io::Error::other(error)))?;
        }
    }
    if length.is_some_and(|length| sent != length) {
        stream.send_reset(Reason::CANCEL);
        return Err(Failure::RequestBody(io::ErrorKind::UnexpectedEof.into()));
    }
    let trailers = map_of(&body.trailers());
    let ended = match trailers.is_empty() {
        true => stream.send_data(Bytes::new(), true),
        false => stream.send_trailers(trailers),
    };
    ended.map_err(|error| Failure::Closed(io::Error::other(error)))
}

/// Field lines in the form of HTTP/2; lines that are not valid there are left out.
fn map_of(lines: &[u8]) -> HeaderMap {
    let field = |line: &[u8]| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
    };
    let mut map = HeaderMap::new();
    for (name, value) in lines.split(|&byte| byte == b'\n').filter_map(field) {
        map.append(name, value);
    }
    map
}

/// A response's body on its way.
struct Download {
    received: RecvStream,
    upload: Option<Upload>,
    limit: Duration,
}

impl Download {
    /// The next piece, while the upload continues; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let Some(uploading) = &mut self.upload else {
                let next = timeout(self.limit, self.received.data()).await;
                let late = |_| format!("nothing more came within {} s", self.limit.as_secs_f64());
                return taken(&mut self.received, next.map_err(late)?);
            };
            tokio::select! {
                biased;
                next = self.received.data() => return taken(&mut self.received, next),
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
        let trailers = trailers.map_err(|_| "its trailers did not come".to_string())?;
        Ok(trailers.map_err(|error| error.to_string())?.map(|map| lines_of(&map)).unwrap_or_default())
    }

    /// Waits a moment for a whole body, whose length is known to be small, and returns the trailers; `None`:
    /// it is late, and `whole` holds its beginning.
    async fn gather(&mut self, whole: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Failure> {
        let broken = |reason: String| Failure::Response(format!("its response broke off: {reason}"));
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

/// Informs the origin that it may send as many bytes again as the received piece has.
fn taken(received: &mut RecvStream, next: Option<Result<Bytes, h2::Error>>) -> Result<Option<Bytes>, String> {
    match next {
        None => Ok(None),
        Some(Ok(piece)) => {
            // It fails if the stream has ended, and then there is nothing to release.
            let _ = received.flow_control().release_capacity(piece.len());
            Ok(Some(piece))
        }
        Some(Err(error)) => Err(error.to_string()),
    }
}

/// Fields as lines, without those that are not passed on to the client.
fn lines_of(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::with_capacity(256);
    for (name, value) in headers.iter().filter(|(name, _)| passes_back(name.as_str().as_bytes())) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(piece);
        }
    }
    lines
}

fn failure_of(error: &h2::Error, anything: bool) -> Failure {
    // RFC 9113 sections 6.8 and 8.7: these streams were not processed.
    let is_left_out = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    if error.reason() == Some(Reason::REFUSED_STREAM) || is_left_out {
        Failure::Refused(error.to_string())
    } else if error.is_io() || error.is_go_away() && error.is_remote() || anything {
        Failure::Closed(io::Error::other(error.to_string()))
    } else {
        Failure::Response(format!("not a response: {error}"))
    }
}
