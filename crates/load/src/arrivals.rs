//! The arrival times of requests, or of whole sessions, in an open load. The schedule is fixed before the run
//! and does not wait for answers, so that requests continue while a server stalls. This avoids coordinated
//! omission.
//!
//! Each engine thread has its own part of the arrivals. Arrivals at a constant rate and recorded arrivals are
//! distributed to the threads in turn. For random arrivals each thread has its own Poisson process, because
//! the sum of Poisson processes is a Poisson process.

use crate::choice::Random;
use crate::plan::{Arrivals, Plan, Recorded};
use crate::stages::{Stage, StageCurve};
use std::collections::VecDeque;
use std::sync::Arc;

/// An arrival with its due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The due time in nanoseconds.
    pub(crate) at_ns: u64,
    /// The index of the request; `None`: a request is chosen by weight.
    pub(crate) request: Option<u32>,
}

/// The arrivals of one thread, in order.
#[derive(Debug, Clone)]
pub(crate) enum ArrivalTimes {
    /// Arrivals at a rate.
    Rate(RateTimes),
    /// Recorded arrivals.
    Recorded(RecordedTimes),
}

impl ArrivalTimes {
    /// The arrivals of one thread; `None` in a closed loop.
    pub(crate) fn of_plan(plan: &Plan, thread: usize, threads: usize) -> Option<ArrivalTimes> {
        if !plan.recorded.is_empty() {
            let requests = plan.recorded.clone();
            return Some(ArrivalTimes::Recorded(RecordedTimes { requests, next: thread, threads }));
        }
        let rate = plan.rate_stages()?;
        Some(ArrivalTimes::Rate(RateTimes::new(&rate, plan.arrivals, plan.seed, thread, threads)))
    }

    /// The next arrival, in nanoseconds after the run's start.
    fn next_due(&mut self) -> Option<Arrival> {
        match self {
            ArrivalTimes::Rate(times) => times.next_due_ns().map(|at_ns| Arrival { at_ns, request: None }),
            ArrivalTimes::Recorded(times) => times.next_due(),
        }
    }
}

/// Arrivals at recorded times: every n-th entry of the list, for n threads.
#[derive(Debug, Clone)]
pub(crate) struct RecordedTimes {
    requests: Arc<[Recorded]>,
    next: usize,
    threads: usize,
}

impl RecordedTimes {
    fn next_due(&mut self) -> Option<Arrival> {
        let recorded = self.requests.get(self.next)?;
        self.next += self.threads;
        Some(Arrival { at_ns: recorded.after.as_nanos() as u64, request: Some(recorded.request as u32) })
    }
}

/// Arrivals at a rate.
#[derive(Debug, Clone)]
pub(crate) struct RateTimes {
    curve: StageCurve,
    /// The stage of the curve with the last arrival.
    cursor: usize,
    /// The number of the next arrival among those of all threads; fractional for random arrivals.
    number: f64,
    threads: f64,
    random: Option<Random>,
}

impl RateTimes {
    fn new(rate: &[Stage], arrivals: Arrivals, seed: u64, thread: usize, threads: usize) -> RateTimes {
        let mut times = RateTimes {
            curve: StageCurve::new(rate),
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

    /// The due time of the next arrival, in nanoseconds after the run's start. It is computed from the number
    /// each time, so that rounding errors do not add up.
    fn next_due_ns(&mut self) -> Option<u64> {
        let at_s = self.curve.time_of_area(self.number, &mut self.cursor)?;
        self.number += match &mut self.random {
            Some(random) => random.exponential() * self.threads,
            None => self.threads,
        };
        Some((at_s * 1e9) as u64)
    }
}

/// The arrivals of one thread, and its idle virtual clients.
#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    times: ArrivalTimes,
    start_ns: u64,
    /// The next arrival; its time is `u64::MAX` after the last one.
    next: Arrival,
    /// The idle clients, the longest idle first.
    idle: VecDeque<u32>,
    /// Due arrivals that wait for a free client.
    backlog: VecDeque<Arrival>,
}

impl ArrivalQueue {
    pub(crate) fn new(times: ArrivalTimes, start_ns: u64, clients: usize) -> ArrivalQueue {
        let mut queue = ArrivalQueue {
            times,
            start_ns,
            next: Arrival { at_ns: 0, request: None },
            idle: (0..clients as u32).collect(),
            backlog: VecDeque::new(),
        };
        queue.advance();
        queue
    }

    fn advance(&mut self) {
        let due = self.times.next_due();
        self.next = due.map_or(Arrival { at_ns: u64::MAX, request: None }, |due| Arrival {
            at_ns: self.start_ns.saturating_add(due.at_ns),
            request: due.request,
        });
    }

    /// The due time of the next arrival; `u64::MAX` after the last one.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next.at_ns
    }

