//! The index: the position of each response on disk, and the purges since it was written.
//!
//! Every response and purge that is passed to the disk gets a sequence number, a number that only grows and
//! is part of its record. A purge applies to responses with lower sequence numbers than its own: those that
//! are written, those that wait to be written, and also after a restart.
//!
//! Before a process has locked the directory it does not know the sequence numbers in it, and the previous
//! process may still issue others. So an index begins *closed*, and its sequence numbers are provisional.
//! When it adopts the contents of the directory, its own sequence numbers are raised above all sequence
//! numbers found there.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::segment::Segment;
use crate::rules::groups::of_response;
use crate::rules::key::origin;
use crate::store::{PurgeScope, hash_of, tags};

/// The position of a record.
#[derive(Debug, Clone)]
pub struct RecordPosition {
    /// The file.
    pub segment: Arc<Segment>,
    /// Its offset in the file.
    pub offset: u64,
    /// Its length.
    pub length: u32,
    /// Its sequence number.
    pub sequence: u64,
}

/// A sequence number as it was issued: [`Index::current`] returns its present value.
#[derive(Debug, Clone, Copy, Default)]
pub struct SequenceNumber {
    number: u64,
    /// The amount by which sequence numbers had been raised at that time.
    raised_by: u64,
}

struct Entry {
    hash: u64,
    selector_sum: u32,
    /// Whether it was read since it was written.
    is_used: bool,
    place: RecordPosition,
}

/// The maximum number of replaced responses that are remembered while the index is closed.
const MOST_REPLACED: usize = 1 << 20;

/// The positions of all responses.
#[derive(Default)]
pub struct Index {
    entries: HashTable<Entry>,
    segments: Vec<Arc<Segment>>,
    purges: Purges,
    last_sequence: u64,
    /// The total amount by which sequence numbers have been raised.
    raised_by: u64,
    /// The entries found in the directory are in use.
    is_open: bool,
    /// The last sequence number from before the index was closed.
    closed_at: u64,
    /// The hashes and selector sums of responses that arrived while the index was closed and were not
    /// written: older versions may be found on disk.
    replaced: Vec<(u64, u32)>,
    /// The highest sequence number of the records that were removed from the index, and may still be on disk:
    /// another process would find them.
    last_unlisted: u64,
}

/// The purges, each with its last sequence number.
#[derive(Default)]
struct Purges {
    all: u64,
    /// By the hash of the key. Written responses are removed from the index at once, so these apply only to
    /// responses that wait.
    keys: HashMap<u64, u64>,
    tags: HashMap<Vec<u8>, u64>,
    /// By the origin, then by the name.
    groups: HashMap<Vec<u8>, HashMap<Vec<u8>, u64>>,
    /// Prefixes, paths and spaces.
    others: Vec<(PurgeScope, u64)>,
}

impl Purges {
    fn add(&mut self, purge: &PurgeScope, sequence: u64) {
        match purge {
            PurgeScope::All => self.all = self.all.max(sequence),
            PurgeScope::Key(key) => {
                let last = self.keys.entry(hash_of(key)).or_default();
                *last = sequence.max(*last);
            }
            PurgeScope::Tag(tag) => {
                let last = self.tags.entry(tag.clone()).or_default();
                *last = sequence.max(*last);
            }
            PurgeScope::Group { origin, name } => {
                let of_origin = self.groups.entry(origin.clone()).or_default();
                let last = of_origin.entry(name.clone()).or_default();
                *last = sequence.max(*last);
            }
            other => match self.others.iter_mut().find(|(known, _)| known == other) {
                Some((_, last)) => *last = sequence.max(*last),
                None => self.others.push((other.clone(), sequence)),
            },
        }
    }

    /// Raises the sequence numbers of all purges.
    fn raise(&mut self, by: u64) {
        if self.all > 0 {
            self.all += by;
        }
        let groups = self.groups.values_mut().flat_map(HashMap::values_mut);
        let lasts = self.keys.values_mut().chain(self.tags.values_mut()).chain(groups);
        lasts.chain(self.others.iter_mut().map(|(_, last)| last)).for_each(|last| *last += by);
    }

    /// Adds the purges that were found in the directory. They have been applied to the contents found with
    /// them, and waiting responses are newer: purges by key are no longer needed.
    fn merge(&mut self, found: Purges) {
        self.all = self.all.max(found.all);
        for (tag, sequence) in found.tags {
            let last = self.tags.entry(tag).or_default();
            *last = sequence.max(*last);
        }
        for (origin, names) in found.groups {
            let of_origin = self.groups.entry(origin).or_default();
            for (name, sequence) in names {
                let last = of_origin.entry(name).or_default();
                *last = sequence.max(*last);
            }
        }
        found.others.iter().for_each(|(purge, sequence)| self.add(purge, *sequence));
    }

