//! Results on an agent's disk until the broker has them: written before they are sent, removed when they are kept for certain.
//! Whatever happens in between, to the broker or to the agent, they are sent again; that they are kept once is the broker's part.

use crate::fabric::Fabric;
use crate::fold::Part;
use crate::message::Subjects;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What the names of spooled parts end with.
const SUFFIX: &str = "part";

/// A directory of parts.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    directory: PathBuf,
}

impl Spool {
    /// The directory is made where it is not there.
    pub(crate) fn open(directory: &Path) -> io::Result<Spool> {
        fs::create_dir_all(directory)?;
        Ok(Spool { directory: directory.to_path_buf() })
    }

    /// Whether so many bytes can be written: they are, and taken away again.
    pub(crate) fn check_room(&self, bytes: u64) -> io::Result<()> {
        let path = self.directory.join("room");
        let tried = File::create(&path).and_then(|file| {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
                .map_err(io::Error::from)
        });
        let removed = fs::remove_file(&path);
        match tried {
            // Not every file system can say it beforehand.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => removed,
            tried => tried.and(removed),
        }
    }

    /// Writes a part down, so that it survives a crash.
    pub(crate) fn put(&self, part: &Part) -> io::Result<()> {
        let path = self.directory.join(format!("{}.{SUFFIX}", part.head.id()));
        let unfinished = path.with_extension("new");
        let written = File::create(&unfinished)
            .and_then(|mut file| file.write_all(&part.encode()).and_then(|()| file.sync_all()));
        match written {
            Ok(()) => fs::rename(&unfinished, &path),
            Err(error) => {
                let _ = fs::remove_file(&unfinished);
                Err(error)
            }
        }
    }

    /// How many parts are here.
    pub(crate) fn len(&self) -> u64 {
        self.paths().len() as u64
    }

    /// Sends everything that is here; each goes when the broker has it. The first error ends it, the rest is for later.
    pub(crate) fn replay(&self, fabric: &dyn Fabric, subjects: &Subjects, agent: &str) -> Result<(), String> {
        for path in self.paths() {
            let message = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let Some(part) = Part::decode(&message).filter(|part| part.head.agent == agent) else {
                // Another's, or nothing of ours: it is left where it is.
                continue;
            };
            let kept = fabric.keep(&subjects.result(agent), &part.head.id(), message);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Embedded;
    use crate::fold::PartHead;
    use std::time::Duration;

    #[test]
    fn parts_stay_until_they_are_kept_and_are_kept_once() {
        let place = tempfile::tempdir().expect("a directory");
        let spool = Spool::open(&place.path().join("spool")).expect("a spool");
        let head = PartHead { run: "r".into(), mix: 0, agent: "a".into(), sequence: 0, of: 1 };
        let part = Part { head, bytes: b"result".to_vec() };
        let (fabric, subjects) = (Embedded::default(), Subjects::of("f"));
        let inbox = fabric.kept("fleet.f.result.*", "c").expect("an inbox");
        for _ in 0..2 {
            spool.put(&part).expect("it is written");
            assert_eq!(spool.len(), 1);
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
        let spool = Spool::open(place.path()).expect("a spool");
        spool.check_room(4096).expect("room for a page");
        assert!(spool.check_room(1 << 62).is_err());
        assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), 0);
    }
}
