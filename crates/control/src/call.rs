//! A request to the control API, and its answer, without the protocol around them.

use serde_json::{Map, Value, json};

use crate::tokens::Identity;

/// The largest body of a request.
pub const MOST_BODY_BYTES: u64 = 1 << 20;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMethod {
    /// GET, or HEAD, whose answer has no body.
    Get,
    /// PUT
    Put,
    /// POST
    Post,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
    /// Any other.
    Other,
}

impl CallMethod {
    /// Its name.
    pub fn word(self) -> &'static str {
        ["GET", "PUT", "POST", "PATCH", "DELETE", "other"][self as usize]
    }

    /// Whether it changes nothing.
    pub fn is_safe(self) -> bool {
        self == CallMethod::Get
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: CallMethod,
    /// Its path as it was sent, without the query.
    pub path: String,
    /// Its query.
    pub query: String,
    /// Its conditions and what it says about its body.
    pub fields: CallFields,
    /// Its body, or why there is none.
    pub body: Result<Vec<u8>, Failure>,
    /// Who sends it, or why that is not known.
    pub caller: Result<Identity, Failure>,
    /// The address of the client, or `unix`.
    pub address: String,
}

/// Header fields of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFields {
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

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    /// Its status.
    pub status: u16,
    /// Further fields.
    pub fields: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Value,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The status of the answer.
    pub status: u16,
    /// What is wrong, and what to do.
    pub error: String,
    /// More members of the answer.
    pub more: Map<String, Value>,
}

impl Failure {
    /// A failure with this status and text.
    pub fn new(status: u16, error: impl Into<String>) -> Failure {
        Failure { status, error: error.into(), more: Map::new() }
    }

    /// With one more member.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Failure {
        self.more.insert(name.to_string(), value.into());
        self
    }

    /// The answer.
    pub fn answer(&self) -> CallAnswer {
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
        CallAnswer { status: self.status, fields, body }
    }
}
