//! The memory cache of whole responses.
//!
//! For each file it keeps the answer to a plain GET as one buffer, head and body together: a hit is one
//! lookup and one write. The buffer is never changed. Its `Date` is valid for one second; the first hit of a
//! new second builds the next buffer, shared by all cores, while running writes keep the old one. Coded forms
//! of the file (such as gzip) are kept in the same way.
//!
//! - [`FileCache`] is shared by all cores and has the limits; it evicts by SIEVE (Zhang et al., NSDI 2024): a
//!   hand walks from the oldest entry to the newest, spares entries that were used since its last visit, and
//!   evicts the others.
//! - [`Entry`] is one file in it, with its representations ([`CachedForms`]) and their responses
//!   ([`PreparedResponse`]).
//! - [`CoreCache`] is one core's own view, a map without locks from path to entry. A hit touches nothing
//!   else.
//!
//! A change on disk makes an entry stale in two ways: the watcher of its directory reports it within
//! milliseconds, and the first hit of every second compares the file's properties with those at the time of
//! reading. The second way also finds changes that the watch of one directory cannot report: a renamed
//! parent, or a symbolic link with a new target.

mod core;
mod entry;
mod path_table;
mod response;

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use touchstone_http::content_coding::ContentCoding;

pub use self::core::{CoreCache, WithDictionaryState};
pub use self::entry::{
    CachedForms, CodingJob, DictionaryJob, DictionarySelection, EncodingStart, Entry, Selection,
};
pub use self::response::{
    ConnectionForm, DateSecond, PreparedResponse, Representation, SharedBody, WHOLE_BODY_BYTES,
};
use crate::coding::{CodingSettings, Codings, is_twin_name};
use crate::dictionary::{Dictionaries, Pattern, SiteDictionaries};
use crate::root::Root;
use crate::watch::{Change, DirectoryId, Watcher};

/// The limits of the cache (the FastTrack and Enterprise servers' `cache-init`).
#[derive(Debug, Clone, Copy)]
pub struct CacheLimits {
    /// The maximum number of files (MaxNumberOfCachedFiles).
    pub files: usize,
    /// The maximum size of all files together in bytes (MaxTotalCachedFileSize).
    pub bytes: u64,
    /// The maximum size of a file (MaxCachedFileSize).
    pub file_bytes: u64,
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
    /// The number of files in it.
    pub files: u64,
    /// The number of bytes in it.
    pub bytes: u64,
    /// Files evicted to make room, since the start.
    pub evictions: u64,
    /// Files dropped because they changed on disk, since the start.
    pub invalidations: u64,
    /// The number of compressions since the start.
    pub compressions: u64,
}

/// The cache, shared by all cores.
pub struct FileCache {
    limits: CacheLimits,
    /// By site: its order of codings, if it has codings.
    coding_orders: Box<[Option<[ContentCoding; 3]>]>,
    /// By site: its dictionary settings, if it has any.
    site_dictionaries: Box<[SiteDictionaries]>,
    /// Earlier versions of these files.
    dictionaries: Arc<Dictionaries>,
    store: Mutex<Store>,
    bytes: AtomicU64,
    evictions: AtomicU64,
    invalidations: AtomicU64,
    compressions: AtomicU64,
    /// The number of running compressions.
    compressing: AtomicUsize,
    most_compressing: usize,
    /// Incremented whenever an entry becomes stale: each core then checks its map.
    removals: AtomicU64,
    /// Incremented with every change that the watcher reports; the clock of [`Store::changed_at`].
    changes: AtomicU64,
    watcher: Mutex<Option<Watcher>>,
}

#[derive(Default)]
struct Store {
    /// The hashes are seeded, because clients may choose the names.
    entries: HashMap<Key, Arc<Entry>>,
    /// The oldest entry first; stale entries remain until the hand or a clean-up finds them.
    queue: VecDeque<Arc<Entry>>,
    hand: usize,
    by_directory: FxHashMap<DirectoryId, Vec<Arc<Entry>>>,
    /// The last change in each watched directory, by the count of [`FileCache::changes`].
    changed_at: FxHashMap<DirectoryId, u64>,
}

