//! Counts the purges and changes of targets, for the keys of answers to QUERY.
//!
//! A target may have any number of stored answers to QUERY, each under its own key. When the target is
//! purged, or an unsafe request has changed it, all of them become invalid. They are not searched for: their
//! keys contain the target's count at that time, so they are no longer found and are evicted as unused.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of counts. Targets with the same index share a count: a purge of one costs the other its stored
/// answers.
const PLACES: usize = 16 * 1024;

/// The counts.
pub struct QueryEpochs {
    counts: Box<[AtomicU32]>,
    /// A different value in each process: after a restart the earlier purges are unknown.
    seed: u64,
}

impl Default for QueryEpochs {
    fn default() -> QueryEpochs {
        let counts = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        QueryEpochs { counts, seed: RandomState::new().hash_one(0) }
    }
}

impl QueryEpochs {
    /// The epoch of the target whose key has this hash.
    pub fn of(&self, hash: u64) -> [u8; 12] {
        let mut epoch = [0; 12];
        epoch[..8].copy_from_slice(&self.seed.to_le_bytes());
        epoch[8..].copy_from_slice(&self.place(hash).load(Ordering::Acquire).to_le_bytes());
        epoch
    }

    /// Records that the target was purged or changed.
    pub fn advance(&self, hash: u64) {
        self.place(hash).fetch_add(1, Ordering::Release);
    }

    fn place(&self, hash: u64) -> &AtomicU32 {
        &self.counts[hash as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purged_target_has_another_epoch() {
        let epochs = QueryEpochs::default();
        let (one, other) = (epochs.of(1), epochs.of(2));
        epochs.advance(1);
        assert!(epochs.of(1) != one && epochs.of(2) == other);
        assert_ne!(QueryEpochs::default().of(2), other);
    }
}
