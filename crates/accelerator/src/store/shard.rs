//! A part of the store: its table, its queues, and its recently evicted keys.
//!
//! S3-FIFO (Yang et al., SOSP 2023): a new object enters a small queue with a tenth of the bytes; an object
//! that is used there moves to the main queue, others are evicted and remembered as ghosts. If a ghost is
//! requested again, it enters the main queue at once. So a scan over many objects passes through the small
//! queue and evicts nothing else.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hashbrown::HashTable;

use super::object::{Object, State};

/// The maximum number of responses with one key, for different values of the selecting fields.
const MOST_VARIANTS: usize = 64;

/// The small queue gets one part of this many.
const SMALL_PART: u64 = 10;

/// Objects by key, and the order in which they are evicted.
#[derive(Default)]
pub struct Shard {
    table: HashTable<Arc<Object>>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

/// The result of an insertion: the bytes that the shard has gained and lost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Bytes that were added.
    pub added: u64,
    /// Bytes that were removed.
    pub removed: u64,
}

impl Shard {
    /// The number of objects.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.table.iter()
    }

    /// The responses with a key.
    pub fn under<'a>(&'a self, hash: u64, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Object>> {
        self.table.iter_hash(hash).filter(move |object| object.hash == hash && object.key() == key)
    }

    /// Whether it was stored or requested recently.
    pub fn is_ghost(&self, hash: u64) -> bool {
        self.ghosts.contains(hash)
    }

    /// Remembers that it was requested.
    pub fn add_ghost(&mut self, hash: u64) {
        let objects = self.table.len();
        self.ghosts.insert(hash, objects);
    }

    /// Inserts an object, in place of those that the same requests select.
    pub fn insert(&mut self, object: Arc<Object>) -> Change {
        let mut change = Change { added: object.bytes(), removed: 0 };
        let mut was_in_main = false;
        let same: Vec<Arc<Object>> = self
            .under(object.hash, object.key())
            // An object that every request selects would remain beside the new one, and dates cannot
            // distinguish two objects of one second.
            .filter(|other| {
                let (old, new) = (other.selector(), object.selector());
                old == new || old.is_empty() || new.is_empty()
            })
            .cloned()
            .collect();
        for other in same {
            was_in_main |= other.is_in_main.load(Ordering::Relaxed);
            object.set_uses(object.uses().max(other.uses()));
            change.removed += self.remove(&other);
        }
        while self.under(object.hash, object.key()).count() >= MOST_VARIANTS {
            let oldest =
                self.under(object.hash, object.key()).min_by_key(|other| other.terms.response_time).cloned();
            let Some(oldest) = oldest else { break };
            change.removed += self.remove(&oldest);
        }
        let is_main = was_in_main || self.ghosts.take(object.hash);
        object.is_in_main.store(is_main, Ordering::Relaxed);
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.push(&object);
        self.table.insert_unique(object.hash, object, |object| object.hash);
        change
    }

    /// Removes an object; returns its bytes.
    pub fn remove(&mut self, object: &Arc<Object>) -> u64 {
        let Ok(entry) = self.table.find_entry(object.hash, |other| Arc::ptr_eq(other, object)) else {
            return 0;
        };
        let (removed, _) = entry.remove();
        removed.set_state(State::Gone);
        let bytes = removed.bytes();
        let is_main = removed.is_in_main.load(Ordering::Relaxed);
        drop(removed);
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.forget(bytes);
        bytes
    }

    /// Removes all objects for which `goes` returns true; returns their number and bytes.
    pub fn remove_where(&mut self, goes: impl Fn(&Object) -> bool) -> (usize, u64) {
        let gone: Vec<Arc<Object>> = self.table.iter().filter(|object| goes(object)).cloned().collect();
        let bytes = gone.iter().map(|object| self.remove(object)).sum();
        (gone.len(), bytes)
    }

    /// Evicts one object; returns its bytes. `None`: there is none.
    pub fn evict(&mut self) -> Option<u64> {
        // Each step removes an object from a queue, lowers its count of uses, or moves it once from the small
        // to the main queue.
        loop {
            let total = self.small.bytes + self.main.bytes;
            let is_small_over = self.small.bytes * SMALL_PART > total || self.main.is_empty();
            if is_small_over && let Some(object) = self.small.pop() {
                if object.uses() > 0 {
                    object.set_uses(0);
                    object.is_in_main.store(true, Ordering::Relaxed);
                    self.main.push(&object);
                    continue;
                }
                let hash = object.hash;
                let bytes = self.take_out(&object);
                self.add_ghost(hash);
                return Some(bytes);
            }
            let Some(object) = self.main.pop() else {
                if self.small.is_empty() {
                    return None;
                }
                continue;
            };
            let uses = object.uses();
            if uses > 0 {
                object.set_uses(uses - 1);
                self.main.push(&object);
                continue;
            }
            return Some(self.take_out(&object));
        }
    }

    /// Removes an object from the table that has left its queue.
    fn take_out(&mut self, object: &Arc<Object>) -> u64 {
        if let Ok(entry) = self.table.find_entry(object.hash, |other| Arc::ptr_eq(other, object)) {
            entry.remove();
        }
        object.set_state(State::Gone);
        object.bytes()
    }
}

