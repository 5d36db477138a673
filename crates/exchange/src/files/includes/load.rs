//! Makes a parsed page of a file: parsed once, stored until the file changes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::root::{FileKind, OpenError, OpenedFile};
use touchstone_includes::{CachedPage, PageKey, parse};
use touchstone_sites::includes::SiteIncludes;
use touchstone_sites::site::Snapshot;

use crate::core::Core;
use crate::files::whole_file;

/// How often a file that changes while it is read is read again.
const READ_ATTEMPTS: usize = 5;

/// Why a page cannot be loaded.
pub enum LoadError {
    /// The file cannot be opened.
    Refused(OpenError),
    /// It is larger than the limit for pages.
    TooLarge(u64),
    /// It keeps changing.
    Changing,
    /// It cannot be read.
    Unreadable(io::Error),
}

/// The stored page of a file, if it is current.
pub fn kept(core: &Core, snapshot: &Snapshot, site: usize, file_path: &[u8]) -> Option<Arc<CachedPage>> {
    let key = PageKey { root: site, file_path: file_path.to_vec() };
    let page = snapshot.pages.get(&key)?;
    let root = &snapshot.sites[site].root;
    let second = core.clock.second().unix_seconds;
    if page.is_current(second, || root.facts(file_path).ok()) {
        return Some(page);
    }
    snapshot.pages.remove(&key);
    None
}

/// Reads and parses the page in a file that was just opened, and stores it.
pub async fn load(
    core: &Core,
    snapshot: &Snapshot,
    site: usize,
    includes: &SiteIncludes,
    file_path: &[u8],
    opened: OpenedFile,
) -> Result<Arc<CachedPage>, LoadError> {
    let root = &snapshot.sites[site].root;
    let mut opened = opened;
    for _ in 0..READ_ATTEMPTS {
        let facts = opened.facts;
        if facts.kind == FileKind::Directory {
            return Err(LoadError::Refused(OpenError::NotFound));
        }
        if facts.size > includes.page_bytes() {
            return Err(LoadError::TooLarge(facts.size));
        }
        if let Some(body) = whole_file::read(opened).await.map_err(LoadError::Unreadable)? {
            let parsed = parse(&Bytes::from(body), &includes.settings);
            let second = core.clock.second().unix_seconds;
            let page = Arc::new(CachedPage::new(Arc::new(parsed), facts, second));
            snapshot.pages.insert(PageKey { root: site, file_path: file_path.to_vec() }, page.clone());
            return Ok(page);
        }
        opened = root.open(file_path).map_err(LoadError::Refused)?;
    }
    Err(LoadError::Changing)
}
