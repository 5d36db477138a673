//! A connection to the admin listener: HTTP/1, one request after the other, on a thread that may wait.

use std::io;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use touchstone_http::date::format_imf_fixdate;
use touchstone_http::request::{KnownField, Limits, Method, Parsed, RequestBody, RequestHead};
use touchstone_http::status::reason;

use super::client_stream::ClientStream;
use super::control_request;
use super::gate::Refusal;
use super::listener_state::ListenerState;
use super::pages::{Page, PageRequest};

/// The maximum time for a request to arrive, and for a connection to be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

const LIMITS: Limits = Limits { request_line_bytes: 4096, header_bytes: 16 << 10, header_fields: 100 };

/// Answers requests until one side closes the connection.
pub(super) fn serve(mut stream: ClientStream, client: Option<IpAddr>, state: &ListenerState) {
    let mut input = Vec::new();
    let mut head = RequestHead::new();
    loop {
        let length = match receive_head(&mut stream, &mut input, &mut head) {
            Ok(length) => length,
            Err(HeadFailure::Gone) => return,
            Err(HeadFailure::Refused(status)) => {
                let _ = stream.write_all(&response(&Page::error(status), false, false));
                return;
            }
        };
        // Only the control API reads bodies: after others the connection is closed.
        let persistent =
            head.persistent && head.body == RequestBody::None && !state.ended.load(Ordering::Relaxed);
        let page = match control_request::path_of(&head, &input) {
            Some(_) => control_request::answer(&mut stream, client, state, &head, &input, length),
            None => answer(client, state, &head, &input),
        };
        let response = response(&page, persistent, head.method == Method::Head);
        if stream.write_all(&response).is_err() {
            return;
        }
        if !persistent {
            if head.body != RequestBody::None {
                stream.take_the_rest();
            }
            return;
        }
        input.drain(..length);
    }
}

enum HeadFailure {
    Gone,
    Refused(u16),
}

fn receive_head(
    stream: &mut ClientStream,
    input: &mut Vec<u8>,
    head: &mut RequestHead,
) -> Result<usize, HeadFailure> {
    let mut deadline = None;
    loop {
        if !input.is_empty() {
            match head.parse(input, &LIMITS) {
                Ok(Parsed::Complete(length)) => return Ok(length),
                Ok(Parsed::Partial) => {}
                Err(error) => return Err(HeadFailure::Refused(error.status())),
            }
            deadline.get_or_insert_with(|| Instant::now() + HEAD_TIMEOUT);
        }
        let wait =
            deadline.map_or(IDLE_TIMEOUT, |deadline| deadline.saturating_duration_since(Instant::now()));
        if wait.is_zero() {
            return Err(HeadFailure::Refused(408));
        }
        stream.set_timeouts(wait).map_err(|_| HeadFailure::Gone)?;
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) => return Err(HeadFailure::Gone),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !input.is_empty() => {
                return Err(HeadFailure::Refused(408));
            }
            Err(_) => return Err(HeadFailure::Gone),
        }
    }
}

fn answer(client: Option<IpAddr>, state: &ListenerState, head: &RequestHead, bytes: &[u8]) -> Page {
    let gate = state.gate.read().unwrap_or_else(PoisonError::into_inner).clone();
    if !gate.admits(client) {
        return Page::error(403);
    }
    match gate.check(head, bytes) {
        Ok(()) => {}
        Err(Refusal::Token) => {
            let mut page = Page::error(401);
            page.fields.push(("WWW-Authenticate", "Bearer realm=\"touchstone admin\"".to_string()));
            page.fields.push(("WWW-Authenticate", "Basic realm=\"touchstone admin\"".to_string()));
            return page;
        }
        Err(Refusal::Host) => return Page::error(421),
    }
    let target = head.target.of(bytes);
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(mark) => (&target[..mark], &target[mark + 1..]),
        None => (target, &[][..]),
    };
    if path == b"/cache/purge" {
        return match (head.method, gate.may_change(head, bytes)) {
            (Method::Post, true) => state.pages.purge(query),
            (Method::Post, false) => {
                let why = "needs admin.token_file, and the token as Authorization: Bearer; or a unix socket";
                Page { body: format!("403 Forbidden: to purge {why}\n"), ..Page::error(403) }
            }
            _ => {
                let mut page = Page::error(405);
                page.fields.push(("Allow", "POST".to_string()));
                page
            }
        };
    }
    if !matches!(head.method, Method::Get | Method::Head) {
        let mut page = Page::error(405);
        page.fields.push(("Allow", "GET, HEAD".to_string()));
        return page;
    }
    let accept = || {
        let mut fields = head.fields.iter().filter(|line| line.known == KnownField::Other);
        fields
            .find(|line| line.name.of(bytes).eq_ignore_ascii_case(b"accept"))
            .map(|line| line.value.of(bytes))
    };
    state.pages.answer(&PageRequest { path, query, accept: accept() })
}

fn response(page: &Page, persistent: bool, head_only: bool) -> Vec<u8> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let date = format_imf_fixdate(i64::try_from(seconds).unwrap_or(0));
    let mut text = format!(
        "HTTP/1.1 {} {}\r\nServer: touchstone\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n",
        page.status,
        reason(page.status),
        String::from_utf8_lossy(&date),
        page.content_type,
        page.body.len(),
    );
    for (name, value) in &page.fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(if persistent { "Connection: keep-alive\r\n\r\n" } else { "Connection: close\r\n\r\n" });
    let mut bytes = text.into_bytes();
    if !head_only {
        bytes.extend_from_slice(page.body.as_bytes());
    }
    bytes
}
