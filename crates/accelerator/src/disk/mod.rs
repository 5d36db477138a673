//! Copies of stored responses on disk, which survive the process.
//!
//! ```text
//! directory/00000001.segment  records, one after the other, only ever appended to
//!          /00000002.segment  ...
//!          /lock              held by the process that uses the directory
//!          /purges            the purges; each is written before it is reported as done
//!          /boot              the boot of the machine in which the directory was last used
//! ```
//!
//! A record is a response or a purge. Each has a checksum, so that incomplete bytes after a crash or from a
//! full or failing disk are not taken for a record. An index in memory has the positions of the records; it
//! is built from their heads at the start. When the directory is full, the oldest segment is dropped.
//! Responses that were read from it are first written again, so that used responses stay.
//!
//! While the previous process still uses the directory, this process's writes wait until that one has left
//! it.
//!
//! One thread writes. Responses that arrive faster than it can write are not kept: a missing copy only costs
//! a hit. The same holds for a directory that is full, read-only, removed or broken: each cause is reported
//! once, and the cache works without copies until the cause has ended. A removed directory is created again.
//!
//! | module | |
//! |---|---|
//! | `boot` | whether the machine has stopped without a shutdown |
//! | `record` | the format of a record |
//! | `index` | the positions of the responses, and the purges since they were written |
//! | `segment` | files of records |
//! | `purge_log` | the file of purges |
//! | `faults` | the faults of the directory |
//! | `files` | the operations on the directory and its files |
//! | `stepped` | the same disk without a thread, for the simulator |
//! | `writer` | the thread that writes |

mod boot;
mod faults;
mod files;
mod index;
mod purge_log;
mod record;
mod segment;
mod stepped;
mod writer;

pub use files::{Directory, RealDirectory, StoredFile};
pub use record::{Record, RecordError, decode, encode_object, encode_purge};

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use touchstone_handler::handler::Level;

use crate::store::{Object, PurgeScope, Tier, TierCounters, lock};
use faults::{Cause, Faults, Report};
use index::{Index, RecordPosition, SequenceNumber};
use purge_log::PurgeLog;
use record::selector_sum;
pub use stepped::{Steps, open_stepped};
use writer::{Job, Writer};

/// The maximum number of bytes that wait to be written.
const MOST_QUEUED_BYTES: u64 = 64 * 1024 * 1024;

/// The maximum number of purges that are remembered before the directory is locked; more become one purge of
/// everything.
const MOST_PURGED_BEFORE: usize = 1 << 16;

/// A response that is useful for fewer seconds than this is not written.
const LEAST_SECONDS_OF_USE: i64 = 5;

/// Copies on disk.
pub struct Disk {
    shared: Arc<Shared>,
    /// `None` once the disk has been left.
    jobs: Mutex<Option<Sender<Job>>>,
    writer: Option<JoinHandle<()>>,
}

/// The state that readers and the writer share.
struct Shared {
    directory: Arc<dyn Directory>,
    index: Mutex<Index>,
    /// `None`: another process still uses the directory, or it cannot be used.
    purge_log: Mutex<Option<PurgeLog>>,
    /// The purges from the time before this process had locked the directory.
    purged_before: Mutex<Vec<(PurgeScope, SequenceNumber)>>,
    /// The contents of the directory are indexed, and earlier purges have been applied.
    is_indexed: AtomicBool,
    /// A purge could not be written, or a file not be removed: another process must discard the contents.
    is_distrusted: AtomicBool,
    /// Recording that has failed so far.
    has_unwritten_distrust: AtomicBool,
    /// The last attempt to use the directory failed, although no other process uses it.
    is_unusable: AtomicBool,
    limit_bytes: u64,
    queued_bytes: AtomicU64,
    loads: AtomicU64,
    corrupt: AtomicU64,
    unwritten: AtomicU64,
    faults: Faults,
}

