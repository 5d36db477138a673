//! Whether a server of a group (an origin of the proxy, a backend of programs) gets requests. All cores and
//! the active checks share this state.
//!
//! A server is ejected (it gets no requests) when it has failed too often within a span of time, or when too
//! large a share of its answers are server errors while other servers do better. After a time, which doubles
//! with each ejection, one request is sent to probe it; the others go elsewhere until that one is answered.
//! Active checks decide separately. A server that returns may begin with a small share of the requests.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// When a server is ejected because of failed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HealthRules {
    /// Failures within `window` that eject it; 0: never.
    pub most_failures: u32,
    /// The span in which failures and answers count, and the time of a first ejection.
    pub window: Duration,
    /// The longest time of an ejection.
    pub longest: Duration,
    /// The share of server errors among its answers, in percent, that makes it an outlier; 0: never.
    pub outlier_percent: u32,
    /// The fewest answers within `window` for this judgement.
    pub outlier_requests: u32,
    /// The share of the servers, in percent, that may be ejected at a time; one always may.
    pub most_ejected_percent: u32,
    /// The time in which a server that has returned gets its full share again; zero: at once.
    pub slow_start: Duration,
}

impl HealthRules {
    /// Only failures count, and each ejection lasts equally long.
    pub fn by_failures(most_failures: u32, window: Duration) -> HealthRules {
        HealthRules {
            most_failures,
            window,
            longest: window,
            outlier_percent: 0,
            outlier_requests: 0,
            most_ejected_percent: 100,
            slow_start: Duration::ZERO,
        }
    }
}

/// The first share of a server that has returned, in thousandths.
const FIRST_SHARE: u64 = 100;

/// The full share.
const WHOLE: u64 = 1000;

/// The health of one server. As long as it is up, requests take no lock.
#[derive(Debug, Default)]
pub struct Health {
    /// `history` contains something that matters.
    has_history: AtomicBool,
    history: Mutex<FailureHistory>,
    answers: AtomicU32,
    server_errors: AtomicU32,
    counting_since_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct FailureHistory {
    failures: u32,
    /// The time of the first of them.
    since_ms: u64,
    ejection: Option<Ejection>,
    /// How often it was ejected, since it was last up for a long time.
    ejections: u32,
    /// When it returned last.
    back_since_ms: Option<u64>,
    /// The active checks have found it down.
    is_checked_down: bool,
}

#[derive(Debug, Clone, Copy)]
struct Ejection {
    until_ms: u64,
    /// A request in progress probes it; until then no other is sent.
    probed_until_ms: Option<u64>,
}

/// The number of windows without an ejection after which former ejections are ignored.
const WINDOWS_TO_FORGET: u64 = 6;

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It gets its full share.
    Up,
    /// It has returned, and gets a part of its share.
    SlowStart,
    /// It has failed, and gets no requests for a time.
    Ejected,
    /// The active checks have found it down.
    Down,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [State; 4] = [State::Up, State::SlowStart, State::Ejected, State::Down];

    /// Its label in metrics.
    pub fn label(self) -> &'static str {
        ["up", "slow_start", "ejected", "down"][self as usize]
    }
}

impl Health {
    /// The state.
    pub fn state(&self, now_ms: u64, rules: &HealthRules) -> State {
        if !self.has_history.load(Relaxed) {
            return State::Up;
        }
        let history = self.lock();
        if history.is_checked_down {
            State::Down
        } else if history.ejection.is_some() {
            State::Ejected
        } else if history.share(now_ms, rules) < WHOLE {
            State::SlowStart
        } else {
            State::Up
        }
    }

    /// Whether a request may be sent. After the time of an ejection only one caller gets true, and must send
    /// its request: the answer decides whether the ejection ends.
    pub fn try_admit(&self, now_ms: u64, rules: &HealthRules) -> bool {
        if !self.has_history.load(Relaxed) {
            return true;
        }
        let mut history = self.lock();
        if history.is_checked_down {
            return false;
        }
        let Some(ejection) = &mut history.ejection else { return true };
        let is_due = ejection.is_due(now_ms);
        if is_due {
            ejection.probed_until_ms = Some(now_ms.saturating_add(milliseconds(rules.window)));
        }
        is_due
    }

