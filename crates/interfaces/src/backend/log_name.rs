//! How log lines name a request.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use touchstone_handler::request::{ReceivedHead, Request};

/// The name of a request in log lines: `GET /a [id]`. It is formatted only when a line is logged.
pub struct RequestLogName {
    received: Rc<ReceivedHead>,
    /// Without its query, which may be secret.
    path: Bytes,
    id: Box<str>,
}

impl RequestLogName {
    /// The name of this request.
    pub fn of(request: &Request) -> RequestLogName {
        let (received, path) = (request.received.clone(), request.encoded_path.clone());
        RequestLogName { received, path, id: request.id.clone() }
    }
}

impl fmt::Display for RequestLogName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = String::from_utf8_lossy(self.received.method_text());
        write!(formatter, "{method} {}", String::from_utf8_lossy(&self.path))?;
        if self.id.is_empty() { Ok(()) } else { write!(formatter, " [{}]", self.id) }
    }
}
