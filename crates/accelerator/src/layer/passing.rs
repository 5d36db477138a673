//! Targets whose responses turned out not to be for everybody: requests for them wait for no other's
//! response.

use std::sync::atomic::{AtomicU64, Ordering};

/// Targets that are remembered.
const PLACES: usize = 16 * 1024;

/// How long, in seconds.
const REMEMBERED_SECONDS: u64 = 120;

/// A table in which a newer target takes an older one's place. What is forgotten, or taken for another, costs
/// a wait or a request more.
pub struct Passing {
    /// 32 bits of a hash, and the second until which it counts.
    places: Box<[AtomicU64]>,
}

impl Default for Passing {
    fn default() -> Passing {
        Passing { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Passing {
    /// Remembers a target.
    pub fn remember(&self, hash: u64, now: i64) {
        let until = (now.max(0) as u64 + REMEMBERED_SECONDS) & 0xffff_ffff;
        self.place(hash).store((hash & !0xffff_ffff) | until, Ordering::Relaxed);
    }

    /// Its response was one for everybody after all.
    pub fn forget(&self, hash: u64) {
        if self.place(hash).load(Ordering::Relaxed) >> 32 == hash >> 32 {
            self.place(hash).store(0, Ordering::Relaxed);
        }
    }

    /// Whether it is remembered.
    pub fn has(&self, hash: u64, now: i64) -> bool {
        let place = self.place(hash).load(Ordering::Relaxed);
        place >> 32 == hash >> 32 && place & 0xffff_ffff > now.max(0) as u64 & 0xffff_ffff
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[hash as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_remembered_for_a_while() {
        let passing = Passing::default();
        let hash = 0x1234_5678_9abc_def0;
        passing.remember(hash, 1_700_000_000);
        assert!(passing.has(hash, 1_700_000_119) && !passing.has(hash, 1_700_000_120));
        assert!(!passing.has(hash ^ (1 << 40), 1_700_000_000));
        passing.forget(hash);
        assert!(!passing.has(hash, 1_700_000_000));
    }
}
