//! Detects an event loop that does not return: an application that computes without end in a coroutine, or
//! holds the interpreter's lock, blocks all requests of its worker.
//!
//! While there are requests, the loop is woken once a second to read its rings. If it has not done so for as
//! long as a request may take, the server is notified, which ends the worker.

use std::time::{Duration, Instant};

/// How often the loop is woken.
const WAKE_INTERVAL: Duration = Duration::from_secs(1);

/// The action to take.
#[derive(Debug, PartialEq, Eq)]
pub enum WatchAction {
    /// Nothing.
    Nothing,
    /// The loop must be woken, so that it has a turn.
    Wake,
    /// It has not returned for this time: the server must be notified.
    Report(Duration),
}

/// The watch.
#[derive(Debug)]
pub struct LoopWatch {
    limit: Duration,
    /// The number of turns when the loop was last woken, and the time.
    last_wake: Option<(u64, Instant)>,
    has_reported: bool,
}

impl LoopWatch {
    /// A watch that reports the loop if it has not returned for longer than a request may take.
    pub fn new(limit: Duration) -> LoopWatch {
        // A request that blocks the loop itself is answered with 504 first.
        LoopWatch { limit: limit + WAKE_INTERVAL, last_wake: None, has_reported: false }
    }

    /// Checks how many turns the loop has had.
    pub fn check(&mut self, turns: u64, has_requests: bool, now: Instant) -> WatchAction {
        if !has_requests {
            self.last_wake = None;
            return WatchAction::Nothing;
        }
        let Some((before, at)) = self.last_wake else {
            self.last_wake = Some((turns, now));
            return WatchAction::Wake;
        };
        let waited = now.saturating_duration_since(at);
        if turns != before {
            if waited >= WAKE_INTERVAL {
                self.last_wake = Some((turns, now));
                return WatchAction::Wake;
            }
        } else if waited >= self.limit && !std::mem::replace(&mut self.has_reported, true) {
            return WatchAction::Report(waited);
        }
        WatchAction::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_loop_is_reported_once() {
        let mut watch = LoopWatch::new(Duration::from_secs(2));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(watch.check(1, false, at(0)), WatchAction::Nothing);
        assert_eq!(watch.check(1, true, at(10)), WatchAction::Wake);
        assert_eq!(watch.check(1, true, at(20)), WatchAction::Nothing);
        assert_eq!(watch.check(2, true, at(30)), WatchAction::Nothing, "it has come back");
        assert_eq!(watch.check(2, true, at(1_020)), WatchAction::Wake);
        assert_eq!(watch.check(2, true, at(4_000)), WatchAction::Nothing);
        assert_eq!(watch.check(2, true, at(4_020)), WatchAction::Report(Duration::from_secs(3)));
        assert_eq!(watch.check(2, true, at(9_000)), WatchAction::Nothing, "it is told once");
    }

    #[test]
    fn without_requests_the_loop_is_not_woken() {
        let mut watch = LoopWatch::new(Duration::from_secs(2));
        let start = Instant::now();
        assert_eq!(watch.check(1, true, start), WatchAction::Wake);
        assert_eq!(watch.check(1, false, start + Duration::from_secs(60)), WatchAction::Nothing);
        assert_eq!(watch.check(1, true, start + Duration::from_secs(61)), WatchAction::Wake);
    }
}
