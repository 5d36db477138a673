//! Detects an origin or a backend that fails again and again, so that not every failure is logged.
//!
//! A single failure is logged with its request. If every request fails, the messages would fill the log.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// More failures in a row than this are not faults of single requests.
const FAILURES_IN_A_ROW: u32 = 3;

/// The state of one origin or backend. Shared by all cores.
#[derive(Debug, Default)]
pub struct Outage {
    failures: AtomicU32,
}

impl Outage {
    /// Notes a failure; returns true if it fails again and again.
    pub fn failed(&self) -> bool {
        // A saturating addition would need a loop. After an overflow, only a few more lines are logged.
        self.failures.fetch_add(1, Relaxed).wrapping_add(1) >= FAILURES_IN_A_ROW
    }

    /// Notes an answer; returns true if it had failed again and again.
    #[inline]
    pub fn answered(&self) -> bool {
        self.failures.load(Relaxed) > 0 && self.failures.swap(0, Relaxed) >= FAILURES_IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_between_answers_are_no_outage() {
        let outage = Outage::default();
        for _ in 0..3 {
            assert!(!outage.failed() && !outage.failed());
            assert!(!outage.answered());
        }
        let failed = [outage.failed(), outage.failed(), outage.failed(), outage.failed()];
        assert_eq!(failed, [false, false, true, true]);
        assert!(outage.answered() && !outage.answered());
        assert!(!outage.failed());
    }
}
