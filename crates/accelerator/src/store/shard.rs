//! A part of the store: its table, its queues, and what was evicted lately.
//!
//! S3-FIFO (Yang et al., SOSP 2023): what is new waits in a small queue, a tenth of the bytes; what is used
//! there moves to the main queue, what is not leaves and is remembered as a ghost. A ghost that is asked for
//! again goes to the main queue at once. So a scan over many objects passes through the small queue and moves
//! nothing else.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hashbrown::HashTable;

use super::object::{Object, State};

/// Most responses under one key, for different values of the fields that select one.
const MOST_VARIANTS: usize = 64;

/// The share of the small queue: one part of so many.
const SMALL_PART: u64 = 10;

/// Objects by key, and the order in which they are evicted.
#[derive(Default)]
pub struct Shard {
    table: HashTable<Arc<Object>>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

/// What came of an insertion, in bytes that the shard has more and less.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Bytes that came.
    pub added: u64,
    /// Bytes that went.
    pub removed: u64,
}

impl Shard {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Every object.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.table.iter()
    }

    /// The responses under a key.
    pub fn under<'a>(&'a self, hash: u64, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Object>> {
        self.table.iter_hash(hash).filter(move |object| object.hash == hash && object.key() == key)
    }

    /// Whether it was here, or asked for, lately.
    pub fn is_ghost(&self, hash: u64) -> bool {
        self.ghosts.contains(hash)
    }

    /// Remembers that it was asked for.
    pub fn add_ghost(&mut self, hash: u64) {
        let objects = self.table.len();
        self.ghosts.insert(hash, objects);
    }

    /// Puts an object in, in the place of those that the same requests select.
    pub fn insert(&mut self, object: Arc<Object>) -> Change {
        let mut change = Change { added: object.bytes(), removed: 0 };
        let mut was_in_main = false;
        let same: Vec<Arc<Object>> = self
            .under(object.hash, object.key())
            // What every request selects would stand beside the new one, and no date tells two of one second
            // apart.
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

    /// Takes an object out; gives the bytes that it took.
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

    /// Takes out all for which `goes` says so; gives how many there were, and their bytes.
    pub fn remove_where(&mut self, goes: impl Fn(&Object) -> bool) -> (usize, u64) {
        let gone: Vec<Arc<Object>> = self.table.iter().filter(|object| goes(object)).cloned().collect();
        let bytes = gone.iter().map(|object| self.remove(object)).sum();
        (gone.len(), bytes)
    }

    /// Evicts one object; gives the bytes that it took. `None`: there is none.
    pub fn evict(&mut self) -> Option<u64> {
        // Each step takes an object out of a queue, lowers its count of uses, or moves it once from small to
        // main.
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

    /// Takes an object out of the table that has left its queue.
    fn take_out(&mut self, object: &Arc<Object>) -> u64 {
        if let Ok(entry) = self.table.find_entry(object.hash, |other| Arc::ptr_eq(other, object)) {
            entry.remove();
        }
        object.set_state(State::Gone);
        object.bytes()
    }
}

/// Objects in the order in which they came. Those that have gone elsewhere leave when they are met, or when
/// there are too many of them; they hold no more than their own memory meanwhile.
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

    /// The oldest that is still there.
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

    /// An object of so many bytes in it has gone.
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

/// What was evicted from the small queue lately, or not let in: fingerprints in a table in which a newer one
/// takes an older one's place.
#[derive(Default)]
struct Ghosts {
    fingerprints: Box<[u32]>,
}

impl Ghosts {
    fn place(&self, hash: u64) -> Option<(usize, u32)> {
        let places = self.fingerprints.len();
        // 0 stands for an empty place.
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

    /// `objects`: how many there are beside them, which is how many are worth remembering.
    fn insert(&mut self, hash: u64, objects: usize) {
        let wanted = objects.next_power_of_two().max(64);
        if self.fingerprints.len() < wanted {
            // Where a fingerprint belongs in the larger table is not known from it alone: it is put in every
            // such place.
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
