//! The cache in front of the handler of one core, and the facts about a request.

use std::rc::Rc;

use bytes::Bytes;
use touchstone_handler::handler::{Handler, Server};

use super::CachedRoute;
use crate::rules::directives::RequestDirectives;

/// The cache in front of the handler of one core.
pub struct AcceleratedOfCore {
    pub(super) route: CachedRoute,
    pub(super) inner: Rc<dyn Handler>,
    pub(super) server: Rc<dyn Server>,
}

/// The facts about a request that matter to the cache.
pub struct LookupFacts {
    /// The key under which its response is stored.
    pub key: Vec<u8>,
    /// The hash of the key.
    pub hash: u64,
    /// Its cache directives.
    pub directives: RequestDirectives,
    /// It has `Authorization`, or the server knows the client's identity.
    pub is_authorized: bool,
    /// It has `Cookie`, and the policy does not ignore cookies.
    pub has_cookie: bool,
    /// It has `Range`, and its method allows that.
    pub has_range: bool,
    /// The content of a QUERY, which is part of its key.
    pub query_content: Option<Bytes>,
}

impl AcceleratedOfCore {
    /// The current second.
    pub(super) fn now(&self) -> i64 {
        self.server.date().unix_seconds
    }
}
