//! The memory cache of whole responses.
//!
//! For each file it keeps the answer to a plain GET as one buffer, head and body together, ready before the request
//! comes: a hit is one lookup and one write. The buffer is never changed. Its `Date` is right for one second; the
//! first hit of a new second builds the next buffer, shared by all cores, while writes under way keep the old one.
//!
//! - [`FileCache`] is shared by all cores and holds the limits; it evicts by SIEVE (Zhang et al., NSDI 2024): a
//!   hand walks from the oldest entry to the newest, spares what was used since it last came by, evicts the rest.
//! - [`CoreCache`] is one core's own view, a map without locks from path to entry. A hit touches nothing else.
//!
//! A change on disk makes an entry stale in two ways: the watcher of its directory says so within milliseconds, and
//! the first hit of every second compares the file's facts with those it was read under. The second way also sees
//! what no watch of one directory can: a renamed parent, a symbolic link that leads elsewhere now.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::root::{FileFacts, Root};
use crate::watch::{Change, DirectoryId, Watcher};

/// Bodies up to this length stand in one buffer with their head. Longer ones are kept once and sent with the head in
/// front by a gathering write, whose small extra cost does not show there, so that no second copies them.
const WHOLE_BODY_BYTES: usize = 64 * 1024;

/// What one entry costs beside its buffers: keys, counters, map slots. Measured once, rounded up.
const ENTRY_OVERHEAD_BYTES: u64 = 512;

/// The limits of the cache (the FastTrack and Enterprise servers' `cache-init`).
#[derive(Debug, Clone, Copy)]
pub struct CacheLimits {
    /// Most files (MaxNumberOfCachedFiles).
    pub files: usize,
    /// Most bytes, all files together (MaxTotalCachedFileSize).
    pub bytes: u64,
    /// Largest file (MaxCachedFileSize).
    pub file_bytes: u64,
}

/// Which form of head an answer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The connection persists, as HTTP/1.1 does unless told.
    Persistent = 0,
    /// The connection persists and must say so, to an HTTP/1.0 client.
    KeepAlive = 1,
    /// The connection ends after the answer.
    Close = 2,
}

impl Variant {
    /// The field line that says it.
    pub fn connection_field(self) -> &'static [u8] {
        match self {
            Variant::Persistent => b"",
            Variant::KeepAlive => b"Connection: keep-alive\r\n",
            Variant::Close => b"Connection: close\r\n",
        }
    }
}

/// The current second and its text, made once a second by the caller.
#[derive(Debug, Clone, Copy)]
pub struct DateSecond {
    /// Seconds since 1970.
    pub unix_seconds: i64,
    /// The same as an IMF-fixdate.
    pub text: [u8; 29],
}

/// A response ready to be written, right for one second.
#[derive(Debug)]
pub struct Prepared {
    /// Head, then the body unless `long_body` has it.
    bytes: Box<[u8]>,
    head_length: usize,
    long_body: Option<Arc<[u8]>>,
    second: i64,
}

impl Prepared {
    /// The first buffer to write: the whole response, or its head when [`Prepared::second_buffer`] has the body.
    #[inline]
    pub fn first_buffer(&self) -> &[u8] {
        &self.bytes
    }

    /// The second buffer to write; empty when the first is the whole response.
    #[inline]
    pub fn second_buffer(&self) -> &[u8] {
        self.long_body.as_deref().unwrap_or_default()
    }

    /// The head alone.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head_length]
    }

    /// The body alone.
    pub fn body(&self) -> &[u8] {
        match &self.long_body {
            Some(body) => body,
            None => &self.bytes[self.head_length..],
        }
    }

    /// Length of the body.
    #[inline]
    pub fn body_length(&self) -> usize {
        self.body().len()
    }
}

/// What every answer about one version of a file says, whatever its status.
#[derive(Debug, Clone)]
pub struct Representation {
    /// What the file was when it was opened.
    pub facts: FileFacts,
    /// The entity tag with its quotes.
    pub etag: Box<[u8]>,
    /// The Last-Modified date.
    pub last_modified: [u8; 29],
    /// The content type.
    pub content_type: Box<str>,
    /// `Cache-Control`; empty: none.
    pub cache_control: Box<str>,
}

