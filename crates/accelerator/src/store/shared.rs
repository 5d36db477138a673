//! What all parts of the store use: the hash of a key, and a lock that outlives a panic.

use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The hash of a key: SipHash with a secret of this process, because clients choose the keys and must not be
/// able to find many with one hash. Another process has other hashes.
#[inline]
pub fn hash_of(key: &[u8]) -> u64 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    SECRET.hash_one(key)
}

/// A lock that a panicking thread left is taken all the same: every critical section here leaves whole
/// states.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
