//! What the writer has to do, and what has been forgotten or replaced while it waits to be written.
//!
//! Cancelling goes before writing. So a response may be forgotten while an older order to keep it still waits: that order
//! must not bring it back, and whoever writes asks here first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::index::Place;
use super::purges::Remembered;
use crate::store::Object;

/// More is not remembered one by one, which only happens while the storage is not open.
const MOST_FORGOTTEN: usize = 1 << 18;

/// What comes before everything that is to be written.
#[derive(Debug)]
pub enum Urgent {
    /// These entries count no longer.
    Cancel(Vec<Place>),
    /// This purge is to be written down.
    Purge(Remembered),
}

/// A response that waits to be written.
#[derive(Debug, Clone)]
pub struct Keep {
    /// The order in which it was asked for.
    pub sequence: u64,
    /// A hash of which requests select it.
    pub selector: u32,
    /// The response.
    pub object: Arc<Object>,
}

/// What the writer has to do.
#[derive(Debug, Default)]
pub struct Queue {
    /// What waits to be written.
    pub keeps: VecDeque<Keep>,
    keep_bytes: u64,
    urgent: Vec<Urgent>,
    /// How much that is urgent there was, and how much of it is done.
    pub urgent_given: u64,
    /// How much of it is done.
    pub urgent_done: u64,
    /// What was there has been found.
    pub is_loaded: bool,
    /// The writer writes a response, or makes room for one.
    pub is_writing: bool,
    /// The storage is being closed: until when the writer may write.
    pub closing: Option<Instant>,
    /// Hashes that were forgotten, with the order of that.
    forgotten: FxHashMap<u64, u64>,
    /// What was asked for before this was forgotten.
    all_forgotten: u64,
    /// The last order to keep, by hash and selector.
    latest: FxHashMap<(u64, u32), u64>,
}

impl Queue {
    /// Adds something urgent.
    pub fn add_urgent(&mut self, urgent: Urgent) {
        self.urgent.push(urgent);
        self.urgent_given += 1;
    }

    /// Has entries cancelled.
    pub fn cancel(&mut self, places: Vec<Place>) {
        if !places.is_empty() {
            self.add_urgent(Urgent::Cancel(places));
        }
    }

    /// Has a response written; `false`: too much waits already.
    pub fn keep(&mut self, sequence: u64, selector: u32, object: &Arc<Object>, most_bytes: u64) -> bool {
        let bytes = object.bytes();
        let has_room = self.keep_bytes + bytes <= most_bytes && self.closing.is_none();
        // Even where this one is not written, an older one must not be found instead.
        if has_room || self.has_pending() {
            self.latest.insert((object.hash, selector), sequence);
        }
        if has_room {
            self.keep_bytes += bytes;
            self.keeps.push_back(Keep { sequence, selector, object: object.clone() });
        }
        has_room
    }

    /// Notes that a hash was forgotten.
    pub fn forget(&mut self, hash: u64, sequence: u64) {
        if !self.has_pending() {
            return;
        }
        if self.forgotten.len() >= MOST_FORGOTTEN {
            self.forgotten.clear();
            self.all_forgotten = sequence;
        }
        self.forgotten.insert(hash, sequence);
    }

    /// Whether a response still counts that was asked to be kept then.
    pub fn counts(&self, hash: u64, selector: u32, sequence: u64) -> bool {
        let is_before = |other: Option<&u64>| other.is_some_and(|other| sequence < *other);
        sequence >= self.all_forgotten
            && !is_before(self.forgotten.get(&hash))
            && !is_before(self.latest.get(&(hash, selector)))
    }

    /// Takes what is urgent.
    pub fn take_urgent(&mut self) -> Vec<Urgent> {
        std::mem::take(&mut self.urgent)
    }

    /// Whether there is anything urgent.
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Takes the next response to write.
    pub fn take_keep(&mut self) -> Option<Keep> {
        let keep = self.keeps.pop_front()?;
        self.keep_bytes -= keep.object.bytes().min(self.keep_bytes);
        self.is_writing = true;
        Some(keep)
    }

    /// The response that was taken last is written.
    pub fn end_keep(&mut self) {
        self.is_writing = false;
        self.forget_marks();
    }

    /// What was there has been found.
    pub fn end_loading(&mut self) {
        self.is_loaded = true;
        self.forget_marks();
    }

    /// Marks are for what waits; where nothing does they mean nothing.
    fn forget_marks(&mut self) {
        if !self.has_pending() {
            self.forgotten.clear();
            self.latest.clear();
            self.all_forgotten = 0;
        }
    }

    /// Whether something could still come into the index that was asked for before now.
    fn has_pending(&self) -> bool {
        !self.is_loaded || self.is_writing || !self.keeps.is_empty()
    }
}
