//! Requests that a suite spells out: their method, path, fields and body, and what their answer must be. If a
//! system can answer a request with a file, one is made in the size that the suite states.

use super::Lengths;
use super::script::{check_variables, step};
use super::stream::{GRPC_FIELDS, Stream, framed, stream};
use super::values::SECONDS_MAX;
use crate::definition::{DefinitionError, LocatedValue, Table};
use touchstone_http::grammar::is_token;
use touchstone_http::hexadecimal;
use touchstone_load::{MAXIMUM_BODY_BYTES, MAXIMUM_PATH_BYTES, PlannedRequest, StepPlan};

/// The largest body of an answer: 1 GiB.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// A request of a suite's own.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnRequest {
    /// For example `GET`.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// Header fields, `name: value`.
    pub headers: Vec<String>,
    /// The body; of a WebSocket the message that is sent, of a call of gRPC the message without its prefix.
    pub body: Option<Vec<u8>>,
    /// How often it is requested, relative to the others of its class.
    pub weight: f64,
    /// Bytes of the answer's body; absent: not known, and not checked.
    pub body_bytes: Option<u64>,
    /// Bytes of the file that is made for it if a system is started for the run; for other servers this size
    /// is not checked.
    pub file_bytes: Option<u64>,
    /// The statuses of a valid answer; empty: 200 to 399.
    pub statuses: Vec<u16>,
    /// In a session: the think time before this request.
    pub think_time_s: f64,
    /// The values that are taken from its answer, what must be true of it, and its redirects.
    pub step: Option<StepPlan>,
    /// Whether its answer is a stream of messages, or it opens a WebSocket.
    pub stream: Option<Stream>,
}

/// The order of requests that are listed one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// No order: one of them is chosen at a time.
    Chosen,
    /// A page: a client that requests the first then requests all others, without think times.
    Page,
    /// A session: the same with think times between, on its own connection.
    Session,
}

impl OwnRequest {
    /// A plain GET.
    pub fn get(path: impl Into<String>) -> OwnRequest {
        OwnRequest {
            method: "GET".to_string(),
            path: path.into(),
            headers: Vec::new(),
            body: None,
            weight: 1.0,
            body_bytes: None,
            file_bytes: None,
            statuses: Vec::new(),
            think_time_s: 0.0,
            step: None,
            stream: None,
        }
    }

    /// Reads one from its table. Only a request that is chosen has a weight, and only one of a session a
    /// think time.
    pub(super) fn read(table: &Table<'_>, order: Order) -> Result<OwnRequest, DefinitionError> {
        let path = table.required_string("path")?;
        if let Some(problem) = path_problem(&path.value) {
            return Err(table.error_at(&path, problem));
        }
        check_variables(table, &path)?;
        let body = body(table)?;
        let stream = stream(table, body.is_some())?;
        let is_grpc = stream.is_some_and(Stream::is_grpc);
        let method = match table.string("method")? {
            Some(method) if !is_method(&method.value) => {
                return Err(table.error_at(&method, "a method is a word: GET, POST, PUT, DELETE and so on"));
            }
            None if is_grpc => "POST".to_string(),
            method => method.map_or_else(|| "GET".to_string(), |method| method.value),
        };
        let weight = if order == Order::Chosen { table.number("weight", 1e-9..=1e12)? } else { None };
        let think_time =
            if order == Order::Session { table.number("think_time_s", 0.0..=SECONDS_MAX)? } else { None };
        let request = OwnRequest {
            method,
            path: path.value,
            headers: headers(table)?,
            body,
            weight: weight.map_or(1.0, |weight| weight.value),
            body_bytes: table.whole("body_bytes", 0..=ANSWER_BYTES_MAX)?.map(|bytes| bytes.value),
            file_bytes: file_bytes(table)?,
            statuses: statuses(table)?,
            think_time_s: think_time.map_or(0.0, |time| time.value),
            step: step(table)?,
            stream,
        };
        table.finish()?;
        match request.stream_problem() {
            Some(problem) => Err(table.error(problem)),
            None => Ok(request),
        }
    }

