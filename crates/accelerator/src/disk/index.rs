//! Where which response is, and what has been purged since it was written.
//!
//! Everything that is given to the disk gets a *ticket*, a number that only grows and is part of its record.
//! A purge takes what has a lower ticket than its own: so it holds for what is written, for what waits to be
//! written, and after a restart.
//!
//! Until a process has locked the directory it does not know the tickets in it, and the process before may
//! still give out others. So an index begins *closed*, and its tickets are provisional. When it takes up what
//! was found, they are raised above all tickets that were found.

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

/// A ticket as it was given: [`Index::current`] says what it is now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ticket {
    number: u64,
    /// By how much tickets had been raised by then.
    raised_by: u64,
}

struct Entry {
    hash: u64,
    selector_sum: u32,
    /// It was read since it was written.
    is_used: bool,
    place: Place,
}

/// So many replaced responses are remembered while the index is closed.
const MOST_REPLACED: usize = 1 << 20;

/// Where everything is.
#[derive(Default)]
pub struct Index {
    entries: HashTable<Entry>,
    segments: Vec<Arc<Segment>>,
    purges: Purges,
    last_ticket: u64,
    /// By how much tickets were raised so far.
    raised_by: u64,
    /// The entries found in the directory are in use.
    is_open: bool,
    /// The last ticket from before the index was closed.
    closed_at: u64,
    /// The hashes and the sums of the selectors of responses that came while the index was closed and were
    /// not written: older ones may be found.
    replaced: Vec<(u64, u32)>,
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

    /// Raises the tickets of all of them.
    fn raise(&mut self, by: u64) {
        if self.all > 0 {
            self.all += by;
        }
        let groups = self.groups.values_mut().flat_map(HashMap::values_mut);
        let lasts = self.keys.values_mut().chain(self.tags.values_mut()).chain(groups);
        lasts.chain(self.others.iter_mut().map(|(_, last)| last)).for_each(|last| *last += by);
    }

    /// Adds those that were found in the directory. They were applied to what was found with them, and what
    /// waits is newer than they are: those by key have nothing left to do.
    fn merge(&mut self, found: Purges) {
        self.all = self.all.max(found.all);
        for (tag, ticket) in found.tags {
            let last = self.tags.entry(tag).or_default();
            *last = ticket.max(*last);
        }
        for (origin, names) in found.groups {
            let of_origin = self.groups.entry(origin).or_default();
            for (name, ticket) in names {
                let last = of_origin.entry(name).or_default();
                *last = ticket.max(*last);
            }
        }
        found.others.iter().for_each(|(purge, ticket)| self.add(purge, *ticket));
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
    pub fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket { number: self.last_ticket, raised_by: self.raised_by }
    }

    /// What a ticket is by now.
    pub fn current(&self, ticket: Ticket) -> u64 {
        ticket.number + (self.raised_by - ticket.raised_by)
    }

    /// Raises all tickets that this process has given.
    fn raise(&mut self, by: u64) {
        self.raised_by += by;
        self.last_ticket += by;
        self.last_unlisted += by;
        self.purges.raise(by);
    }

    /// Takes up what was found in the directory: `found` is an index of it alone. What this process has given
    /// a ticket to since the index was closed came later than all of it, and so has what still waits: all of
    /// that has higher tickets than `reached`.
    pub fn open(&mut self, found: Index, reached: Ticket) {
        let reached = self.current(reached);
        self.raise(found.last_ticket.saturating_sub(reached.min(self.closed_at)));
        self.last_ticket = self.last_ticket.max(found.last_ticket);
        (self.entries, self.segments) = (found.entries, found.segments);
        self.purges.merge(found.purges);
        self.is_open = true;
        if self.replaced.len() >= MOST_REPLACED {
            // Others were not remembered.
            self.entries.clear();
            self.last_unlisted = self.last_unlisted.max(found.last_ticket);
        }
        for (hash, selector_sum) in std::mem::take(&mut self.replaced) {
            self.remove_replaced(hash, selector_sum);
        }
    }

    /// The directory was removed, or is used by another process now: nothing of it is known any more.
    pub fn close(&mut self) {
        self.entries.clear();
        self.segments.clear();
        self.is_open = false;
        self.closed_at = self.last_ticket;
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
        if !self.is_open {
            if self.replaced.len() < MOST_REPLACED {
                self.replaced.push((hash, selector_sum));
            }
            return;
        }
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

    /// A file goes, with all that is in it. All that waits to be written is behind the ticket `reached`.
    pub fn remove_segment(&mut self, segment: &Arc<Segment>, reached: u64) {
        self.entries.retain(|entry| !Arc::ptr_eq(&entry.place.segment, segment));
        self.segments.retain(|other| !Arc::ptr_eq(other, segment));
        // Purges that are older than everything that is there have nothing left to do.
        let oldest = self.oldest_ticket().min(reached);
        self.purges.tags.retain(|_, last| *last > oldest);
        self.purges.others.retain(|(_, last)| *last > oldest);
        self.purges.groups.retain(|_, of_origin| {
            of_origin.retain(|_, last| *last > oldest);
            !of_origin.is_empty()
        });
    }
}