/// Created before a file is opened, so that a change between opening and inserting is not missed.
#[derive(Debug, Clone, Copy)]
pub struct ReadTicket {
    changes: u64,
    directory: Option<DirectoryId>,
}

/// How long the content of an entry is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Until the file changes.
    UntilChanged,
    /// Until the end of the second in which it was made: it contains the time, or depends on other files.
    OneSecond,
}

/// A file that was just read, to be inserted.
pub struct NewEntry<'a> {
    /// Its site.
    pub site: usize,
    /// The normalised path of the request.
    pub path: &'a [u8],
    /// The path below the root that was opened.
    pub file_path: &'a [u8],
    /// The root under which it was opened.
    pub root: Arc<Root>,
    /// Its facts and content type.
    pub representation: Representation,
    /// Its possible codings.
    pub codings: Codings,
    /// How long its content is valid.
    pub validity: Validity,
    /// Its content.
    pub body: Vec<u8>,
}

impl FileCache {
    /// An empty cache. Without inotify (no permission, limit reached) it relies on comparisons alone; the
    /// error is returned with the cache for the log. `sites` has each site's settings for content codings.
    pub fn new(limits: CacheLimits, sites: &[CodingSettings]) -> (Arc<FileCache>, Option<std::io::Error>) {
        FileCache::with_dictionaries(limits, sites, Vec::new(), Arc::default())
    }