    /// Takes a due arrival and assigns it to an idle client. If all clients are busy, the arrival joins the
    /// backlog.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> ArrivalStep {
        if self.next.at_ns > now_ns {
            return ArrivalStep::NotDue;
        }
        let arrival = self.next;
        self.advance();
        match self.idle.pop_front() {
            Some(client) => ArrivalStep::Start { client: client as usize, arrival },
            None => {
                self.backlog.push_back(arrival);
                ArrivalStep::Queued
            }
        }
    }

    /// Called when the client has no further requests. Assigns the oldest arrival of the backlog to it, or
    /// marks it as idle.
    pub(crate) fn next_for(&mut self, client: usize) -> Option<Arrival> {
        let arrival = self.backlog.pop_front();
        if arrival.is_none() {
            self.idle.push_back(client as u32);
        }
        arrival
    }

    /// The arrivals that were due before `end_ns` and were not started, the earliest first.
    pub(crate) fn into_unstarted(mut self, end_ns: u64) -> Vec<Arrival> {
        while self.next.at_ns < end_ns {
            self.backlog.push_back(self.next);
            self.advance();
        }
        self.backlog.into()
    }
}

/// The result of [`ArrivalQueue::take_due`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArrivalStep {
    /// No arrival is due.
    NotDue,
    /// An arrival is due and waits for a client.
    Queued,
    /// An arrival is due and assigned to a client.
    Start { client: usize, arrival: Arrival },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn all(rate: f64, seconds: u64, arrivals: Arrivals, threads: usize) -> Vec<u64> {
        let stages = [Stage::constant(Duration::from_secs(seconds), rate)];
        let mut due: Vec<u64> = (0..threads)
            .flat_map(|thread| {
                let mut times = RateTimes::new(&stages, arrivals, 7, thread, threads);
                std::iter::from_fn(move || times.next_due_ns())
            })
            .collect();
        due.sort_unstable();
        due
    }

    proptest! {
        #[test]
        fn all_threads_together_have_a_constant_rate(threads in 1usize..9, rate in 1.0f64..2000.0) {
            let due = all(rate, 3, Arrivals::Constant, threads);
            prop_assert!((due.len() as f64 - rate * 3.0).abs() <= 1.0);
            for (number, at_ns) in due.iter().enumerate() {
                let exact = number as f64 * 1e9 / rate;
                prop_assert!((*at_ns as f64 - exact).abs() <= 2.0 + exact * 1e-12);
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_an_exponential_distribution() {
        for threads in [1, 4] {
            let due = all(1000.0, 100, Arrivals::Poisson, threads);
            // The standard deviation of the number is its square root, 316.
            assert!((due.len() as f64 - 100_000.0).abs() < 6.0 * 316.0, "{}", due.len());
            let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            // The standard deviation of exponentially distributed intervals is their mean.
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{}", variance.sqrt() / mean);
        }
    }

    #[test]
    fn waiting_arrivals_keep_their_due_time() {
        let stages = [Stage::constant(Duration::from_secs(1), 10.0)];
        let times = RateTimes::new(&stages, Arrivals::Constant, 0, 0, 1);
        let mut queue = ArrivalQueue::new(ArrivalTimes::Rate(times), 1_000, 1);
        let at = |at_ns| Arrival { at_ns, request: None };
        assert_eq!(queue.take_due(999), ArrivalStep::NotDue);
        assert_eq!(queue.take_due(1_000), ArrivalStep::Start { client: 0, arrival: at(1_000) });
        let late_ns = 250_001_000;
        assert_eq!(queue.take_due(late_ns), ArrivalStep::Queued);
        assert_eq!(queue.take_due(late_ns), ArrivalStep::Queued);
        assert_eq!(queue.take_due(late_ns), ArrivalStep::NotDue);
        assert_eq!(queue.next_for(0), Some(at(100_001_000)));
        assert_eq!(queue.into_unstarted(500_001_000), [at(200_001_000), at(300_001_000), at(400_001_000)]);
    }

    proptest! {
        #[test]
        fn all_recorded_arrivals_are_assigned_and_keep_their_times(
            distances_ms in prop::collection::vec(0u64..500, 1..200), threads in 1usize..9,
        ) {
            let mut after = Duration::ZERO;
            let recorded: Vec<Recorded> = distances_ms
                .iter()
                .enumerate()
                .map(|(request, distance)| {
                    after += Duration::from_millis(*distance);
                    Recorded { after, request }
                })
                .collect();
            let mut plan = Plan::of_one(crate::Target::plain(([127, 0, 0, 1], 80).into(), "localhost"), "/");
            plan.recorded = recorded.clone().into();
            let mut assigned: Vec<Arrival> = (0..threads)
                .flat_map(|thread| {
                    let mut times = ArrivalTimes::of_plan(&plan, thread, threads).expect("an open load");
                    std::iter::from_fn(move || times.next_due())
                })
                .collect();
            assigned.sort_unstable_by_key(|arrival| arrival.request);
            prop_assert_eq!(assigned.len(), recorded.len());
            for (arrival, recorded) in assigned.iter().zip(&recorded) {
                prop_assert_eq!(u128::from(arrival.at_ns), recorded.after.as_nanos());
                prop_assert_eq!(arrival.request, Some(recorded.request as u32));
            }
        }
    }
}
