//! When each virtual client starts its requests, and which thread carries it.
//!
//! Without a rate the loop is closed: the next request starts when the last was answered (after the think time).
//! With a rate the starts lie on one fixed schedule, dealt out to the clients in turn, and a client that is late
//! keeps its intended start, so that waiting behind a slow answer is not left out of the latency
//! ("coordinated omission").

use std::ops::Range;
use std::time::Duration;

/// The clients of one thread out of `threads`: consecutive numbers, the parts differ by one at most and together make
/// the whole.
pub(crate) fn clients_of_thread(clients: usize, threads: usize, thread: usize) -> Range<usize> {
    let (share, rest) = (clients / threads, clients % threads);
    let first = thread * share + thread.min(rest);
    first..first + share + usize::from(thread < rest)
}

/// The fixed schedule of a rate: request `n` of the whole run is due `n / rate` seconds after its start, and
/// client `k` of `N` takes the requests `k`, `k + N`, `k + 2 N` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateSchedule {
    rate: f64,
    clients: u64,
}

impl RateSchedule {
    pub(crate) fn new(rate: f64, clients: usize) -> RateSchedule {
        RateSchedule { rate, clients: clients as u64 }
    }

    /// When the client's request number `turn` (from 0) is due, in nanoseconds after the run's start. Computed
    /// afresh from the number, so that no rounding adds up.
    pub(crate) fn due_ns(&self, client: usize, turn: u64) -> u64 {
        let number = client as u64 + turn * self.clients;
        (number as f64 * 1e9 / self.rate) as u64
    }

    /// How many requests are due in a stretch of time.
    pub(crate) fn due_within(&self, length: Duration) -> f64 {
        self.rate * length.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_make_the_whole(clients in 1usize..5000, threads in 1usize..64) {
            let parts: Vec<Range<usize>> =
                (0..threads).map(|thread| clients_of_thread(clients, threads, thread)).collect();
            prop_assert_eq!(parts[0].start, 0);
            prop_assert_eq!(parts[threads - 1].end, clients);
            prop_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            let longest = parts.iter().map(Range::len).max().unwrap_or(0);
            let shortest = parts.iter().map(Range::len).min().unwrap_or(0);
            prop_assert!(longest - shortest <= 1);
        }

        #[test]
        fn all_clients_together_keep_the_rate(clients in 1usize..50, rate in 0.5f64..100_000.0) {
            let schedule = RateSchedule::new(rate, clients);
            let mut due: Vec<u64> = (0..clients)
                .flat_map(|client| (0..20).map(move |turn| schedule.due_ns(client, turn)))
                .collect();
            due.sort_unstable();
            for (number, at) in due.iter().enumerate() {
                let exact = number as f64 * 1e9 / rate;
                prop_assert!((*at as f64 - exact).abs() <= 1.0 + exact * 1e-12);
            }
        }
    }

    #[test]
    fn the_schedule_counts_its_requests() {
        assert_eq!(RateSchedule::new(250.0, 4).due_within(Duration::from_millis(2500)), 625.0);
    }
}
