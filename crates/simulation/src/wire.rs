//! A simulated connection in one direction: written bytes arrive later, in order and in pieces of any size,
//! until it is disconnected.

use crate::random;

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Wire {
    bytes: Vec<u8>,
    taken: usize,
    /// The numbers of all written bytes and of all bytes that arrived.
    total_written: u64,
    total_read: u64,
    is_cut: bool,
}

impl Wire {
    /// Writes bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.total_written += bytes.len() as u64;
        if self.is_cut {
            return;
        }
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Disconnects: the bytes in transit and all that are written later are lost.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.taken = self.bytes.len();
    }

    /// The number of all written bytes, including lost ones.
    pub fn total_written(&self) -> u64 {
        self.total_written
    }

    /// The number of all bytes that arrived.
    pub fn total_read(&self) -> u64 {
        self.total_read
    }

    /// The number of bytes in transit.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether no bytes are in transit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a piece: often all bytes, sometimes one.
    pub fn take(&mut self, into: &mut Vec<u8>) -> usize {
        let available = self.len();
        let length = match random::below(6) {
            0 => 1.min(available),
            1 => available.min(random::size(20) + 1),
            2 => available.min(random::size(3000) + 1),
            _ => available,
        };
        into.extend_from_slice(&self.bytes[self.taken..self.taken + length]);
        self.taken += length;
        self.total_read += length as u64;
        length
    }

    /// Changes a bit in transit.
    pub fn flip_bit(&mut self) {
        let available = self.len();
        if available > 0 {
            let at = self.taken + random::size(available);
            self.bytes[at] ^= 1 << random::below(8);
        }
    }
}

/// The bytes of a body, different for each owner and position, so that mistakes are detected.
pub fn pattern(owner: u64, length: usize) -> Vec<u8> {
    (0..length).map(|position| byte_of(owner, position)).collect()
}

/// The byte of a body at a position.
pub fn byte_of(owner: u64, position: usize) -> u8 {
    let position = position as u64;
    (owner.wrapping_mul(31).wrapping_add(position).wrapping_add((position >> 8).wrapping_mul(7)) % 251) as u8
}

/// Whether bytes are those of a body from a position on.
pub fn is_pattern(owner: u64, start: usize, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(position, byte)| *byte == byte_of(owner, start + position))
}
