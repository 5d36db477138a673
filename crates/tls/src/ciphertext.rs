//! Bytes that wait to be sent to a client: records, handshake messages and alerts in the order in which they
//! must be sent.

/// The most memory that is kept from one use to the next; a larger buffer is freed.
const MOST_KEPT_BYTES: usize = 512 * 1024;

/// A buffer that sessions write records into, to be sent and emptied; one is enough for all connections of a
/// core.
///
/// Its memory is zeroed once, when it grows, and not for every record that is written into it.
#[derive(Debug, Default)]
pub struct CiphertextBuffer {
    /// Initialised over its whole length.
    bytes: Vec<u8>,
    /// How many bytes of it must be sent.
    filled: usize,
    /// A buffer in which plaintext of several parts is joined to one record.
    joined: Vec<u8>,
}

impl CiphertextBuffer {
    /// The bytes to send.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// True if there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Empties the buffer, after its bytes were sent.
    #[inline]
    pub fn clear(&mut self) {
        self.filled = 0;
        if self.bytes.len() > MOST_KEPT_BYTES {
            self.bytes.truncate(MOST_KEPT_BYTES);
            self.bytes.shrink_to(MOST_KEPT_BYTES);
        }
    }

    /// Empties the buffer when only its first `sent` bytes could be sent: the others are appended to
    /// `unsent`.
    pub fn clear_into(&mut self, sent: usize, unsent: &mut Vec<u8>) {
        unsent.extend_from_slice(self.as_slice().get(sent..).unwrap_or_default());
        self.clear();
    }

    /// Adds bytes that were prepared before.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.fill(bytes.len());
    }

    /// Room for at least `least` more bytes, to be written into and then [`CiphertextBuffer::fill`]ed.
    #[inline]
    pub(super) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() - self.filled < least {
            self.grow(least);
        }
        &mut self.bytes[self.filled..]
    }

    /// Records that `count` bytes were written to the free space.
    #[inline]
    pub(super) fn fill(&mut self, count: usize) {
        debug_assert!(self.filled + count <= self.bytes.len());
        self.filled = (self.filled + count).min(self.bytes.len());
    }

    /// An empty buffer for plaintext, to be returned with [`CiphertextBuffer::return_buffer`].
    pub(super) fn take_joined(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.joined)
    }

    /// Keeps the buffer for the next time.
    pub(super) fn return_buffer(&mut self, mut joined: Vec<u8>) {
        joined.clear();
        self.joined = joined;
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        let bytes = (self.filled + least).next_multiple_of(4096);
        self.bytes.resize(bytes.max(self.bytes.len() * 2).min(bytes.max(MOST_KEPT_BYTES)), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_sent_in_order() {
        let mut buffer = CiphertextBuffer::default();
        assert!(buffer.is_empty());
        buffer.extend(b"one");
        buffer.extend(&[7; 10_000]);
        buffer.extend(b"two");
        assert_eq!(buffer.as_slice().len(), 10_006);
        assert!(buffer.as_slice().starts_with(b"one\x07") && buffer.as_slice().ends_with(b"\x07two"));
        buffer.clear();
        buffer.extend(b"three");
        assert_eq!(buffer.as_slice(), b"three");
        let mut unsent = b"before ".to_vec();
        buffer.clear_into(2, &mut unsent);
        assert_eq!(unsent, b"before ree");
        assert!(buffer.is_empty());
        buffer.clear_into(2, &mut unsent);
        assert_eq!(unsent, b"before ree");
    }

    #[test]
    fn a_large_buffer_is_let_go() {
        let mut buffer = CiphertextBuffer::default();
        buffer.extend(&vec![1; 3 * MOST_KEPT_BYTES]);
        assert_eq!(buffer.as_slice().len(), 3 * MOST_KEPT_BYTES);
        buffer.clear();
        assert!(buffer.bytes.capacity() <= MOST_KEPT_BYTES);
        buffer.extend(b"again");
        assert_eq!(buffer.as_slice(), b"again");
    }
}
