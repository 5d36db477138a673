//! The minimum speed of a client.
//!
//! A limit on the time without progress is not enough: one byte every twenty seconds is progress, and holds a
//! connection for days. So a transfer has an allowance of waiting time. Waiting spends it, and each byte that
//! arrives (or leaves) earns a little, at the minimum rate. The allowance never exceeds its initial value, so
//! that a fast start does not allow a long pause.
//!
//! One deadline serves both limits: without progress it expires after the stall timeout, with too little
//! progress somewhat later. Only time spent waiting for the client counts, not the server's own delays.
//!
//! This module does not read a clock.

use std::time::Duration;

use touchstone_config::LimitsConfig;

/// The minimum speed that is required of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimumRate {
    /// The maximum time without progress.
    pub stall_timeout: Duration,
    /// The bytes a second that it must take or send once it has been slow for that long; 0: any progress is
    /// enough.
    pub bytes_per_second: u64,
}

impl MinimumRate {
    /// The minimum for a client that sends a body.
    pub fn of_bodies(limits: &LimitsConfig) -> MinimumRate {
        MinimumRate { stall_timeout: limits.stall_timeout, bytes_per_second: limits.minimum_receive_rate }
    }

    /// The minimum for a client that takes answers.
    pub fn of_answers(limits: &LimitsConfig) -> MinimumRate {
        MinimumRate { stall_timeout: limits.stall_timeout, bytes_per_second: limits.minimum_send_rate }
    }
}

/// One transfer: a request's body, or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateCheck {
    minimum: MinimumRate,
    allowance: Duration,
}

impl RateCheck {
    /// The start of a transfer.
    #[inline]
    pub fn begin(minimum: MinimumRate) -> RateCheck {
        RateCheck { minimum, allowance: minimum.stall_timeout }
    }

    /// How long the connection may wait now before the client is too slow.
    #[inline]
    pub fn allowance(&self) -> Duration {
        self.allowance
    }

    /// Records a wait for the client, and the bytes that it brought. False: the client was too slow.
    ///
    /// The time may be measured coarsely, if it is right on average.
    #[inline]
    pub fn record(&mut self, bytes: u64, waited: Duration) -> bool {
        // Most writes need no wait, and most allowances are full: then the bytes change nothing.
        if waited.is_zero() && self.allowance == self.minimum.stall_timeout {
            return true;
        }
        let left = self.allowance.checked_sub(waited);
        self.allowance = left
            .unwrap_or_default()
            .saturating_add(self.allowance_for(bytes))
            .min(self.minimum.stall_timeout);
        left.is_some()
    }

    /// The waiting time that is allowed for this many bytes.
    fn allowance_for(&self, bytes: u64) -> Duration {
        match (bytes, self.minimum.bytes_per_second) {
            (0, _) => Duration::ZERO,
            (_, 0) => self.minimum.stall_timeout,
            (bytes, rate) => {
                let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
                Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn check(stall_seconds: u64, bytes_per_second: u64) -> RateCheck {
        RateCheck::begin(MinimumRate { stall_timeout: SECOND * stall_seconds as u32, bytes_per_second })
    }

    /// How many times a client can do this before it is cut off.
    fn turns(mut check: RateCheck, bytes: u64, waited: Duration) -> usize {
        (0..10_000).take_while(|_| check.record(bytes, waited)).count()
    }

    #[test]
    fn without_a_rate_any_progress_is_enough() {
        assert_eq!(turns(check(30, 0), 1, SECOND * 29), 10_000);
        assert_eq!(turns(check(30, 0), 1, SECOND * 31), 0);
        assert_eq!(turns(check(30, 0), 0, SECOND), 30);
    }

    #[test]
    fn a_trickle_is_cut() {
        // Each step costs ten seconds and earns a tenth of a second.
        assert_eq!(turns(check(30, 100), 10, SECOND * 10), 3);
        assert_eq!(turns(check(30, 100), 1, SECOND * 29), 1);
        // Exactly the minimum rate is always enough.
        assert_eq!(turns(check(30, 100), 1000, SECOND * 10), 10_000);
        assert_eq!(turns(check(30, 100), 999, SECOND * 10), 2_001);
    }

    #[test]
    fn a_fast_start_buys_no_long_stand() {
        let mut check = check(30, 100);
        assert!(check.record(1 << 40, SECOND));
        assert_eq!(check.allowance(), SECOND * 30);
        assert!(!check.record(0, SECOND * 31));
        assert_eq!(check.allowance(), Duration::ZERO);
    }

    proptest! {
        /// Cut off exactly when some stretch of waits is longer than the stall timeout and what was earned
        /// within it.
        #[test]
        fn a_stretch_that_is_too_slow_decides(
            rate in 1u64..100_000,
            stall in 1u64..100,
            turns in prop::collection::vec((0u64..1_000_000, 0u64..50_000), 1..60),
        ) {
            let mut check = check(stall, rate);
            for (at, (bytes, waited_ms)) in turns.iter().enumerate() {
                let too_slow = (0..=at).any(|from| {
                    let waited_ms: u64 = turns[from..=at].iter().map(|(_, waited)| waited).sum();
                    let before = turns[from..at].iter();
                    let earned: Duration = before.map(|(bytes, _)| check.allowance_for(*bytes)).sum();
                    Duration::from_millis(waited_ms) > SECOND * stall as u32 + earned
                });
                prop_assert_eq!(check.record(*bytes, Duration::from_millis(*waited_ms)), !too_slow);
                prop_assert!(check.allowance() <= SECOND * stall as u32);
                if too_slow {
                    break;
                }
            }
        }

        #[test]
        fn keeping_the_rate_is_enough(
            rate in 1u64..100_000,
            waits_ms in prop::collection::vec(0u64..10_000, 1..60),
        ) {
            let mut check = check(10, rate);
            for waited_ms in waits_ms {
                let bytes = (rate * waited_ms).div_ceil(1000);
                prop_assert!(check.record(bytes, Duration::from_millis(waited_ms)));
            }
        }

        #[test]
        fn more_bytes_never_hurt(
            rate in 0u64..1000, bytes in 0u64..10_000, more in 0u64..10_000, waited_ms in 0u64..40_000,
        ) {
            let (mut one, mut other) = (check(30, rate), check(30, rate));
            let waited = Duration::from_millis(waited_ms);
            prop_assert_eq!(one.record(bytes, waited), other.record(bytes + more, waited));
            prop_assert!(one.allowance() <= other.allowance());
        }

        #[test]
        fn no_values_overflow(rate: u64, bytes: u64, waited: u64, stall: u64) {
            let minimum = MinimumRate { stall_timeout: Duration::from_millis(stall), bytes_per_second: rate };
            let mut check = RateCheck::begin(minimum);
            check.record(bytes, Duration::from_millis(waited));
            check.record(u64::MAX, Duration::MAX);
        }
    }
}
