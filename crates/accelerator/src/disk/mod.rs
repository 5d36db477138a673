//! Copies of stored responses on disk, which outlive the process.
//!
//! ```text
//! directory/00000001.segment  records, one after the other, only ever appended to
//!          /00000002.segment  ...
//!          /lock              held by the one process that uses the directory
//!          /purges            what has been purged, written down before a purge is reported as done
//!          /boot              on which start of the machine it was last used
//! ```
//!
//! A record is a response, or what has been purged; each has a checksum, so whatever a crash, a full disk or
//! a failing one leaves behind is not taken for something that was written. An index in memory says where the
//! records are; it is made again from their heads at the start. When the directory is full the oldest segment
//! goes; what was read from it meanwhile is written again first, so what is in use stays.
//!
//! One thread writes. What comes faster than it can write is not kept: a copy less costs a hit, and nothing
//! else. So it is with a directory that is full, read-only, taken away or broken: each cause is told once,
//! and work goes on without copies until it has gone away. A directory that was taken away is made again.
//!
//! | module | |
//! |---|---|
//! | `boot` | whether the machine has stopped without warning |
//! | `record` | what a record is in bytes |
//! | `index` | where which response is, and what has been purged since it was written |
//! | `segment` | files of records |
//! | `purge_log` | what has been purged |
//! | `faults` | what goes wrong with the directory |
//! | `writer` | the thread that writes |

mod boot;
mod faults;
mod index;
mod purge_log;
mod record;
mod segment;
mod writer;

pub use record::{Record, RecordError, decode, encode_object, encode_purge};

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use touchstone_interfaces::handler::Level;

use crate::store::{Object, Purge, Tier, TierCounters, lock};
use faults::{Cause, Faults};
use index::{Index, Place};
use purge_log::PurgeLog;
use record::selector_sum;
use writer::{Job, Writer};

/// The most bytes that wait to be written.
const MOST_QUEUED_BYTES: u64 = 64 * 1024 * 1024;

/// A response that would be of no use after this many seconds is not written.
const LEAST_SECONDS_OF_USE: i64 = 5;

/// Copies on disk.
pub struct Disk {
    shared: Arc<Shared>,
    /// `None` at the end.
    jobs: Mutex<Option<Sender<Job>>>,
    writer: Option<JoinHandle<()>>,
}

/// What readers and the writer share.
struct Shared {
    index: Mutex<Index>,
    /// `None`: another process has the directory still.
    purge_log: Mutex<Option<PurgeLog>>,
    limit_bytes: u64,
    queued_bytes: AtomicU64,
    loads: AtomicU64,
    corrupt: AtomicU64,
    unwritten: AtomicU64,
    faults: Faults,
}

impl Disk {
    /// Uses a directory, which is made if it is not there, for at most so many bytes. What is in it already
    /// is looked through in the background; where another process uses it still, when that has ended.
    /// `report` is told what goes wrong, and what was found.
    pub fn open(
        directory: &Path,
        limit_bytes: u64,
        report: impl Fn(Level, &str) + Send + Sync + 'static,
    ) -> io::Result<Disk> {
        segment::make_directory(directory)?;
        let shared = Arc::new(Shared {
            index: Mutex::default(),
            purge_log: Mutex::default(),
            limit_bytes,
            queued_bytes: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            faults: Faults::new(directory.to_path_buf(), Box::new(report)),
        });
        let (jobs, taken) = channel();
        let writer = Writer::new(directory.to_path_buf(), shared.clone())?;
        let thread = std::thread::Builder::new().name("cache-disk".to_string());
        let writer = Some(thread.spawn(move || writer.run(&taken))?);
        Ok(Disk { shared, jobs: Mutex::new(Some(jobs)), writer })
    }

    /// Waits until everything that was given to it so far has been written: for tests, and for an orderly
    /// end.
    pub fn flush(&self) {
        let (done, written) = channel();
        self.give(Job::Flush(done));
        // Where the writer has gone, so has its end of this.
        let _ = written.recv();
    }

    /// The response that is there; one that cannot be read, or is not what was written, is there no longer.
    fn read(&self, hash: u64, place: &Place) -> Option<Object> {
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
        // Where the segment has gone meanwhile, so has its entry.
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
    /// Writes what waits to be written, and leaves the directory to whoever comes next.
    fn drop(&mut self) {
        *lock(&self.jobs) = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Tier for Disk {
    fn held(&self, hash: u64) -> usize {
        lock(&self.shared.index).count(hash)
    }

    fn load(&self, hash: u64, key: &[u8]) -> Vec<Object> {
        let places = lock(&self.shared.index).places(hash);
        let mut objects = Vec::new();
        for place in places {
            let Some(object) = self.read(hash, &place) else { continue };
            if object.key() != key {
                continue;
            }
            let mut index = lock(&self.shared.index);
            if index.is_purged(place.ticket, hash, object.key(), object.fields()) {
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
        // Given within the same lock: a purge with a later ticket must not overtake it on its way to the
        // writer.
        let mut index = lock(&self.shared.index);
        let ticket = index.next_ticket();
        self.give(Job::Keep { object: object.clone(), ticket, bytes });
    }

    fn purge(&self, purge: &Purge) {
        let mut log = lock(&self.shared.purge_log);
        // Nothing that was given before is found from here on, whether it is written already or not.
        let (ticket, may_be_there) = {
            let mut index = lock(&self.shared.index);
            let ticket = index.next_ticket();
            (ticket, index.purge(purge, ticket))
        };
        let is_waiting = self.shared.queued_bytes.load(Ordering::Relaxed) > 0;
        let job = match &mut *log {
            None => Job::PurgeLater(purge.clone()),
            Some(log) if may_be_there || is_waiting => match log.append(purge, ticket) {
                Ok(()) => Job::Purged { ticket },
                Err(error) => {
                    self.shared.faults.note(Cause::Write, "cannot be written to", &error);
                    Job::DropEverything
                }
            },
            Some(_) => Job::Purged { ticket },
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
