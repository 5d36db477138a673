//! The storage behind the memory: responses on the disk, found again after a restart.
//!
//! ```text
//! keep   -> queue -> writer thread -> record at the end of the newest segment -> its entry -> index
//! load   -> index -> one read, on a thread that may wait -> checksums, key, purges -> object
//! forget -> out of the index at once; the writer thread cancels the entries in their files
//! ```
//!
//! The files are logs: what is written is never changed, but for a byte that cancels an entry, and the oldest segment
//! leaves as a whole when room is needed; what of it was asked for is written anew. So a process may be killed at any point:
//! the record that it was writing has no entry, and everything else is whole. Whatever is read is checked, and what is not
//! as it was written is dropped and counted. A disk that is full or fails costs hits and nothing else.
//!
//! | module | |
//! |---|---|
//! | `record` | a response as it lies on the disk |
//! | `entry` | where a record lies |
//! | `segment` | a file of records and a file of entries |
//! | `index` | the entries in memory |
//! | `purges` | purges that are remembered instead of carried out |
//! | `directory` | who has the directory, and whether its files can be believed |
//! | `queue` | what the writer has to do, and what has been forgotten meanwhile |
//! | `writer` | the thread that writes |

mod directory;
mod entry;
mod index;
mod purges;
mod queue;
pub mod record;
mod segment;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use touchstone_interfaces::handler::Level;

use crate::store::{Object, Purge, PurgeMode, State, Tier, TierCounters, lock};
use entry::selector_hash;
use index::{Index, PLACE_BYTES, Place};
use purges::{Purges, Remembered};
use queue::{Queue, Urgent};
use segment::Segment;

/// A segment is one part of so many of all.
const SEGMENTS: u64 = 32;

/// The bounds of a segment's size.
const LEAST_SEGMENT_BYTES: u64 = 64 * 1024;
const MOST_SEGMENT_BYTES: u64 = 256 << 20;

/// The most that an object may take: one part of so many of all.
const LARGE_PART: u64 = 4;

/// The longest text of a purge that is remembered as it is; a longer one is taken for all.
const MOST_PURGE_BYTES: usize = 1 << 20;

/// Where the storage tells what happens: how bad it is, what it is in few words, and the message.
pub type DiskLog = Arc<dyn Fn(Level, &'static str, &str) + Send + Sync>;

/// What a configuration says of the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The directory, which the storage has to itself.
    pub directory: PathBuf,
    /// The most that it takes there.
    pub size_bytes: u64,
    /// The most memory that the index takes.
    pub index_bytes: u64,
    /// The most that waits to be written; what comes beyond is not kept.
    pub queue_bytes: u64,
}

impl Settings {
    /// A storage of this size below this directory.
    pub fn new(directory: PathBuf, size_bytes: u64) -> Settings {
        Settings {
            directory,
            size_bytes,
            // Enough for responses of 8 KiB on average.
            index_bytes: (size_bytes / 8192 * PLACE_BYTES).max(1 << 20),
            queue_bytes: (size_bytes / 8).clamp(1 << 20, 64 << 20),
        }
    }

    fn segment_bytes(&self) -> u64 {
        (self.size_bytes / SEGMENTS).clamp(LEAST_SEGMENT_BYTES, MOST_SEGMENT_BYTES)
    }

    /// The longest record.
    fn record_bytes(&self) -> u64 {
        (self.size_bytes / LARGE_PART).min(segment::MOST_BYTES)
    }

    fn most_entries(&self) -> usize {
        usize::try_from(self.index_bytes / PLACE_BYTES).unwrap_or(usize::MAX).max(1)
    }
}

#[derive(Default)]
struct Cells {
    bytes: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
    corrupt: AtomicU64,
    failures: AtomicU64,
}

fn count(cell: &AtomicU64) {
    cell.fetch_add(1, Relaxed);
}

/// What readers and the writer share.
struct Shared {
    settings: Settings,
    log: DiskLog,
    index: Index,
    segments: RwLock<BTreeMap<u32, Arc<Segment>>>,
    purges: RwLock<Purges>,
    queue: Mutex<Queue>,
    /// There is something for the writer.
    wake: Condvar,
    /// The writer has done what was urgent.
    settled: Condvar,
    /// The order of everything that is asked for. It begins with the time, so that it goes on after a restart.
    sequence: AtomicU64,
    cells: Cells,
}

