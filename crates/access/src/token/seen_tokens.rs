//! Stores tokens that were verified a short time ago, with their identities, in bounded memory.
//!
//! A token is stored as a hash with a secret key. An entry is valid until the token expires or the keys of
//! the issuer change.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::verifier::Identity;
use crate::success_cache::Fingerprint;

/// The number of entries in one set.
const WAYS: usize = 4;
/// The number of sets, each with a lock: 4,096 tokens in all.
const SETS: usize = 1024;

/// The tokens of one rule. The memory is allocated on first use.
#[derive(Default)]
pub struct SeenTokens {
    sets: OnceLock<Box<[Mutex<Set>]>>,
}

/// A set: the entries whose fingerprints share their first bits.
type Set = [Option<Entry>; WAYS];

#[derive(Clone)]
struct Entry {
    fingerprint: Fingerprint,
    until_ns: u64,
    key_generation: u64,
    identity: Arc<Identity>,
}

impl SeenTokens {
    /// The identity of a stored token at this time of the process's clock.
    pub fn get(&self, fingerprint: &Fingerprint, key_generation: u64, now_ns: u64) -> Option<Arc<Identity>> {
        let set = self.sets.get()?[set_of(fingerprint)].lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |entry: &&Entry| {
            entry.fingerprint == *fingerprint
                && entry.until_ns > now_ns
                && entry.key_generation == key_generation
        };
        set.iter().flatten().find(is_it).map(|entry| entry.identity.clone())
    }

    /// Stores a token. In a full set the entry that expires first is replaced.
    pub fn remember(
        &self,
        fingerprint: Fingerprint,
        key_generation: u64,
        until_ns: u64,
        identity: Arc<Identity>,
    ) {
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        let mut set = sets[set_of(&fingerprint)].lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.fingerprint == fingerprint);
        let known = set.iter().position(is_same);
        let first_to_expire =
            || (0..WAYS).min_by_key(|place| set[*place].as_ref().map_or(0, |entry| entry.until_ns));
        let place = known.or_else(first_to_expire).unwrap_or(0);
        set[place] = Some(Entry { fingerprint, until_ns, key_generation, identity });
    }
}

fn set_of(fingerprint: &Fingerprint) -> usize {
    usize::from(u16::from_be_bytes([fingerprint[0], fingerprint[1]])) % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u32) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        fingerprint[..4].copy_from_slice(&number.to_le_bytes());
        fingerprint
    }

    #[test]
    fn remembered_until_it_expires_or_the_keys_change() {
        let seen = SeenTokens::default();
        let identity = Arc::new(Identity::default());
        assert!(seen.get(&numbered(1), 0, 0).is_none());
        seen.remember(numbered(1), 7, 100, identity);
        assert!(seen.get(&numbered(1), 7, 99).is_some());
        assert!(seen.get(&numbered(1), 7, 100).is_none());
        assert!(seen.get(&numbered(1), 8, 99).is_none());
        assert!(seen.get(&numbered(2), 7, 99).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let seen = SeenTokens::default();
        let identity = Arc::new(Identity::default());
        for number in 0..100_000 {
            seen.remember(numbered(number), 0, u64::from(number) + 1, identity.clone());
        }
        assert!(Arc::strong_count(&identity) <= SETS * WAYS + 1);
        assert!(seen.get(&numbered(99_999), 0, 0).is_some());
    }
}
