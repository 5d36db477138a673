//! The timers of clients: a delay, a think time, the beginning of a stage, or a pause after an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The waiting clients, ordered by the time at which they continue. A client has one timer at a time, so that
/// a heap with room for all of them does not grow during the run.
#[derive(Debug)]
pub(crate) struct Timers {
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Timers {
    pub(crate) fn with_capacity(clients: usize) -> Timers {
        Timers { waiting: BinaryHeap::with_capacity(clients) }
    }

    /// Sets the timer of a client.
    pub(crate) fn set(&mut self, at_ns: u64, client: usize) {
        self.waiting.push(Reverse((at_ns, client as u32)));
    }

    /// The time of the next timer.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Removes the earliest expired timer; returns its time and its client.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.waiting.pop().map(|Reverse((at_ns, client))| (at_ns, client as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_expire_in_the_order_of_their_times() {
        let mut timers = Timers::with_capacity(3);
        assert_eq!(timers.next_ns(), None);
        for (at_ns, client) in [(30, 0), (10, 1), (20, 2)] {
            timers.set(at_ns, client);
        }
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.take_due(9), None);
        assert_eq!(timers.take_due(25), Some((10, 1)));
        assert_eq!(timers.take_due(25), Some((20, 2)));
        assert_eq!(timers.take_due(25), None);
        assert_eq!(timers.take_due(30), Some((30, 0)));
    }
}
