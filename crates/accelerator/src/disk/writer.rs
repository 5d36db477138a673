//! The writer thread. It indexes the contents of the directory, then appends the responses that it gets, and
//! makes room for them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use touchstone_handler::handler::Level;

use super::Shared;
use super::boot;
use super::faults::Cause;
use super::files::{Directory, taken_away};
use super::index::{Index, RecordPosition, SequenceNumber};
use super::purge_log::{self, PurgeLog, Purges};
use super::record::{HEAD_BYTES, RecordHead, decode_head, encode_object, selector_sum};
use super::segment::{Segment, found_in};
use crate::store::{Object, hash_of, lock};

/// The size of a file is the limit of the directory divided by this number, within these bounds.
const PARTS: u64 = 32;
const LEAST_SEGMENT_BYTES: u64 = 1024 * 1024;
const MOST_SEGMENT_BYTES: u64 = 256 * 1024 * 1024;

/// The index has at most one entry for this many bytes of the limit, so that many small responses do not fill
/// the memory.
const BYTES_AN_ENTRY: u64 = 4096;

/// The maximum number of attempts to write a response if the cause of the failure can be removed.
const MOST_TRIES: usize = 3;

/// The interval between checks whether another process has unlocked the directory.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// A job for the writer.
pub enum Job {
    /// Keep a response.
    Keep {
        /// The response.
        object: Arc<Object>,
        /// Its sequence number.
        sequence: SequenceNumber,
        /// The bytes that it uses of the queue.
        bytes: u64,
    },
    /// A purge was written to the file of purges. All jobs before this one are done when it is handled.
    Purged {
        /// Its sequence number.
        sequence: SequenceNumber,
    },
    /// A purge could not be written: all copies must be dropped, so that a restart does not bring them back.
    DropEverything,
    /// Report that all jobs before this one are done.
    Flush(Sender<()>),
}

/// Segments by their numbers and names.
type Segments = Vec<(u32, String)>;

/// The writer.
pub struct Writer {
    directory: Arc<dyn Directory>,
    shared: Arc<Shared>,
    segment_bytes: u64,
    current: Option<Arc<Segment>>,
    next_number: u32,
    /// Held while the directory is used.
    lock: Option<Box<dyn Send>>,
    /// A dropped file that could not be removed.
    has_unremoved: bool,
    /// The sequence number of the last response that was written or dropped: all that wait have higher
    /// sequence numbers.
    reached: SequenceNumber,
    /// The bytes on disk when it was last full.
    full_bytes: u64,
    /// Jobs that wait until another process has unlocked the directory. Their bytes stay in the sum of the
    /// queue, which limits them.
    held_back: VecDeque<Job>,
}

impl Writer {
    /// A writer to a directory.
    pub fn new(directory: Arc<dyn Directory>, shared: Arc<Shared>) -> io::Result<Writer> {
        let segment_bytes = (shared.limit_bytes / PARTS).clamp(LEAST_SEGMENT_BYTES, MOST_SEGMENT_BYTES);
        // If no other process uses the directory, its contents are indexed before the first request.
        let lock = directory.lock()?;
        let mut writer = Writer {
            directory,
            shared,
            segment_bytes,
            current: None,
            next_number: 0,
            lock,
            has_unremoved: false,
            reached: SequenceNumber::default(),
            full_bytes: 0,
            held_back: VecDeque::new(),
        };
        if writer.lock.is_some() {
            writer.index_contents();
            writer.shared.is_unusable.store(writer.lock.is_none(), Ordering::Relaxed);
        }
        Ok(writer)
    }

    /// The same with files of another size.
    pub fn with_segments_of(self, segment_bytes: u64) -> Writer {
        Writer { segment_bytes, ..self }
    }

    /// Locks the directory if the other process has left it, and runs the jobs that waited for that.
    pub fn lock_if_free(&mut self) {
        if self.lock.is_none() {
            self.try_lock();
        }
        while !self.has_to_wait()
            && let Some(job) = self.held_back.pop_front()
        {
            self.work(job);
        }
    }

    /// Another process has locked the directory, and will unlock it when it ends.
    fn has_to_wait(&self) -> bool {
        self.lock.is_none() && !self.shared.is_unusable.load(Ordering::Relaxed)
    }