impl Representation {
    /// Appends the fields that describe the representation, all but its type and length.
    pub fn write_validators(&self, out: &mut Vec<u8>) {
        for part in [&b"Last-Modified: "[..], &self.last_modified, b"\r\nETag: ", &self.etag, b"\r\n"] {
            out.extend_from_slice(part);
        }
        if !self.cache_control.is_empty() {
            for part in ["Cache-Control: ", &self.cache_control, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
    }

    /// Appends the head of the 200 answer.
    pub fn write_ok_head(&self, length: u64, date: &[u8; 29], variant: Variant, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nServer: touchstone\r\nDate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(self.content_type.as_bytes());
        out.extend_from_slice(format!("\r\nContent-Length: {length}\r\n").as_bytes());
        self.write_validators(out);
        out.extend_from_slice(b"Accept-Ranges: bytes\r\n");
        out.extend_from_slice(variant.connection_field());
        out.extend_from_slice(b"\r\n");
    }
}

/// One cached file, shared by all cores.
#[derive(Debug)]
pub struct Entry {
    key: Key,
    root: Arc<Root>,
    /// The path below the root that was opened; differs from the key's for a directory's index file.
    file_path: Box<[u8]>,
    directory: Option<DirectoryId>,
    representation: Representation,
    stale: AtomicBool,
    used: AtomicBool,
    responses: Mutex<Responses>,
}

/// The prepared responses of one entry. At least one is always there: its body is the file's content.
#[derive(Debug)]
struct Responses {
    by_variant: [Option<Arc<Prepared>>; 3],
    /// The second in which the file was last compared with the disk.
    checked_second: i64,
    /// What the cache's total holds for this entry; `None` once it has been given back.
    accounted_bytes: Option<u64>,
}

impl Entry {
    /// What the entry is a copy of.
    pub fn representation(&self) -> &Representation {
        &self.representation
    }

    /// The response for this second; `None` when the file is not what it was.
    fn prepared(&self, variant: Variant, date: &DateSecond, cache: &FileCache) -> Option<Arc<Prepared>> {
        let mut responses = lock(&self.responses);
        if responses.checked_second != date.unix_seconds {
            responses.checked_second = date.unix_seconds;
            let unchanged = self
                .root
                .facts(&self.file_path)
                .is_ok_and(|now| now.same_version(&self.representation.facts));
            if !unchanged {
                drop(responses);
                cache.remove(self);
                return None;
            }
        }
        if let Some(ready) = &responses.by_variant[variant as usize]
            && ready.second == date.unix_seconds
        {
            return Some(ready.clone());
        }
        let source = responses.by_variant.iter().flatten().next()?;
        let body = match &source.long_body {
            Some(long) => BodySource::Long(long.clone()),
            None => BodySource::Whole(source.body()),
        };
        let next = Arc::new(prepare(&self.representation, body, variant, date));
        let further = responses.by_variant[variant as usize].replace(next.clone()).is_none();
        if further && let Some(accounted) = &mut responses.accounted_bytes {
            // A further form of the same answer is a further copy; it counts.
            *accounted += next.bytes.len() as u64;
            cache.bytes.fetch_add(next.bytes.len() as u64, Ordering::Relaxed);
        }
        Some(next)
    }

    /// Notes what the entry costs, and gives it.
    fn account(&self) -> u64 {
        let mut responses = lock(&self.responses);
        let buffers: usize = responses.by_variant.iter().flatten().map(|prepared| prepared.bytes.len()).sum();
        let long_body =
            responses.by_variant.iter().flatten().find_map(|prepared| prepared.long_body.as_ref());
        let cost = (buffers + long_body.map_or(0, |body| body.len())) as u64 + ENTRY_OVERHEAD_BYTES;
        responses.accounted_bytes = Some(cost);
        cost
    }

    /// Gives back what was noted, once; nothing is noted after it.
    fn settle(&self) -> u64 {
        lock(&self.responses).accounted_bytes.take().unwrap_or(0)
    }
}

enum BodySource<'a> {
    Whole(&'a [u8]),
    Long(Arc<[u8]>),
}

fn prepare(
    representation: &Representation,
    body: BodySource,
    variant: Variant,
    date: &DateSecond,
) -> Prepared {
    let (in_buffer, long_body) = match body {
        BodySource::Whole(body) => (body, None),
        BodySource::Long(body) => (&[][..], Some(body)),
    };
    let length = long_body.as_ref().map_or(in_buffer.len(), |body| body.len());
    let mut bytes = Vec::with_capacity(512 + in_buffer.len());
    representation.write_ok_head(length as u64, &date.text, variant, &mut bytes);
    let head_length = bytes.len();
    bytes.extend_from_slice(in_buffer);
    Prepared { bytes: bytes.into_boxed_slice(), head_length, long_body, second: date.unix_seconds }
}

/// Site number and normalised path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    site: usize,
    path: Box<[u8]>,
}

/// Counters of the cache, for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheCounters {
    /// Files in it.
    pub files: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Files evicted to make room, since the start.
    pub evictions: u64,
    /// Files dropped because they changed on disk, since the start.
    pub invalidations: u64,
}