    /// Whether [`Health::try_admit`] would return true now. Changes nothing: a caller that sends no request
    /// must not take the place of the one that probes the server.
    pub fn would_admit(&self, now_ms: u64) -> bool {
        if !self.has_history.load(Relaxed) {
            return true;
        }
        let history = self.lock();
        !history.is_checked_down && history.ejection.is_none_or(|ejection| ejection.is_due(now_ms))
    }

    /// Lets the next answer decide whether it is up again: there is no other server.
    pub fn probe(&self, now_ms: u64, rules: &HealthRules) {
        if !self.has_history.load(Relaxed) {
            return;
        }
        if let Some(ejection) = &mut self.lock().ejection {
            ejection.probed_until_ms = Some(now_ms.saturating_add(milliseconds(rules.window)));
        }
    }

    /// The end of its ejection; `None`: it is not ejected.
    pub fn ejected_until_ms(&self) -> Option<u64> {
        if !self.has_history.load(Relaxed) {
            return None;
        }
        let history = self.lock();
        history.ejection.map(|ejection| ejection.until_ms).or(history.is_checked_down.then_some(u64::MAX))
    }

    /// Its share of its weight, in thousandths.
    pub fn share(&self, now_ms: u64, rules: &HealthRules) -> u64 {
        if self.has_history.load(Relaxed) { self.lock().share(now_ms, rules) } else { WHOLE }
    }

    /// Notes an answer; true if the server returns because of it.
    #[inline]
    pub fn answered(&self, now_ms: u64, is_server_error: bool, rules: &HealthRules) -> bool {
        if rules.outlier_percent > 0 {
            self.count_answer(now_ms, is_server_error, rules);
        }
        if !self.has_history.load(Relaxed) {
            return false;
        }
        let mut history = self.lock();
        if let Some(ejection) = history.ejection {
            // An answer to a request from before the ejection does not count, and an error is no reason to
            // end the ejection.
            if ejection.probed_until_ms.is_none() || is_server_error {
                return false;
            }
            history.ejection = None;
            self.note_recovery(&mut history, now_ms);
            return true;
        }
        history.failures = 0;
        let is_long_back = history.back_since_ms.is_none_or(|since| {
            now_ms.saturating_sub(since)
                > milliseconds(rules.window.max(rules.slow_start)) * WINDOWS_TO_FORGET
        });
        if is_long_back && !history.is_checked_down {
            *history = FailureHistory::default();
            self.has_history.store(false, Relaxed);
        }
        false
    }

    fn note_recovery(&self, history: &mut FailureHistory, now_ms: u64) {
        history.back_since_ms = Some(now_ms);
        history.failures = 0;
        self.answers.store(0, Relaxed);
        self.server_errors.store(0, Relaxed);
    }

    fn count_answer(&self, now_ms: u64, is_server_error: bool, rules: &HealthRules) {
        if now_ms.saturating_sub(self.counting_since_ms.load(Relaxed)) > milliseconds(rules.window) {
            self.counting_since_ms.store(now_ms, Relaxed);
            self.answers.store(0, Relaxed);
            self.server_errors.store(0, Relaxed);
        }
        self.answers.fetch_add(1, Relaxed);
        if is_server_error {
            self.server_errors.fetch_add(1, Relaxed);
        }
    }

    /// The share of server errors among its answers, in percent; `None`: too few answers.
    pub fn error_percent(&self, rules: &HealthRules) -> Option<u32> {
        let answers = self.answers.load(Relaxed);
        let enough = answers >= rules.outlier_requests.max(1);
        enough.then(|| self.server_errors.load(Relaxed).saturating_mul(100) / answers)
    }

