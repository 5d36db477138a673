//! Nonces that were used: a signature with one is accepted once while it is valid. The table is that of the
//! process, so that a reload keeps it. It contains verified signatures only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};

/// The most nonces that are kept at a time.
const MOST: usize = 1 << 18;

/// The result of the check of a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It was not used before.
    First,
    /// It was.
    Again,
    /// The table is full of nonces that may still be used.
    Full,
}

/// Nonces with the second of Unix time from which they may be removed, since their signature has expired.
#[derive(Default)]
pub struct Nonces {
    used: Mutex<HashMap<[u8; 16], u64>>,
}

impl Nonces {
    /// Notes a nonce of a key.
    pub fn note(&self, key: &str, nonce: &str, end_s: u64, now_s: u64) -> Use {
        self.note_within(MOST, key, nonce, (end_s, now_s))
    }

    fn note_within(&self, most: usize, key: &str, nonce: &str, (end_s, now_s): (u64, u64)) -> Use {
        let name = name_of(key, nonce);
        let mut used = self.lock();
        if used.get(&name).is_some_and(|end| *end > now_s) {
            return Use::Again;
        }
        if used.len() >= most {
            used.retain(|_, end| *end > now_s);
            if used.len() >= most {
                return Use::Full;
            }
        }
        used.insert(name, end_s);
        Use::First
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], u64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(key: &str, nonce: &str) -> [u8; 16] {
    let mut hash = Context::new(&SHA256);
    hash.update(&(key.len() as u64).to_le_bytes());
    hash.update(key.as_bytes());
    hash.update(nonce.as_bytes());
    hash.finish().as_ref().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_used_once_in_the_life_of_its_signature() {
        let nonces = Nonces::default();
        assert_eq!(nonces.note("k", "n", 100, 10), Use::First);
        assert_eq!(nonces.note("k", "n", 200, 99), Use::Again);
        assert_eq!(nonces.note("k2", "n", 100, 10), Use::First);
        assert_eq!(nonces.note("k", "n", 200, 100), Use::First);
    }

    #[test]
    fn the_table_is_bounded() {
        let nonces = Nonces::default();
        for number in 0..4 {
            assert_eq!(nonces.note_within(4, "k", &number.to_string(), (100 + number, 10)), Use::First);
        }
        assert_eq!(nonces.note_within(4, "k", "more", (200, 10)), Use::Full);
        assert_eq!(nonces.note_within(4, "k", "0", (200, 10)), Use::Again);
        assert_eq!(nonces.note_within(4, "k", "more", (200, 100)), Use::First, "expired nonces are removed");
    }
}