    /// Why it cannot open a WebSocket, if it is to open one.
    fn stream_problem(&self) -> Option<&'static str> {
        let Some(Stream::WebSocket(plan)) = self.stream else { return None };
        if self.method != "GET" {
            return Some("a WebSocket is asked for with GET: leave `method` out");
        }
        if self.usual_bytes().is_some() || !self.statuses.is_empty() {
            return Some(
                "the answer that opens a WebSocket is 101, without a body: leave sizes and `status` out",
            );
        }
        if self.step.is_some() {
            return Some("no values are taken from the answer that opens a WebSocket");
        }
        let is_text = |body: &[u8]| std::str::from_utf8(body).is_ok();
        (!plan.is_binary && !self.body.as_deref().is_none_or(is_text))
            .then_some("the message is not UTF-8: send it with `binary = true`")
    }

    /// Bytes of the answer as far as they are stated.
    pub fn usual_bytes(&self) -> Option<u64> {
        self.body_bytes.or(self.file_bytes)
    }

    /// Whether a file at its path, of the stated size, answers it.
    pub fn is_file(&self) -> bool {
        self.method == "GET"
            && self.body.is_none()
            && self.usual_bytes().is_some_and(|bytes| bytes > 0)
            && (self.statuses.is_empty() || self.statuses.contains(&200))
            && self.step.is_none()
            && self.stream.is_none()
            && is_file_path(&self.path)
    }

    /// The request as the load engine sends it.
    pub(super) fn planned(&self, path_prefix: &str, lengths: Lengths) -> PlannedRequest {
        let is_grpc = self.stream.is_some_and(Stream::is_grpc);
        let fields = GRPC_FIELDS.iter().filter(|_| is_grpc).map(|field| (*field).to_string());
        PlannedRequest {
            method: self.method.clone(),
            headers: fields.chain(self.headers.iter().cloned()).collect(),
            messages: match self.stream {
                Some(Stream::Messages(messages)) => Some(messages),
                _ => None,
            },
            websocket: match self.stream {
                Some(Stream::WebSocket(websocket)) => Some(websocket),
                _ => None,
            },
            body: match &self.body {
                body if is_grpc => Some(framed(body.as_deref().unwrap_or_default()).into()),
                body => body.as_deref().map(Into::into),
            },
            step: self.step.clone(),
            expected_status: self.statuses.iter().map(|status| *status..=*status).collect(),
            expected_body_bytes: match lengths {
                Lengths::Unchecked => None,
                Lengths::Stated => self.body_bytes,
                Lengths::OfTree => self.usual_bytes(),
            },
            ..PlannedRequest::get(format!("{path_prefix}{}", self.path))
        }
    }
}

/// The header fields of a table, `name: value`. The load engine checks that they can be sent.
pub(super) fn headers(table: &Table<'_>) -> Result<Vec<String>, DefinitionError> {
    let Some(headers) = table.strings("headers")? else { return Ok(Vec::new()) };
    let is_field = |field: &String| {
        field.split_once(':').is_some_and(|(name, value)| {
            is_token(name.as_bytes()) && !value.bytes().any(|b| b < b' ' && b != b'\t')
        })
    };
    match headers.value.iter().find(|field| !is_field(field)) {
        Some(field) => {
            Err(table.error_at(&headers, format!("{field:?} is not a header field: write \"name: value\"")))
        }
        None => Ok(headers.value),
    }
}

/// The size of its file, unless it states the size of every answer.
fn file_bytes(table: &Table<'_>) -> Result<Option<u64>, DefinitionError> {
    let bytes = table.whole("file_bytes", 1..=ANSWER_BYTES_MAX)?;
    match (&bytes, table.whole("body_bytes", 0..=ANSWER_BYTES_MAX)?) {
        (Some(bytes), Some(_)) => Err(table.error_at(
            bytes,
            "a request has `body_bytes` that every answer must have, or `file_bytes` for a file, not both",
        )),
        (bytes, None) => Ok(bytes.as_ref().map(|bytes| bytes.value)),
        (None, Some(_)) => Ok(None),
    }
}

