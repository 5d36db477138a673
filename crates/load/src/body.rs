//! What becomes of an answer's body: mostly nothing but its length, and where the plan states a hash, that.

use sha2::{Digest, Sha256};

/// Takes the parts of a body as they come.
pub(crate) trait BodySink {
    /// The next part.
    fn take(&mut self, part: &[u8]);
}

/// The body is only counted.
impl BodySink for () {
    #[inline]
    fn take(&mut self, _part: &[u8]) {}
}

impl BodySink for Sha256 {
    fn take(&mut self, part: &[u8]) {
        self.update(part);
    }
}

#[cfg(test)]
impl BodySink for Vec<u8> {
    fn take(&mut self, part: &[u8]) {
        self.extend_from_slice(part);
    }
}
