//! Results on an agent's disk until the broker has them: written before they are sent, and removed when they
//! are certainly kept. If the broker or the agent fails in between, they are sent again; the broker keeps
//! each only once.

use crate::fabric::Fabric;
use crate::message::Subjects;
use crate::mix_results::{PART_BYTES, Part};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use touchstone_lab::machine::sha256;

/// The ending of the names of spooled parts.
const SUFFIX: &str = "part";
/// The ending of the names of files that reserve room for parts.
const ROOM_SUFFIX: &str = "room";
/// The largest part file: its bytes, and the line before them.
const PART_FILE_BYTES: u64 = PART_BYTES as u64 + 4096;
/// Only its owner may access a spool: its content is delivered as this agent's.
const PRIVATE: u32 = 0o700;
/// The permission of users other than the owner to write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// The most attempts to name a temporary directory.
const ATTEMPTS: u32 = 16;

/// A directory of parts.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    directory: PathBuf,
    /// It was created for this agent only, and is removed when it is empty.
    is_temporary: bool,
}

/// Room on the disk for a result, reserved during the measurement: if other programs fill the disk in that
/// time, no result is lost. The rest of the room is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct ReservedSpace {
    files: Vec<PathBuf>,
}

impl Spool {
    /// Opens a directory, or makes it. One that other users own or may write to is refused: they could put
    /// results there.
    pub(crate) fn open(directory: &Path) -> io::Result<Spool> {
        DirBuilder::new().recursive(true).mode(PRIVATE).create(directory)?;
        check_owner(directory)?;
        Ok(Spool { directory: directory.to_path_buf(), is_temporary: false })
    }

    /// A new directory in the directory of temporary files, with an unpredictable name.
    pub(crate) fn temporary(prefix: &str) -> io::Result<Spool> {
        let place = std::env::temp_dir();
        for _ in 0..ATTEMPTS {
            let directory =
                place.join(format!("{prefix}-{:016x}", RandomState::new().build_hasher().finish()));
            // An existing entry is never used, not even a link.
            match DirBuilder::new().mode(PRIVATE).create(&directory) {
                Ok(()) => return Ok(Spool { directory, is_temporary: true }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("all names that were tried in {} are in use", place.display())))
    }

    /// Its path.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it was made for one agent's life.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Called when the agent ends: removes a directory that was made for it, unless files are left in it.
    pub(crate) fn close(&self) {
        if self.is_temporary {
            // A directory with parts is not empty, and remains.
            let _ = fs::remove_dir(&self.directory);
        }
    }

    /// Reserves room for a result of this many bytes; an error if the disk does not have it.
    pub(crate) fn reserve(&self, agent: &str, bytes: u64) -> io::Result<ReservedSpace> {
        let mut room = ReservedSpace { files: Vec::new() };
        for number in 0..bytes.div_ceil(PART_FILE_BYTES) {
            let path = self.directory.join(format!("{agent}-{number}.{ROOM_SUFFIX}"));
            let file = File::create(&path)?;
            room.files.push(path);
            take_room(&file, PART_FILE_BYTES.min(bytes - number * PART_FILE_BYTES))?;
        }
        // The first files are the largest ones, and are used first.
        room.files.reverse();
        Ok(room)
    }

    /// Writes a part into the reserved room, so that it survives a crash.
    pub(crate) fn put(&self, part: &Part, room: &mut ReservedSpace) -> io::Result<()> {
        let path = self.directory.join(format!("{}.{SUFFIX}", part.head.id()));
        // If no room was reserved, there may still be some.
        let unfinished = room.files.pop().unwrap_or_else(|| path.with_extension("new"));
        let bytes = part.encode();
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&unfinished)?;
            file.write_all(&bytes)?;
            file.set_len(bytes.len() as u64)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })
    }

    /// The number of parts.
    pub(crate) fn len(&self) -> u64 {
        self.paths().len() as u64
    }

    /// Sends all parts; each is removed when the broker has it. The first error ends this; the rest is sent
    /// later.
    pub(crate) fn replay(&self, fabric: &dyn Fabric, subjects: &Subjects, agent: &str) -> Result<(), String> {
        for path in self.paths() {
            let message = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if Part::decode(&message).is_none_or(|part| part.head.agent != agent) {
                // A file of another agent, or no part: it remains.
                continue;
            }
            // No other agent has the result, so none can make the broker keep another message under this id.
            let id = sha256(&message);
            let kept = fabric.keep(&subjects.result(agent), &id, message);
            kept.map_err(|error| error.to_string())?;
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn paths(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == SUFFIX))
            .collect();
        paths.sort();
        paths
    }
}

impl Drop for ReservedSpace {
    fn drop(&mut self) {
        for path in &self.files {
            let _ = fs::remove_file(path);
        }
    }
}

