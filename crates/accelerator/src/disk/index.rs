//! Where which response is, and what has been purged since it was written.
//!
//! Everything that is given to the disk gets a *ticket*, a number that only grows and is part of its record.
//! A purge takes what has a lower ticket than its own: so it holds for what is written, for what waits to be
//! written, and after a restart.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::segment::Segment;
use crate::rules::groups::of_response;
use crate::rules::key::origin;
use crate::store::{Purge, hash_of, tags};

/// Where a record is.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file.
    pub segment: Arc<Segment>,
    /// Where it begins there.
    pub offset: u64,
    /// Its length.
    pub length: u32,
    /// When it was given.
    pub ticket: u64,
}

struct Entry {
    hash: u64,
    selector_sum: u32,
    /// It was read since it was written.
    is_used: bool,
    place: Place,
}

/// Where everything is.
#[derive(Default)]
pub struct Index {
    entries: HashTable<Entry>,
    segments: Vec<Arc<Segment>>,
    purges: Purges,
    last_ticket: u64,
    /// The highest ticket of the records that were taken out of the index, and may be on disk still: another
    /// process would find them.
    last_unlisted: u64,
}

/// What has been purged, each with the ticket of the last time.
#[derive(Default)]
struct Purges {
    all: u64,
    /// By the hash of the key: what is written is taken out of the index at once, so these are for what
    /// waits.
    keys: HashMap<u64, u64>,
    tags: HashMap<Vec<u8>, u64>,
    /// By the origin, and then by the name.
    groups: HashMap<Vec<u8>, HashMap<Vec<u8>, u64>>,
    /// Prefixes, paths and spaces.
    others: Vec<(Purge, u64)>,
}

impl Purges {
    fn add(&mut self, purge: &Purge, ticket: u64) {
        match purge {
            Purge::All => self.all = self.all.max(ticket),
            Purge::Key(key) => {
                let last = self.keys.entry(hash_of(key)).or_default();
                *last = ticket.max(*last);
            }
            Purge::Tag(tag) => {
                let last = self.tags.entry(tag.clone()).or_default();
                *last = ticket.max(*last);
            }
            Purge::Group { origin, name } => {
                let of_origin = self.groups.entry(origin.clone()).or_default();
                let last = of_origin.entry(name.clone()).or_default();
                *last = ticket.max(*last);
            }
            other => match self.others.iter_mut().find(|(known, _)| known == other) {
                Some((_, last)) => *last = ticket.max(*last),
                None => self.others.push((other.clone(), ticket)),
            },
        }
    }

    fn take(&self, ticket: u64, hash: u64, key: &[u8], fields: &[u8]) -> bool {
        self.take_by_key(ticket, hash)
            || (!self.tags.is_empty()
                && tags(fields).any(|tag| self.tags.get(tag).is_some_and(|last| *last > ticket)))
            || self.take_by_group(ticket, key, fields)
            || self.others.iter().any(|(purge, last)| *last > ticket && purge.matches(key, fields))
    }

    fn take_by_group(&self, ticket: u64, key: &[u8], fields: &[u8]) -> bool {
        let of_origin = if self.groups.is_empty() { None } else { self.groups.get(origin(key)) };
        of_origin.is_some_and(|groups| {
            of_response(fields).iter().any(|name| groups.get(name).is_some_and(|last| *last > ticket))
        })
    }

    fn take_by_key(&self, ticket: u64, hash: u64) -> bool {
        self.all > ticket || self.keys.get(&hash).is_some_and(|last| *last > ticket)
    }
}

impl Index {
    /// How many responses there are.
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

    /// The next ticket.
    pub fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// A ticket was found on disk.
    pub fn note_ticket(&mut self, ticket: u64) {
        self.last_ticket = self.last_ticket.max(ticket);
    }

    /// How many responses there are with this hash.
    pub fn count(&self, hash: u64) -> usize {
        self.entries.iter_hash(hash).filter(|entry| entry.hash == hash).count()
    }

    /// Where they are.
    pub fn places(&self, hash: u64) -> Vec<Place> {
        let found = self.entries.iter_hash(hash).filter(|entry| entry.hash == hash);
        found.map(|entry| entry.place.clone()).collect()
    }

    /// A response was read.
    pub fn mark_used(&mut self, hash: u64, place: &Place) {
        if let Some(entry) = self.entries.find_mut(hash, |entry| entry.place.ticket == place.ticket) {
            entry.is_used = true;
        }
    }

    /// A response is not what it should be; `false`: it had gone already.
    pub fn remove_place(&mut self, hash: u64, place: &Place) -> bool {
        self.last_unlisted = self.last_unlisted.max(place.ticket);
        self.remove(hash, |entry| entry.place.ticket == place.ticket)
    }