/// The cache, shared by all cores.
pub struct FileCache {
    limits: CacheLimits,
    store: Mutex<Store>,
    bytes: AtomicU64,
    evictions: AtomicU64,
    invalidations: AtomicU64,
    /// Raised with everything that makes an entry stale: cores then look through their maps.
    removals: AtomicU64,
    /// Raised with every change that the watcher reports; the clock of [`Store::changed_at`].
    changes: AtomicU64,
    watcher: Mutex<Option<Watcher>>,
}

#[derive(Default)]
struct Store {
    entries: HashMap<Key, Arc<Entry>, FxBuildHasher>,
    /// Oldest first; entries that became stale stay until the hand or a clean-up meets them.
    queue: VecDeque<Arc<Entry>>,
    hand: usize,
    by_directory: FxHashMap<DirectoryId, Vec<Arc<Entry>>>,
    /// The last change in each watched directory, by the count of [`FileCache::changes`].
    changed_at: FxHashMap<DirectoryId, u64>,
}

/// Begun before a file is opened, so that a change between opening and inserting is not missed.
#[derive(Debug, Clone, Copy)]
pub struct ReadTicket {
    changes: u64,
    directory: Option<DirectoryId>,
}

/// A file that was just read, to be inserted.
pub struct NewEntry<'a> {
    /// The site that it belongs to.
    pub site: usize,
    /// The normalised path of the request.
    pub path: &'a [u8],
    /// The path below the root that was opened.
    pub file_path: &'a [u8],
    /// The root that it was opened under.
    pub root: Arc<Root>,
    /// What it is.
    pub representation: Representation,
    /// Its content.
    pub body: Vec<u8>,
}

impl FileCache {
    /// An empty cache. Without inotify (no permission, limit reached) it works on comparisons alone; the error is
    /// given back beside the cache for the log.
    pub fn new(limits: CacheLimits) -> (Arc<FileCache>, Option<std::io::Error>) {
        let cache = Arc::new(FileCache {
            limits,
            store: Mutex::default(),
            bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            removals: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            watcher: Mutex::new(None),
        });
        let weak = Arc::downgrade(&cache);
        let started = Watcher::start(move |change| {
            if let Some(cache) = weak.upgrade() {
                cache.changed(&change);
            }
        });
        match started {
            Ok(watcher) => {
                *lock(&cache.watcher) = Some(watcher);
                (cache, None)
            }
            Err(error) => (cache, Some(error)),
        }
    }

    /// The limits it was made with.
    pub fn limits(&self) -> &CacheLimits {
        &self.limits
    }

    /// True for a file that may be kept, by its size.
    pub fn admits(&self, size: u64) -> bool {
        size <= self.limits.file_bytes && size < self.limits.bytes && self.limits.files > 0
    }

    /// Call before opening a file: watches its directory and notes the state of changes.
    pub fn begin_read(&self, directory: &Path) -> ReadTicket {
        // In this order: a change that comes between the two is then later than the ticket.
        let changes = self.changes.load(Ordering::Acquire);
        let directory = lock(&self.watcher).as_ref().and_then(|watcher| watcher.watch(directory).ok());
        ReadTicket { changes, directory }
    }

    /// Counters for the operator.
    pub fn counters(&self) -> CacheCounters {
        CacheCounters {
            files: lock(&self.store).entries.len() as u64,
            bytes: self.bytes.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            invalidations: self.invalidations.load(Ordering::Relaxed),
        }
    }