/// The storage. Dropping it closes it.
pub struct Disk {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Disk {
    /// Opens the storage, which finds what is there beside everything else; until then it gives nothing. Where another
    /// process has the directory still, it waits for that.
    pub fn open(settings: Settings, log: DiskLog) -> Disk {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shared = Arc::new(Shared {
            settings,
            log,
            index: Index::new(),
            segments: RwLock::default(),
            purges: RwLock::default(),
            queue: Mutex::default(),
            wake: Condvar::new(),
            settled: Condvar::new(),
            sequence: AtomicU64::new(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX / 2)),
            cells: Cells::default(),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("disk-cache".to_string());
        let writer = thread.spawn(move || writer::run(&of_thread));
        if let Err(error) = &writer {
            (shared.log)(Level::Error, "disk cache", &format!("the disk cache has no thread: {error}"));
        }
        Disk { shared, writer: Mutex::new(writer.ok()) }
    }

    /// Waits until everything is written that waits to be, and what was there is found; `false`: it took longer. Not for a
    /// core.
    pub fn flush(&self, most: Duration) -> bool {
        self.shared.wait_until(most, |queue, asked| {
            queue.is_loaded && queue.keeps.is_empty() && !queue.is_writing && queue.urgent_done >= asked
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

impl Tier for Disk {
    fn may_hold(&self, hash: u64) -> bool {
        self.shared.index.has(hash)
    }

    fn load(&self, hash: u64, key: &[u8]) -> Vec<Object> {
        let places = self.shared.index.under(hash);
        places.iter().filter_map(|place| self.shared.load(place, key)).collect()
    }

    fn keep(&self, object: &Arc<Object>) {
        let shared = &*self.shared;
        let selector = selector_hash(object.selector());
        let mut queue = lock(&shared.queue);
        let sequence = shared.next();
        // What it replaces must not be found meanwhile, nor afterwards.
        let gone = shared.index.take(object.hash, Some(selector));
        queue.cancel(gone);
        if !queue.keep(sequence, selector, object, shared.settings.queue_bytes) {
            count(&shared.cells.refused);
        }
        shared.wake.notify_all();
    }

    fn forget(&self, hash: u64, _key: &[u8]) {
        let shared = &*self.shared;
        let mut queue = lock(&shared.queue);
        queue.forget(hash, shared.next());
        // Those of another key with the same hash are lost, too.
        let gone = shared.index.take(hash, None);
        queue.cancel(gone);
        shared.wake.notify_all();
    }

    fn purge(&self, purge: &Purge, mode: PurgeMode) {
        let shared = &*self.shared;
        let is_long = match purge {
            Purge::Key(text) | Purge::Prefix(text) | Purge::Tag(text) | Purge::Path { path: text, .. } => {
                text.len() > MOST_PURGE_BYTES
            }
            Purge::Space(_) | Purge::All => false,
        };
        let purge = if is_long { Purge::All } else { purge.clone() };
        let mut queue = lock(&shared.queue);
        let remembered = Remembered { sequence: shared.next(), purge, mode };
        write_lock(&shared.purges).add(remembered.clone());
        queue.add_urgent(Urgent::Purge(remembered));
        shared.wake.notify_all();
    }

    fn settle(&self, most: Duration) -> bool {
        self.shared.wait_until(most, |queue, asked| queue.urgent_done >= asked)
    }

    /// The storage is good after a start of the machine, too, where there was time enough.
    fn close(&self, most: Duration) {
        lock(&self.shared.queue).closing.get_or_insert(Instant::now() + most);
        self.shared.wake.notify_all();
        if let Some(writer) = lock(&self.writer).take() {
            // A writer that has panicked has closed nothing, which the next start will see.
            let _ = writer.join();
        }
    }

    fn counters(&self) -> TierCounters {
        let cells = &self.shared.cells;
        let of = |cell: &AtomicU64| cell.load(Relaxed);
        TierCounters {
            objects: self.shared.index.count() as u64,
            bytes: of(&cells.bytes),
            budget_bytes: self.shared.settings.size_bytes,
            written: of(&cells.written),
            read: of(&cells.read),
            evicted: of(&cells.evicted),
            refused: of(&cells.refused),
            corrupt: of(&cells.corrupt),
            failures: of(&cells.failures),
        }
    }
}

impl Shared {
    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed)
    }

    fn segment(&self, id: u32) -> Option<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// What became of a response that was kept with this sequence number.
    fn purged(&self, sequence: u64, key: &[u8], fields: &[u8]) -> Option<PurgeMode> {
        self.purges.read().unwrap_or_else(PoisonError::into_inner).mode_for(sequence, key, fields)
    }

    /// Reads and checks one response.
    fn load(&self, place: &Place, key: &[u8]) -> Option<Object> {
        // Its segment may have left meanwhile.
        let segment = self.segment(place.segment)?;
        let bytes = match segment.read(&place.entry) {
            Ok(bytes) => bytes,
            Err(error) => {
                count(&self.cells.failures);
                (self.log)(Level::Warning, "disk cache", &format!("the disk cache cannot be read: {error}"));
                self.drop_place(place);
                return None;
            }
        };
        let read = record::read(&bytes);
        let Some((object, sequence)) = read.ok().filter(|(object, sequence)| {
            (object.hash, *sequence) == (place.entry.hash, place.entry.sequence)
        }) else {
            count(&self.cells.corrupt);
            let directory = self.settings.directory.display();
            let message = format!(
                "a response in the disk cache in {directory} was not as it was written; it is dropped"
            );
            (self.log)(Level::Warning, "disk cache corrupt", &message);
            self.drop_place(place);
            return None;
        };
        if object.key() != key {
            return None;
        }
        match self.purged(sequence, key, object.fields()) {
            Some(PurgeMode::Remove) => {
                self.drop_place(place);
                return None;
            }
            Some(PurgeMode::Soft) => object.set_state(State::SoftPurged),
            None => {}
        }
        // Forgotten while it was read, it must not be given out; nor where the purge that it was for has been carried out.
        if !self.index.contains(place) {
            return None;
        }
        count(&self.cells.read);
        Some(object)
    }

    fn drop_place(&self, place: &Place) {
        if let Some(gone) = self.index.remove(place) {
            lock(&self.queue).cancel(vec![gone]);
            self.wake.notify_all();
        }
    }

    fn wait_until(&self, most: Duration, is_so: impl Fn(&Queue, u64) -> bool) -> bool {
        let until = Instant::now() + most;
        let mut queue = lock(&self.queue);
        let asked = queue.urgent_given;
        while !is_so(&queue, asked) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.settled.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
        }
        true
    }
}

fn write_lock<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