impl Shared {
    fn new(directory: &Arc<dyn Directory>, limit_bytes: u64, report: Box<Report>) -> io::Result<Arc<Shared>> {
        directory.make()?;
        Ok(Arc::new(Shared {
            directory: Arc::clone(directory),
            purged_before: Mutex::default(),
            is_indexed: AtomicBool::new(false),
            is_distrusted: AtomicBool::new(false),
            has_unwritten_distrust: AtomicBool::new(false),
            is_unusable: AtomicBool::new(false),
            index: Mutex::default(),
            purge_log: Mutex::default(),
            limit_bytes,
            queued_bytes: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            faults: Faults::new(directory.path().to_path_buf(), report),
        }))
    }

    /// Makes other processes discard the contents of the directory. If this cannot be recorded now, the next
    /// purge tries again.
    fn distrust(&self) {
        self.is_distrusted.store(true, Ordering::Relaxed);
        self.write_distrust();
    }

    /// Remembers a purge until the directory is locked.
    fn remember_purge(&self, purge: &PurgeScope, sequence: SequenceNumber) {
        let mut purged = lock(&self.purged_before);
        if purged.len() < MOST_PURGED_BEFORE {
            purged.push((purge.clone(), sequence));
        } else {
            purged.clear();
            purged.push((PurgeScope::All, sequence));
        }
    }

    fn write_distrust(&self) {
        let is_written = boot::distrust(&*self.directory).is_ok();
        self.has_unwritten_distrust.store(!is_written, Ordering::Relaxed);
    }

    /// Records that the directory is in use and in order.
    fn begin_use(&self) {
        self.is_distrusted.store(false, Ordering::Relaxed);
        let is_written = boot::begin(&*self.directory).is_ok();
        self.has_unwritten_distrust.store(!is_written, Ordering::Relaxed);
    }
}

impl Disk {
    /// Uses a directory for at most this many bytes, and creates it if it is missing. Its contents are
    /// indexed in the background; if another process still uses it, after that process has left it. `report`
    /// gets faults and a summary of what was found.
    pub fn open(
        directory: &Path,
        limit_bytes: u64,
        report: impl Fn(Level, &str) + Send + Sync + 'static,
    ) -> io::Result<Disk> {
        let directory: Arc<dyn Directory> = Arc::new(RealDirectory::new(directory));
        let shared = Shared::new(&directory, limit_bytes, Box::new(report))?;
        let (jobs, taken) = channel();
        let writer = Writer::new(directory, shared.clone())?;
        let thread = std::thread::Builder::new().name("cache-disk".to_string());
        let writer = Some(thread.spawn(move || writer.run(&taken))?);
        Ok(Disk { shared, jobs: Mutex::new(Some(jobs)), writer })
    }

    /// Waits until everything so far has been written, for tests and for an orderly end.
    pub fn flush(&self) {
        let (done, written) = channel();
        self.give(Job::Flush(done));
        // If the writer has ended, its end of the channel was dropped, and this returns.
        let _ = written.recv();
    }

