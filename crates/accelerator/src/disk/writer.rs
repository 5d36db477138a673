//! The thread that finds what is there, writes what comes, and makes room.

use std::io;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use touchstone_interfaces::handler::Level;

use super::directory::{Directory, Found};
use super::entry::{ENTRY_BYTES, Entry};
use super::index::Place;
use super::purges::{MOST_PURGES, PurgeFile, Purges};
use super::queue::{Keep, Urgent};
use super::segment::Segment;
use super::{Shared, count, record, write_lock};
use crate::store::{Purge, PurgeMode, lock};

/// How long until a directory is asked for again that another process has, or that cannot be used.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// How long nothing is written after a write has failed.
const PAUSE: Duration = Duration::from_secs(5);

/// While purges are carried out, what is urgent is looked for after so many records.
const RECORDS_A_TURN: usize = 256;

/// What the thread does until the storage is closed.
pub fn run(shared: &Shared) {
    let Some(mut writer) = open(shared) else { return };
    writer.say_what_is_there();
    loop {
        let mut queue = lock(&shared.queue);
        while !queue.has_urgent() && queue.keeps.is_empty() && queue.closing.is_none() {
            queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.has_urgent() {
            drop(queue);
            writer.do_urgent();
            continue;
        }
        let is_over = queue.closing.is_some_and(|until| Instant::now() >= until);
        match queue.take_keep().filter(|_| !is_over) {
            Some(keep) => {
                drop(queue);
                writer.keep(&keep);
                lock(&shared.queue).end_keep();
                shared.settled.notify_all();
            }
            // Nothing is left, or no time.
            None => break,
        }
    }
    writer.close();
}

/// Waits until the directory can be had; `None`: the storage is closed first.
fn open(shared: &Shared) -> Option<Writer<'_>> {
    let mut said = None;
    loop {
        match Writer::open(shared) {
            Ok(writer) => return Some(writer),
            Err(error) => {
                let what = match error.kind() {
                    io::ErrorKind::WouldBlock => "another process has it".to_string(),
                    _ => error.to_string(),
                };
                if said.as_ref() != Some(&what) {
                    let directory = shared.settings.directory.display();
                    let message = format!("the disk cache in {directory} cannot be used yet: {what}");
                    (shared.log)(Level::Warning, "disk cache", &message);
                    said = Some(what);
                }
            }
        }
        let queue = lock(&shared.queue);
        let waits = |queue: &mut super::Queue| queue.closing.is_none();
        let waited = shared.wake.wait_timeout_while(queue, OPEN_AGAIN, waits);
        let queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        if queue.closing.is_some() {
            return None;
        }
    }
}

struct Writer<'s> {
    shared: &'s Shared,
    directory: Directory,
    found: Found,
    purge_file: PurgeFile,
    /// The segment that is written to.
    active: Option<Arc<Segment>>,
    next_id: u32,
    paused_until: Option<Instant>,
}

