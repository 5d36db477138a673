//! A segment: a file of records and a file of entries, both written only at their ends, but for the byte that says that an
//! entry counts no longer. The oldest segment leaves as a whole when room is needed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::entry::{ENTRY_BYTES, Entry, STATE_AT};

/// Entries that are read at once.
const ENTRIES_A_READ: usize = 4096;

/// The longest segment: positions in it have four bytes.
pub const MOST_BYTES: u64 = 1 << 30;

/// A segment, read by many and written by one.
#[derive(Debug)]
pub struct Segment {
    /// Its number; a later one has a higher number.
    pub id: u32,
    records: File,
    entries: File,
    record_bytes: AtomicU64,
    entry_count: AtomicU32,
    directory: PathBuf,
}

impl Segment {
    /// A new one.
    pub fn create(directory: &Path, id: u32) -> io::Result<Segment> {
        let paths = paths(directory, id);
        let create = |path: &Path| {
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
        };
        let (records, entries) = (create(&paths[0])?, create(&paths[1])?);
        Ok(Segment {
            id,
            records,
            entries,
            record_bytes: AtomicU64::new(0),
            entry_count: AtomicU32::new(0),
            directory: directory.to_path_buf(),
        })
    }

    /// One that is there; its entries are given, each with its position and whether it counts.
    pub fn open(
        directory: &Path,
        id: u32,
        mut each: impl FnMut(Option<(Entry, bool)>, u32),
    ) -> io::Result<Segment> {
        let paths = paths(directory, id);
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let (records, entries) = (open(&paths[0])?, open(&paths[1])?);
        let record_bytes = records.metadata()?.len();
        // What a killed process has left of an entry is none.
        let count = u32::try_from(entries.metadata()?.len() / ENTRY_BYTES as u64).unwrap_or(u32::MAX);
        let mut number = 0;
        let mut buffer = vec![0; ENTRIES_A_READ * ENTRY_BYTES];
        while number < count {
            let here = (count - number).min(ENTRIES_A_READ as u32) as usize * ENTRY_BYTES;
            entries.read_exact_at(&mut buffer[..here], u64::from(number) * ENTRY_BYTES as u64)?;
            for bytes in buffer[..here].as_chunks::<ENTRY_BYTES>().0 {
                let is_inside =
                    |entry: &Entry| u64::from(entry.offset) + u64::from(entry.length) <= record_bytes;
                each(Entry::read(bytes, id).filter(|(entry, _)| is_inside(entry)), number);
                number += 1;
            }
        }
        Ok(Segment {
            id,
            records,
            entries,
            record_bytes: AtomicU64::new(record_bytes),
            entry_count: AtomicU32::new(count),
            directory: directory.to_path_buf(),
        })
    }

    /// What it takes on the disk.
    pub fn bytes(&self) -> u64 {
        self.record_bytes() + u64::from(self.entry_count.load(Relaxed)) * ENTRY_BYTES as u64
    }

    /// What its records take.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes.load(Relaxed)
    }

    /// Writes a record, given in pieces, and then its entry; gives the entry's position. Where that fails nothing of it is
    /// found any more.
    pub fn append(&self, pieces: &[&[u8]], mut entry: Entry) -> io::Result<(Entry, u32)> {
        let start = self.record_bytes();
        entry.offset = u32::try_from(start).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let result = self.write(pieces, start, &entry);
        if result.is_err() {
            // Room that a full disk has given for nothing. If this fails too, the next record is written over it.
            let _ = self.records.set_len(start);
            let _ = self.entries.set_len(u64::from(self.entry_count.load(Relaxed)) * ENTRY_BYTES as u64);
        }
        result.map(|number| (entry, number))
    }

    fn write(&self, pieces: &[&[u8]], start: u64, entry: &Entry) -> io::Result<u32> {
        let mut at = start;
        for piece in pieces {
            self.records.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        let number = self.entry_count.load(Relaxed);
        self.entries.write_all_at(&entry.bytes(self.id), u64::from(number) * ENTRY_BYTES as u64)?;
        self.record_bytes.store(at, Relaxed);
        self.entry_count.store(number + 1, Relaxed);
        Ok(number)
    }

    /// The bytes of a record.
    pub fn read(&self, entry: &Entry) -> io::Result<Vec<u8>> {
        self.read_some(entry, entry.length as usize)
    }

    /// The first bytes of a record, as many as there are up to this.
    pub fn read_some(&self, entry: &Entry, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most.min(entry.length as usize)];
        self.records.read_exact_at(&mut bytes, u64::from(entry.offset))?;
        Ok(bytes)
    }

    /// Says that the entry at this position counts no longer.
    pub fn cancel(&self, number: u32) -> io::Result<()> {
        self.entries.write_all_at(&[0], u64::from(number) * ENTRY_BYTES as u64 + STATE_AT as u64)
    }

    /// Has it written to the disk itself.
    pub fn sync(&self) -> io::Result<()> {
        self.records.sync_data()?;
        self.entries.sync_data()
    }

    /// Removes its files. Who reads it reads on.
    pub fn remove(&self) {
        Segment::remove_files(&self.directory, self.id);
    }

    /// Removes the files of a segment.
    pub fn remove_files(directory: &Path, id: u32) {
        // The entries first: records without entries are nothing.
        for path in paths(directory, id).iter().rev() {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn paths(directory: &Path, id: u32) -> [PathBuf; 2] {
    ["records", "entries"].map(|ending| directory.join(format!("{id:08x}.{ending}")))
}

/// The number of the segment that a file of this name belongs to; the name of a file that is none of ours gives `None`.
pub fn id_of(name: &str) -> Option<u32> {
    let (id, ending) = name.split_once('.')?;
    let is_ours = id.len() == 8 && matches!(ending, "records" | "entries");
    u32::from_str_radix(id, 16).ok().filter(|_| is_ours)
}