fn body(table: &Table<'_>) -> Result<Option<Vec<u8>>, DefinitionError> {
    let (text, bytes) = (table.string("body")?, table.whole("send_bytes", 1..=MAXIMUM_BODY_BYTES as u64)?);
    if let Some(hex) = table.string("body_hex")? {
        if text.is_some() || bytes.is_some() {
            return Err(table.error_at(
                &hex,
                "a request has a `body`, or its bytes in `body_hex`, or `send_bytes` that are made up; \
                 not both",
            ));
        }
        return match hexadecimal::decode(&hex.value) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(table.error_at(&hex, "`body_hex` has two digits of 0-9 and a-f for each byte")),
        };
    }
    match (text, bytes) {
        (Some(_), Some(bytes)) => {
            Err(table.error_at(&bytes, "a request has a `body`, or `send_bytes` that are made up, not both"))
        }
        (Some(text), None) => Ok(Some(text.value.into_bytes())),
        (None, Some(bytes)) => {
            let bytes = bytes.value as usize;
            Ok(Some(super::content::make("a body", bytes, bytes as u64)))
        }
        (None, None) => Ok(None),
    }
}

fn statuses(table: &Table<'_>) -> Result<Vec<u16>, DefinitionError> {
    let Some(LocatedValue { value, at }) = table.numbers("status", 200.0..=599.0)? else {
        return Ok(Vec::new());
    };
    match value.iter().all(|status| status.fract() == 0.0) {
        true => Ok(value.into_iter().map(|status| status as u16).collect()),
        false => {
            Err(table.error_at(&LocatedValue { value, at }, "a status is a whole number from 200 to 599"))
        }
    }
}

/// A method is a token (RFC 9110, section 9.1).
fn is_method(word: &str) -> bool {
    word.len() <= 100 && is_token(word.as_bytes())
}

/// The fault of a path, if it has one (the origin form of RFC 9112, section 3.2.1).
pub fn path_problem(path: &str) -> Option<String> {
    // A value of the session may be a whole path.
    if !path.starts_with('/') && !path.starts_with("${") {
        return Some(format!("the path {path:?} does not begin with \"/\""));
    }
    if path.len() > MAXIMUM_PATH_BYTES {
        return Some(format!("the path has {} bytes; at most {MAXIMUM_PATH_BYTES} are possible", path.len()));
    }
    let byte = path.bytes().find(|byte| !byte.is_ascii_graphic() || *byte == b'#')?;
    Some(format!(
        "the path {path:?} holds {:?}, which cannot be sent: write it as %{byte:02X}",
        char::from(byte)
    ))
}

/// Whether a path means the same file to every server: no query, no escapes, no hidden names, no dot
/// segments.
fn is_file_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_');
    let Some(segments) = path.strip_prefix('/') else { return false };
    path.len() <= 1000
        && path.bytes().all(plain)
        && segments
            .split('/')
            .all(|segment| !segment.is_empty() && segment.len() <= 200 && !segment.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_file_can_answer_is_known() {
        let request_of = |path: &str, bytes| OwnRequest { body_bytes: bytes, ..OwnRequest::get(path) };
        assert!(request_of("/a/b-c_d.html", Some(5)).is_file());
        for path in ["/a?b", "/", "/a/", "/a//b", "/.git/x", "/a/../b", "/a%20b"] {
            assert!(!request_of(path, Some(5)).is_file(), "{path}");
        }
        assert!(!request_of("/a", None).is_file() && !request_of("/a", Some(0)).is_file());
        assert!(!OwnRequest { method: "POST".to_string(), ..request_of("/a", Some(5)) }.is_file());
        assert!(!OwnRequest { statuses: vec![404], ..request_of("/a", Some(5)) }.is_file());
    }

    proptest! {
        #[test]
        fn a_file_stays_below_the_root(path in "/[a-zA-Z0-9./_%?-]{0,30}") {
            let request = OwnRequest { body_bytes: Some(1), ..OwnRequest::get(path.clone()) };
            if request.is_file() {
                let place = std::path::Path::new("/root").join(path.trim_start_matches('/'));
                let plain = |part| {
                    matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_))
                };
                prop_assert!(
                    place.starts_with("/root") && place.components().all(plain),
                    "{}",
                    place.display()
                );
                prop_assert_eq!(path_problem(&path), None);
            }
        }
    }
}
