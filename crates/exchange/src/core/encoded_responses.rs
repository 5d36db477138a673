//! Cached responses as HTTP/2 and HTTP/3 send them, encoded once a second for all connections of a core.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use touchstone_files::cache::PreparedResponse;

/// Cached responses in the form `T` of a protocol. They are valid as long as the response itself: one second.
pub struct EncodedResponses<T> {
    encode: fn(&Arc<PreparedResponse>) -> T,
    /// By the address of the response. The response is kept with its form, so that no other can get the same
    /// address.
    responses: FxHashMap<usize, (Arc<PreparedResponse>, T)>,
}

impl<T> EncodedResponses<T> {
    /// Responses that `encode` converts.
    pub fn new(encode: fn(&Arc<PreparedResponse>) -> T) -> EncodedResponses<T> {
        EncodedResponses { encode, responses: FxHashMap::default() }
    }

    /// The form of `prepared`.
    #[inline]
    pub fn get(&mut self, prepared: &Arc<PreparedResponse>) -> &T {
        let encode = self.encode;
        let new = || (prepared.clone(), encode(prepared));
        &self.responses.entry(Arc::as_ptr(prepared) as usize).or_insert_with(new).1
    }

    /// Removes all, at the end of their second.
    pub fn clear(&mut self) {
        self.responses.clear();
    }
}
