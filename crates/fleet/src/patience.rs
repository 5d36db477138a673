//! Attempts to connect to a broker that may not be there yet: it is being started, or started again.

use crate::fabric::FabricError;
use crate::runtime::{now, since, sleep};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause between two attempts.
const RETRY_PERIOD: Duration = Duration::from_millis(500);
/// How often the same problem is reported.
const REPORT_PERIOD: Duration = Duration::from_secs(60);

/// How long a member tries to connect.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    /// No attempt begins later than this after the first; `None`: there is no limit.
    pub limit: Option<Duration>,
    /// Whether a broker that refuses the credentials is tried again.
    pub retries_refusals: bool,
    /// Ends the attempts when it is set.
    pub interrupt: &'a AtomicBool,
}

impl Patience<'_> {
    /// Connects by `attempt`, which is repeated while the broker cannot be reached; `report` gets a line when
    /// the problem is new, and once a minute. `None`: interrupted.
    pub fn connect<C>(
        &self,
        mut attempt: impl FnMut() -> Result<C, FabricError>,
        report: &mut dyn FnMut(&str),
    ) -> Result<Option<C>, FabricError> {
        let began = now();
        let mut reported: Option<(String, Instant)> = None;
        loop {
            let error = match attempt() {
                Ok(connected) => return Ok(Some(connected)),
                Err(error) => error,
            };
            let may_retry = match &error {
                FabricError::Unreachable(_) => true,
                FabricError::Unauthorised(_) => self.retries_refusals,
                FabricError::Held(_) | FabricError::Failed(_) => false,
            };
            if !may_retry || self.limit.is_some_and(|limit| since(began) + RETRY_PERIOD > limit) {
                return Err(error);
            }
            let problem = error.to_string();
            let is_known =
                |(before, at): &(String, Instant)| *before == problem && since(*at) <= REPORT_PERIOD;
            if !reported.as_ref().is_some_and(is_known) {
                report(&format!("{problem}; trying again"));
                reported = Some((problem, now()));
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(None);
            }
            sleep(RETRY_PERIOD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Simulator, simulate};
    use std::cell::Cell;
    use std::rc::Rc;
    use touchstone_load::{Outcome, Plan, Portion, Progress};

    /// Time that passes only while something waits.
    struct VirtualTime(Cell<Instant>);

    impl Simulator for VirtualTime {
        fn now(&self) -> Instant {
            self.0.get()
        }

        fn real_ns(&self) -> i64 {
            0
        }

        fn monotonic_ns(&self) -> u64 {
            0
        }

        fn pause(&self, until: Instant) {
            self.0.set(until);
        }

        fn notify(&self) {}

        fn spawn(&self, _name: &str, _work: Box<dyn FnOnce()>) {}

        fn is_ending(&self) -> bool {
            false
        }

        fn send_load(&self, _: &Plan, _: &Portion, _: u64, _: &Progress) -> Result<Outcome, String> {
            Err("there is no load".to_string())
        }
    }

    /// What became of attempts: the result, how many there were, for how long, and the reported lines.
    struct Attempts {
        result: Result<Option<usize>, FabricError>,
        count: usize,
        time: Duration,
        lines: Vec<String>,
    }

    fn attempts(
        patience: Patience<'_>,
        mut attempt: impl FnMut(usize) -> Result<usize, FabricError>,
    ) -> Attempts {
        simulate(Some(Rc::new(VirtualTime(Cell::new(Instant::now())))));
        let (began, mut count, mut lines) = (now(), 0, Vec::new());
        let next = || {
            count += 1;
            attempt(count)
        };
        let result = patience.connect(next, &mut |line| lines.push(line.to_string()));
        let time = since(began);
        simulate(None);
        Attempts { result, count, time, lines }
    }

    fn away() -> FabricError {
        FabricError::Unreachable("away".to_string())
    }

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_broker_that_starts_later_is_reached() {
        let patience =
            Patience { limit: Some(Duration::from_secs(10)), retries_refusals: false, interrupt: &NEVER };
        let tried = attempts(patience, |count| if count < 4 { Err(away()) } else { Ok(count) });
        assert_eq!((tried.result, tried.count), (Ok(Some(4)), 4));
        assert_eq!((tried.time, tried.lines), (3 * RETRY_PERIOD, vec!["away; trying again".to_string()]));
    }

    #[test]
    fn attempts_end_with_the_limit() {
        let patience =
            Patience { limit: Some(Duration::from_secs(130)), retries_refusals: false, interrupt: &NEVER };
        let tried = attempts(patience, |_| Err(away()));
        assert_eq!((tried.result, tried.count), (Err(away()), 261));
        assert_eq!(tried.time, Duration::from_secs(130));
        // At once, and then once a minute.
        assert_eq!(tried.lines.len(), 3);
        let none = Patience { limit: Some(Duration::ZERO), ..patience };
        assert_eq!(attempts(none, |_| Err(away())).count, 1);
    }

    #[test]
    fn only_problems_that_may_end_are_tried_again() {
        let patience = Patience { limit: None, retries_refusals: false, interrupt: &NEVER };
        let refused = || FabricError::Unauthorised("refused".to_string());
        let failed = || FabricError::Failed("failed".to_string());
        assert_eq!(attempts(patience, |_| Err(refused())).result, Err(refused()));
        let lasting = Patience { retries_refusals: true, ..patience };
        let tried = attempts(lasting, |count| match count {
            1 => Err(refused()),
            2 => Err(away()),
            _ => Err(failed()),
        });
        assert_eq!((tried.result, tried.count), (Err(failed()), 3));
        assert_eq!(tried.lines, ["refused; trying again", "away; trying again"]);
    }

    #[test]
    fn an_interrupt_ends_the_attempts() {
        let interrupt = AtomicBool::new(false);
        let patience = Patience { limit: None, retries_refusals: true, interrupt: &interrupt };
        let tried = attempts(patience, |count| {
            interrupt.store(count == 3, Ordering::Relaxed);
            Err(away())
        });
        assert_eq!((tried.result, tried.count), (Ok(None), 3));
    }
}
