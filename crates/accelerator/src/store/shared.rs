//! Functions that all parts of the store use: the hash of a key, and a lock that ignores poisoning.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The hash of a key: SipHash with a secret of this process, because clients choose the keys and must not be
/// able to find many with one hash. Another process has other hashes.
#[inline]
pub fn hash_of(key: &[u8]) -> u64 {
    static KEYED: LazyLock<DefaultHasher> = LazyLock::new(|| {
        if HAS_NO_SECRET.load(Ordering::Relaxed) {
            DefaultHasher::new()
        } else {
            RandomState::new().build_hasher()
        }
    });
    let mut hasher = KEYED.clone();
    key.hash(&mut hasher);
    hasher.finish()
}

static HAS_NO_SECRET: AtomicBool = AtomicBool::new(false);

/// Makes the hashes of all processes equal, so that a simulator can repeat its runs. It must be called before
/// the first hash is computed; no server may call it.
#[doc(hidden)]
pub fn hash_without_secret() {
    HAS_NO_SECRET.store(true, Ordering::Relaxed);
}

/// A lock that a panicking thread left is used anyway: every critical section here leaves a consistent state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
