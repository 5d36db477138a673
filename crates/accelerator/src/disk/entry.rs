//! Where a record lies: an entry of a segment's index file, of fixed length.
//!
//! An entry is written after its record, so that none is found whose record was not written; and one byte of it, which the
//! checksum leaves out, says that it counts no longer. So forgetting a response is a write of one byte.

use super::record::checksum;

/// Length of an entry.
pub const ENTRY_BYTES: usize = 40;

/// Where the byte stands that says whether the entry counts.
pub const STATE_AT: usize = 36;

const COUNTS: u8 = 1;

/// Where a record lies, and which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The hash of the response's key.
    pub hash: u64,
    /// The order in which responses were kept.
    pub sequence: u64,
    /// Where the record begins in its segment.
    pub offset: u32,
    /// How long it is.
    pub length: u32,
    /// A hash of which requests select it.
    pub selector: u32,
}

impl Entry {
    /// The entry as it is written into the index of this segment.
    pub fn bytes(&self, segment: u32) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.offset.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.selector.to_le_bytes());
        let sum = sum(&bytes[..28], segment);
        bytes[28..36].copy_from_slice(&sum);
        bytes[STATE_AT] = COUNTS;
        bytes
    }

    /// Reads an entry of this segment; `None`: it is not whole. The flag says whether it counts.
    pub fn read(bytes: &[u8; ENTRY_BYTES], segment: u32) -> Option<(Entry, bool)> {
        if bytes[28..36] != sum(&bytes[..28], segment) {
            return None;
        }
        let u64_at = |at| bytes[at..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        let u32_at = |at| bytes[at..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
        let entry = Entry {
            hash: u64_at(0),
            sequence: u64_at(8),
            offset: u32_at(16),
            length: u32_at(20),
            selector: u32_at(24),
        };
        Some((entry, bytes[STATE_AT] == COUNTS))
    }
}

/// The segment is part of it: an entry means nothing in another.
fn sum(bytes: &[u8], segment: u32) -> [u8; 8] {
    checksum([bytes, &segment.to_le_bytes()[..]]).to_le_bytes()
}

/// A hash of which requests select a response.
pub fn selector_hash(selector: &[u8]) -> u32 {
    checksum([selector]) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_back_and_changed_ones_do_not(
            numbers: (u64, u64, u32, u32, u32), segment: u32, at in 0..STATE_AT, bit in 0..8,
        ) {
            let (hash, sequence, offset, length, selector) = numbers;
            let entry = Entry { hash, sequence, offset, length, selector };
            let mut bytes = entry.bytes(segment);
            prop_assert_eq!(Entry::read(&bytes, segment), Some((entry, true)));
            prop_assert_eq!(Entry::read(&bytes, segment ^ 1), None);
            bytes[STATE_AT] = 0;
            prop_assert_eq!(Entry::read(&bytes, segment), Some((entry, false)));
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(Entry::read(&bytes, segment), None);
        }
    }
}
