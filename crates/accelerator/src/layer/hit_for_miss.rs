//! Targets whose latest response was not for all clients (hit-for-miss). A request for such a target does not
//! wait for the response of another request.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of targets that are remembered.
const PLACES: usize = 16 * 1024;

/// The time for which a target is remembered, in seconds.
const REMEMBERED_SECONDS: u64 = 120;

/// A table in which a newer target replaces an older one. Forgetting or confusing a target costs one wait or
/// one request.
pub struct HitForMiss {
    /// 32 bits of a hash, and the second until which the entry is valid.
    places: Box<[AtomicU64]>,
}

impl Default for HitForMiss {
    fn default() -> HitForMiss {
        HitForMiss { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl HitForMiss {
    /// Remembers a target.
    pub fn remember(&self, hash: u64, now: i64) {
        let until = (now.max(0) as u64 + REMEMBERED_SECONDS) & 0xffff_ffff;
        self.place(hash).store((hash & !0xffff_ffff) | until, Ordering::Relaxed);
    }

    /// Forgets a target, because its response was for all clients.
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
        let table = HitForMiss::default();
        let hash = 0x1234_5678_9abc_def0;
        table.remember(hash, 1_700_000_000);
        assert!(table.has(hash, 1_700_000_119) && !table.has(hash, 1_700_000_120));
        assert!(!table.has(hash ^ (1 << 40), 1_700_000_000));
        table.forget(hash);
        assert!(!table.has(hash, 1_700_000_000));
    }
}
