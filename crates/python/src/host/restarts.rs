//! Why workers of an application were replaced or started again, counted for operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Why a worker was replaced, or started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The server was ordered to reload.
    Reload,
    /// A source file has changed.
    Change,
    /// It has processed the number of requests in `limits.requests`.
    Requests,
    /// It was close to its memory limit.
    Memory,
    /// A request in it took longer than `limits.answer`.
    Answer,
    /// Its event loop did not return for that time.
    Loop,
    /// It has ended, or was killed.
    End,
    /// It was not ready in time, or could not import the application.
    Start,
}

/// The labels of all, in the order of the enumeration.
pub const REASONS: [&str; 8] = ["reload", "change", "requests", "memory", "answer", "loop", "end", "start"];

/// How often workers were replaced.
#[derive(Debug, Default)]
pub struct Restarts {
    counts: [AtomicU64; REASONS.len()],
    last: Mutex<Option<LastRestart>>,
}

/// The last time that a worker was replaced or started again.
#[derive(Debug, Clone)]
pub struct LastRestart {
    /// Why.
    pub reason: &'static str,
    /// The text in the error log, with the number of the process.
    pub text: String,
    /// When.
    pub at: SystemTime,
}

impl Restarts {
    /// Counts a restart. `text` is the message in the error log.
    pub fn add(&self, reason: Reason, text: &str) {
        let index = reason as usize;
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        let last = LastRestart { reason: REASONS[index], text: text.to_string(), at: SystemTime::now() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// The counts by reason.
    pub fn counts(&self) -> [(&'static str, u64); REASONS.len()] {
        std::array::from_fn(|index| (REASONS[index], self.counts[index].load(Ordering::Relaxed)))
    }

    /// The last restart.
    pub fn last(&self) -> Option<LastRestart> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_label() {
        let restarts = Restarts::default();
        restarts.add(Reason::Reload, "a");
        restarts.add(Reason::Start, "b");
        restarts.add(Reason::Start, "c");
        let counts = restarts.counts();
        assert_eq!((counts[0], counts[7]), (("reload", 1), ("start", 2)));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 3);
        let last = restarts.last().unwrap();
        assert_eq!((last.reason, last.text.as_str()), ("start", "c"));
    }
}