/// Objects in order of insertion. Removed objects stay in the queue until they are reached, or until there
/// are too many of them; until then they keep only their own memory.
#[derive(Default)]
struct Queue {
    objects: VecDeque<Weak<Object>>,
    bytes: u64,
    gone: usize,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.objects.len() == self.gone
    }

    fn push(&mut self, object: &Arc<Object>) {
        self.bytes += object.bytes();
        self.objects.push_back(Arc::downgrade(object));
    }

    /// The oldest object that is still stored.
    fn pop(&mut self) -> Option<Arc<Object>> {
        while let Some(object) = self.objects.pop_front() {
            match object.upgrade().filter(|object| object.state() != State::Gone) {
                Some(object) => {
                    self.bytes -= object.bytes().min(self.bytes);
                    return Some(object);
                }
                None => self.gone = self.gone.saturating_sub(1),
            }
        }
        self.gone = 0;
        None
    }

    /// Records that an object of this many bytes in the queue was removed.
    fn forget(&mut self, bytes: u64) {
        self.bytes -= bytes.min(self.bytes);
        self.gone += 1;
        if self.gone > self.objects.len() / 4 + 16 {
            let stays =
                |object: &Weak<Object>| object.upgrade().is_some_and(|object| object.state() != State::Gone);
            self.objects.retain(stays);
            self.gone = 0;
        }
    }
}

/// The keys that were recently evicted from the small queue, or not admitted: fingerprints in a table in
/// which a newer one replaces an older one.
#[derive(Default)]
struct Ghosts {
    fingerprints: Box<[u32]>,
}

impl Ghosts {
    fn place(&self, hash: u64) -> Option<(usize, u32)> {
        let places = self.fingerprints.len();
        // 0 is an empty slot.
        (places > 0).then(|| ((hash as usize) & (places - 1), ((hash >> 32) as u32).max(1)))
    }

    fn contains(&self, hash: u64) -> bool {
        self.place(hash).is_some_and(|(place, fingerprint)| self.fingerprints[place] == fingerprint)
    }

    fn take(&mut self, hash: u64) -> bool {
        let is_there = self.contains(hash);
        if is_there && let Some((place, _)) = self.place(hash) {
            self.fingerprints[place] = 0;
        }
        is_there
    }

    /// `objects` is the number of stored objects, which is also the useful number of ghosts.
    fn insert(&mut self, hash: u64, objects: usize) {
        let wanted = objects.next_power_of_two().max(64);
        if self.fingerprints.len() < wanted {
            // The slot of a fingerprint in the larger table is not determined by it alone: it is copied to
            // every possible slot.
            let kept = std::mem::take(&mut self.fingerprints);
            let grown = (0..wanted).map(|place| match kept.len() {
                0 => 0,
                length => kept[place & (length - 1)],
            });
            self.fingerprints = grown.collect();
        }
        if let Some((place, fingerprint)) = self.place(hash) {
            self.fingerprints[place] = fingerprint;
        }
    }
}