fn take_room(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes).map_err(io::Error::from) {
        // Some file systems cannot reserve room; there is room if the file can hold this many bytes.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut &*file).map(drop)
        }
        taken => taken,
    }
}

/// Another user must neither own the directory or a link to it, nor be able to write to it.
fn check_owner(directory: &Path) -> io::Result<()> {
    let (link, target) = (fs::symlink_metadata(directory)?, fs::metadata(directory)?);
    let own = rustix::process::geteuid().as_raw();
    if let Some(other) = [link.uid(), target.uid()].into_iter().find(|owner| *owner != own) {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("it belongs to the user {other}, but this program runs as {own}: use another directory"),
        ));
    }
    if target.mode() & WRITE_BY_OTHERS != 0 {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "other users can write to it (mode {:o}): run chmod 700 on it, or use another directory",
                target.mode() & 0o7777
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::EmbeddedFabric;
    use crate::mix_results::PartHead;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    fn part(bytes: Vec<u8>) -> Part {
        Part { head: PartHead { run: "r".into(), mix: 0, agent: "a".into(), sequence: 0, of: 1 }, bytes }
    }

    fn files(spool: &Spool) -> usize {
        fs::read_dir(spool.directory()).expect("a directory").count()
    }

    #[test]
    fn parts_stay_until_they_are_kept_and_are_kept_once() {
        let place = tempfile::tempdir().expect("a directory");
        let spool = Spool::open(&place.path().join("spool")).expect("a spool");
        let part = part(b"result".to_vec());
        let (fabric, subjects) = (EmbeddedFabric::default(), Subjects::of("f"));
        let inbox = fabric.kept("fleet.f.result.*", "c").expect("an inbox");
        // With reserved room, and without.
        for bytes in [PART_FILE_BYTES + 1, 0] {
            let mut room = spool.reserve("a", bytes).expect("room");
            spool.put(&part, &mut room).expect("it is written");
            drop(room);
            assert_eq!((spool.len(), files(&spool)), (1, 1));
            spool.replay(&fabric, &subjects, "a").expect("it is sent");
            assert_eq!(spool.len(), 0);
        }
        let kept = inbox.next(Duration::from_secs(5)).expect("the part");
        assert_eq!(Part::decode(&kept.body), Some(part));
        assert!(inbox.next(Duration::from_millis(10)).is_none(), "it was kept once");
    }

    #[test]
    fn there_is_room_or_not() {
        let place = tempfile::tempdir().expect("a directory");
        let spool = Spool::open(&place.path().join("spool")).expect("a spool");
        let room = spool.reserve("a", 3 * PART_FILE_BYTES + 1).expect("room for four files");
        let taken: u64 =
            room.files.iter().map(|path| fs::metadata(path).expect("a file").blocks() * 512).sum();
        assert!(files(&spool) == 4 && taken > 3 * PART_FILE_BYTES, "{taken}");
        drop(room);
        assert_eq!(files(&spool), 0);
        assert!(spool.reserve("a", 1 << 62).is_err());
        assert_eq!(files(&spool), 0);
    }

    #[test]
    fn a_directory_of_its_own_is_private_and_goes_when_it_is_empty() {
        let spool = Spool::temporary("touchstone-f-a").expect("a spool");
        let other = Spool::temporary("touchstone-f-a").expect("another");
        assert_ne!(spool.directory(), other.directory());
        assert_eq!(fs::metadata(spool.directory()).expect("a directory").mode() & 0o7777, PRIVATE);
        let mut room = spool.reserve("a", 1).expect("room");
        spool.put(&part(Vec::new()), &mut room).expect("it is written");
        [&spool, &other].into_iter().for_each(Spool::close);
        assert!(!other.directory().exists(), "nothing was in it");
        assert_eq!(spool.len(), 1, "what is not sent stays");
        fs::remove_dir_all(spool.directory()).expect("it is taken away");
    }

    #[test]
    fn what_others_own_or_may_write_to_is_no_spool() {
        let place = tempfile::tempdir().expect("a directory");
        let refused = |path: &Path| Spool::open(path).expect_err("it is refused").to_string();
        let open = place.path().join("open");
        fs::create_dir(&open).expect("a directory");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(refused(&open).contains("other users can write to it (mode 777)"));
        // The directory of all temporary files belongs to root, and every user may write there.
        assert!(!refused(Path::new("/tmp")).is_empty());
        if rustix::process::geteuid().is_root() {
            let foreign = place.path().join("foreign");
            fs::create_dir(&foreign).expect("a directory");
            std::os::unix::fs::chown(&foreign, Some(65_534), None).expect("an owner");
            assert!(refused(&foreign).contains("it belongs to the user 65534"));
        }
    }
}
