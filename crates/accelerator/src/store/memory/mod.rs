//! All shards, the limit of bytes, and purging. A lock is held for a lookup, an insertion or a removal, never
//! during a wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::equivalents::Equivalents;
use super::object::{Object, State};
use super::purge::{PurgeMode, PurgeScope};
use super::query_epochs::QueryEpochs;
use super::shard::Shard;
use super::shared::{hash_of, lock};
use super::tier::Tier;

/// The maximum number of shards, so that cores rarely contend for one.
const MOST_SHARDS: u64 = 32;

/// The minimum number of bytes of a shard: in a smaller one, rarely used objects cannot be distinguished from
/// others.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// Once the memory is full, an object larger than the limit divided by this number is admitted only at its
/// second request.
const LARGE_PART: u64 = 64;

/// The number of purges by tag, prefix and similar that are remembered, so that responses fetched before them
/// are not stored.
const MOST_REMEMBERED: usize = 256;

/// The stored responses, shared by all cores.
pub struct Store {
    shards: Box<[Mutex<Shard>]>,
    budget_bytes: AtomicU64,
    bytes: AtomicU64,
    evictions: AtomicU64,
    refused: AtomicU64,
    purged: AtomicU64,
    /// Incremented with every removal.
    removals: AtomicU64,
    purges: Mutex<Purges>,
    query_epochs: QueryEpochs,
    equivalents: Equivalents,
    tier: Option<Arc<dyn Tier>>,
}

/// Recent purges.
#[derive(Default)]
struct Purges {
    /// Incremented with each purge.
    count: u64,
    /// The last of them that are not by key, with their counts.
    recent: Vec<(u64, PurgeScope)>,
    /// The count of the last one that is no longer in `recent`.
    forgotten: u64,
    /// The keys, by their hash, of responses that are being fetched: purges by key are recorded only here, so
    /// that any number of them uses no memory and displaces no other.
    fetching: HashMap<u64, KeyFetching>,
}

/// A key whose response is being fetched.
#[derive(Default)]
struct KeyFetching {
    fetches: usize,
    /// The count of the last purge of this key since the first of these fetches began.
    purged_at: u64,
    /// The number of purges of this key since then.
    purges: u64,
}

/// A response is being fetched: purges of its key are recorded until this is dropped.
pub struct FetchGuard {
    store: Arc<Store>,
    hash: u64,
    purge_count: u64,
    purges_of_key: u64,
}

impl FetchGuard {
    /// The number of purges when it began.
    pub fn purge_count(&self) -> u64 {
        self.purge_count
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        let mut purges = lock(&self.store.purges);
        if let Entry::Occupied(mut known) = purges.fetching.entry(self.hash) {
            known.get_mut().fetches -= 1;
            if known.get().fetches == 0 {
                known.remove();
            }
        }
    }
}

/// Metrics for the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of responses in memory.
    pub objects: u64,
    /// The bytes of memory that they use.
    pub bytes: u64,
    /// The maximum number of bytes.
    pub budget_bytes: u64,
    /// The number of responses evicted since the start.
    pub evictions: u64,
    /// The number of responses not admitted since the start.
    pub refused: u64,
    /// The number of responses purged or invalidated since the start.
    pub purged: u64,
}

impl Store {
    /// An empty store that uses at most this many bytes, with a slower storage behind it, if there is one.
    pub fn new(budget_bytes: u64, tier: Option<Arc<dyn Tier>>) -> Store {
        Store {
            shards: (0..(budget_bytes / SHARD_BYTES).clamp(1, MOST_SHARDS))
                .map(|_| Mutex::default())
                .collect(),
            budget_bytes: AtomicU64::new(budget_bytes),
            bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            removals: AtomicU64::new(0),
            purges: Mutex::default(),
            query_epochs: QueryEpochs::default(),
            equivalents: Equivalents::default(),
            tier,
        }
    }

    /// Applies another limit of bytes.
    pub fn set_budget(&self, bytes: u64) {
        self.budget_bytes.store(bytes, Ordering::Relaxed);
        self.make_room(0);
    }

    /// The maximum number of bytes.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// The storage behind it.
    pub fn tier(&self) -> Option<&Arc<dyn Tier>> {
        self.tier.as_ref()
    }

    /// The part of the keys of answers to QUERY for the target whose key has this hash.
    pub fn query_epoch(&self, hash: u64) -> [u8; 12] {
        self.query_epochs.of(hash)
    }

    /// The key of a stored response of another query that may also answer the request with this key.
    pub fn equivalent(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.equivalents.find(key)
    }

