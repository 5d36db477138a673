//! Purges that are for more than one key. They are not carried out at once, which would mean to read everything, but
//! remembered: a response that was kept before such a purge is looked at under it when it is read, and its room is taken
//! when its segment leaves. They are written down, so that they hold after a restart.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::record::checksum;
use crate::store::{Purge, PurgeMode};

/// The longest text of a purge: no key and no tag is longer.
const MOST_TEXT_BYTES: u32 = 1 << 20;

/// So many are remembered; then what they are for is looked for, once, and they are forgotten.
pub const MOST_PURGES: usize = 1000;

/// A purge, and what was kept before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// It is for what has a lower sequence number.
    pub sequence: u64,
    /// What is purged.
    pub purge: Purge,
    /// How.
    pub mode: PurgeMode,
}

/// The purges that are remembered.
#[derive(Debug, Default)]
pub struct Purges {
    all: Vec<Remembered>,
}

impl Purges {
    /// Remembers one; one like it that came before is part of it. Purging everything leaves none to be remembered but
    /// this.
    pub fn add(&mut self, new: Remembered) {
        if new.purge == Purge::All && new.mode == PurgeMode::Remove {
            self.all.clear();
        }
        self.all.retain(|old| (&old.purge, old.mode) != (&new.purge, new.mode));
        self.all.push(new);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Forgets those up to this sequence number.
    pub fn forget_until(&mut self, sequence: u64) {
        self.all.retain(|purge| purge.sequence > sequence);
    }

    /// What has become of a response that was kept with this sequence number; `None`: nothing.
    pub fn mode_for(&self, sequence: u64, key: &[u8], fields: &[u8]) -> Option<PurgeMode> {
        let hits = self.all.iter().filter(|each| each.sequence > sequence && each.purge.takes(key, fields));
        let mut found = None;
        for hit in hits {
            match hit.mode {
                PurgeMode::Remove => return Some(PurgeMode::Remove),
                PurgeMode::Soft => found = Some(PurgeMode::Soft),
            }
        }
        found
    }

    /// Each of them.
    pub fn into_iter(self) -> impl Iterator<Item = Remembered> {
        self.all.into_iter()
    }

    /// All of them, as they are written down.
    pub fn bytes(&self) -> Vec<u8> {
        self.all.iter().flat_map(bytes_of).collect()
    }
}

/// The file that purges are written down in.
#[derive(Debug)]
pub struct PurgeFile {
    file: File,
}

impl PurgeFile {
    /// Opens it, or makes it; gives the purges that are there, up to one that is not whole.
    pub fn open(directory: &Path) -> io::Result<(PurgeFile, Purges)> {
        let path = directory.join("purges");
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (purges, whole) = read(&bytes);
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        Ok((PurgeFile { file }, purges))
    }

    /// Writes one down.
    pub fn append(&mut self, purge: &Remembered) -> io::Result<()> {
        self.file.write_all(&bytes_of(purge))
    }

    /// Writes down those that are left.
    pub fn replace(&mut self, purges: &Purges) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&purges.bytes())
    }

    /// Has it written to the disk itself.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads purges; gives how many bytes of them are whole, too.
pub fn read(bytes: &[u8]) -> (Purges, usize) {
    let mut purges = Purges::default();
    let mut whole = 0;
    while let Some((purge, length)) = read_one(&bytes[whole..]) {
        purges.add(purge);
        whole += length;
    }
    (purges, whole)
}

