//! All shards, the budget, purging. A lock is held for a look, an insertion or a removal, never while anybody
//! waits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::equivalents::Equivalents;
use super::object::{Object, State};
use super::purge::{Purge, PurgeMode};
use super::query_epochs::QueryEpochs;
use super::shard::Shard;
use super::shared::{hash_of, lock};
use super::tier::Tier;

/// Most shards, so that cores seldom meet at one.
const MOST_SHARDS: u64 = 32;

/// A shard is worth having for so many bytes: in a smaller one, what is used least is not told from what is
/// used most.
const SHARD_BYTES: u64 = 4 * 1024 * 1024;

/// An object of more than one part of so many of the budget is let in only when it is asked for the second
/// time, once the memory is full.
const LARGE_PART: u64 = 64;

/// Purges by tag, prefix and the like that are remembered, so that what was on its way when they came is not
/// stored.
const MOST_REMEMBERED: usize = 256;

/// The stored responses, shared by all cores.
pub struct Store {
    shards: Box<[Mutex<Shard>]>,
    budget_bytes: AtomicU64,
    bytes: AtomicU64,
    evictions: AtomicU64,
    refused: AtomicU64,
    purged: AtomicU64,
    /// Raised with everything that leaves.
    removals: AtomicU64,
    purges: Mutex<Purges>,
    query_epochs: QueryEpochs,
    equivalents: Equivalents,
    tier: Option<Arc<dyn Tier>>,
}

/// Purges that came lately.
#[derive(Default)]
struct Purges {
    /// Raised with each.
    count: u64,
    /// The last of them that are not by key, with the count that each was.
    recent: Vec<(u64, Purge)>,
    /// The count of the last one that is not in `recent` any more.
    forgotten: u64,
    /// The keys, by their hash, of responses that are being fetched: purges by key are noted here alone, so
    /// that any number of them takes no memory and hides no other.
    fetching: HashMap<u64, KeyFetching>,
}

/// A key of which a response is being fetched.
#[derive(Default)]
struct KeyFetching {
    fetches: usize,
    /// The count of the last purge of this key since the first of them began.
    purged_at: u64,
    /// How many purges of this key there have been since then.
    purges: u64,
}

/// A response is being fetched: purges of its key are noted until this is dropped.
pub struct Fetching {
    store: Arc<Store>,
    hash: u64,
    purge_count: u64,
    purges_of_key: u64,
}

impl Fetching {
    /// How many purges there were when it began.
    pub fn purge_count(&self) -> u64 {
        self.purge_count
    }
}

impl Drop for Fetching {
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

/// Figures for the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Responses in memory.
    pub objects: u64,
    /// Bytes of memory that they take.
    pub bytes: u64,
    /// The most that they may take.
    pub budget_bytes: u64,
    /// Responses that were evicted to make room, since the start.
    pub evictions: u64,
    /// Responses that were not let in, since the start.
    pub refused: u64,
    /// Responses that were purged or invalidated, since the start.
    pub purged: u64,
}

impl Store {
    /// An empty store that takes at most so many bytes, with a slower storage behind it, if there is one.
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

    /// Takes up another budget.
    pub fn set_budget(&self, bytes: u64) {
        self.budget_bytes.store(bytes, Ordering::Relaxed);
        self.make_room(0);
    }

    /// The most bytes that it may take.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// The storage behind it.
    pub fn tier(&self) -> Option<&Arc<dyn Tier>> {
        self.tier.as_ref()
    }

    /// What the keys of answers to QUERY hold of the target whose key has this hash.
    pub fn query_epoch(&self, hash: u64) -> [u8; 12] {
        self.query_epochs.of(hash)
    }

    /// The key of a stored response of another query that may answer the request with this key too.
    pub fn equivalent(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.equivalents.find(key)
    }

    /// Figures for the operator.
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

    /// Raised with everything that leaves: who holds objects then looks through them.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// The responses under a key.
    pub fn under(&self, hash: u64, key: &[u8]) -> Vec<Arc<Object>> {
        lock(self.shard(hash)).under(hash, key).cloned().collect()
    }

    /// Notes that a response is being fetched, whose key has this hash. The number of purges that it gives
    /// goes to [`Store::insert`] or [`Store::promote`] before it is dropped.
    pub fn begin_fetch(self: &Arc<Store>, hash: u64) -> Fetching {
        let mut purges = lock(&self.purges);
        let known = purges.fetching.entry(hash).or_default();
        known.fetches += 1;
        let purges_of_key = known.purges;
        Fetching { store: self.clone(), hash, purge_count: purges.count, purges_of_key }
    }

