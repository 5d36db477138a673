//! Counts that are kept under a name as long as something uses them, so that they continue over reloads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A number that all cores may change.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Subtracts what was added before.
    pub fn take(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts in use, for a `static`.
pub struct NamedCounts<N, C> {
    known: Mutex<BTreeMap<N, Weak<C>>>,
}

impl<N: Ord + Clone, C: Default> Default for NamedCounts<N, C> {
    fn default() -> NamedCounts<N, C> {
        NamedCounts::new()
    }
}

impl<N: Ord + Clone, C: Default> NamedCounts<N, C> {
    /// No counts yet.
    pub const fn new() -> NamedCounts<N, C> {
        NamedCounts { known: Mutex::new(BTreeMap::new()) }
    }

    /// The counts with this name: those in use, or new ones.
    pub fn of(&self, name: N) -> Arc<C> {
        let mut known = self.lock();
        known.retain(|_, counts| counts.strong_count() > 0);
        if let Some(counts) = known.get(&name).and_then(Weak::upgrade) {
            return counts;
        }
        let counts = Arc::default();
        known.insert(name, Arc::downgrade(&counts));
        counts
    }

    /// All counts that are in use, by their names.
    pub fn all(&self) -> Vec<(N, Arc<C>)> {
        self.lock().iter().filter_map(|(name, counts)| Some((name.clone(), counts.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<N, Weak<C>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