    /// Inserts a file that was read since `ticket`; gives it back even where a change meanwhile forbids keeping it.
    fn insert(
        &self,
        new: NewEntry,
        ticket: ReadTicket,
        variant: Variant,
        date: &DateSecond,
    ) -> (Arc<Entry>, Arc<Prepared>) {
        let body = if new.body.len() <= WHOLE_BODY_BYTES {
            BodySource::Whole(&new.body)
        } else {
            BodySource::Long(Arc::from(new.body.as_slice()))
        };
        let prepared = Arc::new(prepare(&new.representation, body, variant, date));
        let mut by_variant = [None, None, None];
        by_variant[variant as usize] = Some(prepared.clone());
        let entry = Arc::new(Entry {
            key: Key { site: new.site, path: new.path.into() },
            root: new.root,
            file_path: new.file_path.into(),
            directory: ticket.directory,
            representation: new.representation,
            stale: AtomicBool::new(false),
            used: AtomicBool::new(false),
            responses: Mutex::new(Responses {
                by_variant,
                checked_second: date.unix_seconds,
                accounted_bytes: None,
            }),
        });
        let mut store = lock(&self.store);
        let changed_at = ticket.directory.and_then(|directory| store.changed_at.get(&directory));
        if changed_at.is_some_and(|&changed| changed > ticket.changes) {
            entry.stale.store(true, Ordering::Release);
            return (entry, prepared);
        }
        if let Some(previous) = store.entries.get(&entry.key).cloned() {
            self.retire(&mut store, &previous);
        }
        // Room is made before the newcomer is in the queue: a hand at the queue's end would meet it first.
        let cost = entry.account();
        while store.entries.len() >= self.limits.files
            || self.bytes.load(Ordering::Relaxed) + cost > self.limits.bytes
        {
            if !self.evict_one(&mut store) {
                break;
            }
        }
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        store.entries.insert(entry.key.clone(), entry.clone());
        store.queue.push_back(entry.clone());
        if let Some(directory) = entry.directory {
            store.by_directory.entry(directory).or_default().push(entry.clone());
        }
        (entry, prepared)
    }

