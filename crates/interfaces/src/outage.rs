//! Whether an origin or a backend has failed so often in a row that the log need not say it each time.
//!
//! A failure between answers is worth a line of its own, with its request. One that every request meets is
//! not: a server that is down would fill the log.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// So many failures in a row are more than faults of single requests.
const FAILURES_IN_A_ROW: u32 = 3;

/// What is known of one origin or backend. Shared by all cores.
#[derive(Debug, Default)]
pub struct Outage {
    failures: AtomicU32,
}

impl Outage {
    /// It has failed; true where it has so again and again.
    pub fn failed(&self) -> bool {
        // Saturating would take a loop: after four thousand million failures a few more lines do no harm.
        self.failures.fetch_add(1, Relaxed).wrapping_add(1) >= FAILURES_IN_A_ROW
    }

    /// It has answered; true where it had failed again and again.
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
