//! One request over HTTP/2 to an origin (RFC 9113), on a connection that several requests share. Trailers
//! are forwarded, so gRPC works.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use tokio::time::timeout;
use touchstone_handler::answer::Answer;
use touchstone_http::grammar::split_fields;

use super::failure::{Failure, TimedStep};
use super::fields::{OutboundRequest, client_field_lines};
use super::http2_connection::Http2Connection;
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;
use super::sessions::SessionUse;
use super::stream_exchange::{self, Download, Head, Receiving, Sending, Upload};

/// Sends the request and returns the answer when the response's head has arrived.
pub async fn call(
    attempt: OriginAttempt,
    session: SessionUse<Http2Connection>,
    outbound: &Rc<OutboundRequest>,
    body: &Rc<RequestBody>,
) -> Result<Answer, Failure> {
    let times = attempt.settings().times;
    let request = request(&attempt, outbound)?;
    let connection = &session.session.connection;
    let mut send = match timeout(times.connect, connection.send.clone().ready()).await {
        Ok(Ok(send)) => send,
        // Nothing was sent: the connection was closed.
        Ok(Err(error)) => {
            session.session.is_dead.set(true);
            return Err(Failure::Refused(error.to_string()));
        }
        Err(_) => return Err(Failure::Full("no stream of its HTTP/2 connection became free")),
    };
    let has_no_body = outbound.has_no_body();
    let (response, stream) = send.send_request(request, has_no_body).map_err(|error| failure_of(&error))?;
    drop(send);
    let mut upload: Option<Upload> = None;
    if !has_no_body {
        let body = body.clone();
        upload = Some(Box::pin(stream_exchange::send_body(stream, body, outbound.body_length, times.send)));
    }
    let head = read_head(response, outbound);
    let head = stream_exchange::wait_for_head(head, &mut upload, times.response, &session).await?;
    let (parts, received) = head.into_parts();
    if parts.status == 101 {
        return Err(Failure::Response("status 101, which is not valid in HTTP/2".to_string()));
    }
    let value = |name| parts.headers.get(name).map(HeaderValue::as_bytes);
    let length = value("content-length").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let head = Head::new(parts.status.as_u16(), lines_of(&parts.headers), value("date"), length);
    let download = Download { received, upload, limit: times.idle };
    stream_exchange::answer(attempt, session, head, download, outbound).await
}

fn request(attempt: &OriginAttempt, outbound: &OutboundRequest) -> Result<Request<()>, Failure> {
    let refused =
        |what: &str| Failure::RequestBody(io::Error::other(format!("{what} is not valid in HTTP/2")));
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
    for (name, value) in split_fields(outbound.lines()) {
        let name = HeaderName::from_bytes(name).map_err(|_| refused("a field's name"))?;
        headers.append(name, HeaderValue::from_bytes(value).map_err(|_| refused("a field's value"))?);
    }
    if outbound.accepts_trailers {
        headers.insert("te", HeaderValue::from_static("trailers"));
    }
    if let Some(length) = outbound.declared_length() {
        headers.insert("content-length", HeaderValue::from(length));
    }
    Ok(request)
}

async fn read_head(
    mut response: ResponseFuture,
    outbound: &OutboundRequest,
) -> Result<http::Response<RecvStream>, Failure> {
    let head = poll_fn(|context| {
        while let Poll::Ready(Some(Ok(interim))) = response.poll_informational(context) {
            outbound.forward_interim(interim.status().as_u16(), lines_of(interim.headers()));
        }
        Pin::new(&mut response).poll(context)
    });
    head.await.map_err(|error| failure_of(&error))
}

// The h2 crate resets the stream if both directions are dropped before their end.
impl Sending for SendStream<Bytes> {
    async fn send(&mut self, mut piece: Bytes, limit: Duration) -> Result<(), Failure> {
        while !piece.is_empty() {
            self.reserve_capacity(piece.len());
            let capacity = timeout(limit, poll_fn(|context| self.poll_capacity(context))).await;
            let room = match capacity {
                Ok(Some(Ok(room))) => room.min(piece.len()),
                Ok(Some(Err(error))) => return Err(Failure::Closed(io::Error::other(error))),
                Ok(None) => return Err(Failure::Closed(io::ErrorKind::BrokenPipe.into())),
                Err(_) => return Err(Failure::Timeout(TimedStep::Send, limit)),
            };
            let part = piece.split_to(room);
            let sent = self.send_data(part, false);
            sent.map_err(|error| Failure::Closed(io::Error::other(error)))?;
        }
        Ok(())
    }

    async fn finish(&mut self, trailers: &[u8], _limit: Duration) -> Result<(), Failure> {
        let trailers = map_of(trailers);
        let ended = match trailers.is_empty() {
            true => self.send_data(Bytes::new(), true),
            false => self.send_trailers(trailers),
        };
        ended.map_err(|error| Failure::Closed(io::Error::other(error)))
    }
}

impl Receiving for RecvStream {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        match self.data().await {
            None => Ok(None),
            Some(Ok(piece)) => {
                // Opens the flow-control window by as many bytes. It fails only if the stream has ended.
                let _ = self.flow_control().release_capacity(piece.len());
                Ok(Some(piece))
            }
            Some(Err(error)) => Err(error.to_string()),
        }
    }

    async fn trailers(&mut self) -> Result<Vec<u8>, String> {
        let trailers = RecvStream::trailers(self).await.map_err(|error| error.to_string())?;
        Ok(trailers.map(|map| lines_of(&map)).unwrap_or_default())
    }

    async fn is_at_end(&mut self) -> Result<bool, String> {
        Ok(self.is_end_stream())
    }
}

/// Field lines in the form of HTTP/2; lines that are not valid there are left out.
fn map_of(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in split_fields(lines) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

/// Fields as lines, without those that are not forwarded to the client.
fn lines_of(headers: &HeaderMap) -> Vec<u8> {
    client_field_lines(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

fn failure_of(error: &h2::Error) -> Failure {
    // RFC 9113 sections 6.8 and 8.7: these streams were not processed.
    let is_rejected = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    if error.reason() == Some(Reason::REFUSED_STREAM) || is_rejected {
        Failure::Refused(error.to_string())
    } else if error.is_io() || error.is_go_away() && error.is_remote() {
        Failure::Closed(io::Error::other(error.to_string()))
    } else {
        Failure::Response(format!("invalid response: {error}"))
    }
}
