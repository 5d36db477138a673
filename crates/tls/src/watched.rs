//! A value that is made from files, and made again when they change.
//!
//! A change is applied when two checks in a row found the same state: a program that writes a certificate and
//! then its key has time to finish. Files that cannot be used are reported once, and the previous value
//! stays.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// A value with the files that it was made from.
#[derive(Debug)]
pub struct WatchedValue<T> {
    files: Vec<PathBuf>,
    value: Option<T>,
    /// The state of the files when the value was made.
    loaded_stamp: Stamp,
    /// Their state at the last check.
    seen: Stamp,
    /// Their state when they could not be used.
    refused: Option<Stamp>,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum WatchResult<E> {
    /// Nothing has changed.
    Same,
    /// There is a new value.
    Renewed,
    /// The files changed, but cannot be used. This is reported once for each change.
    Refused(E),
}

/// Distinguishes one state of the files from another; `None` for a file that is absent.
type Stamp = Vec<Option<FileStamp>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
    changed_s: i64,
    changed_ns: i64,
}

impl<T> WatchedValue<T> {
    /// Makes the value for the first time.
    pub fn open<E>(files: Vec<PathBuf>, make: impl FnOnce() -> Result<T, E>) -> Result<WatchedValue<T>, E> {
        // Taken before the files are read: the next check finds later changes.
        let stamp = stamp(&files);
        let value = make()?;
        Ok(WatchedValue {
            files,
            value: Some(value),
            seen: stamp.clone(),
            loaded_stamp: stamp,
            refused: None,
        })
    }

    /// For files that do not exist yet.
    pub fn waiting(files: Vec<PathBuf>) -> WatchedValue<T> {
        let absent: Stamp = vec![None; files.len()];
        WatchedValue { files, value: None, seen: absent.clone(), loaded_stamp: absent, refused: None }
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Checks the files, and makes the value again if they have changed and settled.
    pub fn check<E>(&mut self, make: impl FnOnce() -> Result<T, E>) -> WatchResult<E> {
        let now = stamp(&self.files);
        if now == self.loaded_stamp {
            self.seen = now;
            self.refused = None;
            return WatchResult::Same;
        }
        if now != self.seen {
            self.seen = now;
            return WatchResult::Same;
        }
        if self.refused.as_ref() == Some(&now) {
            return WatchResult::Same;
        }
        match make() {
            Ok(value) => {
                self.value = Some(value);
                self.loaded_stamp = now;
                self.refused = None;
                WatchResult::Renewed
            }
            Err(error) => {
                self.refused = Some(now);
                WatchResult::Refused(error)
            }
        }
    }
}

fn stamp(files: &[PathBuf]) -> Stamp {
    files
        .iter()
        .map(|file| {
            let metadata = std::fs::metadata(file).ok()?;
            Some(FileStamp {
                device: metadata.dev(),
                inode: metadata.ino(),
                bytes: metadata.len(),
                modified_s: metadata.mtime(),
                modified_ns: metadata.mtime_nsec(),
                changed_s: metadata.ctime(),
                changed_ns: metadata.ctime_nsec(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        directory: tempfile::TempDir,
        watched: WatchedValue<String>,
    }

    impl Scene {
        fn new() -> Scene {
            let directory = tempfile::tempdir().unwrap();
            let files = vec![directory.path().join("a"), directory.path().join("b")];
            std::fs::write(&files[0], "one").unwrap();
            std::fs::write(&files[1], "two").unwrap();
            let read = read(&files);
            let watched = WatchedValue::open(files, || read).unwrap();
            Scene { directory, watched }
        }

        /// Each write makes a new file, so that two states always differ, however fast the test is.
        fn write(&self, name: &str, text: &str) {
            let new = self.directory.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, self.directory.path().join(name)).unwrap();
        }

        fn check(&mut self) -> WatchResult<String> {
            let files = self.watched.files.clone();
            self.watched.check(|| read(&files))
        }

        fn value(&self) -> &str {
            self.watched.value().unwrap()
        }
    }

    fn read(files: &[PathBuf]) -> Result<String, String> {
        let mut text = String::new();
        for file in files {
            text += &std::fs::read_to_string(file).map_err(|_| "absent".to_string())?;
        }
        if text.contains("bad") { Err(text) } else { Ok(text) }
    }

    #[test]
    fn a_change_counts_when_it_has_settled() {
        let mut scene = Scene::new();
        assert_eq!(scene.check(), WatchResult::Same);
        scene.write("a", "ONE");
        assert_eq!(scene.check(), WatchResult::Same);
        scene.write("b", "TWO");
        assert_eq!(scene.check(), WatchResult::Same);
        assert_eq!(scene.value(), "onetwo");
        assert_eq!(scene.check(), WatchResult::Renewed);
        assert_eq!(scene.value(), "ONETWO");
        assert_eq!(scene.check(), WatchResult::Same);
    }

    #[test]
    fn what_cannot_be_used_is_refused_once_and_the_old_stays() {
        let mut scene = Scene::new();
        scene.write("a", "bad");
        assert_eq!(scene.check(), WatchResult::Same);
        assert_eq!(scene.check(), WatchResult::Refused("badtwo".to_string()));
        assert_eq!(scene.check(), WatchResult::Same);
        assert_eq!(scene.value(), "onetwo");
        scene.write("a", "bad too");
        scene.check();
        assert_eq!(scene.check(), WatchResult::Refused("bad tootwo".to_string()));
        scene.write("a", "good");
        scene.check();
        assert_eq!(scene.check(), WatchResult::Renewed);
        assert_eq!(scene.value(), "goodtwo");
    }

    #[test]
    fn a_file_that_goes_and_comes() {
        let mut scene = Scene::new();
        std::fs::remove_file(scene.directory.path().join("b")).unwrap();
        scene.check();
        assert_eq!(scene.check(), WatchResult::Refused("absent".to_string()));
        assert_eq!(scene.check(), WatchResult::Same);
        assert_eq!(scene.value(), "onetwo");
        scene.write("b", "again");
        scene.check();
        assert_eq!(scene.check(), WatchResult::Renewed);
        assert_eq!(scene.value(), "oneagain");
    }

    #[test]
    fn files_that_are_not_there_yet() {
        let directory = tempfile::tempdir().unwrap();
        let files = vec![directory.path().join("a")];
        let mut watched = WatchedValue::waiting(files.clone());
        assert_eq!(watched.check(|| read(&files)), WatchResult::Same);
        assert_eq!(watched.value(), None);
        std::fs::write(&files[0], "here").unwrap();
        assert_eq!(watched.check(|| read(&files)), WatchResult::Same);
        assert_eq!(watched.check(|| read(&files)), WatchResult::Renewed);
        assert_eq!(watched.value().map(String::as_str), Some("here"));
    }
}