    /// Notes that it could not be reached, or gave no answer. Returns true if it should be ejected, see
    /// [`Health::eject`].
    pub fn failed(&self, now_ms: u64, rules: &HealthRules) -> bool {
        if rules.most_failures == 0 {
            return false;
        }
        let mut history = self.lock();
        self.has_history.store(true, Relaxed);
        if now_ms.saturating_sub(history.since_ms) > milliseconds(rules.window) {
            history.since_ms = now_ms;
            history.failures = 0;
        }
        history.failures = history.failures.saturating_add(1);
        let is_probe = history.ejection.is_some_and(|ejection| ejection.probed_until_ms.is_some());
        history.failures >= rules.most_failures || is_probe
    }

    /// Ejects it for a time; true if it was not ejected before.
    pub fn eject(&self, now_ms: u64, rules: &HealthRules) -> bool {
        let mut history = self.lock();
        self.has_history.store(true, Relaxed);
        let before = history.ejection;
        // Requests that were in progress at the ejection do not count.
        if before.is_some_and(|ejection| ejection.probed_until_ms.is_none()) {
            return false;
        }
        let span = milliseconds(rules.window).saturating_mul(1 << history.ejections.min(16));
        history.ejections = history.ejections.saturating_add(1);
        history.failures = 0;
        let until_ms = now_ms.saturating_add(span.min(milliseconds(rules.longest)));
        history.ejection = Some(Ejection { until_ms, probed_until_ms: None });
        before.is_none()
    }

    /// It has answered outside of requests; true if it returns because of that.
    pub fn record_successful_check(&self, now_ms: u64, rules: &HealthRules) -> bool {
        self.probe(now_ms, rules);
        self.answered(now_ms, false, rules)
    }

    /// Notes the result of the active checks; true if it changes the state.
    pub fn checked(&self, is_well: bool, now_ms: u64) -> bool {
        let mut history = self.lock();
        if history.is_checked_down != is_well {
            return false;
        }
        history.is_checked_down = !is_well;
        self.has_history.store(true, Relaxed);
        if is_well {
            // It has answered a check: former failures of requests no longer count.
            history.ejection = None;
            self.note_recovery(&mut history, now_ms);
        }
        true
    }

    /// No code that holds the lock can panic, so a poisoned lock is still valid.
    fn lock(&self) -> MutexGuard<'_, FailureHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ejection {
    /// Whether the next request may probe the server.
    fn is_due(self, now_ms: u64) -> bool {
        now_ms >= self.probed_until_ms.unwrap_or(self.until_ms)
    }
}

