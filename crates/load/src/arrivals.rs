//! When requests, or whole sessions, arrive in an open load: a schedule that is fixed before the run and does not wait
//! for answers, so that a server that stalls is asked on as before ("coordinated omission" cannot occur).
//!
//! Each engine thread has its own part of the arrivals. Those of a constant rate are dealt out in turn; of a Poisson
//! process each thread has one of its own, since several of them together are one again.

use crate::choice::Random;
use crate::curve::{Curve, Stage};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How arrivals follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// At random, as many independent users would: a Poisson process, whose distances are exponentially distributed.
    Poisson,
}

/// One thread's arrivals, in order.
#[derive(Debug, Clone)]
pub(crate) struct ArrivalTimes {
    curve: Curve,
    /// The stage of the curve that the last arrival was in.
    cursor: usize,
    /// The number of the next arrival among those of all threads; with chance, a fractional one.
    number: f64,
    threads: f64,
    random: Option<Random>,
}

impl ArrivalTimes {
    pub(crate) fn new(
        rate: &[Stage],
        arrivals: Arrivals,
        seed: u64,
        thread: usize,
        threads: usize,
    ) -> ArrivalTimes {
        let mut times = ArrivalTimes {
            curve: Curve::new(rate),
            cursor: 0,
            number: thread as f64,
            threads: threads as f64,
            random: None,
        };
        if arrivals == Arrivals::Poisson {
            let mut random = Random::of_thread(seed, thread);
            times.number = random.exponential() * times.threads;
            times.random = Some(random);
        }
        times
    }

    /// When the next arrival is due, in nanoseconds after the run's start. Computed afresh from the number, so that no
    /// rounding adds up.
    fn next_due_ns(&mut self) -> Option<u64> {
        let at_s = self.curve.time_of_area(self.number, &mut self.cursor)?;
        self.number += match &mut self.random {
            Some(random) => random.exponential() * self.threads,
            None => self.threads,
        };
        Some((at_s * 1e9) as u64)
    }
}

/// The arrivals of one thread, and the virtual clients that wait for one.
#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    times: ArrivalTimes,
    start_ns: u64,
    /// When the next arrival is due; the end of time after the last.
    next_ns: u64,
    /// Clients without anything to do, the one that rests longest first.
    idle: VecDeque<u32>,
    /// When those arrivals were due that no client was free for.
    backlog: VecDeque<u64>,
}

impl ArrivalQueue {
    pub(crate) fn new(times: ArrivalTimes, start_ns: u64, clients: usize) -> ArrivalQueue {
        let mut queue = ArrivalQueue {
            times,
            start_ns,
            next_ns: 0,
            idle: (0..clients as u32).collect(),
            backlog: VecDeque::new(),
        };
        queue.advance();
        queue
    }

    fn advance(&mut self) {
        let due_ns = self.times.next_due_ns();
        self.next_ns = due_ns.map_or(u64::MAX, |due_ns| self.start_ns.saturating_add(due_ns));
    }

    /// When the next arrival is due.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the arrival that is due, with the client that takes it on and when it should have started. An arrival that
    /// no client is free for joins the backlog.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Due {
        if self.next_ns > now_ns {
            return Due::Nothing;
        }
        let intended_ns = self.next_ns;
        self.advance();
        match self.idle.pop_front() {
            Some(client) => Due::Start { client: client as usize, intended_ns },
            None => {
                self.backlog.push_back(intended_ns);
                Due::Waits
            }
        }
    }

    /// The client has nothing to do any more. It takes on the arrival that waits longest, if one does.
    pub(crate) fn next_for(&mut self, client: usize) -> Option<u64> {
        let intended_ns = self.backlog.pop_front();
        if intended_ns.is_none() {
            self.idle.push_back(client as u32);
        }
        intended_ns
    }

    /// The arrivals that were due before `end_ns` and never had a client, from the earliest on.
    pub(crate) fn left_over(mut self, end_ns: u64) -> Vec<u64> {
        while self.next_ns < end_ns {
            self.backlog.push_back(self.next_ns);
            self.advance();
        }
        self.backlog.into()
    }
}

/// What an [`ArrivalQueue`] has due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Nothing,
    /// An arrival that has to wait for a client.
    Waits,
    /// An arrival, and the client that takes it on.
    Start { client: usize, intended_ns: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn all(rate: f64, seconds: u64, arrivals: Arrivals, threads: usize) -> Vec<u64> {
        let stages = [Stage::holding(Duration::from_secs(seconds), rate)];
        let mut due: Vec<u64> = (0..threads)
            .flat_map(|thread| {
                let mut times = ArrivalTimes::new(&stages, arrivals, 7, thread, threads);
                std::iter::from_fn(move || times.next_due_ns())
            })
            .collect();
        due.sort_unstable();
        due
    }

    proptest! {
        #[test]
        fn a_constant_rate_is_kept_by_all_threads_together(threads in 1usize..9, rate in 1.0f64..2000.0) {
            let due = all(rate, 3, Arrivals::Constant, threads);
            prop_assert!((due.len() as f64 - rate * 3.0).abs() <= 1.0);
            for (number, at_ns) in due.iter().enumerate() {
                let exact = number as f64 * 1e9 / rate;
                prop_assert!((*at_ns as f64 - exact).abs() <= 2.0 + exact * 1e-12);
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_chance() {
        for threads in [1, 4] {
            let due = all(1000.0, 100, Arrivals::Poisson, threads);
            // The number has the deviation of its root, 316.
            assert!((due.len() as f64 - 100_000.0).abs() < 6.0 * 316.0, "{}", due.len());
            let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            // Exponentially distributed distances deviate by their mean.
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{}", variance.sqrt() / mean);
        }
    }

    #[test]
    fn arrivals_wait_for_clients_and_keep_their_moment() {
        let stages = [Stage::holding(Duration::from_secs(1), 10.0)];
        let times = ArrivalTimes::new(&stages, Arrivals::Constant, 0, 0, 1);
        let mut queue = ArrivalQueue::new(times, 1_000, 1);
        assert_eq!(queue.take_due(999), Due::Nothing);
        assert_eq!(queue.take_due(1_000), Due::Start { client: 0, intended_ns: 1_000 });
        let late_ns = 250_001_000;
        assert_eq!(queue.take_due(late_ns), Due::Waits);
        assert_eq!(queue.take_due(late_ns), Due::Waits);
        assert_eq!(queue.take_due(late_ns), Due::Nothing);
        assert_eq!(queue.next_for(0), Some(100_001_000));
        assert_eq!(queue.left_over(500_001_000), [200_001_000, 300_001_000, 400_001_000]);
    }
}