    /// Works until the sender of jobs is dropped.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let job = match self.lock {
                Some(_) => jobs.recv().ok(),
                None => match jobs.recv_timeout(LOCK_PAUSE) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => {
                        self.lock_if_free();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => None,
                },
            };
            let Some(job) = job else { return self.leave() };
            self.handle(job);
        }
    }

    /// Runs one job, or delays it until another process has left the directory. A flush is not delayed:
    /// everything possible has been done.
    pub fn handle(&mut self, job: Job) {
        self.lock_if_free();
        if self.has_to_wait() && !matches!(job, Job::Flush(_)) {
            self.held_back.push_back(job);
        } else {
            self.work(job);
        }
    }

    fn work(&mut self, job: Job) {
        match job {
            Job::Keep { object, sequence, bytes } => {
                if !self.keep(&object, sequence) {
                    self.shared.unwritten.fetch_add(1, Ordering::Relaxed);
                }
                self.reached = sequence;
                self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            Job::Purged { sequence } => self.purged(sequence),
            Job::DropEverything => self.start_over(),
            Job::Flush(done) => drop(done.send(())),
        }
    }

    /// Whether the directory was removed. Another process may have created and locked it again.
    fn is_taken_away(&self) -> bool {
        lock(&self.shared.purge_log).as_ref().is_some_and(PurgeLog::is_removed)
    }

    /// Syncs everything to the disk, so that it can be used after a restart of the machine too.
    pub fn leave(&mut self) {
        self.lock_if_free();
        if self.lock.is_none() {
            return;
        }
        if self.shared.is_distrusted.load(Ordering::Relaxed) {
            return self.shared.write_distrust();
        }
        if self.is_taken_away() {
            return;
        }
        let segments = lock(&self.shared.index).segments();
        let synced = segments.iter().try_for_each(|segment| segment.sync()).and_then(|()| {
            lock(&self.shared.purge_log).as_ref().map_or(Ok(()), PurgeLog::sync)?;
            boot::end(&*self.directory)
        });
        if let Err(error) = synced {
            self.failed("could not be left in order", &error);
        }
    }

    fn try_lock(&mut self) {
        let is_of_another = match self.directory.make().and_then(|()| self.directory.lock()) {
            Ok(Some(lock)) => {
                self.lock = Some(lock);
                self.index_contents();
                false
            }
            Ok(None) => true,
            Err(error) => {
                self.failed("cannot be used", &error);
                false
            }
        };
        let is_unusable = self.lock.is_none() && !is_of_another;
        self.shared.is_unusable.store(is_unusable, Ordering::Relaxed);
    }

    /// Starts again after the directory, or a file in it, was removed. Only the copies in it are lost.
    /// Returns false if the directory cannot be used yet.
    fn begin_again(&mut self) -> bool {
        self.current = None;
        lock(&self.shared.index).close();
        *lock(&self.shared.purge_log) = None;
        self.lock = None;
        self.try_lock();
        self.lock.is_some()
    }

    /// Indexes the contents of the directory.
    fn index_contents(&mut self) {
        let (log, purges, segments) = match self.open_contents() {
            Ok(opened) => opened,
            Err(error) => {
                self.lock = None;
                self.failed("cannot be used", &error);
                return;
            }
        };
        // A separate index until everything is known: responses to which this process has given sequence
        // numbers meanwhile are newer.
        let mut index = Index::default();
        for (purge, sequence) in &purges {
            index.purge(purge, *sequence);
        }
        for (number, name) in segments {
            self.next_number = number.wrapping_add(1);
            match Segment::open(&self.directory, name) {
                Ok(segment) => self.take_up_segment(&Arc::new(segment), &mut index),
                Err(error) => _ = self.failed("has a file that cannot be opened", &error),
            }
        }
        lock(&self.shared.index).open(index, self.reached);
        let is_written = self.apply_earlier_purges(log);
        self.shared.is_indexed.store(true, Ordering::Release);
        if !is_written {
            self.start_over();
        }
        {
            let mut index = lock(&self.shared.index);
            // The older purges apply to no waiting response.
            let reached = index.current(self.reached);
            index.forget_key_purges(reached);
        }
        self.make_room(0);
        let index = lock(&self.shared.index);
        let (objects, bytes) = (index.len(), index.bytes_on_disk());
        drop(index);
        let message = format!("{objects} stored responses found on disk, {} MiB", bytes >> 20);
        self.shared.faults.tell(Level::Information, &message);
    }

    /// The file of purges, with what it had, and the segments. An error means that the directory cannot be
    /// used yet: unreliable contents must be removed first.
    fn open_contents(&mut self) -> io::Result<(PurgeLog, Purges, Segments)> {
        let (purges, segments) = self.reliable_contents()?;
        self.has_unremoved = false;
        self.shared.begin_use();
        let log = PurgeLog::write(self.directory.clone(), &purges)?;
        Ok((log, purges, segments))
    }

    /// The purges and the segments. If purges may be unknown, because the machine stopped without a shutdown,
    /// or the file of purges is damaged or missing, the stored responses are removed. That is done before
    /// another file of purges is written. Otherwise a process that is killed meanwhile would leave them
    /// beside a file that looks complete.
    fn reliable_contents(&self) -> io::Result<(Purges, Segments)> {
        let segments = found_in(&*self.directory)?;
        let is_in_order = boot::is_good(&*self.directory);
        if is_in_order {
            let contents = purge_log::read(&*self.directory)?;
            if contents.is_complete || segments.is_empty() {
                return Ok((contents.purges, segments));
            }
            self.shared.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        if !segments.is_empty() {
            let cause = match is_in_order {
                true => "some purges are unknown",
                false => "the machine was not shut down in order, so some purges may be lost",
            };
            let message = format!("{cause}: all stored responses on disk are dropped");
            self.shared.faults.tell(Level::Warning, &message);
        }
        segments.iter().try_for_each(|(_, name)| self.directory.remove(name))?;
        PurgeLog::remove(&*self.directory);
        Ok((Purges::new(), Segments::new()))
    }

    /// Reads the heads of all records. An incomplete record at the end, from a crash, is truncated.
    fn take_up_segment(&self, segment: &Arc<Segment>, index: &mut Index) {
        index.add_segment(segment.clone());
        let mut offset = 0;
        while offset < segment.length() {
            let Some((head, hash, selector_sum)) = read_names(segment, offset) else {
                self.shared.corrupt.fetch_add(1, Ordering::Relaxed);
                segment.cut(offset);
                return;
            };
            segment.note_sequence(head.sequence);
            let place = RecordPosition {
                segment: segment.clone(),
                offset,
                length: head.length,
                sequence: head.sequence,
            };
            index.note_sequence(head.sequence);
            index.insert(hash, selector_sum, place);
            offset += u64::from(head.length);
        }
    }

    /// Writes a response. Returns false if that failed.
    fn keep(&mut self, object: &Object, sequence: SequenceNumber) -> bool {
        let sum = selector_sum(object.selector());
        {
            let mut index = lock(&self.shared.index);
            if self.lock.is_none() {
                index.remove_replaced(object.hash, sum);
                return false;
            }
            if index.is_purged(index.current(sequence), object.hash, object.key(), object.fields()) {
                return false;
            }
        }
        if self.has_long_index() {
            self.make_room(0);
        }
        let place = self.append(object, sequence);
        let mut index = lock(&self.shared.index);
        match place {
            // A purge by tag or prefix may have come while it was written. This is checked when it is read.
            Some(place) => {
                index.insert(object.hash, sum, place);
                true
            }
            None => {
                index.remove_replaced(object.hash, sum);
                false
            }
        }
    }

    fn purged(&mut self, sequence: SequenceNumber) {
        let oldest = {
            let mut index = lock(&self.shared.index);
            let sequence = index.current(sequence);
            index.forget_key_purges(sequence + 1);
            index.oldest_sequence()
        };
        let is_too_long = {
            let mut log = lock(&self.shared.purge_log);
            let Some(log) = log.as_mut().filter(|log| log.has_grown()) else { return };
            log.compact(oldest).is_err() || log.is_too_long()
        };
        if is_too_long {
            // Dropping entries costs hits, but an unlimited list costs more.
            self.start_over();
        }
    }

    /// Applies the purges from before the directory was locked to its contents, and uses its list of purges
    /// from now on. Returns false if they could not be written.
    fn apply_earlier_purges(&self, mut log: PurgeLog) -> bool {
        let mut place = lock(&self.shared.purge_log);
        let mut is_written = true;
        for (purge, given) in lock(&self.shared.purged_before).drain(..) {
            let mut index = lock(&self.shared.index);
            let sequence = index.current(given);
            index.purge(&purge, sequence);
            drop(index);
            if let Err(error) = log.append(&purge, sequence) {
                self.shared.faults.note(Cause::Write, "cannot be written to", &error);
                self.shared.distrust();
                is_written = false;
            }
        }
        *place = Some(log);
        is_written
    }

    /// Appends a response to the current file, or to the next one.
    fn append(&mut self, object: &Object, given: SequenceNumber) -> Option<RecordPosition> {
        let mut sequence = lock(&self.shared.index).current(given);
        let mut record = encode_object(object, sequence)?;
        let length = u32::try_from(record.len()).ok()?;
        if u64::from(length) > self.segment_bytes {
            return None;
        }
        for _ in 0..MOST_TRIES {
            let written = self
                .segment_for(u64::from(length))
                .and_then(|segment| segment.append(&record).map(|offset| (segment, offset)));
            let error = match written {
                Ok((segment, offset)) => {
                    self.has_written();
                    segment.note_sequence(sequence);
                    return Some(RecordPosition { segment, offset, length, sequence });
                }
                Err(error) => error,
            };
            // The next record begins a new file, unless the current one is empty.
            self.current.take_if(|current| current.length() > 0);
            let may_go_on = match self.failed("cannot be written to", &error) {
                // Dropping the oldest file makes room on a full disk.
                Cause::Full => self.drop_oldest(false),
                Cause::Missing if self.begin_again() => {
                    // The contents found there may have raised it.
                    sequence = lock(&self.shared.index).current(given);
                    record = encode_object(object, sequence)?;
                    true
                }
                Cause::Missing | Cause::ReadOnly | Cause::Write | Cause::Read => false,
            };
            if !may_go_on {
                return None;
            }
        }
        None
    }

    /// Called after a successful write: the causes of failed writes have ended. A full disk counts as ended
    /// only when it holds more than when it was full, because dropping a file makes room too.
    fn has_written(&mut self) {
        let faults = &self.shared.faults;
        [Cause::Write, Cause::ReadOnly, Cause::Missing].into_iter().for_each(|cause| faults.end(cause));
        if faults.lasts(Cause::Full)
            && lock(&self.shared.index).bytes_on_disk() > self.full_bytes + self.segment_bytes
        {
            self.has_room_again();
        }
    }

    fn has_room_again(&mut self) {
        self.full_bytes = 0;
        self.shared.faults.end(Cause::Full);
    }

    /// A file with room for this many bytes.
    fn segment_for(&mut self, bytes: u64) -> io::Result<Arc<Segment>> {
        if let Some(current) = &self.current
            && current.length() + bytes <= self.segment_bytes
        {
            // The next process could not find a response in a file that was removed.
            return if current.is_removed() { Err(taken_away()) } else { Ok(current.clone()) };
        }
        if self.is_taken_away() {
            return Err(taken_away());
        }
        let number = self.next_number;
        let segment = Arc::new(Segment::create(&self.directory, number)?);
        self.next_number = number.wrapping_add(1);
        lock(&self.shared.index).add_segment(segment.clone());
        self.current = Some(segment.clone());
        // Responses that are saved from the oldest file are written to the new one.
        self.make_room(self.segment_bytes);
        Ok(segment)
    }

    /// Drops the oldest files until there is room for this many more bytes.
    fn make_room(&mut self, bytes: u64) {
        loop {
            let (is_over, is_long, is_last) = {
                let index = lock(&self.shared.index);
                let is_over = index.bytes_on_disk() + bytes > self.shared.limit_bytes;
                (is_over, self.is_long(index.len()), index.segment_count() <= 1)
            };
            if is_over {
                // The disk had room for this many bytes.
                self.has_room_again();
            }
            if !is_over && !is_long || is_last || !self.drop_oldest(true) {
                return;
            }
        }
    }

    fn has_long_index(&self) -> bool {
        self.is_long(lock(&self.shared.index).len())
    }

    /// Whether this many entries use too much memory: the limit is one entry for every few KiB of the
    /// directory.
    fn is_long(&self, entries: usize) -> bool {
        entries as u64 >= self.shared.limit_bytes / BYTES_AN_ENTRY
    }

    /// Drops the oldest file. If `saves` is set, the responses that were read from it are written again.
    /// Returns false if there is no file.
    fn drop_oldest(&mut self, saves: bool) -> bool {
        let Some(oldest) = lock(&self.shared.index).oldest() else { return false };
        if self.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &oldest)) {
            self.current = None;
        }
        let mut saved = Vec::new();
        if saves && self.current.is_some() {
            let used = lock(&self.shared.index).used_in(&oldest, self.segment_bytes / 2);
            for (hash, sum, place) in used {
                if let Ok(bytes) = oldest.read(place.offset, place.length) {
                    saved.push((hash, sum, place.sequence, bytes));
                }
            }
        }
        // Saved responses keep their sequence numbers, so the purges that apply to them must stay.
        let first = saved.iter().map(|(_, _, sequence, _)| *sequence).min().unwrap_or(u64::MAX);
        {
            let mut index = lock(&self.shared.index);
            let waiting = index.current(self.reached);
            index.remove_segment(&oldest, first.min(waiting));
        }
        if let Err(error) = oldest.remove() {
            self.failed("has a file that cannot be removed; purged responses in it may reappear", &error);
            self.has_unremoved = true;
            self.shared.distrust();
        }
        for (hash, sum, sequence, bytes) in saved {
            let Some(current) = self.current.clone() else { break };
            let has_room = current.length() + bytes.len() as u64 <= self.segment_bytes;
            if let (true, Ok(length), Ok(offset)) =
                (has_room, u32::try_from(bytes.len()), current.append(&bytes))
            {
                current.note_sequence(sequence);
                let place = RecordPosition { segment: current, offset, length, sequence };
                lock(&self.shared.index).insert(hash, sum, place);
            }
        }
        true
    }

    /// Drops all responses and the purges, which then apply to none.
    fn start_over(&mut self) {
        if self.is_taken_away() {
            // The names in the directory may be those of another process now.
            self.begin_again();
            return;
        }
        self.drop_everything();
        let mut log = lock(&self.shared.purge_log);
        let Some(log) = log.as_mut().filter(|_| !self.has_unremoved) else { return };
        match log.compact(u64::MAX) {
            Ok(()) => {
                // Nothing is left to which a lost purge could apply.
                self.shared.begin_use();
            }
            Err(error) => _ = self.shared.faults.note(Cause::Write, "cannot be written to", &error),
        }
    }

    fn drop_everything(&mut self) {
        while self.drop_oldest(false) {}
    }

    /// Reports a failure and returns its cause.
    fn failed(&mut self, what: &str, error: &io::Error) -> Cause {
        let cause = self.shared.faults.note(Cause::Write, what, error);
        if cause == Cause::Full {
            self.full_bytes = self.full_bytes.max(lock(&self.shared.index).bytes_on_disk());
        }
        cause
    }
}

/// The bytes of a record that are read first: a head, and for most records the key and the selector.
const FIRST_READ_BYTES: u64 = 512;

/// The head of the record at `offset`, with the hash of its key and the sum of its selector; `None`: it is
/// not a response within the file.
fn read_names(segment: &Segment, offset: u64) -> Option<(RecordHead, u64, u32)> {
    let rest = segment.length().checked_sub(offset)?;
    let read = |length: u64| segment.read(offset, u32::try_from(length).ok()?).ok();
    let mut bytes = read(rest.min(FIRST_READ_BYTES))?;
    let head = decode_head(&bytes).filter(|head| head.is_object && u64::from(head.length) <= rest)?;
    let key_end = (HEAD_BYTES as u64).checked_add(u64::from(head.key_length))?;
    let end = key_end + u64::from(head.selector_length);
    if end > u64::from(head.length) {
        return None;
    }
    if end > bytes.len() as u64 {
        bytes = read(end)?;
    }
    let (names, selector) = bytes.get(..end as usize)?.split_at(key_end as usize);
    Some((head, hash_of(&names[HEAD_BYTES..]), selector_sum(selector)))
}
