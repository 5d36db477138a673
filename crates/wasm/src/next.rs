//! The action that follows a component: forwards a request to it, and returns its answer.
//!
//! A component forwards a request by sending it to the authority `next`. Bodies that it does not read bypass
//! it: the request's body if it does not open it, and the answer's body if it sets `BODY_FIELD`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use touchstone_handler::answer::BodyPart;
use touchstone_handler::pipe::{self, Receiver};
use touchstone_handler::request::{NextHandler, ReceivedHead, Request, RequestDetails};
use touchstone_http::request::HeadBuilder;
use wasmtime_wasi_http::Error;

use crate::answer_body::AnswerBody;
use crate::hooks::{OutgoingRequest, OutgoingResult};
use crate::incoming_body::{Feeder, incoming_body};
use crate::{message, outgoing};

/// The most bytes of a request's body that wait for the next handler.
const PIPE_BYTES: usize = 64 * 1024;

/// The field of an answer which requests that the body of the next handler's answer is forwarded.
pub const BODY_FIELD: &str = "touchstone-body";

/// The fields that frame a body.
const FRAMING_FIELDS: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];

/// The answer of the next handler, until its body is taken.
#[derive(Default, Clone)]
pub struct NextAnswer {
    answer: Rc<RefCell<Option<UnreadAnswer>>>,
}

struct UnreadAnswer {
    feeder: Feeder,
    body: AnswerBody,
    status: u16,
    declared_length: Option<u64>,
    is_error_page: bool,
}

/// A body that bypasses the component.
pub struct BypassedBody {
    /// The body.
    pub parts: Vec<BodyPart>,
    /// The value of Content-Length in an answer without a body.
    pub declared_length: Option<u64>,
    /// The status, if the answer is the built-in page of an error.
    pub error_page_of: Option<u16>,
}

impl NextAnswer {
    /// The body of the next handler's answer, if the component has not read it.
    pub fn take_unread(&self) -> Option<BypassedBody> {
        let next_answer = self.answer.borrow_mut().take_if(|next_answer| next_answer.feeder.is_unread())?;
        // Ends the task that passes the body to the instance.
        next_answer.feeder.wake();
        Some(BypassedBody {
            parts: next_answer.body.into_parts(),
            declared_length: next_answer.declared_length,
            error_page_of: next_answer.is_error_page.then_some(next_answer.status),
        })
    }
}

/// Forwards a request. `client_body` is the body of the client's request, if it is unread.
pub fn forward(
    outgoing_request: OutgoingRequest,
    next: Rc<dyn NextHandler>,
    client_request: &Request,
    client_body: Option<Receiver>,
    next_answer: &NextAnswer,
) {
    let OutgoingRequest { request, mut reply, .. } = outgoing_request;
    let (parts, body) = request.into_parts();
    let forwarded = head(&parts, client_request, body.is_end_stream(), client_body.is_some());
    let mut details = RequestDetails::clone(client_request);
    let next_answer = next_answer.clone();
    tokio::task::spawn_local(async move {
        let answer = async {
            details.received = Rc::new(forwarded?);
            let receiver = match (client_body, body.is_end_stream()) {
                (_, false) => {
                    let (sender, receiver) = pipe::pipe(PIPE_BYTES);
                    tokio::task::spawn_local(outgoing::upload(body, sender));
                    receiver
                }
                (Some(client_body), true) => client_body,
                (None, true) => Receiver::of(Bytes::new()),
            };
            let answer = next.answer(Request::new(details, receiver)).await;
            let head = outgoing::head_of(&answer)?;
            let (feeder, body) = incoming_body();
            *next_answer.answer.borrow_mut() = Some(UnreadAnswer {
                feeder,
                status: answer.status,
                declared_length: answer.declared_length,
                is_error_page: answer.is_error_page,
                body: AnswerBody::new(answer.body),
            });
            OutgoingResult::Ok(head.map(|()| body.boxed_unsync()))
        };
        tokio::select! {
            () = reply.closed() => return,
            result = answer => {
                let _ = reply.send(result);
            }
        }
        poll_fn(|context| {
            let mut next_answer = next_answer.answer.borrow_mut();
            match &mut *next_answer {
                Some(next_answer) => next_answer.feeder.poll(context, &mut next_answer.body),
                None => Poll::Ready(()),
            }
        })
        .await;
    });
}

/// The head of the forwarded request: the request line of the client, and the fields of the component.
/// Another method, path or query is refused, because the access rules have not checked it.
fn head(
    parts: &http::request::Parts,
    client_request: &Request,
    is_empty_body: bool,
    has_client_body: bool,
) -> Result<ReceivedHead, Error> {
    if parts.method.as_str().as_bytes() != client_request.received.method_text() {
        return Err(Error::HttpRequestMethodInvalid);
    }
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    if path.as_bytes() != client_request.path_and_query() {
        return Err(Error::HttpRequestUriInvalid);
    }
    let received = &client_request.received;
    let mut builder = HeadBuilder::like(&received.head, &received.buffer, received.target());
    let is_copied = |name: &[u8]| {
        let is_framing = || FRAMING_FIELDS.iter().any(|framing| name.eq_ignore_ascii_case(framing));
        name.eq_ignore_ascii_case(b"host") || (is_empty_body && has_client_body && is_framing())
    };
    received
        .fields()
        .filter(|(name, _)| is_copied(name))
        .for_each(|(name, value)| builder.field(name, value));
    message::finish_head(builder, &parts.headers, is_empty_body).ok_or(Error::HttpProtocolError)
}