fn bytes_of(remembered: &Remembered) -> Vec<u8> {
    let (kind, text): (u8, &[u8]) = match &remembered.purge {
        Purge::Key(key) => (0, key),
        Purge::Prefix(beginning) => (1, beginning),
        Purge::Tag(tag) => (2, tag),
        Purge::Space(space) => (3, &space.to_le_bytes()),
        Purge::All => (4, &[]),
        Purge::Path { path, is_prefix: false } => (5, path),
        Purge::Path { path, is_prefix: true } => (6, path),
    };
    let mode = u8::from(remembered.mode == PurgeMode::Soft);
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(text.len() + 22);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&remembered.sequence.to_le_bytes());
    bytes.extend_from_slice(&[mode, kind]);
    bytes.extend_from_slice(text);
    let sum = checksum([&bytes[..]]);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn read_one(bytes: &[u8]) -> Option<(Remembered, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length);
    if length > MOST_TEXT_BYTES {
        return None;
    }
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let (&[mode, kind], rest) = rest.split_first_chunk::<2>()?;
    let (text, rest) = rest.split_at_checked(length as usize)?;
    let sum = rest.first_chunk::<8>()?;
    let before_sum = 14 + text.len();
    if checksum([&bytes[..before_sum]]).to_le_bytes() != *sum {
        return None;
    }
    let purge = match kind {
        0 => Purge::Key(text.to_vec()),
        1 => Purge::Prefix(text.to_vec()),
        2 => Purge::Tag(text.to_vec()),
        3 => Purge::Space(u64::from_le_bytes(text.try_into().ok()?)),
        4 => Purge::All,
        5 | 6 => Purge::Path { path: text.to_vec(), is_prefix: kind == 6 },
        _ => return None,
    };
    let mode = if mode == 0 { PurgeMode::Remove } else { PurgeMode::Soft };
    Some((Remembered { sequence: u64::from_le_bytes(*sequence), purge, mode }, before_sum + 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn remembered() -> impl Strategy<Value = Remembered> {
        let text = vec(any::<u8>(), 0..20);
        let purge = (0..7, text, any::<u64>()).prop_map(|(kind, text, space)| match kind {
            0 => Purge::Key(text),
            1 => Purge::Prefix(text),
            2 => Purge::Tag(text),
            3 => Purge::Space(space),
            4 => Purge::All,
            _ => Purge::Path { path: text, is_prefix: kind == 6 },
        });
        (any::<u64>(), purge, any::<bool>()).prop_map(|(sequence, purge, is_soft)| Remembered {
            sequence,
            purge,
            mode: if is_soft { PurgeMode::Soft } else { PurgeMode::Remove },
        })
    }

    proptest! {
        #[test]
        fn they_come_back_up_to_one_that_is_not_whole(all in vec(remembered(), 0..10), cut: prop::sample::Index) {
            let mut purges = Purges::default();
            all.iter().cloned().for_each(|purge| purges.add(purge));
            let bytes = purges.bytes();
            let (again, whole) = read(&bytes);
            prop_assert_eq!((&again.all, whole), (&purges.all, bytes.len()));
            let (part, whole) = read(&bytes[..cut.index(bytes.len() + 1)]);
            prop_assert!(part.all[..] == purges.all[..part.len()] && whole <= bytes.len());
        }

        #[test]
        fn any_bytes(bytes in vec(any::<u8>(), 0..100)) {
            let (purges, whole) = read(&bytes);
            prop_assert!(whole <= bytes.len() && purges.len() * 22 <= whole);
        }
    }

    #[test]
    fn they_are_for_what_was_kept_before() {
        let mut purges = Purges::default();
        let soft = Remembered { sequence: 5, purge: Purge::Prefix(b"a/".to_vec()), mode: PurgeMode::Soft };
        purges.add(soft.clone());
        purges.add(Remembered { sequence: 9, purge: Purge::Tag(b"t".to_vec()), mode: PurgeMode::Remove });
        let fields = b"Surrogate-Key: t\r\n";
        for (sequence, key, fields, expected) in [
            (4, "a/1", &b""[..], Some(PurgeMode::Soft)),
            (5, "a/1", b"", None),
            (4, "b/1", b"", None),
            (4, "a/1", fields, Some(PurgeMode::Remove)),
            (8, "b/1", fields, Some(PurgeMode::Remove)),
            (9, "b/1", fields, None),
        ] {
            assert_eq!(purges.mode_for(sequence, key.as_bytes(), fields), expected, "{sequence} {key}");
        }
        purges.add(Remembered { sequence: 7, ..soft });
        assert_eq!((purges.len(), purges.mode_for(6, b"a/1", b"")), (2, Some(PurgeMode::Soft)));
        purges.add(Remembered { sequence: 10, purge: Purge::All, mode: PurgeMode::Remove });
        assert_eq!(purges.len(), 1);
    }
}
