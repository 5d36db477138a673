//! Caches parsed pages until their files change, within a limit of bytes.
//!
//! A page that was compared with its file in this second is used without a further disk access, as in the
//! cache of whole responses. All cores share the cache: a page is looked up once for each request.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use touchstone_files::root::FileFacts;

use super::host::DependsOn;
use super::page::Page;

/// The key of a file: the number of its root, and its path there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The root's number.
    pub root: usize,
    /// The path below it.
    pub file_path: Vec<u8>,
}

/// A page in the cache.
#[derive(Debug)]
pub struct CachedPage {
    /// The page.
    pub page: Arc<Page>,
    /// The facts of its file when it was read.
    pub facts: FileFacts,
    checked_second: AtomicI64,
    used: AtomicBool,
    depended_on_request: AtomicBool,
}

/// Parsed pages.
#[derive(Debug)]
pub struct PageCache {
    most_bytes: usize,
    store: Mutex<Store>,
}

#[derive(Debug, Default)]
struct Store {
    /// The hashes are seeded, because clients may choose the names.
    pages: HashMap<PageKey, Arc<CachedPage>>,
    /// The oldest first.
    queue: VecDeque<PageKey>,
    bytes: usize,
}

impl CachedPage {
    /// A page that was read from a file with these facts in this second.
    pub fn new(page: Arc<Page>, facts: FileFacts, second: i64) -> CachedPage {
        CachedPage {
            page,
            facts,
            checked_second: AtomicI64::new(second),
            used: AtomicBool::new(false),
            depended_on_request: AtomicBool::new(false),
        }
    }

    /// Whether its last output depended on the request: the next one probably will too.
    pub fn depended_on_request(&self) -> bool {
        self.depended_on_request.load(Ordering::Relaxed)
    }

    /// Records what its output depended on.
    pub fn note(&self, depends_on: DependsOn) {
        let depended = depends_on == DependsOn::Request;
        if depended != self.depended_on_request() {
            self.depended_on_request.store(depended, Ordering::Relaxed);
        }
    }

    /// Whether the file is unchanged; `facts` accesses the disk, at most once a second.
    pub fn is_current(&self, second: i64, facts: impl FnOnce() -> Option<FileFacts>) -> bool {
        if self.checked_second.load(Ordering::Relaxed) == second {
            return true;
        }
        let current = facts().is_some_and(|facts| facts.same_version(&self.facts));
        if current {
            self.checked_second.store(second, Ordering::Relaxed);
        }
        current
    }
}

impl PageCache {
    /// An empty cache with this maximum size in bytes.
    pub fn new(most_bytes: usize) -> PageCache {
        PageCache { most_bytes, store: Mutex::default() }
    }

    /// The cached page of a file, current or not.
    pub fn get(&self, key: &PageKey) -> Option<Arc<CachedPage>> {
        let page = self.lock().pages.get(key).cloned()?;
        page.used.store(true, Ordering::Relaxed);
        Some(page)
    }

    /// Stores a page and replaces the present one of its file.
    pub fn insert(&self, key: PageKey, page: Arc<CachedPage>) {
        let bytes = page.page.bytes();
        if bytes > self.most_bytes {
            return;
        }
        let mut store = self.lock();
        store.bytes += bytes;
        match store.pages.insert(key.clone(), page) {
            Some(replaced) => store.bytes -= replaced.page.bytes(),
            None => store.queue.push_back(key),
        }
        store.evict(self.most_bytes);
    }

    /// Removes the page of a file that no longer exists.
    pub fn remove(&self, key: &PageKey) {
        let mut store = self.lock();
        if let Some(removed) = store.pages.remove(key) {
            store.bytes -= removed.page.bytes();
            store.queue.retain(|kept| kept != key);
        }
    }

    /// The number of cached pages and their bytes.
    pub fn usage(&self) -> (usize, usize) {
        let store = self.lock();
        (store.pages.len(), store.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // Every critical section leaves a consistent state.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Removes the oldest page, unless it was used since it was last examined.
    fn evict(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes {
            let Some(key) = self.queue.pop_front() else { return };
            let Some(page) = self.pages.get(&key) else { continue };
            // The new page is last in the queue, so this ends at the latest when all others have lost their
            // mark.
            if page.used.swap(false, Ordering::Relaxed) {
                self.queue.push_back(key);
                continue;
            }
            self.bytes -= page.page.bytes();
            self.pages.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use touchstone_files::root::FileKind;

    use super::*;
    use crate::{Settings, parse};

    fn facts(size: u64) -> FileFacts {
        FileFacts {
            kind: FileKind::Regular,
            size,
            modified_seconds: 1,
            modified_nanoseconds: 0,
            changed_seconds: 1,
            changed_nanoseconds: 0,
            inode: 1,
            device: 1,
            permissions: 0o644,
            owner: 0,
            hard_links: 1,
        }
    }

    fn page(size: usize) -> Arc<CachedPage> {
        let page = parse(&Bytes::from(vec![b'x'; size]), &Settings::default());
        Arc::new(CachedPage::new(Arc::new(page), facts(size as u64), 10))
    }

    fn key(name: &str) -> PageKey {
        PageKey { root: 0, file_path: name.into() }
    }

    #[test]
    fn the_budget_holds_and_used_pages_stay() {
        let cache = PageCache::new(300);
        for name in ["/a", "/b", "/c"] {
            cache.insert(key(name), page(100));
        }
        assert!(cache.get(&key("/a")).is_some());
        cache.insert(key("/d"), page(100));
        assert_eq!(cache.usage(), (3, 300));
        assert!(cache.get(&key("/a")).is_some());
        assert!(cache.get(&key("/b")).is_none());
        cache.insert(key("/d"), page(50));
        assert_eq!(cache.usage(), (3, 250));
        cache.insert(key("/huge"), page(301));
        assert!(cache.get(&key("/huge")).is_none());
        cache.remove(&key("/a"));
        assert_eq!(cache.usage(), (2, 150));
    }

    #[test]
    fn the_disk_is_checked_once_a_second() {
        let page = page(5);
        assert!(page.is_current(10, || panic!("it was read in this second")));
        assert!(page.is_current(11, || Some(facts(5))));
        assert!(page.is_current(11, || panic!("it was compared in this second")));
        assert!(!page.is_current(12, || Some(facts(6))));
        assert!(!page.is_current(12, || None));
    }
}
