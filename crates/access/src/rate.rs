//! Limits the number of requests of a client: a token bucket, stored as one time (the generic cell rate
//! algorithm, GCRA, of ITU-T I.371).
//!
//! Each request moves the time at which the client's share is complete again by one interval. A request that
//! would move it further than the burst allows is refused, and does not move it. So a client that keeps
//! sending requests while it is refused is allowed again as soon as one that waits.

use std::num::NonZeroU64;
use std::time::Duration;

use super::client_table::{Client, ClientTable};

/// A number of requests in a period, and the number of them at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    interval_ns: NonZeroU64,
    /// How far a client may be ahead of an even rate.
    tolerance_ns: u64,
    /// How much further it may be ahead if it waits.
    delay_ns: u64,
}

/// A limit on a table of clients. Limits with the same id share the state of a client.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    id: u64,
    rate: Rate,
}

/// The client must wait before its next request is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateExceeded {
    /// The wait.
    pub wait: Duration,
}

impl Rate {
    /// Allows `requests` in each `period`, and `burst` of them at the same time (at least 1). `None` means no
    /// limit: 0 requests.
    pub fn new(requests: u64, period: Duration, burst: u64) -> Option<Rate> {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = period_ns.checked_div(requests)?;
        let interval_ns = NonZeroU64::new(interval_ns).unwrap_or(NonZeroU64::MIN);
        let tolerance_ns = interval_ns.get().saturating_mul(burst.max(1) - 1);
        Some(Rate { interval_ns, tolerance_ns, delay_ns: 0 })
    }

    /// Allows this many more requests, which are delayed.
    pub fn with_delayed(self, requests: u64) -> Rate {
        Rate { delay_ns: self.interval_ns.get().saturating_mul(requests), ..self }
    }

    /// Counts a request of a client whose share is complete at a time, if it is allowed: returns the time at
    /// which the share is complete again.
    pub fn next(&self, whole_at_ns: u64, now_ns: u64) -> Result<u64, RateExceeded> {
        self.delay(whole_at_ns, now_ns).map(|_| self.next_whole_at_ns(whole_at_ns, now_ns))
    }

    /// The time at which the client's share is complete again, after one more request.
    fn next_whole_at_ns(&self, whole_at_ns: u64, now_ns: u64) -> u64 {
        whole_at_ns.max(now_ns).saturating_add(self.interval_ns.get())
    }

    fn delay(&self, whole_at_ns: u64, now_ns: u64) -> Result<Duration, RateExceeded> {
        let ahead_ns = whole_at_ns.saturating_sub(now_ns);
        let wait_ns = ahead_ns.saturating_sub(self.tolerance_ns);
        match wait_ns.checked_sub(self.delay_ns) {
            None | Some(0) => Ok(Duration::from_nanos(wait_ns)),
            Some(over_ns) => Err(RateExceeded { wait: Duration::from_nanos(over_ns) }),
        }
    }
}

impl Limit {
    /// A limit with this rate.
    pub fn new(id: u64, rate: Rate) -> Limit {
        Limit { id, rate }
    }

    /// Counts or refuses a request at this time of the process's clock.
    #[inline]
    pub fn count(&self, table: &ClientTable, client: Client, now_ns: u64) -> Result<(), RateExceeded> {
        self.count_delayed(table, client, now_ns).map(|_| ())
    }

    /// Does the same; returns how long the request must be delayed.
    #[inline]
    pub fn count_delayed(
        &self,
        table: &ClientTable,
        client: Client,
        now_ns: u64,
    ) -> Result<Duration, RateExceeded> {
        table.update(self.id, client, |whole_at_ns| {
            let wait = self.rate.delay(*whole_at_ns, now_ns)?;
            *whole_at_ns = self.rate.next_whole_at_ns(*whole_at_ns, now_ns);
            Ok(wait)
        })
    }