    fn take(&self, sequence: u64, hash: u64, key: &[u8], fields: &[u8]) -> bool {
        self.take_by_key(sequence, hash)
            || (!self.tags.is_empty()
                && tags(fields).any(|tag| self.tags.get(tag).is_some_and(|last| *last > sequence)))
            || self.take_by_group(sequence, key, fields)
            || self.others.iter().any(|(purge, last)| *last > sequence && purge.matches(key, fields))
    }

    fn take_by_group(&self, sequence: u64, key: &[u8], fields: &[u8]) -> bool {
        let of_origin = if self.groups.is_empty() { None } else { self.groups.get(origin(key)) };
        of_origin.is_some_and(|groups| {
            of_response(fields).iter().any(|name| groups.get(name).is_some_and(|last| *last > sequence))
        })
    }

    fn take_by_key(&self, sequence: u64, hash: u64) -> bool {
        self.all > sequence || self.keys.get(&hash).is_some_and(|last| *last > sequence)
    }
}

impl Index {
    /// The number of responses.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// All files.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.clone()
    }

    /// The length of all files.
    pub fn bytes_on_disk(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length()).sum()
    }

    /// The next sequence number.
    pub fn next_sequence(&mut self) -> SequenceNumber {
        self.last_sequence += 1;
        SequenceNumber { number: self.last_sequence, raised_by: self.raised_by }
    }

    /// The present value of a sequence number.
    pub fn current(&self, sequence: SequenceNumber) -> u64 {
        sequence.number + (self.raised_by - sequence.raised_by)
    }

    /// Raises all sequence numbers that this process has issued.
    fn raise(&mut self, by: u64) {
        self.raised_by += by;
        self.last_sequence += by;
        self.last_unlisted += by;
        self.purges.raise(by);
    }

    /// Adopts the contents of the directory: `found` is an index of them alone. Everything to which this
    /// process has given a sequence number since the index was closed is newer, and so is everything that
    /// still waits: its sequence numbers are raised above `reached`.
    pub fn open(&mut self, found: Index, reached: SequenceNumber) {
        let reached = self.current(reached);
        self.raise(found.last_sequence.saturating_sub(reached.min(self.closed_at)));
        self.last_sequence = self.last_sequence.max(found.last_sequence);
        (self.entries, self.segments) = (found.entries, found.segments);
        self.purges.merge(found.purges);
        self.is_open = true;
        if self.replaced.len() >= MOST_REPLACED {
            // Other replaced responses were not remembered.
            self.entries.clear();
            self.last_unlisted = self.last_unlisted.max(found.last_sequence);
        }
        for (hash, selector_sum) in std::mem::take(&mut self.replaced) {
            self.remove_replaced(hash, selector_sum);
        }
    }

    /// Forgets all contents: the directory was removed, or another process uses it now.
    pub fn close(&mut self) {
        self.entries.clear();
        self.segments.clear();
        self.is_open = false;
        self.closed_at = self.last_sequence;
    }

    /// Records a sequence number that was found on disk.
    pub fn note_sequence(&mut self, sequence: u64) {
        self.last_sequence = self.last_sequence.max(sequence);
    }

    /// The number of responses with this hash.
    pub fn count(&self, hash: u64) -> usize {
        self.entries.iter_hash(hash).filter(|entry| entry.hash == hash).count()
    }

    /// Their positions.
    pub fn places(&self, hash: u64) -> Vec<RecordPosition> {
        let found = self.entries.iter_hash(hash).filter(|entry| entry.hash == hash);
        found.map(|entry| entry.place.clone()).collect()
    }

    /// Records that a response was read.
    pub fn mark_used(&mut self, hash: u64, place: &RecordPosition) {
        if let Some(entry) = self.entries.find_mut(hash, |entry| entry.place.sequence == place.sequence) {
            entry.is_used = true;
        }
    }

    /// Removes a response that is damaged; `false`: it had been removed already.
    pub fn remove_place(&mut self, hash: u64, place: &RecordPosition) -> bool {
        self.last_unlisted = self.last_unlisted.max(place.sequence);
        self.remove(hash, |entry| entry.place.sequence == place.sequence)
    }

    /// Removes an older response, because a newer one has arrived that is not written.
    pub fn remove_replaced(&mut self, hash: u64, selector_sum: u32) {
        if !self.is_open {
            if self.replaced.len() < MOST_REPLACED {
                self.replaced.push((hash, selector_sum));
            }
            return;
        }
        let is_it = |entry: &&Entry| entry.hash == hash && entry.selector_sum == selector_sum;
        if let Some(entry) = self.entries.iter_hash(hash).find(is_it) {
            self.last_unlisted = self.last_unlisted.max(entry.place.sequence);
        }
        self.remove(hash, |entry| entry.selector_sum == selector_sum);
    }

    fn remove(&mut self, hash: u64, is_it: impl Fn(&Entry) -> bool) -> bool {
        match self.entries.find_entry(hash, |entry| entry.hash == hash && is_it(entry)) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Adds a response that was written or found, in place of an older one that the same requests select;
    /// unless a later purge by key applies to it.
    pub fn insert(&mut self, hash: u64, selector_sum: u32, place: RecordPosition) {
        if self.purges.take_by_key(place.sequence, hash) {
            self.last_unlisted = self.last_unlisted.max(place.sequence);
            return;
        }
        let is_same = |entry: &Entry| entry.hash == hash && entry.selector_sum == selector_sum;
        if let Ok(entry) = self.entries.find_entry(hash, is_same) {
            if entry.get().place.sequence > place.sequence {
                return;
            }
            entry.remove();
        }
        let entry = Entry { hash, selector_sum, is_used: false, place };
        self.entries.insert_unique(hash, entry, |entry| entry.hash);
    }

    /// Removes the responses to which a purge applies, as far as the index shows it; the rest is checked when
    /// a response is read. Returns whether the purge can apply to anything on disk.
    pub fn purge(&mut self, purge: &PurgeScope, sequence: u64) -> bool {
        self.note_sequence(sequence);
        self.purges.add(purge, sequence);
        match purge {
            PurgeScope::Key(key) => {
                let hash = hash_of(key);
                let mut was_there = self.oldest_sequence() <= self.last_unlisted;
                while self.remove(hash, |entry| entry.place.sequence < sequence) {
                    was_there = true;
                }
                was_there
            }
            PurgeScope::All => {
                self.entries.clear();
                true
            }
            _ => true,
        }
    }

    /// Whether a later purge applies to a response with this sequence number.
    pub fn is_purged(&self, sequence: u64, hash: u64, key: &[u8], fields: &[u8]) -> bool {
        self.purges.take(sequence, hash, key, fields)
    }

    /// Called when every response with a sequence number below this one is written or dropped: purges by key
    /// then apply to no waiting response.
    pub fn forget_key_purges(&mut self, before: u64) {
        self.purges.keys.retain(|_, last| *last >= before);
    }

    /// The lowest sequence number that may be on disk.
    pub fn oldest_sequence(&self) -> u64 {
        self.segments.iter().map(|segment| segment.first_sequence()).min().unwrap_or(u64::MAX)
    }

    /// Adds a file that was begun or found.
    pub fn add_segment(&mut self, segment: Arc<Segment>) {
        self.segments.push(segment);
    }

    /// The oldest file.
    pub fn oldest(&self) -> Option<Arc<Segment>> {
        self.segments.first().cloned()
    }

    /// The number of files.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The positions of a file's responses that were read since they were written, up to this many bytes.
    pub fn used_in(&self, segment: &Arc<Segment>, most_bytes: u64) -> Vec<(u64, u32, RecordPosition)> {
        let is_used = |entry: &&Entry| entry.is_used && Arc::ptr_eq(&entry.place.segment, segment);
        let used = self.entries.iter().filter(is_used);
        let mut used: Vec<_> =
            used.map(|entry| (entry.hash, entry.selector_sum, entry.place.clone())).collect();
        // In their order in the file.
        used.sort_unstable_by_key(|(_, _, place)| place.offset);
        let mut bytes = 0;
        used.into_iter()
            .take_while(|(_, _, place)| {
                bytes += u64::from(place.length);
                bytes <= most_bytes
            })
            .collect()
    }

    /// Removes a file with all its responses. All waiting responses have sequence numbers above `reached`.
    pub fn remove_segment(&mut self, segment: &Arc<Segment>, reached: u64) {
        self.entries.retain(|entry| !Arc::ptr_eq(&entry.place.segment, segment));
        self.segments.retain(|other| !Arc::ptr_eq(other, segment));
        // Purges that are older than all responses are no longer needed.
        let oldest = self.oldest_sequence().min(reached);
        self.purges.tags.retain(|_, last| *last > oldest);
        self.purges.others.retain(|(_, last)| *last > oldest);
        self.purges.groups.retain(|_, of_origin| {
            of_origin.retain(|_, last| *last > oldest);
            !of_origin.is_empty()
        });
    }
}
