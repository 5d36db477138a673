//! How many requests a bot may make: one [`Rate`] with its state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use touchstone_access::Rate;

/// A limit with its state.
pub struct Pace {
    rate: Rate,
    began: Instant,
    /// When the whole share is available again, in nanoseconds after `began`.
    full_at_ns: AtomicU64,
}

impl Pace {
    /// Allows `requests` in each period, also all of them at the same time; `None`: any number.
    pub fn new(requests: u64, period: Duration) -> Option<Pace> {
        // Not more at the same time than the period has nanoseconds, the shortest interval.
        let burst = requests.min(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
        let rate = Rate::new(requests, period, burst)?;
        Some(Pace { rate, began: Instant::now(), full_at_ns: AtomicU64::new(0) })
    }

    /// Counts a request; the error contains how long it would have to wait.
    pub fn count(&self) -> Result<(), Duration> {
        self.count_at(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn count_at(&self, now_ns: u64) -> Result<(), Duration> {
        let counted = |full_at_ns| self.rate.next(full_at_ns, now_ns).ok();
        match self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted) {
            Ok(_) => Ok(()),
            Err(full_at_ns) => self.rate.next(full_at_ns, now_ns).map(|_| ()).map_err(|over| over.wait),
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
            assert_eq!(pace.count_at(1000), Ok(()));
        }
        assert_eq!(pace.count_at(1000), Err(Duration::from_nanos(100)));
        assert_eq!(pace.count_at(1099), Err(Duration::from_nanos(1)));
        assert_eq!(pace.count_at(1100), Ok(()));
        assert!(pace.count_at(1100).is_err());
        assert!(Pace::new(0, Duration::from_secs(1)).is_none());
    }
}