    /// Metrics for the operator.
    pub fn counters(&self) -> Counters {
        Counters {
            objects: self.shards.iter().map(|shard| lock(shard).len() as u64).sum(),
            bytes: self.bytes.load(Ordering::Relaxed),
            budget_bytes: self.budget_bytes.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            purged: self.purged.load(Ordering::Relaxed),
        }
    }

    /// Incremented with every removal: holders of objects then check them.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// The responses under a key.
    pub fn under(&self, hash: u64, key: &[u8]) -> Vec<Arc<Object>> {
        lock(self.shard(hash)).under(hash, key).cloned().collect()
    }

    /// Records that a response is being fetched whose key has this hash. The returned count of purges must be
    /// passed to [`Store::insert`] or [`Store::promote`] before it is dropped.
    pub fn begin_fetch(self: &Arc<Store>, hash: u64) -> FetchGuard {
        let mut purges = lock(&self.purges);
        let known = purges.fetching.entry(hash).or_default();
        known.fetches += 1;
        let purges_of_key = known.purges;
        FetchGuard { store: self.clone(), hash, purge_count: purges.count, purges_of_key }
    }

    /// Starts again after `own` purges of the key by the caller itself; `None`: there have been others that
    /// apply to this key, or may.
    pub fn begin_again(self: &Arc<Store>, fetching: &FetchGuard, key: &[u8], own: u64) -> Option<FetchGuard> {
        let again = self.begin_fetch(fetching.hash);
        let has_others = again.purges_of_key - fetching.purges_of_key != own
            || self.may_be_purged_since(fetching.hash, key, fetching.purge_count, true);
        (!has_others).then_some(again)
    }

    /// Whether there has been a later purge of this key, or one that applies to responses by properties that
    /// are unknown before they arrive.
    pub fn is_outdated(&self, hash: u64, key: &[u8], purge_count: u64) -> bool {
        self.may_be_purged_since(hash, key, purge_count, false)
    }

    fn may_be_purged_since(&self, hash: u64, key: &[u8], purge_count: u64, except_by_key: bool) -> bool {
        let purges = lock(&self.purges);
        if purges.count == purge_count {
            return false;
        }
        let is_key_purged = || purges.fetching.get(&hash).is_some_and(|known| known.purged_at > purge_count);
        (!except_by_key && is_key_purged())
            || purges.forgotten > purge_count
            || purges.recent.iter().any(|(count, purge)| *count > purge_count && purge.may_match_key(key))
    }

    /// Stores a response that was requested at this count of purges; `false`: it was not admitted.
    pub fn insert(&self, object: Arc<Object>, purge_count: u64) -> bool {
        if self.is_purged_since(&object, purge_count) {
            return false;
        }
        let (hash, bytes) = (object.hash, object.bytes());
        let budget = self.budget_bytes.load(Ordering::Relaxed);
        let is_full = self.bytes.load(Ordering::Relaxed) + bytes > budget;
        {
            let shard = &mut *lock(self.shard(hash));
            let is_known = shard.is_ghost(hash) || shard.under(hash, object.key()).next().is_some();
            if bytes > budget || (is_full && bytes > budget / LARGE_PART && !is_known) {
                shard.add_ghost(hash);
                self.refused.fetch_add(1, Ordering::Relaxed);
                return false;
            }
        }
        // This is done before the new object is inserted: it could not have been used yet.
        self.make_room_from(self.index(hash), bytes);
        let change = lock(self.shard(hash)).insert(object.clone());
        self.bytes.fetch_add(change.added, Ordering::Relaxed);
        self.bytes.fetch_sub(change.removed, Ordering::Relaxed);
        if change.removed > 0 {
            self.removals.fetch_add(1, Ordering::Release);
        }
        if let Some(tier) = &self.tier {
            tier.keep(&object);
        }
        // A purge in between has either removed this object after its insertion, or been counted by now.
        if self.is_purged_since(&object, purge_count) {
            self.remove(&object);
            return false;
        }
        if object.part().is_none() {
            let may_note = || lock(&self.purges).count == purge_count;
            self.equivalents.note(object.key(), object.fields(), may_note);
        }
        true
    }

    /// Inserts a response from the storage behind the memory, which was requested at this count of purges.
    pub fn promote(&self, object: Arc<Object>, purge_count: u64) {
        if self.is_purged_since(&object, purge_count) {
            return;
        }
        self.make_room_from(self.index(object.hash), object.bytes());
        let change = {
            let mut shard = lock(self.shard(object.hash));
            // A response that was stored since the copy on disk was requested is newer.
            let is_same = |stored: &Arc<Object>| stored.selector() == object.selector();
            if shard.under(object.hash, object.key()).any(is_same) {
                return;
            }
            shard.insert(object.clone())
        };
        self.bytes.fetch_add(change.added, Ordering::Relaxed);
        self.bytes.fetch_sub(change.removed, Ordering::Relaxed);
        if self.is_purged_since(&object, purge_count) {
            self.remove(&object);
        }
    }