impl<'s> Writer<'s> {
    /// Takes the directory and finds what is there.
    fn open(shared: &'s Shared) -> io::Result<Writer<'s>> {
        let (directory, found) = Directory::take(&shared.settings.directory)?;
        let (purge_file, purges) = PurgeFile::open(directory.path())?;
        let mut writer =
            Writer { shared, directory, found, purge_file, active: None, next_id: 0, paused_until: None };
        writer.load(purges)?;
        lock(&shared.queue).end_loading();
        shared.settled.notify_all();
        Ok(writer)
    }

    fn load(&mut self, purges: Purges) -> io::Result<()> {
        // What was purged meanwhile comes after what was purged before.
        {
            let mut all = write_lock(&self.shared.purges);
            let newer = std::mem::replace(&mut *all, purges);
            newer.into_iter().for_each(|purge| all.add(purge));
        }
        let start = self.shared.sequence.load(Relaxed);
        for id in self.directory.segments()? {
            self.next_id = self.next_id.max(id.saturating_add(1));
            let mut entries = Vec::new();
            let opened = Segment::open(self.directory.path(), id, |entry, number| match entry {
                Some((entry, true)) => entries.push(Place::new(entry, id, number)),
                Some((_, false)) => {}
                None => count(&self.shared.cells.corrupt),
            });
            // Half of a segment, which a killed process has left, is none. A clock that has gone back would put what was
            // purged behind its purge.
            let is_from_now_on = |place: &Place| place.entry.sequence >= start;
            let Some(segment) = opened.ok().filter(|_| !entries.iter().any(is_from_now_on)) else {
                Segment::remove_files(self.directory.path(), id);
                continue;
            };
            self.add_segment(Arc::new(segment));
            entries.into_iter().for_each(|place| self.take_in(place));
        }
        let segment_bytes = self.shared.settings.segment_bytes();
        let last = self.shared.segments.read().unwrap_or_else(PoisonError::into_inner);
        self.active = last.values().next_back().filter(|last| last.record_bytes() < segment_bytes).cloned();
        drop(last);
        // The size may be another now.
        self.make_room(0);
        Ok(())
    }

    /// Puts a place into the index, unless it was forgotten or replaced meanwhile.
    fn take_in(&self, place: Place) {
        let entry = place.entry;
        let mut queue = lock(&self.shared.queue);
        let is_newest = !self.shared.index.has_newer(&entry);
        if is_newest && queue.counts(entry.hash, entry.selector, entry.sequence) {
            let gone = self.shared.index.insert(place);
            queue.cancel(gone);
        } else {
            queue.cancel(vec![place]);
        }
    }

    fn say_what_is_there(&self) {
        let directory = self.shared.settings.directory.display();
        let message = match self.found {
            Found::Good => {
                format!("the disk cache in {directory} has {} responses", self.shared.index.count())
            }
            Found::Discarded => format!(
                "the disk cache in {directory} begins empty: the machine was not shut down in order, so what was \
                 purged could not be told from what was not"
            ),
        };
        (self.shared.log)(Level::Information, "disk cache", &message);
    }

    // ---- what is urgent

    fn do_urgent(&mut self) {
        let urgent = lock(&self.shared.queue).take_urgent();
        for each in &urgent {
            match each {
                Urgent::Cancel(places) => places.iter().for_each(|place| self.cancel(place)),
                Urgent::Purge(purge) => {
                    let written = self.purge_file.append(purge);
                    self.note(written);
                    if purge.purge == Purge::All && purge.mode == PurgeMode::Remove {
                        self.remove_all();
                    }
                }
            }
        }
        lock(&self.shared.queue).urgent_done += urgent.len() as u64;
        self.shared.settled.notify_all();
        if self.shared.purges.read().unwrap_or_else(PoisonError::into_inner).len() > MOST_PURGES {
            self.carry_out_purges();
        }
    }

    fn cancel(&mut self, place: &Place) {
        // One that has left with its segment is gone anyhow.
        if let Some(segment) = self.shared.segment(place.segment) {
            let cancelled = segment.cancel(place.number);
            self.note(cancelled);
        }
    }

    /// Removes all segments, after a purge of everything: what was kept since is lost, too.
    fn remove_all(&mut self) {
        self.active = None;
        while let Some(segment) = self.oldest() {
            self.drop_segment(&segment);
        }
    }

    /// Looks at every response under the purges that are remembered, and forgets those.
    fn carry_out_purges(&mut self) {
        // What waits to be written is not looked at here, so purges that came after the first of it stay.
        let now = self.shared.sequence.load(Relaxed);
        let until = lock(&self.shared.queue).keeps.front().map_or(now, |keep| keep.sequence.min(now));
        for part in 0..self.shared.index.parts() {
            for (turn, place) in self.shared.index.part_of(part).iter().enumerate() {
                if self.is_purged(place) && self.shared.index.remove(place).is_some() {
                    self.cancel(place);
                }
                if turn % RECORDS_A_TURN == 0 {
                    self.do_cancels();
                }
            }
        }
        let replaced = {
            let mut purges = write_lock(&self.shared.purges);
            purges.forget_until(until);
            self.purge_file.replace(&purges)
        };
        self.note(replaced);
    }

    /// What is urgent, but for carrying out purges, which is under way.
    fn do_cancels(&mut self) {
        let urgent = lock(&self.shared.queue).take_urgent();
        let done = urgent.len() as u64;
        for each in urgent {
            match each {
                Urgent::Cancel(places) => places.iter().for_each(|place| self.cancel(place)),
                Urgent::Purge(purge) => {
                    let written = self.purge_file.append(&purge);
                    self.note(written);
                }
            }
        }
        lock(&self.shared.queue).urgent_done += done;
        self.shared.settled.notify_all();
    }

    fn is_purged(&self, place: &Place) -> bool {
        let Some(segment) = self.shared.segment(place.segment) else { return false };
        let head = || {
            let header = segment.read_some(&place.entry, record::HEADER_BYTES).ok()?;
            let bytes = segment.read_some(&place.entry, record::head_bytes(&header).ok()?).ok()?;
            let (key, fields) = record::key_and_fields(&bytes).ok()?;
            // A soft purge that is forgotten must not make it fresh again.
            Some(self.shared.purged(place.entry.sequence, key, fields).is_some())
        };
        // What cannot be read is of no use either.
        head().unwrap_or(true)
    }

    // ---- writing

    fn keep(&mut self, keep: &Keep) {
        let object = &*keep.object;
        let cells = &self.shared.cells;
        let purged = self.shared.purged(keep.sequence, object.key(), object.fields());
        let counts = lock(&self.shared.queue).counts(object.hash, keep.selector, keep.sequence);
        if !counts || purged == Some(PurgeMode::Remove) {
            return;
        }
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            return count(&cells.refused);
        }
        let head = record::head_of(object, keep.sequence);
        let length = head.as_ref().map_or(u64::MAX, |head| (head.len() + object.body().len()) as u64);
        let Some(head) = head.filter(|_| length <= self.shared.settings.record_bytes()) else {
            return count(&cells.refused);
        };
        self.make_room(length + ENTRY_BYTES as u64);
        let entry = Entry {
            hash: object.hash,
            sequence: keep.sequence,
            offset: 0,
            length: length as u32,
            selector: keep.selector,
        };
        match self.append(&[&head, object.body()], entry) {
            Ok(place) => {
                count(&cells.written);
                self.take_in(place);
            }
            Err(error) => self.pause(&error),
        }
    }