    /// Counts one request if it need not wait; otherwise has no effect, and returns false.
    #[inline]
    pub fn count_without_delay(&self, table: &ClientTable, client: Client, now_ns: u64) -> bool {
        table.update(self.id, client, |whole_at_ns| {
            let is_immediate = self.rate.delay(*whole_at_ns, now_ns) == Ok(Duration::ZERO);
            if is_immediate {
                *whole_at_ns = self.rate.next_whole_at_ns(*whole_at_ns, now_ns);
            }
            is_immediate
        })
    }

    /// Whether [`Limit::count`] would refuse a request now.
    pub fn peek(&self, table: &ClientTable, client: Client, now_ns: u64) -> Result<(), RateExceeded> {
        table.update(self.id, client, |whole_at_ns| self.rate.delay(*whole_at_ns, now_ns).map(|_| ()))
    }

    /// Takes back a request that was counted.
    pub fn uncount(&self, table: &ClientTable, client: Client) {
        table.update(self.id, client, |whole_at_ns| {
            *whole_at_ns = whole_at_ns.saturating_sub(self.rate.interval_ns.get());
        });
    }
}

impl RateExceeded {
    /// The wait for `Retry-After`: whole seconds, rounded up, at least 1 (RFC 9110 section 10.2.3).
    pub fn retry_after_seconds(&self) -> u64 {
        self.wait.as_secs().saturating_add(u64::from(self.wait.subsec_nanos() > 0)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn client(number: u32) -> Client {
        Client::of(std::net::Ipv4Addr::from_bits(number).into())
    }

    fn limit(requests: u64, period: Duration, burst: u64) -> Limit {
        Limit::new(1, Rate::new(requests, period, burst).unwrap())
    }

    fn wait_of(result: Result<(), RateExceeded>) -> Option<Duration> {
        result.err().map(|too_many| too_many.wait)
    }

    #[test]
    fn a_burst_then_an_even_pace() {
        let table = ClientTable::new(64);
        let limit = limit(10, Duration::from_secs(1), 5);
        let now = 77 * SECOND_NS;
        for _ in 0..5 {
            assert_eq!(limit.count(&table, client(1), now), Ok(()));
        }
        let refused = limit.count(&table, client(1), now);
        assert_eq!(wait_of(refused), Some(Duration::from_millis(100)));
        // Requests that were refused do not count.
        for _ in 0..1000 {
            assert_eq!(limit.count(&table, client(1), now), refused);
        }
        assert!(limit.count(&table, client(1), now + SECOND_NS / 10 - 1).is_err());
        assert!(limit.count(&table, client(1), now + SECOND_NS / 10).is_ok());
        assert!(limit.count(&table, client(1), now + SECOND_NS / 10).is_err());
        assert!(limit.count(&table, client(2), now).is_ok());
        // After a pause the whole burst is available again, and not more.
        let later = now + 100 * SECOND_NS;
        assert_eq!((0..9).filter(|_| limit.count(&table, client(1), later).is_ok()).count(), 5);
    }

    #[test]
    fn some_wait_for_their_turn() {
        let table = ClientTable::new(64);
        let rate = Rate::new(10, Duration::from_secs(1), 2).unwrap().with_delayed(3);
        let limit = Limit::new(1, rate);
        let waits = |now| limit.count_delayed(&table, client(1), now).map(|wait| wait.as_millis());
        let now = 77 * SECOND_NS;
        assert_eq!([waits(now), waits(now)], [Ok(0), Ok(0)]);
        assert!(!limit.count_without_delay(&table, client(1), now));
        assert_eq!([waits(now), waits(now), waits(now)], [Ok(100), Ok(200), Ok(300)]);
        assert_eq!(waits(now), Err(RateExceeded { wait: Duration::from_millis(100) }));
        assert_eq!(waits(now + SECOND_NS / 10), Ok(300));
        assert!(limit.count_without_delay(&table, client(1), now + 2 * SECOND_NS));
    }

    #[test]
    fn looking_takes_nothing_and_giving_back_undoes() {
        let table = ClientTable::new(64);
        let limit = limit(1, Duration::from_secs(60), 1);
        for _ in 0..3 {
            assert!(limit.peek(&table, client(1), SECOND_NS).is_ok());
        }
        assert!(limit.count(&table, client(1), SECOND_NS).is_ok());
        assert_eq!(wait_of(limit.peek(&table, client(1), 2 * SECOND_NS)), Some(Duration::from_secs(59)));
        limit.uncount(&table, client(1));
        assert!(limit.count(&table, client(1), 2 * SECOND_NS).is_ok());
        limit.uncount(&table, client(9));
        assert!(limit.count(&table, client(9), 2 * SECOND_NS).is_ok());
    }

    #[test]
    fn rates() {
        assert_eq!(Rate::new(0, Duration::from_secs(1), 5), None);
        let fastest = limit(u64::MAX, Duration::from_secs(1), u64::MAX);
        let table = ClientTable::new(64);
        assert!((0..1000).all(|_| fastest.count(&table, client(1), 0).is_ok()));
        let slowest = limit(1, Duration::MAX, 1);
        assert!(slowest.count(&table, client(2), 5).is_ok());
        assert!(slowest.count(&table, client(2), u64::MAX - 10).is_err());
    }

    #[test]
    fn retry_after() {
        let seconds =
            |milliseconds| RateExceeded { wait: Duration::from_millis(milliseconds) }.retry_after_seconds();
        assert_eq!([0, 1, 999, 1000, 1001, 59_000].map(seconds), [1, 1, 1, 1, 2, 59]);
        assert_eq!(RateExceeded { wait: Duration::MAX }.retry_after_seconds(), u64::MAX);
    }

    /// A token bucket in its usual form.
    struct Bucket {
        interval_ns: u64,
        burst: u64,
        /// In nanoseconds' worth of tokens.
        filled_ns: u64,
        at_ns: u64,
    }

    impl Bucket {
        fn take(&mut self, now_ns: u64) -> bool {
            self.filled_ns = (self.filled_ns + (now_ns - self.at_ns)).min(self.burst * self.interval_ns);
            self.at_ns = now_ns;
            let is_enough = self.filled_ns >= self.interval_ns;
            if is_enough {
                self.filled_ns -= self.interval_ns;
            }
            is_enough
        }
    }

    proptest! {
        #[test]
        fn it_is_a_token_bucket(
            requests in 1u64..1000,
            burst in 1u64..20,
            pauses_ms in prop::collection::vec(0u64..400, 1..200),
        ) {
            let table = ClientTable::new(64);
            let limit = limit(requests, Duration::from_secs(1), burst);
            let interval_ns = SECOND_NS / requests;
            let mut bucket = Bucket { interval_ns, burst, filled_ns: burst * interval_ns, at_ns: 0 };
            let mut now_ns = 0;
            for pause_ms in pauses_ms {
                now_ns += pause_ms * 1_000_000;
                let taken = limit.count(&table, client(1), now_ns);
                prop_assert_eq!(taken.is_ok(), bucket.take(now_ns));
                if let Err(too_many) = taken {
                    // The returned wait is exact.
                    let then = now_ns + too_many.wait.as_nanos() as u64;
                    prop_assert!(limit.peek(&table, client(1), then).is_ok());
                    prop_assert!(limit.peek(&table, client(1), then - 1).is_err());
                }
            }
        }

        /// No stretch of time has more requests than the rate and one burst.
        #[test]
        fn never_more_than_the_rate_and_a_burst(
            burst in 1u64..10, times_ms in prop::collection::vec(0u64..5_000, 1..300),
        ) {
            let table = ClientTable::new(64);
            let limit = limit(10, Duration::from_secs(1), burst);
            let mut times_ms = times_ms;
            times_ms.sort_unstable();
            let taken: Vec<u64> = times_ms
                .into_iter()
                .filter(|ms| limit.count(&table, client(1), ms * 1_000_000).is_ok())
                .collect();
            for (from, first) in taken.iter().enumerate() {
                for (position, last) in taken[from..].iter().enumerate() {
                    prop_assert!(position as u64 <= (last - first) / 100 + burst);
                }
            }
        }
    }
}
