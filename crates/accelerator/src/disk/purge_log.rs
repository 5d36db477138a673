//! What has been purged, written down at once: a purge that was reported as done holds after a crash too.
//!
//! A file of its own beside the segments, because it must not wait for them, and must not go with the oldest
//! of them. A write of some hundred bytes to a file's end is left with the kernel in a few microseconds,
//! which a core can afford.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::{HEAD_BYTES, Record, decode, decode_head, encode_purge};
use super::segment::{is_removed, taken_away};
use crate::store::Purge;

const NAME: &str = "purges";

/// It is written anew when it has grown by more than this, or to twice what was left then.
const LEAST_GROWTH_BYTES: u64 = 1024 * 1024;

/// The longest that it may be when it has just been written anew.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The file.
pub struct PurgeLog {
    path: PathBuf,
    file: File,
    length: u64,
    /// Its length when it was last written anew.
    compact_length: u64,
}

/// What was found in it.
pub struct Found {
    /// Purges with their tickets.
    pub purges: Vec<(Purge, u64)>,
    /// Something in it is not what was written: what else was purged is not known.
    pub is_damaged: bool,
    /// There is none.
    pub is_missing: bool,
}

impl PurgeLog {
    /// Opens it, and reads what is in it. What is left of a write that was cut off at its end was reported to
    /// nobody.
    pub fn open(directory: &Path) -> io::Result<(PurgeLog, Found)> {
        let path = directory.join(NAME);
        let found = read(&path)?;
        let log = PurgeLog::write(path, &found.purges)?;
        Ok((log, found))
    }

    /// Writes it anew, beside the one that is there, and puts it in that one's place.
    fn write(path: PathBuf, purges: &[(Purge, u64)]) -> io::Result<PurgeLog> {
        let mut bytes = Vec::new();
        for (purge, ticket) in purges {
            bytes.extend(encode_purge(purge, *ticket).unwrap_or_default());
        }
        let next = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(&bytes)?;
        fs::rename(&next, &path)?;
        let length = bytes.len() as u64;
        Ok(PurgeLog { path, file, length, compact_length: length })
    }

    /// Writes a purge down.
    pub fn append(&mut self, purge: &Purge, ticket: u64) -> io::Result<()> {
        let Some(record) = encode_purge(purge, ticket) else {
            return Err(io::Error::other("too long to be written down"));
        };
        // Where a part was written, what follows would be taken for damage: which is right, because it is not
        // known what was purged.
        if is_removed(&self.file) {
            return Err(taken_away());
        }
        self.file.write_all(&record)?;
        self.length += record.len() as u64;
        Ok(())
    }

    /// Has it reach the disk itself.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Removes what there is in a directory.
    pub fn remove(directory: &Path) {
        let _ = fs::remove_file(directory.join(NAME));
    }

    /// Whether it is worth being written anew.
    pub fn has_grown(&self) -> bool {
        self.length > self.compact_length * 2 + LEAST_GROWTH_BYTES
    }

    /// Whether it is longer than is reasonable.
    pub fn is_too_long(&self) -> bool {
        self.length > MOST_BYTES
    }

    /// Writes it anew with what is needed still: the last of each, where something with a lower ticket may be
    /// on disk.
    pub fn compact(&mut self, oldest: u64) -> io::Result<()> {
        let mut last: HashMap<Purge, u64> = HashMap::new();
        for (purge, ticket) in read(&self.path)?.purges {
            let known = last.entry(purge).or_default();
            *known = ticket.max(*known);
        }
        let needed: Vec<(Purge, u64)> = last.into_iter().filter(|(_, ticket)| *ticket > oldest).collect();
        *self = PurgeLog::write(self.path.clone(), &needed)?;
        Ok(())
    }
}

/// What is in the file. What is left of a write that was cut off at its end was reported to nobody.
fn read(path: &Path) -> io::Result<Found> {
    let mut found = Found { purges: Vec::new(), is_damaged: false, is_missing: false };
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => _ = file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => found.is_missing = true,
        Err(error) => return Err(error),
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let head = decode_head(rest);
        let Some(whole) = head.and_then(|head| rest.get(..head.length as usize)) else {
            // Shorter than a head, or than its head says: cut off. Otherwise it is damage.
            found.is_damaged |= head.is_none() && rest.len() >= HEAD_BYTES;
            break;
        };
        match decode(whole) {
            Ok(Record::Purge { purge, ticket }) => found.purges.push((purge, ticket)),
            _ => found.is_damaged = true,
        }
        rest = &rest[whole.len()..];
    }
    Ok(found)
}
