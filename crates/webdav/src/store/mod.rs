//! Locks and dead properties: in memory, and in a journal on the disk.
//!
//! ```text
//! with(): lock the journal's file -> read what others have added -> check, change, append -> unlock
//! ```
//!
//! During an upgrade two processes have the same journal, so each use locks the file and reads its new end
//! first. A line is one change and holds all of it: a line that a crash has cut off is removed, and the
//! change was not made. When most lines are no longer needed, the journal is written again under another name
//! and replaces the old one.

mod journal;
mod key;
mod lock;
mod record;
mod tables;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use touchstone_handler::shared_by_name::SharedByName;
use touchstone_handler::webdav_counts::LockTable;

use crate::failure::Result;
use crate::tree::is_in;

use journal::Journal;
pub use key::is_below;
pub use lock::Lock;
pub use record::Record;
pub use tables::{Tables, property_size};
use touchstone_http::hexadecimal;

/// The state of a tree. All routes and all generations of the configuration that have the tree share it.
pub struct Store {
    directory: PathBuf,
    file: PathBuf,
    journal: Mutex<Option<Journal>>,
    /// The number of locks at the last query.
    locks: AtomicU64,
}

/// The state, while no other thread or process uses it.
pub struct Session<'a> {
    journal: &'a mut Journal,
}

/// The states of the trees of a server. Another server shares the files with it, as another process does.
#[derive(Default)]
pub struct WebDavStores(SharedByName<PathBuf, Store>);

/// The problem of a directory for the state of a tree; `None`: it is valid.
pub fn problem_of_state(directory: &Path, root: &Path) -> Option<String> {
    match is_in(directory, root) {
        Ok(false) => None,
        Ok(true) => Some(format!(
            "{} is in {}, where clients could read and change it; name a directory outside",
            directory.display(),
            root.display()
        )),
        Err(error) => Some(format!("{}: {error}", directory.display())),
    }
}

impl WebDavStores {
    /// The state of the tree at `root`, in a file of `directory`. The file is opened when it is used first.
    pub fn open(&self, directory: &Path, root: &Path) -> io::Result<Arc<Store>> {
        let root = root.canonicalize()?;
        let digest = Sha256::digest(root.as_os_str().as_bytes());
        let file = directory.join(format!("{}.journal", hexadecimal::encode(&digest[..16])));
        self.0.of_or(file, |file| {
            let (directory, file) = (directory.to_path_buf(), file.clone());
            Ok(Store { directory, file, journal: Mutex::new(None), locks: AtomicU64::new(0) })
        })
    }
}

impl Store {
    /// Reads the state. Without a file there are neither locks nor properties, and no file is created: so
    /// files that are only read need no directory for the state.
    pub fn read<T>(&self, work: impl FnOnce(&Tables) -> Result<T>) -> Result<T> {
        if !self.file.exists() {
            return work(&Tables::default());
        }
        self.with(|session| work(session.tables()))
    }

    /// Uses the state. It waits for other threads and processes.
    pub fn with<T>(&self, work: impl FnOnce(&mut Session<'_>) -> Result<T>) -> Result<T> {
        let mut guard = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |error: io::Error| {
            let message = format!("the WebDAV state {}: {error}", self.file.display());
            crate::failure::Failure::from(error).detail(message)
        };
        if guard.is_none() {
            *guard = Some(Journal::open(&self.directory, &self.file).map_err(named)?);
        }
        let Some(journal) = guard.as_mut() else { return Err(crate::failure::Failure::new(500)) };
        let started = journal.begin(unix_seconds()).map_err(named);
        let done = started.and_then(|()| work(&mut Session { journal }));
        let ended = journal.end(unix_seconds()).map_err(named);
        if ended.is_err() {
            // What is in memory may differ from the file: read it again next time.
            *guard = None;
        }
        let done = done?;
        ended.map(|()| done)
    }
}

impl LockTable for Store {
    /// While an operation uses the state, which may take long, this is what held before it.
    fn locks_held(&self) -> u64 {
        let Ok(mut journal) = self.journal.try_lock() else { return self.locks.load(Ordering::Relaxed) };
        let now = unix_seconds();
        if journal.is_none() && self.file.exists() {
            // Locks are kept after the end of the process that has created them.
            let opened = Journal::open(&self.directory, &self.file).and_then(|mut journal| {
                journal.begin(now)?;
                journal.end(now)?;
                Ok(journal)
            });
            *journal = opened.ok();
        }
        let locks = journal
            .as_ref()
            .map_or(0, |journal| journal.tables.locks().filter(|lock| lock.until > now).count() as u64);
        self.locks.store(locks, Ordering::Relaxed);
        locks
    }
}

impl Session<'_> {
    /// The current locks and properties.
    pub fn tables(&self) -> &Tables {
        &self.journal.tables
    }

    /// Notes a change, which then holds.
    pub fn add(&mut self, record: Record) -> Result<()> {
        let file = self.journal.file_name().display().to_string();
        self.journal.append(record).map_err(|error| {
            let message = format!("the WebDAV state {file}: {error}");
            crate::failure::Failure::from(error).detail(message)
        })
    }
}

/// The present time.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Reads the lines of a journal; returns how many changes they hold, and the number of locks and properties.
pub fn replay(lines: &[u8]) -> std::result::Result<(usize, usize, usize), String> {
    let mut tables = Tables::default();
    let mut count = 0;
    for line in lines.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        tables.apply(Record::parse(line)?);
        count += 1;
    }
    Ok((count, tables.locks().count(), tables.property_count()))
}

#[cfg(test)]
mod tests;
