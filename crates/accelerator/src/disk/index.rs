//! Which records there are: a table in memory, in parts with a lock each. What it takes is bounded by the number of entries.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use hashbrown::HashTable;

use super::entry::Entry;
use crate::store::lock;

/// What an entry takes in memory, at the most: 48 bytes and one of the table's own, in a table that has just grown and is
/// seven sixteenths full.
pub const PLACE_BYTES: u64 = 112;

/// So many parts, each locked by itself; enough that going through one delays nobody.
const PARTS: usize = 256;

/// Most responses under one hash.
const MOST_VARIANTS: usize = 64;

/// An entry and where it is.
#[derive(Debug)]
pub struct Place {
    /// The entry.
    pub entry: Entry,
    /// The segment.
    pub segment: u32,
    /// Its position in the segment's index.
    pub number: u32,
    /// It was asked for since it was written.
    is_used: AtomicBool,
}

impl Place {
    /// A place that nobody has asked for.
    pub fn new(entry: Entry, segment: u32, number: u32) -> Place {
        Place { entry, segment, number, is_used: AtomicBool::new(false) }
    }

    /// Whether it was asked for since it was written.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    /// Whether both are the same place.
    pub fn is_at(&self, other: &Place) -> bool {
        (self.segment, self.number) == (other.segment, other.number)
    }
}

impl Clone for Place {
    fn clone(&self) -> Place {
        Place { is_used: AtomicBool::new(self.is_used()), ..*self }
    }
}

/// The table.
pub struct Index {
    parts: Box<[Mutex<HashTable<Place>>]>,
    count: AtomicUsize,
}

impl Index {
    /// An empty one.
    pub fn new() -> Index {
        Index { parts: (0..PARTS).map(|_| Mutex::default()).collect(), count: AtomicUsize::new(0) }
    }

