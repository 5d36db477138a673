//! Stores passwords that were verified a short time ago, as hashes with a secret key, in bounded memory.

use std::sync::{Mutex, OnceLock, PoisonError};

use aws_lc_rs::{constant_time, hmac};
use touchstone_observe::system_random;

/// A hash with the cache's key over everything that must be equal; see [`SuccessCache::fingerprint`].
pub type Fingerprint = [u8; 32];

/// The number of entries in one set.
const WAYS: usize = 8;
/// The number of sets, each with a lock: 4,096 entries in all.
const SETS: usize = 512;

/// The verified passwords of the process. The memory is allocated on first use.
pub struct SuccessCache {
    key: OnceLock<hmac::Key>,
    sets: OnceLock<Box<[Mutex<[Success; WAYS]>]>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Success {
    fingerprint: Fingerprint,
    until_ns: u64,
}

impl SuccessCache {
    /// An empty cache.
    pub fn new() -> SuccessCache {
        SuccessCache { key: OnceLock::new(), sets: OnceLock::new() }
    }

    /// The fingerprint of these parts: HMAC-SHA-256 with a random key that never leaves the process.
    pub fn fingerprint(&self, parts: [&[u8]; 3]) -> Fingerprint {
        let mut context = hmac::Context::with_key(self.key.get_or_init(random_key));
        for part in parts {
            // The lengths separate the parts.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut fingerprint = Fingerprint::default();
        fingerprint.copy_from_slice(context.sign().as_ref());
        fingerprint
    }

    /// Whether the fingerprint is stored at this time of the process's clock.
    pub fn contains(&self, fingerprint: &Fingerprint, now_ns: u64) -> bool {
        let Some(sets) = self.sets.get() else { return false };
        let set = sets[set_of(fingerprint)].lock().unwrap_or_else(PoisonError::into_inner);
        set.iter().any(|success| same(&success.fingerprint, fingerprint) & (success.until_ns > now_ns))
    }

    /// Stores the fingerprint until this time. In a full set the entry that expires first is replaced.
    pub fn remember(&self, fingerprint: Fingerprint, until_ns: u64, now_ns: u64) {
        if until_ns <= now_ns {
            return;
        }
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        let mut set = sets[set_of(&fingerprint)].lock().unwrap_or_else(PoisonError::into_inner);
        let known = set.iter().position(|success| same(&success.fingerprint, &fingerprint));
        let place = known.or_else(|| (0..WAYS).min_by_key(|place| set[*place].until_ns)).unwrap_or(0);
        set[place] = Success { fingerprint, until_ns };
    }
}

impl Default for SuccessCache {
    fn default() -> SuccessCache {
        SuccessCache::new()
    }
}

fn random_key() -> hmac::Key {
    let mut key = Fingerprint::default();
    if !system_random::fill(&mut key) {
        // If the system has no random numbers, the keys of the standard library's maps are used.
        use std::hash::{BuildHasher, RandomState};
        for (part, chunk) in key.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&RandomState::new().hash_one(part).to_be_bytes());
        }
    }
    hmac::Key::new(hmac::HMAC_SHA256, &key)
}

/// Compares every byte, so that the time does not depend on the values.
fn same(one: &Fingerprint, other: &Fingerprint) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

fn set_of(fingerprint: &Fingerprint) -> usize {
    usize::from(u16::from_be_bytes([fingerprint[0], fingerprint[1]])) % SETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(number: u32) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        fingerprint[..4].copy_from_slice(&number.to_le_bytes());
        fingerprint[31] = 1;
        fingerprint
    }

    #[test]
    fn remembered_until_then() {
        let cache = SuccessCache::new();
        assert!(!cache.contains(&numbered(1), 0));
        cache.remember(numbered(1), 100, 0);
        assert!(cache.contains(&numbered(1), 99));
        assert!(!cache.contains(&numbered(1), 100));
        assert!(!cache.contains(&numbered(2), 0));
        cache.remember(numbered(2), 50, 50);
        assert!(!cache.contains(&numbered(2), 0));
        // An empty entry does not match a fingerprint of zeros.
        assert!(!cache.contains(&Fingerprint::default(), 0));
    }

    #[test]
    fn memory_is_bounded() {
        let cache = SuccessCache::new();
        for number in 0..100_000 {
            cache.remember(numbered(number), 1 + u64::from(number), 0);
        }
        assert_eq!((0..100_000).filter(|number| cache.contains(&numbered(*number), 0)).count(), WAYS * SETS);
        assert!(cache.contains(&numbered(99_999), 0) && !cache.contains(&numbered(0), 0));
    }

    #[test]
    fn keys_differ() {
        let (one, other) = (SuccessCache::new(), SuccessCache::new());
        let parts: [&[u8]; 3] = [b"name", b"stored", b"password"];
        assert_ne!(one.fingerprint(parts), other.fingerprint(parts));
        assert_eq!(one.fingerprint(parts), one.fingerprint(parts));
        // The same bytes, divided differently.
        assert_ne!(one.fingerprint(parts), one.fingerprint([b"names", b"tored", b"password"]));
        assert_ne!(one.fingerprint(parts), one.fingerprint([b"name", b"storedp", b"assword"]));
    }

    proptest! {
        #[test]
        fn one_flipped_bit_is_another(fingerprint: Fingerprint, bit in 0usize..256) {
            let cache = SuccessCache::new();
            cache.remember(fingerprint, 9, 0);
            let mut other = fingerprint;
            other[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(cache.contains(&fingerprint, 8) && !cache.contains(&other, 8));
        }
    }
}
