//! The directory of the cache: who has it, and whether what is in it can be believed.
//!
//! A process that is killed loses nothing that it has given to the kernel. A machine that stops does, and in no order: a
//! response that had been purged could come back. So the directory says on which start of the machine it was last
//! written, and whether it was closed in order; where neither holds, the cache begins empty.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::segment;

/// Changed with the form of anything in the directory.
const VERSION: &str = "touchstone disk cache 1";

/// A directory that this process alone has.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

/// What was found in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// What can be believed, or nothing.
    Good,
    /// What could not be believed, and was removed.
    Discarded,
}

impl Directory {
    /// Makes the directory if need be, and takes it; an error of the kind `WouldBlock`: another process has it.
    pub fn take(path: &Path) -> io::Result<(Directory, Found)> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let directory = Directory { path: path.to_path_buf(), _lock: lock };
        let state = fs::read_to_string(directory.path.join("state")).unwrap_or_default();
        let boot = boot_id();
        let found = if is_good(&state, boot.as_deref()) || directory.is_new()? {
            Found::Good
        } else {
            directory.empty()?;
            Found::Discarded
        };
        directory.write_state(boot.as_deref(), false)?;
        Ok((directory, found))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the segments that are there, in order.
    pub fn segments(&self) -> io::Result<Vec<u32>> {
        let mut ids: Vec<u32> = self.names()?.iter().filter_map(|name| segment::id_of(name)).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Says that everything has been written to the disk itself.
    pub fn close(&self) -> io::Result<()> {
        self.write_state(boot_id().as_deref(), true)
    }

    fn is_new(&self) -> io::Result<bool> {
        Ok(self.segments()?.is_empty())
    }

    /// Removes what is ours, and nothing else.
    fn empty(&self) -> io::Result<()> {
        for name in self.names()? {
            if segment::id_of(&name).is_some() || name == "purges" {
                fs::remove_file(self.path.join(name))?;
            }
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names =
            fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn write_state(&self, boot: Option<&str>, is_closed: bool) -> io::Result<()> {
        let text = format!("{VERSION}\nboot {}\nclosed {is_closed}\n", boot.unwrap_or("unknown"));
        let beside = self.path.join("state.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, self.path.join("state"))?;
        File::open(&self.path)?.sync_all()
    }
}

fn is_good(state: &str, boot: Option<&str>) -> bool {
    let mut lines = state.lines();
    let has_version = lines.next() == Some(VERSION);
    let same_boot = lines.next().and_then(|line| line.strip_prefix("boot ")) == boot && boot.is_some();
    let is_closed = lines.next() == Some("closed true");
    has_version && (same_boot || is_closed)
}

/// What tells this start of the machine from others.
fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_it_and_what_a_stopped_machine_left_goes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cache");
        let (first, found) = Directory::take(&path).unwrap();
        assert_eq!(found, Found::Good);
        assert_eq!(Directory::take(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        fs::write(path.join("00000001.records"), "").unwrap();
        fs::write(path.join("theirs.txt"), "").unwrap();
        drop(first);
        // Killed on this start of the machine, it is good.
        let (second, found) = Directory::take(&path).unwrap();
        assert_eq!((found, second.segments().unwrap()), (Found::Good, vec![1]));
        drop(second);
        for (closed, expected) in [("true", Found::Good), ("false", Found::Discarded)] {
            fs::write(path.join("state"), format!("{VERSION}\nboot another\nclosed {closed}\n")).unwrap();
            let (directory, found) = Directory::take(&path).unwrap();
            assert_eq!(found, expected);
            assert_eq!(directory.segments().unwrap().len(), usize::from(expected == Found::Good));
        }
        assert!(path.join("theirs.txt").exists());
        fs::write(path.join("00000001.records"), "").unwrap();
        fs::write(path.join("state"), "of another kind").unwrap();
        assert_eq!(Directory::take(&path).unwrap().1, Found::Discarded);
    }
}
