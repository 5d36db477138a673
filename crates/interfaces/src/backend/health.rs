//! Whether a backend is up, as all cores have found together.
//!
//! After so many failures within a span of time it is left alone for as long. Then one request is let through
//! to see whether it is up again; the others go elsewhere until that has come back.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// When a backend counts as down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthRules {
    /// So many failures within `fail_timeout`; 0: never.
    pub max_failures: u32,
    /// The span in which failures count, and for which the backend is left alone then.
    pub fail_timeout: Duration,
}

/// What is known of one backend. Touched by requests only where something has failed.
#[derive(Debug, Default)]
pub struct Health {
    failures: AtomicU32,
    /// When the first of them was, in milliseconds.
    since_ms: AtomicU64,
    /// Until when it is left alone; 0: it is up.
    down_until_ms: AtomicU64,
}

/// What a report has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// It is down now.
    Down,
    /// It is up again.
    Up,
}

impl Health {
    /// Whether a request may be sent; after a time of being down, to one caller only.
    pub fn admits(&self, now_ms: u64, rules: &HealthRules) -> bool {
        let until = self.down_until_ms.load(Relaxed);
        if until == 0 {
            return true;
        }
        now_ms >= until
            && self.down_until_ms.compare_exchange(until, again(now_ms, rules), Relaxed, Relaxed).is_ok()
    }

    /// Until when it is left alone; 0: it is up.
    pub fn down_until_ms(&self) -> u64 {
        self.down_until_ms.load(Relaxed)
    }

    /// Something was answered.
    #[inline]
    pub fn succeeded(&self) -> Change {
        if self.failures.load(Relaxed) == 0 {
            return Change::None;
        }
        self.failures.store(0, Relaxed);
        if self.down_until_ms.swap(0, Relaxed) == 0 { Change::None } else { Change::Up }
    }

    /// It could not be reached, or said nothing in time.
    pub fn failed(&self, now_ms: u64, rules: &HealthRules) -> Change {
        if rules.max_failures == 0 {
            return Change::None;
        }
        let span = milliseconds(rules.fail_timeout);
        if now_ms.saturating_sub(self.since_ms.load(Relaxed)) > span && self.down_until_ms.load(Relaxed) == 0
        {
            self.since_ms.store(now_ms, Relaxed);
            self.failures.store(0, Relaxed);
        }
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        if failures < rules.max_failures {
            return Change::None;
        }
        let before = self.down_until_ms.swap(again(now_ms, rules), Relaxed);
        if before == 0 { Change::Down } else { Change::None }
    }
}

fn again(now_ms: u64, rules: &HealthRules) -> u64 {
    now_ms.saturating_add(milliseconds(rules.fail_timeout)).max(1)
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HealthRules = HealthRules { max_failures: 2, fail_timeout: Duration::from_secs(10) };

    #[test]
    fn it_goes_down_and_one_request_tries_it_again() {
        let health = Health::default();
        assert!(health.admits(0, &RULES));
        assert_eq!(health.failed(1_000, &RULES), Change::None);
        assert_eq!(health.failed(2_000, &RULES), Change::Down);
        assert!(!health.admits(11_999, &RULES));
        assert!(health.admits(12_000, &RULES));
        assert!(!health.admits(12_001, &RULES), "one only");
        assert_eq!(health.failed(12_500, &RULES), Change::None, "it was down before");
        assert!(!health.admits(22_400, &RULES));
        assert!(health.admits(22_500, &RULES));
        assert_eq!(health.succeeded(), Change::Up);
        assert!(health.admits(22_501, &RULES) && health.admits(22_502, &RULES));
        assert_eq!(health.succeeded(), Change::None);
    }

    #[test]
    fn failures_far_apart_do_not_count_together() {
        let health = Health::default();
        for now in [0, 20_000, 40_000, 60_000] {
            assert_eq!(health.failed(now, &RULES), Change::None);
            assert!(health.admits(now, &RULES));
        }
    }

    #[test]
    fn zero_failures_means_never() {
        let (health, rules) = (Health::default(), HealthRules { max_failures: 0, ..RULES });
        for now in 0..100 {
            assert_eq!(health.failed(now, &rules), Change::None);
        }
        assert!(health.admits(100, &rules));
    }
}