    /// The same, with the sites' dictionary settings, and the store for dictionaries.
    pub fn with_dictionaries(
        limits: CacheLimits,
        sites: &[CodingSettings],
        site_dictionaries: Vec<SiteDictionaries>,
        dictionaries: Arc<Dictionaries>,
    ) -> (Arc<FileCache>, Option<std::io::Error>) {
        let coding_orders = sites.iter().map(|site| (!site.is_off()).then_some(site.order)).collect();
        let cache = Arc::new(FileCache {
            limits,
            coding_orders,
            site_dictionaries: site_dictionaries.into(),
            dictionaries,
            store: Mutex::default(),
            bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            compressions: AtomicU64::new(0),
            compressing: AtomicUsize::new(0),
            // More compressions would not finish sooner, and would delay the event loops.
            most_compressing: std::thread::available_parallelism().map_or(1, usize::from),
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

    /// The limits of the cache.
    pub fn limits(&self) -> &CacheLimits {
        &self.limits
    }

    /// Whether a file of this size may be cached.
    pub fn admits(&self, size: u64) -> bool {
        size <= self.limits.file_bytes && size < self.limits.bytes && self.limits.files > 0
    }

    /// Must be called before a file is opened: watches its directory and records the count of changes.
    pub fn begin_read(&self, directory: &Path) -> ReadTicket {
        // The order matters: a change between the two steps is then later than the ticket.
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
            compressions: self.compressions.load(Ordering::Relaxed),
        }
    }

    /// Drops an entry that, according to the caller, differs from the disk.
    pub fn forget(&self, entry: &Entry) {
        self.remove(entry);
    }

    /// Drops all entries of files of which a name in the path is one of `names`: these files, and all below
    /// such directories.
    pub fn forget_names(&self, names: &[&[u8]]) {
        let is_named =
            |entry: &Entry| entry.file_path().split(|&byte| byte == b'/').any(|name| names.contains(&name));
        let mut store = lock(&self.store);
        let named: Vec<Arc<Entry>> =
            store.entries.values().filter(|entry| is_named(entry)).cloned().collect();
        for entry in named {
            self.retire(&mut store, &entry);
            self.invalidations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The paths for which the file at `path` of a site is a dictionary; `None`: it is not a dictionary.
    pub fn dictionary_pattern(&self, site: usize, path: &[u8]) -> Option<&Pattern> {
        self.site_dictionaries.get(site)?.pattern(path)
    }

    /// The number that identifies a site's dictionaries; `None`: it has none.
    fn dictionary_scope(&self, site: usize) -> Option<u64> {
        let of_site = self.site_dictionaries.get(site)?;
        (!of_site.patterns.is_empty()).then_some(of_site.scope)
    }

    fn coding_order(&self, site: usize) -> Option<[ContentCoding; 3]> {
        self.coding_orders.get(site).copied().flatten()
    }

    /// Inserts a file that was read after `ticket` was created; returns it even if a change in between
    /// forbids caching it.
    fn insert(
        &self,
        new: NewEntry,
        ticket: ReadTicket,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> (Arc<Entry>, Arc<PreparedResponse>) {
        if let Some(pattern) = &new.representation.dictionary_for
            && let Some(scope) = self.dictionary_scope(new.site)
        {
            self.dictionaries.keep(scope, pattern, &new.body);
        }
        let entry = Arc::new(Entry::new(new, &ticket, form, date));
        let prepared = entry.identity().response(&entry, form, date, self);
        let mut store = lock(&self.store);
        let changed_at = ticket.directory.and_then(|directory| store.changed_at.get(&directory));
        if changed_at.is_some_and(|&changed| changed > ticket.changes) {
            entry.stale.store(true, Ordering::Release);
            return (entry, prepared);
        }
        if let Some(previous) = store.entries.get(&entry.key).cloned() {
            self.retire(&mut store, &previous);
        }
        self.bytes.fetch_add(entry.open_account(), Ordering::Relaxed);
        // This is done before the new entry is inserted: it could not have been used yet, and a hand at the
        // end would evict each new entry.
        self.evict_beyond_limits(&mut store, self.limits.files.saturating_sub(1));
        store.entries.insert(entry.key.clone(), entry.clone());
        store.queue.push_back(entry.clone());
        if let Some(directory) = entry.directory {
            store.by_directory.entry(directory).or_default().push(entry.clone());
        }
        (entry, prepared)
    }

    /// Evicts until the limits are kept, after the cache has grown.
    fn make_room(&self) {
        if self.bytes.load(Ordering::Relaxed) > self.limits.bytes {
            self.evict_beyond_limits(&mut lock(&self.store), self.limits.files);
        }
    }

    fn evict_beyond_limits(&self, store: &mut Store, most_files: usize) {
        while store.entries.len() > most_files || self.bytes.load(Ordering::Relaxed) > self.limits.bytes {
            if !self.evict_one(store) {
                break;
            }
        }
    }

    /// Takes one of the permits for compressing, if one is free.
    fn begin_compression(&self) -> bool {
        let one_more = |now: usize| (now < self.most_compressing).then_some(now + 1);
        self.compressing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn end_compression(&self) {
        self.compressing.fetch_sub(1, Ordering::Relaxed);
    }

    /// SIEVE: moves the hand to the first entry that was not used since its last visit.
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

    /// Removes an entry from every map and makes it stale.
    fn retire(&self, store: &mut Store, entry: &Arc<Entry>) {
        entry.stale.store(true, Ordering::Release);
        if store.entries.get(&entry.key).is_some_and(|kept| Arc::ptr_eq(kept, entry)) {
            store.entries.remove(&entry.key);
        }
        self.bytes.fetch_sub(entry.close_account(), Ordering::Relaxed);
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

    /// Drops an entry whose file has changed.
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

    /// Drops an entry whose validity has ended.
    fn expire(&self, entry: &Entry) {
        let mut store = lock(&self.store);
        if let Some(kept) = store.entries.get(&entry.key).cloned()
            && std::ptr::eq(&*kept, entry)
        {
            self.retire(&mut store, &kept);
        }
        entry.stale.store(true, Ordering::Release);
    }

    /// Handles a change that the watcher reported.
    fn changed(&self, change: &Change) {
        let mut store = lock(&self.store);
        let now = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        store.changed_at.insert(change.directory, now);
        let Some(entries) = store.by_directory.get(&change.directory) else { return };
        let name = change.name.as_deref().map(OsStr::as_bytes);
        let touched: Vec<Arc<Entry>> = entries
            .iter()
            // An entry for the directory itself contains its index file, which may now be another file.
            .filter(|entry| {
                let original = file_name(&entry.file_path);
                name.is_none_or(|name| {
                    original == name || is_twin_name(name, original) || entry.key.path.ends_with(b"/")
                })
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
        // The watcher's thread has only a weak reference; it is stopped here, so that no thread remains after
        // a reload.
        let watcher = lock(&self.watcher).take();
        drop(watcher);
    }
}

/// A lock that a panicking thread held is used anyway: every critical section here leaves a consistent state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
