//! The cache before the handler of one core, and what it knows of a request.

use std::rc::Rc;

use bytes::Bytes;
use touchstone_handler::handler::{Handler, Server};

use super::CachedRoute;
use crate::rules::directives::RequestDirectives;

/// The cache before the handler of one core.
pub struct AcceleratedOfCore {
    pub(super) route: CachedRoute,
    pub(super) inner: Rc<dyn Handler>,
    pub(super) server: Rc<dyn Server>,
}

/// The facts of a request that matter to the cache.
pub struct LookupFacts {
    /// The key under which its response is stored.
    pub key: Vec<u8>,
    /// The hash of the key.
    pub hash: u64,
    /// Its directives for caches.
    pub directives: RequestDirectives,
    /// It has `Authorization`, or the server knows who the client is.
    pub is_authorized: bool,
    /// It has `Cookie`, and the policy respects that.
    pub has_cookie: bool,
    /// It has `Range`, and its method is one for which that counts.
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
