//! Signatures that this core has verified, by key, so that a bot that sends one signature with many requests
//! costs a hash for each. The hash of all verified data is stored.

use std::cell::RefCell;
use std::collections::HashMap;

use aws_lc_rs::digest::{Context, SHA256};

/// The most signatures that a core keeps.
const MOST: usize = 4096;

/// All that a verification depends on.
pub type Name = [u8; 32];

/// The name of a signature by a key.
pub fn name_of(thumbprint: &str, base: &[u8], signature: &[u8]) -> Name {
    let mut hash = Context::new(&SHA256);
    for part in [thumbprint.as_bytes(), base, signature] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finish().as_ref().try_into().unwrap_or_default()
}

thread_local! {
    /// With the second of Unix time in which they end.
    static VERIFIED: RefCell<HashMap<Name, u64>> = RefCell::default();
}

/// Whether this core has verified it, and it has not ended.
pub fn contains(name: &Name, now_s: u64) -> bool {
    VERIFIED.with_borrow(|verified| verified.get(name).is_some_and(|end| *end > now_s))
}

/// Notes that it was verified.
pub fn note(name: Name, end_s: u64, now_s: u64) {
    VERIFIED.with_borrow_mut(|verified| {
        if verified.len() >= MOST {
            verified.retain(|_, end| *end > now_s);
        }
        if verified.len() >= MOST {
            verified.clear();
        }
        verified.insert(name, end_s);
    });
}