    /// Reads a response. An unreadable or damaged one is removed from the index.
    fn read(&self, hash: u64, place: &RecordPosition) -> Option<Object> {
        let faults = &self.shared.faults;
        let is_corrupt = match place.segment.read(place.offset, place.length) {
            Ok(bytes) => {
                faults.end(Cause::Read);
                match decode(&bytes) {
                    Ok(Record::Object { object, .. }) if object.hash == hash => return Some(object),
                    _ => true,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(error) => {
                faults.note(Cause::Read, "cannot be read", &error);
                false
            }
        };
        // If the segment was dropped meanwhile, its entries were removed too.
        if lock(&self.shared.index).remove_place(hash, place) && is_corrupt {
            self.shared.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &*lock(&self.jobs) {
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Disk {
    /// Writes everything that waits, and leaves the directory to the next process.
    fn drop(&mut self) {
        *lock(&self.jobs) = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Tier for Disk {
    fn held(&self, hash: u64) -> usize {
        if !self.shared.is_indexed.load(Ordering::Acquire) {
            return 0;
        }
        lock(&self.shared.index).count(hash)
    }

    fn load(&self, hash: u64, key: &[u8]) -> Vec<Object> {
        if !self.shared.is_indexed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let places = lock(&self.shared.index).places(hash);
        let mut objects = Vec::new();
        for place in places {
            let Some(object) = self.read(hash, &place) else { continue };
            if object.key() != key {
                continue;
            }
            let mut index = lock(&self.shared.index);
            if index.is_purged(place.sequence, hash, object.key(), object.fields()) {
                index.remove_place(hash, &place);
                continue;
            }
            index.mark_used(hash, &place);
            drop(index);
            self.shared.loads.fetch_add(1, Ordering::Relaxed);
            objects.push(object);
        }
        objects
    }

    fn keep(&self, object: &Arc<Object>) {
        let terms = &object.terms;
        let grace = i64::from(terms.stale_if_error.max(terms.stale_while_revalidate));
        let is_of_use = terms.fresh_for(terms.response_time) + grace >= LEAST_SECONDS_OF_USE
            || !crate::rules::validation::conditions(object.fields()).is_empty();
        let bytes = object.bytes();
        if !is_of_use {
            return;
        }
        if self.shared.queued_bytes.load(Ordering::Relaxed) + bytes > MOST_QUEUED_BYTES {
            self.shared.unwritten.fetch_add(1, Ordering::Relaxed);
            lock(&self.shared.index).remove_replaced(object.hash, selector_sum(object.selector()));
            return;
        }
        self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The job is sent while the lock is held, so that the writer does not get a purge with a later
        // sequence number first.
        let mut index = lock(&self.shared.index);
        let sequence = index.next_sequence();
        self.give(Job::Keep { object: object.clone(), sequence, bytes });
    }

    fn purge(&self, purge: &PurgeScope) {
        let mut log = lock(&self.shared.purge_log);
        // From here on no earlier response is found, whether it has been written or not.
        let (given, sequence, may_be_there) = {
            let mut index = lock(&self.shared.index);
            let given = index.next_sequence();
            let sequence = index.current(given);
            // Read while the lock is held: otherwise the last response that waits could be written, and left
            // out of the index because of this purge, before the queue is found empty.
            let is_waiting = self.shared.queued_bytes.load(Ordering::Relaxed) > 0;
            (given, sequence, index.purge(purge, sequence) || is_waiting)
        };
        if self.shared.has_unwritten_distrust.load(Ordering::Relaxed) {
            self.shared.write_distrust();
        }
        let job = match &mut *log {
            None => {
                self.shared.remember_purge(purge, given);
                if self.shared.is_unusable.load(Ordering::Relaxed) {
                    // The next process may be able to use the directory, and must not use the records that
                    // this one could not remove.
                    self.shared.distrust();
                }
                return;
            }
            Some(log) if may_be_there => match log.append(purge, sequence) {
                Ok(()) => Job::Purged { sequence: given },
                Err(error) => {
                    self.shared.faults.note(Cause::Write, "cannot be written to", &error);
                    // This is done at once: this process may be killed before everything is dropped.
                    self.shared.distrust();
                    Job::DropEverything
                }
            },
            Some(_) => Job::Purged { sequence: given },
        };
        self.give(job);
    }

    fn counters(&self) -> TierCounters {
        let index = lock(&self.shared.index);
        TierCounters {
            objects: index.len() as u64,
            bytes: index.bytes_on_disk(),
            limit_bytes: self.shared.limit_bytes,
            loads: self.shared.loads.load(Ordering::Relaxed),
            corrupt: self.shared.corrupt.load(Ordering::Relaxed),
            unwritten: self.shared.unwritten.load(Ordering::Relaxed),
            faults: self.shared.faults.counts(),
        }
    }
}

#[cfg(test)]
mod tests;