    /// Begins anew after `own` purges of the key that the caller has made itself; `None`: there have been
    /// others that take this key, or may take it.
    pub fn begin_again(self: &Arc<Store>, fetching: &Fetching, key: &[u8], own: u64) -> Option<Fetching> {
        let again = self.begin_fetch(fetching.hash);
        let has_others = again.purges_of_key - fetching.purges_of_key != own
            || self.may_be_purged_since(fetching.hash, key, fetching.purge_count, true);
        (!has_others).then_some(again)
    }

    /// Whether there has been a purge since that takes this key, or takes responses by what is not known
    /// before they come.
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
            || purges.recent.iter().any(|(count, purge)| *count > purge_count && purge.may_match(key))
    }

    /// Stores a response that was asked for when there had been so many purges; `false`: it was not let in.
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
        // Before the newcomer is in: it has had no time to be used.
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
        // A purge that came in between has swept either after this was put in, or has been counted by now.
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

    /// Takes in a response that the storage behind the memory has given, which was asked when there had been
    /// so many purges.
    pub fn promote(&self, object: Arc<Object>, purge_count: u64) {
        if self.is_purged_since(&object, purge_count) {
            return;
        }
        self.make_room_from(self.index(object.hash), object.bytes());
        let change = {
            let mut shard = lock(self.shard(object.hash));
            // What has been stored since the copy on disk was asked for is newer.
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

    /// Takes a response out that is right no longer.
    pub fn remove(&self, object: &Arc<Object>) {
        let bytes = lock(self.shard(object.hash)).remove(object);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.removals.fetch_add(1, Ordering::Release);
        if let Some(tier) = &self.tier {
            tier.purge(&Purge::Key(object.key().to_vec()));
        }
    }

    /// Purges; gives how many responses there were in memory.
    pub fn purge(&self, purge: &Purge, mode: PurgeMode) -> usize {
        if mode == PurgeMode::Remove {
            let mut purges = lock(&self.purges);
            purges.count += 1;
            let count = purges.count;
            if let Purge::Key(key) = purge {
                if let Some(fetching) = purges.fetching.get_mut(&hash_of(key)) {
                    fetching.purged_at = count;
                    fetching.purges += 1;
                }
            } else {
                // One that comes again stands for itself and the one before.
                purges.recent.retain(|(_, known)| known != purge);
                if purges.recent.len() == MOST_REMEMBERED {
                    purges.forgotten = purges.recent.remove(0).0;
                }
                purges.recent.push((count, purge.clone()));
            }
        }
        match purge {
            Purge::Key(key) => {
                self.query_epochs.advance(hash_of(key));
                self.equivalents.forget(key);
            }
            _ => self.equivalents.forget_all(),
        }
        let found = match purge {
            Purge::Key(key) => self.purge_shard(self.shard(hash_of(key)), purge, mode),
            _ => self.shards.iter().map(|shard| self.purge_shard(shard, purge, mode)).sum(),
        };
        // What is on disk alone is not made stale, but goes: it is no answer to anything before it has been
        // read.
        if let Some(tier) = &self.tier {
            tier.purge(purge);
        }
        self.purged.fetch_add(found as u64, Ordering::Relaxed);
        self.removals.fetch_add(1, Ordering::Release);
        found
    }

    fn purge_shard(&self, shard: &Mutex<Shard>, purge: &Purge, mode: PurgeMode) -> usize {
        let mut shard = lock(shard);
        let matches = |object: &Object| purge.matches(object.key(), object.fields());
        match mode {
            PurgeMode::Remove => {
                let (found, bytes) = match purge {
                    Purge::Key(key) => {
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
        // Where a purge has been forgotten meanwhile, it might have been one for this.
        let is_forgotten = purges.forgotten > purge_count;
        let mut since = purges.recent.iter().filter(|(count, _)| *count > purge_count);
        is_key_purged || is_forgotten || since.any(|(_, purge)| purge.matches(object.key(), object.fields()))
    }

    /// Evicts until so many bytes more have room.
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
            // In turns, so that what was used least leaves from all of them alike.
            at = (at + 1) % self.shards.len();
        }
    }

    fn index(&self, hash: u64) -> usize {
        // Other bits than those that the table and the ghosts go by.
        (hash >> 40) as usize % self.shards.len()
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[self.index(hash)]
    }
}

#[cfg(test)]
mod tests;