    /// Takes out all of them.
    pub fn clear(&self) {
        self.parts.iter().for_each(|part| lock(part).clear());
        self.count.store(0, Relaxed);
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether there is an entry with this hash.
    pub fn has(&self, hash: u64) -> bool {
        lock(self.part(hash)).find(hash, |place| place.entry.hash == hash).is_some()
    }

    /// The entries with this hash; they count as used from now on.
    pub fn under(&self, hash: u64) -> Vec<Place> {
        let part = lock(self.part(hash));
        let places = part.iter_hash(hash).filter(|place| place.entry.hash == hash);
        places.inspect(|place| place.is_used.store(true, Relaxed)).cloned().collect()
    }

    /// Whether this entry is still there.
    pub fn contains(&self, place: &Place) -> bool {
        lock(self.part(place.entry.hash)).find(place.entry.hash, |other| other.is_at(place)).is_some()
    }

    /// Whether there is a later one of the same selector.
    pub fn has_newer(&self, entry: &Entry) -> bool {
        let is_newer = |place: &Place| {
            (place.entry.hash, place.entry.selector) == (entry.hash, entry.selector)
                && place.entry.sequence > entry.sequence
        };
        lock(self.part(entry.hash)).find(entry.hash, is_newer).is_some()
    }

    /// Adds an entry; gives those that have to make room for it: of the same selector, and of too many variants.
    pub fn insert(&self, place: Place) -> Vec<Place> {
        let hash = place.entry.hash;
        let mut gone = self.take(hash, Some(place.entry.selector));
        let mut part = lock(self.part(hash));
        let variants: Vec<&Place> = part.iter_hash(hash).filter(|other| other.entry.hash == hash).collect();
        if variants.len() >= MOST_VARIANTS {
            let oldest = variants.into_iter().min_by_key(|other| other.entry.sequence).cloned();
            if let Some(oldest) = oldest {
                gone.extend(self.remove_from(&mut part, &oldest));
            }
        }
        part.insert_unique(hash, place, |place| place.entry.hash);
        self.count.fetch_add(1, Relaxed);
        gone
    }

    /// Takes out the entries with this hash, or those of them with this selector.
    pub fn take(&self, hash: u64, selector: Option<u32>) -> Vec<Place> {
        let mut part = lock(self.part(hash));
        let is_it = |place: &Place| {
            place.entry.hash == hash && selector.is_none_or(|selector| place.entry.selector == selector)
        };
        let mut gone = Vec::new();
        while let Ok(found) = part.find_entry(hash, is_it) {
            gone.push(found.remove().0);
            self.count.fetch_sub(1, Relaxed);
        }
        gone
    }

    /// Takes out this entry, if it is still there.
    pub fn remove(&self, place: &Place) -> Option<Place> {
        self.remove_from(&mut lock(self.part(place.entry.hash)), place)
    }

    /// Takes out all entries of a segment; gives those that were used.
    pub fn remove_segment(&self, segment: u32) -> Vec<Place> {
        let mut used = Vec::new();
        for part in &self.parts {
            let mut part = lock(part);
            let before = part.len();
            part.retain(|place| {
                if place.segment == segment && place.is_used() {
                    used.push(place.clone());
                }
                place.segment != segment
            });
            self.count.fetch_sub(before - part.len(), Relaxed);
        }
        used
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// All entries of a part.
    pub fn part_of(&self, part: usize) -> Vec<Place> {
        self.parts.get(part).map_or_else(Vec::new, |part| lock(part).iter().cloned().collect())
    }

    fn remove_from(&self, part: &mut HashTable<Place>, place: &Place) -> Option<Place> {
        let found = part.find_entry(place.entry.hash, |other| other.is_at(place)).ok()?;
        self.count.fetch_sub(1, Relaxed);
        Some(found.remove().0)
    }

    fn part(&self, hash: u64) -> &Mutex<HashTable<Place>> {
        // Not the bits that a table goes by.
        &self.parts[(hash >> 44) as usize % PARTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(hash: u64, selector: u32, segment: u32, number: u32) -> Place {
        let entry = Entry { hash, sequence: u64::from(number), offset: 0, length: 0, selector };
        Place::new(entry, segment, number)
    }

    fn numbers(places: &[Place]) -> Vec<u32> {
        let mut numbers: Vec<u32> = places.iter().map(|place| place.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn entries_by_hash_and_selector() {
        let index = Index::new();
        assert!(index.insert(place(1, 1, 0, 0)).is_empty());
        assert!(index.insert(place(1, 2, 0, 1)).is_empty());
        assert!(index.insert(place(2, 1, 0, 2)).is_empty());
        assert_eq!(numbers(&index.insert(place(1, 1, 1, 3))), [0]);
        assert_eq!((numbers(&index.under(1)), index.count()), (vec![1, 3], 3));
        assert!(index.has(2) && !index.has(3));
        assert_eq!(numbers(&index.take(1, Some(2))), [1]);
        assert_eq!(numbers(&index.take(1, None)), [3]);
        assert_eq!(index.count(), 1);
    }

    #[test]
    fn a_segment_leaves_and_says_what_of_it_was_used() {
        let index = Index::new();
        for number in 0..100 {
            index.insert(place(number.into(), 0, number % 2, number));
        }
        index.under(4);
        index.under(5);
        assert_eq!(numbers(&index.remove_segment(0)), [4]);
        assert_eq!((index.count(), index.has(4), index.has(5)), (50, false, true));
    }

    #[test]
    fn variants_are_bounded() {
        let index = Index::new();
        for number in 0..1000 {
            index.insert(place(9, number, 0, number));
        }
        assert_eq!(index.under(9).len(), MOST_VARIANTS);
        assert!(numbers(&index.under(9)).contains(&999));
    }

    #[test]
    fn a_place_takes_what_is_said() {
        assert!((size_of::<Place>() as u64 + 1) * 16 / 7 <= PLACE_BYTES);
    }
}
