//! How many requests a bot may make: as a token bucket, stored as one time (GCRA).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A limit with its state.
pub struct Pace {
    interval_ns: u64,
    period_ns: u64,
    began: Instant,
    /// When the whole share is there again, in nanoseconds after `began`.
    whole_at_ns: AtomicU64,
}

impl Pace {
    /// Allows `requests` in each period, all at once too; `None`: any number.
    pub fn new(requests: u64, period: Duration) -> Option<Pace> {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = period_ns.checked_div(requests)?.max(1);
        Some(Pace { interval_ns, period_ns, began: Instant::now(), whole_at_ns: AtomicU64::new(0) })
    }

    /// Counts a request; the error says how long it would have to wait.
    pub fn take(&self) -> Result<(), Duration> {
        self.take_at(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn take_at(&self, now_ns: u64) -> Result<(), Duration> {
        let next = |whole_at: u64| whole_at.max(now_ns).saturating_add(self.interval_ns);
        let allowed = |whole_at: u64| {
            let next = next(whole_at);
            (next - now_ns <= self.period_ns.max(self.interval_ns)).then_some(next)
        };
        match self.whole_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, allowed) {
            Ok(_) => Ok(()),
            Err(whole_at) => {
                let wait = (next(whole_at) - now_ns).saturating_sub(self.period_ns);
                Err(Duration::from_nanos(wait))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_so_many_requests() {
        let pace = Pace::new(3, Duration::from_nanos(300)).unwrap();
        for _ in 0..3 {
            assert_eq!(pace.take_at(1000), Ok(()));
        }
        assert_eq!(pace.take_at(1000), Err(Duration::from_nanos(100)));
        assert_eq!(pace.take_at(1099), Err(Duration::from_nanos(1)));
        assert_eq!(pace.take_at(1100), Ok(()));
        assert!(pace.take_at(1100).is_err());
        assert!(Pace::new(0, Duration::from_secs(1)).is_none());
    }
}
