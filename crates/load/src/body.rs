//! The receivers of an answer's body. Usually only its length is counted; the plan may require more.

use touchstone_http::h2::hpack::FieldList;

/// Receives the parts of a body.
pub(crate) trait BodySink {
    /// The next part.
    fn take(&mut self, part: &[u8]);
}

/// The body is only counted.
impl BodySink for () {
    #[inline]
    fn take(&mut self, _part: &[u8]) {}
}

#[cfg(test)]
impl BodySink for Vec<u8> {
    fn take(&mut self, part: &[u8]) {
        self.extend_from_slice(part);
    }
}

/// Processes the answers of a connection that several clients share, each with its own slot.
pub(crate) trait SlotSink {
    /// A header section of a final answer, or its trailer section.
    fn section(&mut self, slot: usize, fields: &FieldList);

    /// The next part of a body.
    fn body(&mut self, slot: usize, part: &[u8]);
}

/// A function that receives the bodies only.
impl<F: FnMut(usize, &[u8])> SlotSink for F {
    fn section(&mut self, _slot: usize, _fields: &FieldList) {}

    fn body(&mut self, slot: usize, part: &[u8]) {
        self(slot, part);
    }
}
