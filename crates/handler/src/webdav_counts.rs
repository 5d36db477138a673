//! Counts of WebDAV, for metrics: by route, because several may share a tree of files.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::count::Count;

/// The methods that are counted, in the order of the counts. GET, HEAD and OPTIONS count as those of files.
pub const METHODS: [&str; 9] =
    ["PROPFIND", "PROPPATCH", "MKCOL", "PUT", "DELETE", "COPY", "MOVE", "LOCK", "UNLOCK"];

/// Why a request was refused, by the status of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A lock of another client.
    Locked = 0,
    /// A condition of the request does not hold.
    Condition = 1,
    /// A parent collection is missing, or the path names something else.
    Conflict = 2,
    /// The resource may not be read or changed.
    Forbidden = 3,
    /// There is no such resource.
    NotFound = 4,
    /// The method is not allowed here, or unknown.
    Method = 5,
    /// The body is too long.
    TooLarge = 6,
    /// There is no space: on the disk, or within the limits on locks, properties and resources.
    Storage = 7,
    /// The request itself is invalid.
    Request = 8,
    /// An error of the server.
    Failed = 9,
}

impl Refusal {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Refusal; 10] = [
        Refusal::Locked,
        Refusal::Condition,
        Refusal::Conflict,
        Refusal::Forbidden,
        Refusal::NotFound,
        Refusal::Method,
        Refusal::TooLarge,
        Refusal::Storage,
        Refusal::Request,
        Refusal::Failed,
    ];

    /// The reason for a status.
    pub fn of_status(status: u16) -> Refusal {
        match status {
            423 => Refusal::Locked,
            412 => Refusal::Condition,
            409 => Refusal::Conflict,
            403 => Refusal::Forbidden,
            404 => Refusal::NotFound,
            405 | 501 => Refusal::Method,
            413 => Refusal::TooLarge,
            507 => Refusal::Storage,
            // 502: the destination of a copy is on another server (RFC 4918 section 9.8.5).
            400..=499 | 502 => Refusal::Request,
            _ => Refusal::Failed,
        }
    }

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        [
            "locked",
            "condition",
            "conflict",
            "forbidden",
            "not_found",
            "method",
            "too_large",
            "storage",
            "request",
            "failed",
        ][self as usize]
    }
}

/// The table of the locks of a tree.
pub trait LockTable: Send + Sync {
    /// The number of locks now. It must not wait long.
    fn locks_held(&self) -> u64;
}

/// The counts of one route.
#[derive(Default)]
#[repr(align(64))]
pub struct Counts {
    requests: [Count; METHODS.len()],
    refusals: [Count; Refusal::ALL.len()],
    /// Bytes of uploads that were written.
    pub written_bytes: Count,
    locks: Mutex<Option<Weak<dyn LockTable>>>,
}

impl Counts {
    /// Counts a request with this method.
    pub fn requested(&self, method: &str) {
        if let Some(position) = METHODS.iter().position(|known| *known == method) {
            self.requests[position].add(1);
        }
    }

    /// Counts a request that was answered with this status because it was refused.
    pub fn refused(&self, status: u16) {
        self.refusals[Refusal::of_status(status) as usize].add(1);
    }

    /// The requests of each method.
    pub fn requests(&self) -> [u64; METHODS.len()] {
        std::array::from_fn(|position| self.requests[position].get())
    }

    /// The requests that were refused for this reason.
    pub fn refusals(&self, reason: Refusal) -> u64 {
        self.refusals[reason as usize].get()
    }

    /// Counts the locks of this table from now on.
    pub fn count_locks_of(&self, table: &Arc<impl LockTable + 'static>) {
        let table: Arc<dyn LockTable> = table.clone();
        *self.locks.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(&table));
    }

    /// The locks that clients hold now.
    pub fn locks_held(&self) -> u64 {
        let table =
            self.locks.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Weak::upgrade);
        table.map_or(0, |table| table.locks_held())
    }
}

/// A route with WebDAV.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The name of the site.
    pub site: String,
    /// The name of the route.
    pub route: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Three;

    impl LockTable for Three {
        fn locks_held(&self) -> u64 {
            3
        }
    }

    #[test]
    fn requests_refusals_and_locks_are_counted() {
        let counts = Counts::default();
        for method in ["PUT", "PUT", "UNLOCK", "GET"] {
            counts.requested(method);
        }
        assert_eq!(counts.requests(), [0, 0, 0, 2, 0, 0, 0, 0, 1]);
        for status in [423, 412, 409, 403, 404, 405, 501, 413, 507, 400, 422, 502, 500, 503] {
            counts.refused(status);
        }
        assert_eq!(Refusal::ALL.map(|reason| counts.refusals(reason)), [1, 1, 1, 1, 1, 2, 1, 1, 3, 2]);
        for (number, reason) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
        assert_eq!(counts.locks_held(), 0);
        let table = Arc::new(Three);
        counts.count_locks_of(&table);
        assert_eq!(counts.locks_held(), 3);
        drop(table);
        assert_eq!(counts.locks_held(), 0);
    }
}
