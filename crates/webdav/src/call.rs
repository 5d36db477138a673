//! The parts of a request that the methods need on a thread that may wait.

use crate::fields::{Depth, Origin};
use crate::if_header::IfHeader;
use crate::locks::LockCredentials;

/// The parts of a request.
#[derive(Debug, Clone)]
pub struct Call {
    /// The path, in its normal form.
    pub path: Vec<u8>,
    /// The server as the client addresses it.
    pub origin: Origin,
    /// The user that the server has authenticated.
    pub user: Option<String>,
    /// If.
    pub if_header: Option<IfHeader>,
    /// The tokens of If.
    pub tokens: Vec<String>,
    /// If-Match and similar fields.
    pub conditions: HttpConditions,
    /// Depth.
    pub depth: Option<Depth>,
    /// The values of Timeout.
    pub timeout: Option<Vec<u8>>,
    /// The body, for methods that have one in XML.
    pub body: Vec<u8>,
}

/// The condition fields of RFC 9110, as they were received.
#[derive(Debug, Clone, Default)]
pub struct HttpConditions {
    /// The values of If-Match.
    pub if_match: Vec<Vec<u8>>,
    /// The values of If-None-Match.
    pub if_none_match: Vec<Vec<u8>>,
    /// The values of If-Unmodified-Since.
    pub if_unmodified_since: Vec<Vec<u8>>,
}

impl Call {
    /// The tokens in the request, and the user.
    pub fn holder(&self) -> LockCredentials<'_> {
        LockCredentials { tokens: &self.tokens, user: self.user.as_deref() }
    }
}
