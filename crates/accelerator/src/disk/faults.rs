//! Faults of the directory while it is in use: counted by cause, and reported once until the cause has ended.
//! A fault only costs hits.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use touchstone_handler::handler::Level;

use crate::store::TierFaults;

/// Receives the reports of faults and of what was found.
pub type Report = dyn Fn(Level, &str) + Send + Sync;

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// There is no space left.
    Full,
    /// The directory is read-only.
    ReadOnly,
    /// The directory, or a file in it, was removed.
    Missing,
    /// Writing failed for another reason.
    Write,
    /// Reading failed.
    Read,
}

const CAUSES: usize = 5;

impl Cause {
    fn of(error: &io::Error, otherwise: Cause) -> Cause {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Cause::Full,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Cause::ReadOnly,
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Cause::Missing,
            _ => otherwise,
        }
    }
}

/// The faults so far.
pub struct Faults {
    directory: PathBuf,
    report: Box<Report>,
    counts: [AtomicU64; CAUSES],
    /// The causes that were reported and have not ended.
    lasting: [AtomicBool; CAUSES],
}

impl Faults {
    /// No faults.
    pub fn new(directory: PathBuf, report: Box<Report>) -> Faults {
        Faults { directory, report, counts: Default::default(), lasting: Default::default() }
    }

    /// Records a failure; returns its cause. `otherwise` is the cause if the error does not say it.
    pub fn note(&self, otherwise: Cause, what: &str, error: &io::Error) -> Cause {
        let cause = Cause::of(error, otherwise);
        self.counts[cause as usize].fetch_add(1, Ordering::Relaxed);
        if !self.lasting[cause as usize].swap(true, Ordering::Relaxed) {
            let directory = self.directory.display();
            self.tell(Level::Warning, &format!("the cache's directory {directory} {what}: {error}"));
        }
        cause
    }

    /// Reports something that is not a fault of the directory.
    pub fn tell(&self, level: Level, message: &str) {
        (self.report)(level, message);
    }

    /// A cause has ended.
    pub fn end(&self, cause: Cause) {
        self.lasting[cause as usize].store(false, Ordering::Relaxed);
    }

    /// Whether a cause has not ended.
    pub fn lasts(&self, cause: Cause) -> bool {
        self.lasting[cause as usize].load(Ordering::Relaxed)
    }

    /// The number of failures by cause.
    pub fn counts(&self) -> TierFaults {
        let count = |cause: Cause| self.counts[cause as usize].load(Ordering::Relaxed);
        TierFaults {
            full: count(Cause::Full),
            read_only: count(Cause::ReadOnly),
            missing: count(Cause::Missing),
            write: count(Cause::Write),
            read: count(Cause::Read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn each_cause_is_told_once_until_it_has_gone_away() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let report = reports.clone();
        let faults = Faults::new(
            PathBuf::from("/cache"),
            Box::new(move |level, message| report.lock().unwrap().push((level, message.to_string()))),
        );
        let fail = |kind: io::ErrorKind| faults.note(Cause::Write, "cannot be written to", &kind.into());
        assert_eq!(fail(io::ErrorKind::StorageFull), Cause::Full);
        assert_eq!(fail(io::ErrorKind::StorageFull), Cause::Full);
        assert_eq!(fail(io::ErrorKind::NotFound), Cause::Missing);
        assert_eq!(fail(io::ErrorKind::ReadOnlyFilesystem), Cause::ReadOnly);
        assert_eq!(fail(io::ErrorKind::Other), Cause::Write);
        assert_eq!(reports.lock().unwrap().len(), 4);
        faults.end(Cause::Full);
        assert!(!faults.lasts(Cause::Full) && faults.lasts(Cause::Missing));
        fail(io::ErrorKind::StorageFull);
        let reports = reports.lock().unwrap();
        assert_eq!(reports.len(), 5);
        assert!(reports.iter().all(|(level, message)| {
            matches!(level, Level::Warning) && message.starts_with("the cache's directory /cache cannot")
        }));
        let counts = TierFaults { full: 3, missing: 1, read_only: 1, write: 1, read: 0 };
        assert_eq!(faults.counts(), counts);
    }
}