    /// A newer response has come that is not written: the older is not given any more.
    pub fn remove_replaced(&mut self, hash: u64, selector_sum: u32) {
        let is_it = |entry: &&Entry| entry.hash == hash && entry.selector_sum == selector_sum;
        if let Some(entry) = self.entries.iter_hash(hash).find(is_it) {
            self.last_unlisted = self.last_unlisted.max(entry.place.ticket);
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

    /// A response is written, or was found, and takes the place of an older one that the same requests
    /// select; unless it was purged by its key since.
    pub fn insert(&mut self, hash: u64, selector_sum: u32, place: Place) {
        if self.purges.take_by_key(place.ticket, hash) {
            return;
        }
        let is_same = |entry: &Entry| entry.hash == hash && entry.selector_sum == selector_sum;
        if let Ok(entry) = self.entries.find_entry(hash, is_same) {
            if entry.get().place.ticket > place.ticket {
                return;
            }
            entry.remove();
        }
        let entry = Entry { hash, selector_sum, is_used: false, place };
        self.entries.insert_unique(hash, entry, |entry| entry.hash);
    }

    /// Takes out what a purge is for, as far as that is known without reading; the rest is found out when it
    /// is read. Gives whether there can be anything on disk that it is for.
    pub fn purge(&mut self, purge: &Purge, ticket: u64) -> bool {
        self.note_ticket(ticket);
        self.purges.add(purge, ticket);
        match purge {
            Purge::Key(key) => {
                let hash = hash_of(key);
                let mut was_there = self.oldest_ticket() <= self.last_unlisted;
                while self.remove(hash, |entry| entry.place.ticket < ticket) {
                    was_there = true;
                }
                was_there
            }
            Purge::All => {
                self.entries.clear();
                true
            }
            _ => true,
        }
    }

    /// Whether a response that was given with this ticket has been purged since.
    pub fn is_purged(&self, ticket: u64, hash: u64, key: &[u8], fields: &[u8]) -> bool {
        self.purges.take(ticket, hash, key, fields)
    }

    /// Everything that was given before this ticket is written or forgotten: purges by key have nothing left
    /// to wait for.
    pub fn forget_key_purges(&mut self, before: u64) {
        self.purges.keys.retain(|_, last| *last >= before);
    }

    /// The lowest ticket of what may be on disk.
    pub fn oldest_ticket(&self) -> u64 {
        self.segments.iter().map(|segment| segment.first_ticket()).min().unwrap_or(u64::MAX)
    }

    /// A file was begun or found.
    pub fn add_segment(&mut self, segment: Arc<Segment>) {
        self.segments.push(segment);
    }

    /// All files are gone, and what was in them.
    pub fn forget_segments(&mut self) {
        self.entries.clear();
        self.segments.clear();
    }

    /// The oldest file.
    pub fn oldest(&self) -> Option<Arc<Segment>> {
        self.segments.first().cloned()
    }

    /// How many files there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Where the responses of a file are that were read since they were written, up to so many bytes.
    pub fn used_in(&self, segment: &Arc<Segment>, most_bytes: u64) -> Vec<(u64, u32, Place)> {
        let is_used = |entry: &&Entry| entry.is_used && Arc::ptr_eq(&entry.place.segment, segment);
        let used = self.entries.iter().filter(is_used);
        let mut used: Vec<_> =
            used.map(|entry| (entry.hash, entry.selector_sum, entry.place.clone())).collect();
        // As they lie in the file.
        used.sort_unstable_by_key(|(_, _, place)| place.offset);
        let mut bytes = 0;
        used.into_iter()
            .take_while(|(_, _, place)| {
                bytes += u64::from(place.length);
                bytes <= most_bytes
            })
            .collect()
    }

    /// A file goes, with all that is in it. `first_waiting`: the lowest ticket of what waits to be written.
    pub fn remove_segment(&mut self, segment: &Arc<Segment>, first_waiting: u64) {
        self.entries.retain(|entry| !Arc::ptr_eq(&entry.place.segment, segment));
        self.segments.retain(|other| !Arc::ptr_eq(other, segment));
        // Purges that are older than everything that is there have nothing left to do.
        let oldest = self.oldest_ticket().min(first_waiting);
        self.purges.tags.retain(|_, last| *last > oldest);
        self.purges.others.retain(|(_, last)| *last > oldest);
        self.purges.groups.retain(|_, of_origin| {
            of_origin.retain(|_, last| *last > oldest);
            !of_origin.is_empty()
        });
    }
}
