//! Requests to the control API: reads the body, identifies the client, and passes both on.

use std::io;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use touchstone_control::{
    ControlError, ControlGate, ControlMethod, ControlRequest, ControlRequestFields, ControlResponse,
    MOST_BODY_BYTES,
};
use touchstone_http::request::{Expectation, Method, RequestBody, RequestHead};
use touchstone_http::request_view::{HeadFields, RequestFields};

use super::client_stream::ClientStream;
use super::listener_state::ListenerState;
use super::pages::Page;

/// The maximum time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The target of a request to the control API.
pub(super) fn path_of<'b>(head: &RequestHead, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let target = head.target.of(bytes);
    let rest = target.strip_prefix(b"/control")?;
    (rest.is_empty() || rest.starts_with(b"/") || rest.starts_with(b"?")).then_some(target)
}

/// Answers a request whose head is the first `length` bytes of `input`.
pub(super) fn answer(
    stream: &mut ClientStream,
    client: Option<IpAddr>,
    state: &ListenerState,
    head: &RequestHead,
    input: &[u8],
    length: usize,
) -> Page {
    let gate = state.gate.read().unwrap_or_else(PoisonError::into_inner).clone();
    if !gate.admits(client) {
        return Page::error(403);
    }
    let Some(control) = gate.control() else {
        let error =
            ControlError::new(404, "there is no control API; set control.enabled in the configuration");
        return page(error.response());
    };
    let request = read_request(stream, control, head, input, length);
    page((state.control)(request))
}

fn read_request(
    stream: &mut ClientStream,
    gate: &ControlGate,
    head: &RequestHead,
    input: &[u8],
    length: usize,
) -> ControlRequest {
    let fields = HeadFields { head, buffer: input };
    let field = |name: &[u8]| -> Option<String> {
        let mut all = (0..).map_while(|position| fields.field(position));
        let value = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?.1;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    // The user of a proxy does not identify the proxy's clients.
    let is_passed_on =
        [&b"via"[..], b"x-forwarded-for", b"forwarded"].iter().any(|name| field(name).is_some());
    let user = stream.user().filter(|_| !is_passed_on);
    let caller = gate.identify(field(b"authorization").as_deref().map(str::as_bytes), user);
    // The body of an unauthenticated client is not read.
    let body = match &caller {
        Ok(_) => receive_body(stream, head, &input[length..]),
        Err(_) => Ok(Vec::new()),
    };
    let target = String::from_utf8_lossy(head.target.of(input)).into_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    ControlRequest {
        method: match head.method {
            Method::Get | Method::Head => ControlMethod::Get,
            Method::Put => ControlMethod::Put,
            Method::Post => ControlMethod::Post,
            Method::Patch => ControlMethod::Patch,
            Method::Delete => ControlMethod::Delete,
            _ => ControlMethod::Other,
        },
        path: path.to_string(),
        query: query.to_string(),
        fields: ControlRequestFields {
            if_match: field(b"if-match"),
            if_none_match: field(b"if-none-match"),
            content_type: field(b"content-type"),
            request_id: field(b"x-request-id"),
            from_browser: [&b"origin"[..], b"cookie", b"sec-fetch-site"]
                .iter()
                .any(|name| field(name).is_some()),
        },
        body,
        caller,
        address: stream.address(),
    }
}

/// Reads the body, whose beginning may have arrived with the head.
fn receive_body(
    stream: &mut ClientStream,
    head: &RequestHead,
    received: &[u8],
) -> Result<Vec<u8>, ControlError> {
    let length = match head.body {
        RequestBody::None => return Ok(Vec::new()),
        RequestBody::Chunked => {
            return Err(ControlError::new(411, "send the body with Content-Length, not in chunks"));
        }
        RequestBody::Length(length) => length,
    };
    if length > MOST_BODY_BYTES {
        return Err(ControlError::new(413, format!("a body has at most {MOST_BODY_BYTES} bytes")));
    }
    let broken = |_| ControlError::new(400, "the body was not received");
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut body = received[..received.len().min(length)].to_vec();
    if head.expectation == Expectation::Continue && body.is_empty() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(broken)?;
    }
    let deadline = Instant::now() + BODY_TIMEOUT;
    let mut buffer = [0; 16 << 10];
    while body.len() < length {
        let wait = deadline.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Err(ControlError::new(408, "the body did not arrive in time"));
        }
        stream.set_timeouts(wait).map_err(broken)?;
        let most = buffer.len().min(length - body.len());
        match stream.read(&mut buffer[..most]) {
            Ok(0) => return Err(ControlError::new(400, "the body is shorter than its Content-Length")),
            Ok(count) => body.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(ControlError::new(408, "the body did not arrive in time"));
            }
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(body)
}

fn page(answer: ControlResponse) -> Page {
    let body = match answer.status {
        304 => String::new(),
        _ => format!("{:#}\n", answer.body),
    };
    Page { status: answer.status, content_type: "application/json", fields: answer.fields, body }
}
