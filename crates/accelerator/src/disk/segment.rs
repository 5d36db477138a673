//! Files of records.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};

const SUFFIX: &str = "segment";

/// A file of records.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    file: File,
    length: AtomicU64,
    /// The lowest ticket of its records; the greatest number: it has no records.
    first_ticket: AtomicU64,
}

impl Segment {
    /// Makes a file.
    pub fn create(directory: &Path, number: u32) -> io::Result<Segment> {
        let path = directory.join(format!("{number:08x}.{SUFFIX}"));
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Segment { path, file, length: AtomicU64::new(0), first_ticket: AtomicU64::new(u64::MAX) })
    }

    /// Opens an existing file.
    pub fn open(path: PathBuf) -> io::Result<Segment> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let length = AtomicU64::new(file.metadata()?.len());
        Ok(Segment { path, file, length, first_ticket: AtomicU64::new(u64::MAX) })
    }

    /// Its length.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// The lowest ticket of its records; the greatest number: it has no records.
    pub fn first_ticket(&self) -> u64 {
        self.first_ticket.load(Ordering::Relaxed)
    }

    /// Notes a ticket of a record in it.
    pub fn note_ticket(&self, ticket: u64) {
        self.first_ticket.fetch_min(ticket, Ordering::Relaxed);
    }

    /// Reads this many bytes.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Appends a record and returns its position. If that fails, the written part is cut off again. If it
    /// cannot be cut off, it is still not a valid record.
    pub fn append(&self, record: &[u8]) -> io::Result<u64> {
        let offset = self.length();
        if let Err(error) = self.file.write_all_at(record, offset) {
            let _ = self.file.set_len(offset);
            return Err(error);
        }
        self.length.store(offset + record.len() as u64, Ordering::Relaxed);
        Ok(offset)
    }

    /// Syncs the file to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Cuts the file to this length.
    pub fn cut(&self, length: u64) {
        let _ = self.file.set_len(length);
        self.length.store(length, Ordering::Relaxed);
    }

    /// Removes the file and truncates it. So its space is free at once, even if another process still has it
    /// open (such as a program that is being started, between its fork and its exec), and the contents of a
    /// file that cannot be removed do not come back. A reader of the file finds its end.
    pub fn remove(&self) -> io::Result<()> {
        let removed = fs::remove_file(&self.path);
        let emptied = self.file.set_len(0);
        if self.is_removed() { Ok(()) } else { emptied.or(removed) }
    }

    /// Whether the file was removed, by this process or another one.
    pub fn is_removed(&self) -> bool {
        is_removed(&self.file)
    }
}

/// Whether an open file was removed.
pub fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

/// The error of a write to a file that was removed.
pub fn taken_away() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "another program has taken it away")
}

/// Makes the directory with permissions only for its owner.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The segments in a directory, in their order.
pub fn found_in(directory: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| u32::from_str_radix(stem.to_str()?, 16).ok());
        let is_segment = path.extension().is_some_and(|extension| extension == SUFFIX);
        if let (Some(number), true) = (number, is_segment) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The lock of a directory, until this is dropped.
pub struct DirectoryLock(File);

impl Drop for DirectoryLock {
    /// Unlocks the file explicitly, because closing it is not enough: a program that is being started holds a
    /// copy of it, and so the lock, between its fork and its exec. The next process that opens the directory
    /// would have to wait for that.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks the directory; `None`: another process has locked it.
pub fn lock_directory(directory: &Path) -> io::Result<Option<DirectoryLock>> {
    let path = directory.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(DirectoryLock(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
