//! Sees to it that an event loop which does not come back is noticed: an application that computes without
//! end in a coroutine, or holds the interpreter's lock, keeps all requests of its worker waiting.
//!
//! While requests are under way the loop is asked to look at its rings once a second. If it has not done so
//! for as long as a request may take, the server is told, which ends the worker.

use std::time::{Duration, Instant};

/// How often the loop is asked.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// What is to be done about the loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// It is to be woken, so that it has a turn.
    Wake,
    /// It has not come back for so long: the server is to be told.
    Tell(Duration),
}

/// The watch.
#[derive(Debug)]
pub struct LoopWatch {
    limit: Duration,
    /// The number of turns when the loop was asked, and when that was.
    asked: Option<(u64, Instant)>,
    has_told: bool,
}

impl LoopWatch {
    /// A watch that tells when the loop has not come back for longer than a request may take.
    pub fn new(limit: Duration) -> LoopWatch {
        // A request that holds the loop itself is answered with 504 first.
        LoopWatch { limit: limit + ASKED_EVERY, asked: None, has_told: false }
    }

    /// Looks at how many turns the loop has had.
    pub fn look(&mut self, turns: u64, has_requests: bool, now: Instant) -> Step {
        if !has_requests {
            self.asked = None;
            return Step::Nothing;
        }
        let Some((before, at)) = self.asked else {
            self.asked = Some((turns, now));
            return Step::Wake;
        };
        let waited = now.saturating_duration_since(at);
        if turns != before {
            if waited >= ASKED_EVERY {
                self.asked = Some((turns, now));
                return Step::Wake;
            }
        } else if waited >= self.limit && !std::mem::replace(&mut self.has_told, true) {
            return Step::Tell(waited);
        }
        Step::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_come_back_is_told_of_once() {
        let mut watch = LoopWatch::new(Duration::from_secs(2));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(watch.look(1, false, at(0)), Step::Nothing);
        assert_eq!(watch.look(1, true, at(10)), Step::Wake);
        assert_eq!(watch.look(1, true, at(20)), Step::Nothing);
        assert_eq!(watch.look(2, true, at(30)), Step::Nothing, "it has come back");
        assert_eq!(watch.look(2, true, at(1_020)), Step::Wake);
        assert_eq!(watch.look(2, true, at(4_000)), Step::Nothing);
        assert_eq!(watch.look(2, true, at(4_020)), Step::Tell(Duration::from_secs(3)));
        assert_eq!(watch.look(2, true, at(9_000)), Step::Nothing, "it is told once");
    }

    #[test]
    fn without_requests_nothing_is_asked() {
        let mut watch = LoopWatch::new(Duration::from_secs(2));
        let start = Instant::now();
        assert_eq!(watch.look(1, true, start), Step::Wake);
        assert_eq!(watch.look(1, false, start + Duration::from_secs(60)), Step::Nothing);
        assert_eq!(watch.look(1, true, start + Duration::from_secs(61)), Step::Wake);
    }
}
