//! Two machines' clocks: the time of this machine, and the offsets of another machine's clocks.
//!
//! One exchange has four stamps, as in NTP (RFC 5905, section 8): the question is sent and received, the
//! answer is sent and received. Each stamp is of two clocks. People compare the clock of the day, which can
//! be set at any moment. The monotonic clock cannot be set, so the start is agreed by this clock: neither a
//! wrong date nor a correction of the date in the middle of a mix has an effect. Latencies are always
//! measured with one machine's monotonic clock.

use crate::runtime;
use serde::{Deserialize, Serialize};

/// A moment by both clocks of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub real_ns: i64,
    /// Nanoseconds of the monotonic clock.
    pub monotonic_ns: u64,
}

/// The clocks of this machine; tests shift the one of the day.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    shift_ns: i64,
}

impl Clock {
    /// Clocks with a clock of the day that is wrong by this much.
    pub fn shifted(shift_ns: i64) -> Clock {
        Clock { shift_ns }
    }

    /// Now.
    pub fn now(&self) -> Stamp {
        let real_ns = runtime::real_ns().wrapping_add(self.shift_ns);
        Stamp { real_ns, monotonic_ns: runtime::monotonic_ns() }
    }
}

/// One question and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// When we sent the question, by our clocks.
    pub question_sent: Stamp,
    /// When the question arrived, by theirs.
    pub question_received: Stamp,
    /// When the answer was sent, by theirs.
    pub answer_sent: Stamp,
    /// When it arrived, by ours.
    pub answer_received: Stamp,
}

/// The known offsets of another machine's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockEstimate {
    /// Its clock of the day is ahead of ours by this much.
    pub real_offset_ns: i64,
    /// Its monotonic clock is ahead of ours by this much.
    pub monotonic_offset_ns: i64,
    /// The bound of the error of both: half the round trip.
    pub bound_ns: u64,
    /// The shortest round trip.
    pub round_trip_ns: u64,
    /// How much the two offsets moved against each other between exchanges: the clock of the day was set, or
    /// is unstable.
    pub unsteady_ns: u64,
}

impl ClockEstimate {
    /// The estimate of one exchange. `None` when its stamps are in an impossible order.
    pub fn of(exchange: &Exchange) -> Option<ClockEstimate> {
        let Exchange { question_sent, question_received, answer_sent, answer_received } = exchange;
        let here = i128::from(answer_received.monotonic_ns) - i128::from(question_sent.monotonic_ns);
        let there = i128::from(answer_sent.monotonic_ns) - i128::from(question_received.monotonic_ns);
        let round_trip_ns = u64::try_from(here - there).ok().filter(|_| there >= 0)?;
        let monotonic = |stamp: &Stamp| i128::from(stamp.monotonic_ns);
        let real = |stamp: &Stamp| i128::from(stamp.real_ns);
        let offset = |of: &dyn Fn(&Stamp) -> i128| {
            i64::try_from(
                (of(question_received) - of(question_sent) + of(answer_sent) - of(answer_received)) / 2,
            )
            .ok()
        };
        Some(ClockEstimate {
            real_offset_ns: offset(&real)?,
            monotonic_offset_ns: offset(&monotonic)?,
            bound_ns: round_trip_ns.div_ceil(2),
            round_trip_ns,
            unsteady_ns: 0,
        })
    }

    /// Takes in another exchange: the one with the shortest round trip counts, because neither direction of
    /// it was delayed.
    pub fn merge(&mut self, other: &ClockEstimate) {
        let apart = |it: &ClockEstimate| i128::from(it.real_offset_ns) - i128::from(it.monotonic_offset_ns);
        let moved = u64::try_from((apart(self) - apart(other)).abs()).unwrap_or(u64::MAX);
        // Both offsets of an exchange are wrong by the same, so the difference of the two is nearly exact.
        let unsteady_ns = self.unsteady_ns.max(moved).max(other.unsteady_ns);
        if other.round_trip_ns < self.round_trip_ns {
            *self = *other;
        }
        self.unsteady_ns = unsteady_ns;
    }

    /// Converts a moment of our monotonic clock to theirs.
    pub fn theirs(&self, our_monotonic_ns: u64) -> u64 {
        let theirs = i128::from(our_monotonic_ns) + i128::from(self.monotonic_offset_ns);
        theirs.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exchange(
        start_ns: u64,
        there_ns: u64,
        at_ns: u64,
        back_ns: u64,
        ahead_ns: i64,
        day_ns: i64,
    ) -> Exchange {
        let ours = |at: u64| Stamp { real_ns: 1_700_000_000_000_000_000 + at as i64, monotonic_ns: at };
        let theirs = |at: u64| Stamp {
            real_ns: 1_700_000_000_000_000_000 + at as i64 + day_ns,
            monotonic_ns: (at as i64 + ahead_ns) as u64,
        };
        Exchange {
            question_sent: ours(start_ns),
            question_received: theirs(start_ns + there_ns),
            answer_sent: theirs(start_ns + there_ns + at_ns),
            answer_received: ours(start_ns + there_ns + at_ns + back_ns),
        }
    }

    proptest! {
        #[test]
        fn the_offset_is_within_its_bound(
            ways in prop::collection::vec((0u64..20_000_000, 0u64..50_000_000, 0u64..20_000_000), 1..20),
            ahead_ns in -1_000_000_000i64..1_000_000_000_000,
            day_ns in -5_000_000_000i64..5_000_000_000,
        ) {
            let start_ns = 2_000_000_000;
            let estimates = ways.iter().map(|&(there, at, back)| {
                ClockEstimate::of(&exchange(start_ns, there, at, back, ahead_ns, day_ns)).expect("in order")
            });
            let estimate = estimates
                .reduce(|mut best, next| { best.merge(&next); best })
                .expect("at least one");
            prop_assert!((estimate.real_offset_ns - day_ns).unsigned_abs() <= estimate.bound_ns + 1);
            prop_assert!((estimate.monotonic_offset_ns - ahead_ns).unsigned_abs() <= estimate.bound_ns + 1);
            prop_assert!(estimate.unsteady_ns <= 1);
        }

        #[test]
        fn any_stamps_are_an_estimate_or_none(stamps: [(i64, u64); 4]) {
            let stamp = |(real_ns, monotonic_ns)| Stamp { real_ns, monotonic_ns };
            let [question_sent, question_received, answer_sent, answer_received] = stamps.map(stamp);
            let exchange = Exchange { question_sent, question_received, answer_sent, answer_received };
            if let Some(mut estimate) = ClockEstimate::of(&exchange) {
                estimate.merge(&estimate.clone());
                let _ = estimate.theirs(u64::MAX);
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_between_exchanges_is_seen() {
        let before =
            ClockEstimate::of(&exchange(1_000_000_000, 50_000, 10_000, 60_000, 0, 0)).expect("in order");
        let mut both = before;
        both.merge(
            &ClockEstimate::of(&exchange(2_000_000_000, 70_000, 0, 40_000, 0, 500_000_000))
                .expect("in order"),
        );
        assert_eq!(both.unsteady_ns, 500_000_000);
        assert_eq!(both.bound_ns, 55_000);
    }
}