    /// Removes a response that is no longer valid.
    pub fn remove(&self, object: &Arc<Object>) {
        let bytes = lock(self.shard(object.hash)).remove(object);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.removals.fetch_add(1, Ordering::Release);
        if let Some(tier) = &self.tier {
            tier.purge(&PurgeScope::Key(object.key().to_vec()));
        }
    }

    /// Purges; returns the number of affected responses in memory.
    pub fn purge(&self, purge: &PurgeScope, mode: PurgeMode) -> usize {
        if mode == PurgeMode::Remove {
            let mut purges = lock(&self.purges);
            purges.count += 1;
            let count = purges.count;
            if let PurgeScope::Key(key) = purge {
                if let Some(fetching) = purges.fetching.get_mut(&hash_of(key)) {
                    fetching.purged_at = count;
                    fetching.purges += 1;
                }
            } else {
                // A repeated purge replaces the earlier one.
                purges.recent.retain(|(_, known)| known != purge);
                if purges.recent.len() == MOST_REMEMBERED {
                    purges.forgotten = purges.recent.remove(0).0;
                }
                purges.recent.push((count, purge.clone()));
            }
        }
        match purge {
            PurgeScope::Key(key) => {
                self.query_epochs.advance(hash_of(key));
                self.equivalents.forget(key);
            }
            _ => self.equivalents.forget_all(),
        }
        let found = match purge {
            PurgeScope::Key(key) => self.purge_shard(self.shard(hash_of(key)), purge, mode),
            _ => self.shards.iter().map(|shard| self.purge_shard(shard, purge, mode)).sum(),
        };
        // Responses that are only on disk are removed, not made stale: they cannot answer a request before
        // they have been read.
        if let Some(tier) = &self.tier {
            tier.purge(purge);
        }
        self.purged.fetch_add(found as u64, Ordering::Relaxed);
        self.removals.fetch_add(1, Ordering::Release);
        found
    }

    fn purge_shard(&self, shard: &Mutex<Shard>, purge: &PurgeScope, mode: PurgeMode) -> usize {
        let mut shard = lock(shard);
        let matches = |object: &Object| purge.matches(object.key(), object.fields());
        match mode {
            PurgeMode::Remove => {
                let (found, bytes) = match purge {
                    PurgeScope::Key(key) => {
                        let under: Vec<Arc<Object>> = shard.under(hash_of(key), key).cloned().collect();
                        let bytes = under.iter().map(|object| shard.remove(object)).sum();
                        (under.len(), bytes)
                    }
                    _ => shard.remove_where(matches),
                };
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                found
            }
            PurgeMode::Soft => {
                let found: Vec<&Arc<Object>> = shard.iter().filter(|object| matches(object)).collect();
                found.iter().for_each(|object| object.set_state(State::SoftPurged));
                found.len()
            }
        }
    }

    fn is_purged_since(&self, object: &Object, purge_count: u64) -> bool {
        let purges = lock(&self.purges);
        if purges.count == purge_count {
            return false;
        }
        let is_key_purged =
            purges.fetching.get(&object.hash).is_some_and(|fetching| fetching.purged_at > purge_count);
        // A purge that has been forgotten since then might apply to this key.
        let is_forgotten = purges.forgotten > purge_count;
        let mut since = purges.recent.iter().filter(|(count, _)| *count > purge_count);
        is_key_purged || is_forgotten || since.any(|(_, purge)| purge.matches(object.key(), object.fields()))
    }

    /// Evicts until there is room for this many more bytes.
    fn make_room(&self, bytes: u64) {
        self.make_room_from(0, bytes);
    }

    fn make_room_from(&self, first: usize, bytes: u64) {
        let budget = self.budget_bytes.load(Ordering::Relaxed);
        let mut empty = 0;
        let mut at = first;
        while self.bytes.load(Ordering::Relaxed) + bytes > budget && empty < self.shards.len() {
            match lock(&self.shards[at]).evict() {
                Some(evicted) => {
                    self.bytes.fetch_sub(evicted, Ordering::Relaxed);
                    self.evictions.fetch_add(1, Ordering::Relaxed);
                    self.removals.fetch_add(1, Ordering::Release);
                    empty = 0;
                }
                None => empty += 1,
            }
            // The shards take turns, so that the least used objects are evicted from all of them.
            at = (at + 1) % self.shards.len();
        }
    }

    fn index(&self, hash: u64) -> usize {
        // Other bits than those that the table and the ghosts use.
        (hash >> 40) as usize % self.shards.len()
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[self.index(hash)]
    }
}

#[cfg(test)]
mod tests;
