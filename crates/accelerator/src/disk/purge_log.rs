//! The file of purges. Each purge is written at once, so that a purge that was reported as done also survives
//! a crash.
//!
//! Purges have their own file, because they must not wait for the segments, and must not be dropped with the
//! oldest segment. Appending a few hundred bytes takes the kernel a few microseconds, so a core can do it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::files::{Directory, StoredFile, read_whole, taken_away};
use super::record::{HEAD_BYTES, Record, decode, decode_head, encode_purge};
use crate::store::PurgeScope;

const NAME: &str = "purges";
const NEXT_NAME: &str = "purges.new";

/// The file is rewritten when it is longer than twice its length after the last rewrite and this many bytes.
const LEAST_GROWTH_BYTES: u64 = 1024 * 1024;

/// The maximum length after a rewrite.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The file.
pub struct PurgeLog {
    directory: Arc<dyn Directory>,
    file: Box<dyn StoredFile>,
    length: u64,
    /// Its length after the last rewrite.
    compact_length: u64,
}

/// Purges with their sequence numbers.
pub type Purges = Vec<(PurgeScope, u64)>;

/// The contents of the file.
pub struct Contents {
    /// The purges.
    pub purges: Purges,
    /// The file exists and is not damaged. Otherwise some purges are unknown.
    pub is_complete: bool,
}

impl PurgeLog {
    /// Writes a new file and replaces the existing one by it, so damage in that is not seen any more.
    pub fn write(directory: Arc<dyn Directory>, purges: &[(PurgeScope, u64)]) -> io::Result<PurgeLog> {
        let mut bytes = Vec::new();
        for (purge, sequence) in purges {
            bytes.extend(encode_purge(purge, *sequence).unwrap_or_default());
        }
        let file = directory.create(NEXT_NAME)?;
        file.append(&bytes)?;
        directory.rename(NEXT_NAME, NAME)?;
        let length = bytes.len() as u64;
        Ok(PurgeLog { directory, file, length, compact_length: length })
    }

    /// Appends a purge.
    pub fn append(&mut self, purge: &PurgeScope, sequence: u64) -> io::Result<()> {
        let Some(record) = encode_purge(purge, sequence) else {
            return Err(io::Error::other("it is too long to be written"));
        };
        // If only a part is written, a later record counts as damage. That is correct, because the purge is
        // then unknown.
        if self.file.is_removed() {
            return Err(taken_away());
        }
        self.file.append(&record)?;
        self.length += record.len() as u64;
        Ok(())
    }

    /// Syncs the file to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Removes the file of a directory.
    pub fn remove(directory: &dyn Directory) {
        let _ = directory.remove(NAME);
    }

    /// Whether the file was removed, perhaps with its directory: another process may use a new one.
    pub fn is_removed(&self) -> bool {
        self.file.is_removed()
    }

    /// Whether it must be rewritten.
    pub fn has_grown(&self) -> bool {
        self.length > self.compact_length * 2 + LEAST_GROWTH_BYTES
    }

    /// Whether it is too long.
    pub fn is_too_long(&self) -> bool {
        self.length > MOST_BYTES
    }

    /// Rewrites it with the purges that are still needed: the last one of each, if a response with a lower
    /// sequence number may be on disk. Fails if some purges are unknown, unless none is needed.
    pub fn compact(&mut self, oldest: u64) -> io::Result<()> {
        let contents = read(&*self.directory)?;
        if !contents.is_complete && oldest != u64::MAX {
            return Err(io::Error::other("it is damaged"));
        }
        let mut last: HashMap<PurgeScope, u64> = HashMap::new();
        for (purge, sequence) in contents.purges {
            let known = last.entry(purge).or_default();
            *known = sequence.max(*known);
        }
        let mut needed: Vec<(PurgeScope, u64)> =
            last.into_iter().filter(|(_, sequence)| *sequence > oldest).collect();
        needed.sort_by_key(|(_, sequence)| *sequence);
        *self = PurgeLog::write(self.directory.clone(), &needed)?;
        Ok(())
    }
}

/// Reads the file. An incomplete purge at its end is ignored, because it was not reported as done.
pub fn read(directory: &dyn Directory) -> io::Result<Contents> {
    let mut contents = Contents { purges: Vec::new(), is_complete: true };
    let bytes = match read_whole(directory, NAME) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            contents.is_complete = false;
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let head = decode_head(rest);
        let Some(whole) = head.and_then(|head| rest.get(..head.length as usize)) else {
            // A record that is shorter than a head, or than its head says, was cut off by a crash. Any other
            // invalid record is damaged.
            contents.is_complete &= head.is_some() || rest.len() < HEAD_BYTES;
            break;
        };
        match decode(whole) {
            Ok(Record::Purge { purge, sequence }) => contents.purges.push((purge, sequence)),
            _ => contents.is_complete = false,
        }
        rest = &rest[whole.len()..];
    }
    Ok(contents)
}