    fn append(&mut self, pieces: &[&[u8]], entry: Entry) -> io::Result<Place> {
        let is_full = |active: &Arc<Segment>| {
            let behind = active.record_bytes() + u64::from(entry.length);
            active.record_bytes() > 0 && behind > self.shared.settings.segment_bytes()
        };
        let active = match self.active.take().filter(|active| !is_full(active)) {
            Some(active) => active,
            None => {
                let segment = Arc::new(Segment::create(self.directory.path(), self.next_id)?);
                self.next_id = self.next_id.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
                self.add_segment(segment.clone());
                segment
            }
        };
        let appended = active.append(pieces, entry);
        let id = active.id;
        self.active = Some(active);
        let (entry, number) = appended?;
        self.shared.cells.bytes.fetch_add(u64::from(entry.length) + ENTRY_BYTES as u64, Relaxed);
        Ok(Place::new(entry, id, number))
    }

    /// Has the oldest segments leave until so many bytes have room, and one more entry.
    fn make_room(&mut self, bytes: u64) {
        let settings = &self.shared.settings;
        while self.shared.cells.bytes.load(Relaxed) + bytes > settings.size_bytes
            || self.shared.index.count() >= settings.most_entries()
        {
            let Some(oldest) = self.oldest() else { return };
            let used = self.drop_segment(&oldest);
            self.write_anew(&oldest, used);
        }
    }

    /// What was asked for does not leave with its segment, up to half of that.
    fn write_anew(&mut self, from: &Segment, used: Vec<Place>) {
        let mut left = from.record_bytes() / 2;
        for place in used {
            let Some(rest) = left.checked_sub(u64::from(place.entry.length)) else { continue };
            let Ok(bytes) = from.read(&place.entry) else {
                count(&self.shared.cells.failures);
                continue;
            };
            // What is corrupt is not carried on.
            if record::read(&bytes).is_err() {
                count(&self.shared.cells.corrupt);
                continue;
            }
            left = rest;
            match self.append(&[&bytes], place.entry) {
                Ok(place) => {
                    self.shared.cells.evicted.fetch_sub(1, Relaxed);
                    self.take_in(place);
                }
                Err(error) => return self.pause(&error),
            }
        }
    }

    fn oldest(&self) -> Option<Arc<Segment>> {
        let segments = self.shared.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.values().next().cloned()
    }

    fn add_segment(&self, segment: Arc<Segment>) {
        self.shared.cells.bytes.fetch_add(segment.bytes(), Relaxed);
        write_lock(&self.shared.segments).insert(segment.id, segment);
    }

    /// A segment leaves; gives what of it was asked for.
    fn drop_segment(&mut self, segment: &Arc<Segment>) -> Vec<Place> {
        if self.active.as_ref().is_some_and(|active| active.id == segment.id) {
            self.active = None;
        }
        let before = self.shared.index.count();
        let used = self.shared.index.remove_segment(segment.id);
        let gone = before.saturating_sub(self.shared.index.count()) as u64;
        self.shared.cells.evicted.fetch_add(gone, Relaxed);
        write_lock(&self.shared.segments).remove(&segment.id);
        segment.remove();
        self.shared.cells.bytes.fetch_sub(segment.bytes(), Relaxed);
        used
    }

    /// After a write has failed: a full disk gets room from the oldest segment, and a while to itself.
    fn pause(&mut self, error: &io::Error) {
        self.note(Err(io::Error::from(error.kind())));
        let message =
            format!("the disk cache cannot be written: {error}; nothing is kept on the disk for {PAUSE:?}");
        (self.shared.log)(Level::Warning, "disk cache not written", &message);
        self.paused_until = Some(Instant::now() + PAUSE);
        // It may be the file: too long for a limit, or on a bad place.
        self.active = None;
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            && let Some(oldest) = self.oldest()
        {
            self.drop_segment(&oldest);
        }
    }

    fn note(&self, result: io::Result<()>) {
        if result.is_err() {
            count(&self.shared.cells.failures);
        }
    }

    fn close(mut self) {
        self.do_urgent();
        let sync = || {
            let segments = self.shared.segments.read().unwrap_or_else(PoisonError::into_inner);
            segments.values().try_for_each(|segment| segment.sync())?;
            self.purge_file.sync()?;
            self.directory.close()
        };
        // Another process may change the files from now on.
        self.shared.index.clear();
        if let Err(error) = sync() {
            let message = format!("the disk cache could not be closed: {error}");
            (self.shared.log)(Level::Warning, "disk cache not closed", &message);
        }
    }
}