    /// SIEVE: walks the hand to the first entry that was not used since it last came by.
    fn evict_one(&self, store: &mut Store) -> bool {
        // Two rounds are enough: the first clears every mark.
        for _ in 0..2 * store.queue.len() + 1 {
            if store.queue.is_empty() {
                return false;
            }
            if store.hand >= store.queue.len() {
                store.hand = 0;
            }
            let entry = store.queue[store.hand].clone();
            if entry.stale.load(Ordering::Acquire) {
                store.queue.remove(store.hand);
            } else if entry.used.swap(false, Ordering::Relaxed) {
                store.hand += 1;
            } else {
                store.queue.remove(store.hand);
                self.retire(store, &entry);
                self.evictions.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Takes an entry out of every map and makes it stale.
    fn retire(&self, store: &mut Store, entry: &Arc<Entry>) {
        entry.stale.store(true, Ordering::Release);
        if store.entries.get(&entry.key).is_some_and(|kept| Arc::ptr_eq(kept, entry)) {
            store.entries.remove(&entry.key);
            self.bytes.fetch_sub(entry.settle(), Ordering::Relaxed);
        }
        if let Some(directory) = entry.directory
            && let Some(entries) = store.by_directory.get_mut(&directory)
        {
            entries.retain(|kept| !Arc::ptr_eq(kept, entry));
            if entries.is_empty() {
                store.by_directory.remove(&directory);
                store.changed_at.remove(&directory);
                if let Some(watcher) = &*lock(&self.watcher) {
                    watcher.unwatch(directory);
                }
            }
        }
        self.removals.fetch_add(1, Ordering::Release);
        if store.queue.len() > 2 * store.entries.len() + 64 {
            store.queue.retain(|kept| !kept.stale.load(Ordering::Acquire));
            store.hand = 0;
        }
    }

    /// Drops an entry whose file is not what it was.
    fn remove(&self, entry: &Entry) {
        let mut store = lock(&self.store);
        if let Some(kept) = store.entries.get(&entry.key).cloned()
            && std::ptr::eq(&*kept, entry)
        {
            self.retire(&mut store, &kept);
            self.invalidations.fetch_add(1, Ordering::Relaxed);
        }
        entry.stale.store(true, Ordering::Release);
    }

    /// The watcher saw a change.
    fn changed(&self, change: &Change) {
        let mut store = lock(&self.store);
        let now = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        store.changed_at.insert(change.directory, now);
        let Some(entries) = store.by_directory.get(&change.directory) else { return };
        let name = change.name.as_deref().map(OsStr::as_bytes);
        let touched: Vec<Arc<Entry>> = entries
            .iter()
            // An entry for the directory itself stands for its index file, whichever name that has now.
            .filter(|entry| {
                name.is_none_or(|name| file_name(&entry.file_path) == name || entry.key.path.ends_with(b"/"))
            })
            .cloned()
            .collect();
        for entry in touched {
            self.retire(&mut store, &entry);
            self.invalidations.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for FileCache {
    fn drop(&mut self) {
        // The watcher's thread holds only a weak reference; ending it here keeps no thread behind a reload.
        let watcher = lock(&self.watcher).take();
        drop(watcher);
    }
}

/// One core's own view of one site: a map without locks.
pub struct CoreCache {
    shared: Arc<FileCache>,
    site: usize,
    slots: FxHashMap<Box<[u8]>, Slot>,
    removals_seen: u64,
}

struct Slot {
    entry: Arc<Entry>,
    by_variant: [Option<Arc<Prepared>>; 3],
}

impl CoreCache {
    /// A view of `site` for one core.
    pub fn new(shared: Arc<FileCache>, site: usize) -> CoreCache {
        CoreCache { shared, site, slots: HashMap::default(), removals_seen: 0 }
    }

    /// The shared cache.
    pub fn shared(&self) -> &Arc<FileCache> {
        &self.shared
    }

    /// The response to a plain GET of `path`, ready for this second.
    #[inline]
    pub fn hit(&mut self, path: &[u8], variant: Variant, date: &DateSecond) -> Option<&Arc<Prepared>> {
        // Looked up again at the end because the borrow of a returned slot would forbid the removal in between.
        let ready = match self.slots.get(path) {
            None => false,
            Some(slot) => {
                let fresh =
                    slot.by_variant[variant as usize].as_ref().is_some_and(|p| p.second == date.unix_seconds);
                fresh && !slot.entry.stale.load(Ordering::Acquire)
            }
        };
        if !ready && !self.renew(path, variant, date) {
            return None;
        }
        let slot = self.slots.get(path)?;
        if !slot.entry.used.load(Ordering::Relaxed) {
            slot.entry.used.store(true, Ordering::Relaxed);
        }
        slot.by_variant[variant as usize].as_ref()
    }

    /// The entry and its response, for answers that are not the plain one.
    pub fn entry(
        &mut self,
        path: &[u8],
        variant: Variant,
        date: &DateSecond,
    ) -> Option<(Arc<Entry>, Arc<Prepared>)> {
        let prepared = self.hit(path, variant, date)?.clone();
        Some((self.slots.get(path)?.entry.clone(), prepared))
    }

    /// Inserts a file that was just read, and gives the response to send now.
    pub fn insert(
        &mut self,
        new: NewEntry,
        ticket: ReadTicket,
        variant: Variant,
        date: &DateSecond,
    ) -> (Arc<Entry>, Arc<Prepared>) {
        let path: Box<[u8]> = new.path.into();
        let (entry, prepared) = self.shared.insert(new, ticket, variant, date);
        if !entry.stale.load(Ordering::Acquire) {
            let mut by_variant = [None, None, None];
            by_variant[variant as usize] = Some(prepared.clone());
            self.slots.insert(path, Slot { entry: entry.clone(), by_variant });
        }
        (entry, prepared)
    }

    /// Lets go of what other cores or the disk have made stale. To be called about once a second, so that memory
    /// returns even when nobody asks for the path again.
    pub fn tick(&mut self) {
        let removals = self.shared.removals.load(Ordering::Acquire);
        if removals != self.removals_seen {
            self.removals_seen = removals;
            self.slots.retain(|_, slot| !slot.entry.stale.load(Ordering::Acquire));
        }
        // Buffers of a past second that this core has not needed since are only weight.
        for slot in self.slots.values_mut() {
            for prepared in &mut slot.by_variant {
                if prepared.as_ref().is_some_and(|kept| Arc::strong_count(kept) == 1) {
                    *prepared = None;
                }
            }
        }
    }

    /// Finds the entry if another core has it, drops it if it is stale, and fetches this second's response.
    #[cold]
    fn renew(&mut self, path: &[u8], variant: Variant, date: &DateSecond) -> bool {
        if self.slots.get(path).is_some_and(|slot| slot.entry.stale.load(Ordering::Acquire)) {
            self.slots.remove(path);
        }
        if !self.slots.contains_key(path) {
            let key = Key { site: self.site, path: path.into() };
            let Some(entry) = lock(&self.shared.store).entries.get(&key).cloned() else { return false };
            self.slots.insert(key.path, Slot { entry, by_variant: [None, None, None] });
        }
        let Some(slot) = self.slots.get_mut(path) else { return false };
        match slot.entry.prepared(variant, date, &self.shared) {
            Some(prepared) => {
                slot.by_variant[variant as usize] = Some(prepared);
                true
            }
            None => {
                self.slots.remove(path);
                false
            }
        }
    }
}

/// A lock that a panicking thread left is taken all the same: every critical section here leaves whole states.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
