//! Files of records.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::{Directory, StoredFile};

const SUFFIX: &str = "segment";

/// A file of records.
pub struct Segment {
    directory: Arc<dyn Directory>,
    name: String,
    file: Box<dyn StoredFile>,
    length: AtomicU64,
    /// The lowest sequence number of its records; the maximum number if it has no records.
    first_sequence: AtomicU64,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("name", &self.name).field("length", &self.length).finish()
    }
}

impl Segment {
    /// Creates a file.
    pub fn create(directory: &Arc<dyn Directory>, number: u32) -> io::Result<Segment> {
        let name = format!("{number:08x}.{SUFFIX}");
        let file = directory.create(&name)?;
        Ok(Segment::of(directory, name, file, 0))
    }

    /// Opens an existing file.
    pub fn open(directory: &Arc<dyn Directory>, name: String) -> io::Result<Segment> {
        let file = directory.open(&name)?;
        let length = file.length()?;
        Ok(Segment::of(directory, name, file, length))
    }

    fn of(directory: &Arc<dyn Directory>, name: String, file: Box<dyn StoredFile>, length: u64) -> Segment {
        let (length, first_sequence) = (AtomicU64::new(length), AtomicU64::new(u64::MAX));
        Segment { directory: directory.clone(), name, file, length, first_sequence }
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// The lowest sequence number of its records; the maximum number if it has no records.
    pub fn first_sequence(&self) -> u64 {
        self.first_sequence.load(Ordering::Relaxed)
    }

    /// Records that a record in the file has this sequence number.
    pub fn note_sequence(&self, sequence: u64) {
        self.first_sequence.fetch_min(sequence, Ordering::Relaxed);
    }

    /// Reads this many bytes.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Appends a record and returns its position. If that fails, the written part is truncated. If that fails
    /// too, the part is still not a valid record.
    pub fn append(&self, record: &[u8]) -> io::Result<u64> {
        let offset = self.length();
        if let Err(error) = self.file.write_all_at(record, offset) {
            let _ = self.file.set_length(offset);
            return Err(error);
        }
        self.length.store(offset + record.len() as u64, Ordering::Relaxed);
        Ok(offset)
    }

    /// Syncs the file to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Truncates the file to this length.
    pub fn cut(&self, length: u64) {
        let _ = self.file.set_length(length);
        self.length.store(length, Ordering::Relaxed);
    }

    /// Removes the file and truncates it. So its space is free at once, even if another process still has it
    /// open (such as a program that is being started, between fork and exec), and the contents of a file that
    /// cannot be removed are gone. A reader of the file finds its end.
    pub fn remove(&self) -> io::Result<()> {
        let removed = self.directory.remove(&self.name);
        let emptied = self.file.set_length(0);
        if self.is_removed() { Ok(()) } else { emptied.or(removed) }
    }

    /// Whether the file was removed, by this process or another one.
    pub fn is_removed(&self) -> bool {
        self.file.is_removed()
    }
}

/// The segments in a directory, in order.
pub fn found_in(directory: &dyn Directory) -> io::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for name in directory.names()? {
        let stem = name.strip_suffix(SUFFIX).and_then(|stem| stem.strip_suffix('.'));
        if let Some(number) = stem.and_then(|stem| u32::from_str_radix(stem, 16).ok()) {
            found.push((number, name));
        }
    }
    found.sort();
    Ok(found)
}
