//! A request to the control API and its response, independent of HTTP/1.

use serde_json::{Map, Value, json};

use crate::tokens::Identity;

/// The maximum length of a request body in bytes.
pub const MOST_BODY_BYTES: u64 = 1 << 20;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlMethod {
    /// GET, or HEAD, whose response has no body.
    Get,
    /// PUT
    Put,
    /// POST
    Post,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
    /// Any other method.
    Other,
}

impl ControlMethod {
    /// Its name.
    pub fn word(self) -> &'static str {
        ["GET", "PUT", "POST", "PATCH", "DELETE", "other"][self as usize]
    }

    /// Whether the method changes nothing (RFC 9110, section 9.2.1).
    pub fn is_safe(self) -> bool {
        self == ControlMethod::Get
    }
}

/// A request to the control API.
#[derive(Debug, Clone)]
pub struct ControlRequest {
    /// Its method.
    pub method: ControlMethod,
    /// Its path, still percent-encoded, without the query.
    pub path: String,
    /// Its query.
    pub query: String,
    /// Its conditions and the type of its body.
    pub fields: ControlRequestFields,
    /// Its body, or the error while it was received.
    pub body: Result<Vec<u8>, ControlError>,
    /// The client, or the error if it is not authenticated.
    pub caller: Result<Identity, ControlError>,
    /// The address of the client, or `unix`.
    pub address: String,
}

/// Header fields of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlRequestFields {
    /// `If-Match`
    pub if_match: Option<String>,
    /// `If-None-Match`
    pub if_none_match: Option<String>,
    /// `Content-Type`
    pub content_type: Option<String>,
    /// `X-Request-Id`
    pub request_id: Option<String>,
    /// A field that only browsers send: `Origin`, `Sec-Fetch-Site` or `Cookie`.
    pub from_browser: bool,
}

/// A response of the control API.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlResponse {
    /// Its status.
    pub status: u16,
    /// Further fields.
    pub fields: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Value,
}

/// The error of a request that was not executed.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlError {
    /// The status of the response.
    pub status: u16,
    /// The error message.
    pub error: String,
    /// More members of the response body.
    pub more: Map<String, Value>,
}

impl ControlError {
    /// An error with this status and text.
    pub fn new(status: u16, error: impl Into<String>) -> ControlError {
        ControlError { status, error: error.into(), more: Map::new() }
    }

    /// Adds a member to the response body.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> ControlError {
        self.more.insert(name.to_string(), value.into());
        self
    }

    /// The response for this error.
    pub fn response(&self) -> ControlResponse {
        let mut body = Value::Object(self.more.clone());
        body["error"] = json!(self.error);
        let mut fields = Vec::new();
        if let Some(tag) = self.more.get("etag").and_then(Value::as_str) {
            fields.push(("ETag", tag.to_string()));
        }
        if let Some(allow) = self.more.get("allow").and_then(Value::as_str) {
            fields.push(("Allow", allow.to_string()));
        }
        if self.status == 401 {
            fields.push(("WWW-Authenticate", "Bearer realm=\"touchstone control\"".to_string()));
        }
        ControlResponse { status: self.status, fields, body }
    }
}
