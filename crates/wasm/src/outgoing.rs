//! Sends requests of instances through the server's client.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request as WasiRequest, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler};
use touchstone_handler::pipe::{self, Receiver, Sender};
use touchstone_handler::request::{Protocol, ReceivedHead, Request, RequestDetails};
use touchstone_http::request::{HeadBuilder, Limits};
use wasmtime_wasi_http::{Error, WasiBody};

use crate::answer_body::AnswerBody;
use crate::hooks::{OutgoingRequest, OutgoingResult};
use crate::incoming_body::incoming_body;
use crate::message;

/// The most bytes of a request's body that wait for the origin.
const PIPE_BYTES: usize = 64 * 1024;

/// The time limit for an answer if the component sets none, and the longest one that it may set.
const MOST_WAIT: Duration = Duration::from_secs(600);

/// Sends a request of an instance that answers `client_request`. The request is cancelled when the instance
/// no longer waits for it.
pub fn send(outgoing_request: OutgoingRequest, client: Rc<dyn Handler>, client_request: &Request) {
    let details = RequestDetails::clone(client_request);
    let OutgoingRequest { request, options, mut reply, .. } = outgoing_request;
    tokio::task::spawn_local(async move {
        let wait = options.first_byte_timeout.unwrap_or(MOST_WAIT).min(MOST_WAIT);
        let answered = tokio::time::timeout(wait, answer_of(client, request, details));
        tokio::select! {
            () = reply.closed() => {}
            result = answered => {
                let _ = reply.send(result.unwrap_or(Err(Error::ConnectionReadTimeout)));
            }
        }
    });
}

async fn answer_of(
    client: Rc<dyn Handler>,
    request: WasiRequest<WasiBody>,
    details: RequestDetails,
) -> OutgoingResult {
    let (request, body) = request.into_parts();
    let received = head(&request, body.is_end_stream()).ok_or(Error::HttpRequestUriInvalid)?;
    let path = Bytes::copy_from_slice(request.uri.path().as_bytes());
    let details = RequestDetails {
        received: Rc::new(received),
        protocol: Protocol::Http11,
        path: path.clone(),
        encoded_path: path,
        query: request.uri.query().map(|query| Bytes::copy_from_slice(query.as_bytes())),
        host: request.uri.authority().map(|host| Bytes::copy_from_slice(host.as_str().as_bytes())),
        client: None,
        trusted_proxy: None,
        tls: None,
        user: None,
        page_variables: None,
        route: None,
        ..details
    };
    let receiver = match body.is_end_stream() {
        true => Receiver::of(Bytes::new()),
        false => {
            let (sender, receiver) = pipe::pipe(PIPE_BYTES);
            tokio::task::spawn_local(upload(body, sender));
            receiver
        }
    };
    match client.handle(Request::new(details, receiver)).await {
        Handled::Answer(answer) => response(answer),
        _ => Err(Error::DestinationUnavailable),
    }
}

/// The head of a request, as if this server had received it; `None` if it is invalid.
fn head(request: &http::request::Parts, has_no_body: bool) -> Option<ReceivedHead> {
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
    let mut builder = HeadBuilder::new(request.method.as_str().as_bytes(), path.as_bytes(), Limits::NONE);
    builder.field(b"Host", request.uri.authority()?.as_str().as_bytes());
    message::finish_head(builder, &request.headers, has_no_body)
}

/// Sends a request's body to the handler as fast as the handler reads it.
pub async fn upload(mut body: WasiBody, mut sender: Sender) {
    while let Some(frame) = body.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(bytes)) => {
                if sender.send(bytes).await.is_err() {
                    return;
                }
            }
            Ok(Err(frame)) => {
                let mut lines = Vec::new();
                message::append_lines(&frame.into_trailers().unwrap_or_default(), &mut lines);
                return sender.finish_with_trailers(lines);
            }
            Err(_) => return sender.fail(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    sender.finish();
}

fn response(answer: Answer) -> OutgoingResult {
    if answer.is_error_page {
        // An error page of this server: no origin has answered.
        return Err(match answer.status {
            503 => Error::ConnectionLimitReached,
            504 => Error::ConnectionTimeout,
            508 => Error::LoopDetected,
            _ => Error::DestinationUnavailable,
        });
    }
    let head = head_of(&answer)?;
    let mut parts = AnswerBody::new(answer.body);
    let body = match parts.whole() {
        Some(bytes) => message::full_body(bytes),
        None => {
            let (mut feeder, body) = incoming_body();
            tokio::task::spawn_local(
                async move { poll_fn(|context| feeder.poll(context, &mut parts)).await },
            );
            body.boxed_unsync()
        }
    };
    Ok(head.map(|()| body))
}

/// Converts the head of an answer to wasi:http.
pub fn head_of(answer: &Answer) -> Result<Response<()>, Error> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(answer.status).map_err(|_| Error::HttpProtocolError)?;
    *response.headers_mut() = message::header_map(&answer.fields).unwrap_or_default();
    let length: Option<u64> = answer.body.iter().map(BodyPart::length).sum();
    let length = if answer.body.is_empty() { answer.declared_length } else { length };
    if let Some(length) = length {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    Ok(response)
}
