//! Predicts which paths are answered quickly, from the last calls: these may be called on the thread of a
//! connection. If such a call takes long, the other connections of the thread must be moved.
//!
//! A table of small numbers, by a hash of the path and a hash of its directory: long calls raise them, quick
//! calls lower them. Paths with the same hash share a number; a wrong prediction costs speed, and never
//! changes an answer.

use std::hash::Hasher as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rustc_hash::FxHasher;

/// Entries of the table.
const ENTRIES: usize = 4096;

/// A call that takes this long should have its own thread.
const LONG: Duration = Duration::from_millis(1);

/// A call that takes this long is slow even without a garbage collection.
const VERY_LONG: Duration = Duration::from_millis(20);

/// How much such calls, and calls that had other connections moved, add.
const FOR_LONG: u8 = 8;
const FOR_VERY_LONG: u8 = 64;
const FOR_MOVED: u8 = 192;

/// Paths and directories with at least these numbers are not quick.
const SLOW_PATH: u8 = 64;
const SLOW_DIRECTORY: u8 = 128;

/// A path in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathKey {
    path: usize,
    directory: usize,
}

impl PathKey {
    /// The key of a path.
    pub fn of(path: &[u8]) -> PathKey {
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        PathKey { path: entry(path, 1), directory: entry(&path[..slash], 2) }
    }
}

fn entry(text: &[u8], kind: u8) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.write_u8(kind);
    // The upper bits are mixed better.
    (hasher.finish() >> 40) as usize % ENTRIES
}

/// How quickly paths were answered so far.
pub struct CallDurations {
    entries: Box<[AtomicU8]>,
}

impl Default for CallDurations {
    fn default() -> CallDurations {
        CallDurations { entries: (0..ENTRIES).map(|_| AtomicU8::new(0)).collect() }
    }
}

impl CallDurations {
    /// Whether the next call is likely to be short.
    pub fn is_quick(&self, key: PathKey) -> bool {
        self.at(key.path) < SLOW_PATH && self.at(key.directory) < SLOW_DIRECTORY
    }

    /// Notes how long a call has taken.
    pub fn note(&self, key: PathKey, took: Duration) {
        if took < LONG {
            self.lower(key.path);
            self.lower(key.directory);
        } else {
            self.raise(key.path, if took < VERY_LONG { FOR_LONG } else { FOR_VERY_LONG });
        }
    }

    /// Notes that a call had other connections moved.
    pub fn note_moved(&self, key: PathKey) {
        self.raise(key.path, FOR_MOVED);
        // New paths are treated like other paths of their directory.
        self.raise(key.directory, FOR_VERY_LONG);
    }

    // Another thread may change the number between reading and writing; the loss of one call has no effect.

    fn at(&self, entry: usize) -> u8 {
        self.entries[entry].load(Ordering::Relaxed)
    }

    fn raise(&self, entry: usize, by: u8) {
        self.entries[entry].store(self.at(entry).saturating_add(by), Ordering::Relaxed);
    }

    fn lower(&self, entry: usize) {
        let now = self.at(entry);
        if now > 0 {
            self.entries[entry].store(now - 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(5);

    #[test]
    fn what_was_slow_is_quick_again_after_many_quick_calls() {
        let (call_durations, key) = (CallDurations::default(), PathKey::of(b"/shop/search"));
        assert!(call_durations.is_quick(key));
        call_durations.note(key, Duration::from_millis(2));
        assert!(call_durations.is_quick(key), "one pause");
        call_durations.note(key, Duration::from_secs(1));
        assert!(!call_durations.is_quick(key));
        for _ in 0..255 {
            call_durations.note(key, QUICK);
        }
        assert!(call_durations.is_quick(key));
    }

    #[test]
    fn a_directory_full_of_slow_paths_is_slow() {
        let call_durations = CallDurations::default();
        for path in [&b"/reports/1"[..], b"/reports/2"] {
            assert!(call_durations.is_quick(PathKey::of(path)));
            call_durations.note_moved(PathKey::of(path));
        }
        assert!(!call_durations.is_quick(PathKey::of(b"/reports/3")));
        assert!(call_durations.is_quick(PathKey::of(b"/shop/cart")));
    }
}