impl FailureHistory {
    fn share(&self, now_ms: u64, rules: &HealthRules) -> u64 {
        let span = milliseconds(rules.slow_start);
        match self.back_since_ms.map(|since| now_ms.saturating_sub(since)) {
            Some(elapsed) if elapsed < span => FIRST_SHARE + (WHOLE - FIRST_SHARE) * elapsed / span,
            _ => WHOLE,
        }
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HealthRules = HealthRules {
        most_failures: 2,
        window: Duration::from_secs(10),
        longest: Duration::from_secs(30),
        outlier_percent: 50,
        outlier_requests: 10,
        most_ejected_percent: 50,
        slow_start: Duration::from_secs(20),
    };

    #[test]
    fn an_ejected_server_is_probed_by_one_request() {
        let health = Health::default();
        assert!(health.try_admit(0, &RULES));
        assert!(!health.failed(1_000, &RULES));
        assert!(health.failed(2_000, &RULES) && health.eject(2_000, &RULES));
        assert!(
            health.failed(2_001, &RULES) || !health.eject(2_001, &RULES),
            "earlier requests say nothing new"
        );
        assert!(!health.answered(2_002, false, &RULES));
        assert!(!health.try_admit(11_999, &RULES));
        assert!(health.try_admit(12_000, &RULES));
        assert!(!health.try_admit(12_001, &RULES), "one only");
        assert!(health.failed(12_500, &RULES) && !health.eject(12_500, &RULES), "it was left alone before");
        assert!(!health.try_admit(32_499, &RULES), "twice as long");
        assert!(health.try_admit(32_500, &RULES));
        assert!(health.answered(32_501, false, &RULES));
        assert!(health.try_admit(32_502, &RULES) && health.try_admit(32_503, &RULES));
    }

    #[test]
    fn a_question_does_not_take_the_place_of_the_probe() {
        let health = Health::default();
        assert!(health.would_admit(0));
        health.eject(0, &RULES);
        assert!(!health.would_admit(9_999));
        assert!(health.would_admit(10_000) && health.would_admit(10_001));
        assert!(health.try_admit(10_002, &RULES) && !health.would_admit(10_003));
        health.checked(false, 10_004);
        assert!(!health.would_admit(60_000));
    }

    #[test]
    fn with_failures_only_the_time_stays_the_same() {
        let rules = HealthRules::by_failures(2, Duration::from_secs(10));
        let health = Health::default();
        assert!(!health.failed(1_000, &rules));
        assert!(health.failed(2_000, &rules) && health.eject(2_000, &rules));
        for now in [12_000, 22_500, 33_000] {
            assert!(!health.try_admit(now - 1_000, &rules));
            assert!(health.try_admit(now, &rules) && !health.try_admit(now + 1, &rules));
            assert!(health.failed(now + 400, &rules) && !health.eject(now + 400, &rules));
        }
        assert!(!health.answered(33_500, false, &rules), "an earlier request says nothing new");
        assert!(health.record_successful_check(33_600, &rules) && health.try_admit(33_601, &rules));
        assert_eq!(health.share(33_601, &rules), 1000);
        let unused = Health::default();
        assert!(!unused.record_successful_check(1, &rules) && unused.try_admit(1, &rules));
    }

    #[test]
    fn the_time_doubles_up_to_a_limit_and_is_reset() {
        let health = Health::default();
        health.eject(0, &RULES);
        for (now, until) in [(10_000, 30_000), (30_000, 60_000), (60_000, 90_000)] {
            assert!(health.try_admit(now, &RULES));
            health.eject(now, &RULES);
            assert_eq!(health.ejected_until_ms(), Some(until));
        }
        assert!(health.try_admit(90_000, &RULES) && health.answered(90_000, false, &RULES));
        health.answered(90_000 + 6 * 20_000 + 1, false, &RULES);
        health.eject(300_000, &RULES);
        assert_eq!(health.ejected_until_ms(), Some(310_000));
    }

    #[test]
    fn failures_far_apart_do_not_count_together() {
        let health = Health::default();
        for now in [1, 20_000, 40_000, 60_000] {
            assert!(!health.failed(now, &RULES));
        }
        let never = HealthRules { most_failures: 0, ..RULES };
        assert!((0..100).all(|now| !health.failed(now, &never)));
    }

    #[test]
    fn a_server_error_does_not_bring_it_back() {
        let health = Health::default();
        health.eject(0, &RULES);
        assert!(health.try_admit(10_000, &RULES));
        assert!(!health.answered(10_001, true, &RULES));
        assert_eq!(health.state(10_002, &RULES), State::Ejected);
    }

    #[test]
    fn shares_of_errors_are_counted_in_windows() {
        let health = Health::default();
        for error in [true, false, true, false, true, false, true, false, true] {
            health.answered(1, error, &RULES);
            assert_eq!(health.error_percent(&RULES), None);
        }
        health.answered(1, false, &RULES);
        assert_eq!(health.error_percent(&RULES), Some(50));
        health.answered(20_000, false, &RULES);
        assert_eq!(health.error_percent(&RULES), None);
    }

    #[test]
    fn a_returned_server_begins_with_a_small_share() {
        let health = Health::default();
        assert_eq!(health.share(0, &RULES), 1000);
        assert!(health.checked(false, 5_000) && !health.checked(false, 6_000));
        assert!(!health.try_admit(7_000, &RULES));
        assert_eq!(health.state(7_000, &RULES), State::Down);
        assert!(health.checked(true, 10_000));
        assert_eq!((health.share(10_000, &RULES), health.share(20_000, &RULES)), (100, 550));
        assert_eq!(health.state(20_000, &RULES), State::SlowStart);
        assert_eq!((health.share(30_000, &RULES), health.state(30_000, &RULES)), (1000, State::Up));
    }
}
