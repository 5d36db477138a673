//! The store in a directory that machines share. Each change is made under a lock of the file system, which
//! is held for milliseconds only; each value is a file that is renamed into place.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use touchstone_tls::private_file;

use super::value::VersionedValue;

/// How long another machine may hold the lock. It holds it for milliseconds; one that lost its network may
/// hold it until the file server releases it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause between two attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The largest value.
const MOST_BYTES: u64 = 64 * 1024;

/// The directory.
pub struct DirectoryStore {
    root: PathBuf,
}

impl DirectoryStore {
    /// The store in `root`, which is created when it is needed.
    pub fn new(root: PathBuf) -> DirectoryStore {
        DirectoryStore { root }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Result<Option<VersionedValue>, String> {
        let file = self.root.join(file_name(key));
        match read(&file) {
            Ok(stored) => Ok(stored),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    /// Sets or removes a value if its revision is still the given one; returns the new revision (0 for none).
    pub fn replace(
        &self,
        key: &str,
        bytes: Option<&[u8]>,
        before: Option<u64>,
    ) -> Result<Option<u64>, String> {
        let file = self.root.join(file_name(key));
        let replace = || -> io::Result<Option<u64>> {
            private_file::make_directory(&self.root)?;
            let _lock = self.lock()?;
            if read(&file)?.map(|stored| stored.revision) != before {
                return Ok(None);
            }
            // A machine that was killed while it wrote has left its file.
            private_file::remove_unfinished(&file);
            match bytes {
                Some(bytes) => {
                    private_file::write(&file, bytes, 0o600)?;
                    Ok(Some(revision(bytes)))
                }
                None => fs::remove_file(&file).map(|()| Some(0)),
            }
        };
        replace().map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The keys that begin with `prefix`, with their values.
    pub fn list(&self, prefix: &str) -> Result<Vec<(String, VersionedValue)>, String> {
        let about = |error: io::Error| format!("{}: {error}", self.root.display());
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(about(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(about)?.file_name();
            let Some(key) = name.to_str().and_then(key_of).filter(|key| key.starts_with(prefix)) else {
                continue;
            };
            // Another process may have removed it.
            if let Some(stored) = self.get(&key)? {
                found.push((key, stored));
            }
        }
        Ok(found)
    }

    fn lock(&self) -> io::Result<File> {
        let until = Instant::now() + LOCK_TIMEOUT;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.root.join("lock"))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another machine holds the lock of this directory"));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

fn read(file: &std::path::Path) -> io::Result<Option<VersionedValue>> {
    use std::io::Read as _;
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    opened.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(VersionedValue { revision: revision(&bytes), bytes }))
}

/// Values that differ have different revisions; values of leases differ each time.
fn revision(bytes: &[u8]) -> u64 {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The file of a key, whose parts are separated by '/'. No other file of the directory has this ending.
fn file_name(key: &str) -> String {
    let name = key.replace('%', "%25").replace('/', "%2F");
    format!("{name}.value")
}

fn key_of(file_name: &str) -> Option<String> {
    let name = file_name.strip_suffix(".value")?;
    Some(name.replace("%2F", "/").replace("%25", "%"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_change_only_from_what_is_known() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = DirectoryStore::new(directory.path().join("shared"));
        assert_eq!(store.get("a/b"), Ok(None));
        assert_eq!(store.list(""), Ok(Vec::new()));
        let first = store.replace("a/b", Some(b"one"), None).expect("it works").expect("it is new");
        assert_eq!(store.replace("a/b", Some(b"two"), None), Ok(None));
        assert_eq!(store.replace("a/b", Some(b"two"), Some(first + 1)), Ok(None));
        let second = store.replace("a/b", Some(b"two"), Some(first)).expect("it works").expect("it is right");
        assert_eq!(store.get("a/b"), Ok(Some(VersionedValue { bytes: b"two".to_vec(), revision: second })));
        assert_eq!(store.list("a/").expect("a list").len(), 1);
        assert_eq!(store.list("b/").expect("a list").len(), 0);
        assert_eq!(store.replace("a/b", None, Some(first)), Ok(None));
        assert_eq!(store.replace("a/b", None, Some(second)), Ok(Some(0)));
        assert_eq!(store.get("a/b"), Ok(None));
    }

    #[test]
    fn files_of_killed_writers_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = DirectoryStore::new(directory.path().to_path_buf());
        let unfinished = directory.path().join("a%2Fb.value.7-00000000000000ab.new");
        for (bytes, has_value) in [(Some(&b"one"[..]), false), (None, true)] {
            std::fs::write(&unfinished, "o").expect("a file");
            let before = store.get("a/b").expect("it works").map(|stored| stored.revision);
            assert_eq!(before.is_some(), has_value);
            assert!(store.replace("a/b", bytes, before).expect("it works").is_some());
            assert!(!unfinished.exists());
        }
    }

    #[test]
    fn of_many_writers_one_wins() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = DirectoryStore::new(directory.path().to_path_buf());
        let winners = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|number| {
                    let store = &store;
                    scope.spawn(move || store.replace("key", Some(format!("{number}").as_bytes()), None))
                })
                .collect();
            let ends = writers.into_iter().map(|writer| writer.join().expect("no panic"));
            ends.filter(|end| matches!(end, Ok(Some(_)))).count()
        });
        assert_eq!(winners, 1);
    }

    proptest! {
        #[test]
        fn every_key_has_a_file_of_its_own(key in "[ -~]{0,40}") {
            let name = file_name(&key);
            prop_assert!(!name.contains('/') && name != "lock");
            prop_assert_eq!(key_of(&name), Some(key));
        }
    }
}
