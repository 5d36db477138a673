//! A simulated link for bytes in one direction: bytes that were written arrive in order, in pieces of any
//! size, some time later, until it is disconnected.

use crate::chance;

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Wire {
    bytes: Vec<u8>,
    taken: usize,
    /// All bytes that were written, and all that have arrived.
    put_in_all: u64,
    total_taken: u64,
    is_cut: bool,
}

impl Wire {
    /// Puts bytes in.
    pub fn put(&mut self, bytes: &[u8]) {
        self.put_in_all += bytes.len() as u64;
        if self.is_cut {
            return;
        }
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes under way are lost, and so are all that are written later.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.taken = self.bytes.len();
    }

    /// How many bytes were ever put in, those that were lost among them.
    pub fn put_in_all(&self) -> u64 {
        self.put_in_all
    }

    /// How many bytes have arrived in total.
    pub fn total_taken(&self) -> u64 {
        self.total_taken
    }

    /// How many bytes are under way.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A piece that arrives now: often all, sometimes a byte.
    pub fn take(&mut self, into: &mut Vec<u8>) -> usize {
        let there = self.len();
        let length = match chance::below(6) {
            0 => 1.min(there),
            1 => there.min(chance::size(20) + 1),
            2 => there.min(chance::size(3000) + 1),
            _ => there,
        };
        into.extend_from_slice(&self.bytes[self.taken..self.taken + length]);
        self.taken += length;
        self.total_taken += length as u64;
        length
    }

    /// Changes a bit that is under way.
    pub fn flip(&mut self) {
        let there = self.len();
        if there > 0 {
            let at = self.taken + chance::size(there);
            self.bytes[at] ^= 1 << chance::below(8);
        }
    }
}

/// The bytes of a body, different for each owner and position, so that mistakes are detected.
pub fn pattern(owner: u64, length: usize) -> Vec<u8> {
    (0..length).map(|place| byte_of(owner, place)).collect()
}

/// The byte of a body at a place.
pub fn byte_of(owner: u64, place: usize) -> u8 {
    let place = place as u64;
    (owner.wrapping_mul(31).wrapping_add(place).wrapping_add((place >> 8).wrapping_mul(7)) % 251) as u8
}

/// Whether bytes are those of a body from a place on.
pub fn is_pattern(owner: u64, start: usize, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(place, byte)| *byte == byte_of(owner, start + place))
}
