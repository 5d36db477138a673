//! A recording as a session: its requests in order, with the pauses between requests as think times.
//!
//! A browser makes several requests at once and a virtual client one after the other, so within a page the
//! requests follow at once, and the user's pauses are the gaps. A gap of less than [`THINK_MIN`] is the
//! browser's own: it reads an answer.

use super::request_text::{line, own};
use super::{RecordedRequest, Recording};
use std::fmt::Write;
use std::time::Duration;

/// The shortest time without a request that counts as thinking: 0.1 s.
const THINK_MIN: Duration = Duration::from_millis(100);
/// The longest think time of a suite, a day: a longer gap means that the browser was left open.
const THINK_MAX: Duration = Duration::from_secs(86_400);
/// The rest of a longer page title is cut off.
const TITLE_CHARACTERS_MAX: usize = 100;

/// A request of a session.
struct Step<'r> {
    request: &'r RecordedRequest,
    think: Duration,
}

/// A session, ready to be written.
pub(super) struct Session<'r> {
    steps: Vec<Step<'r>>,
    /// How many requests at the end are left out.
    left_out: usize,
}

impl<'r> Session<'r> {
    /// The first `most` requests of a recording, in the order in which they began.
    pub(super) fn of(recording: &'r Recording, most: usize) -> Session<'r> {
        // A request without a time remains after the one before it.
        let mut latest = Duration::ZERO;
        let timed = recording.requests.iter().map(|request| {
            latest = request.after.unwrap_or(latest);
            (latest, request)
        });
        let mut keyed: Vec<(Duration, &RecordedRequest)> = timed.collect();
        keyed.sort_by_key(|(after, _)| *after);
        let left_out = keyed.len().saturating_sub(most);
        keyed.truncate(most);
        let mut quiet_since: Option<Duration> = None;
        let mut step = |(after, request): (Duration, &'r RecordedRequest)| {
            let gap = quiet_since.map_or(Duration::ZERO, |since| after.saturating_sub(since));
            let ended = after + request.took.unwrap_or_default();
            quiet_since = Some(quiet_since.map_or(ended, |since| since.max(ended)));
            Step { request, think: if gap >= THINK_MIN { gap.min(THINK_MAX) } else { Duration::ZERO } }
        };
        Session { steps: keyed.into_iter().map(&mut step).collect(), left_out }
    }

    /// The sum of all think times.
    pub(super) fn thought(&self) -> Duration {
        self.steps.iter().map(|step| step.think).sum()
    }

    /// Whether files can answer all its requests.
    pub(super) fn is_of_files(&self) -> bool {
        self.steps.iter().all(|step| own(step.request).is_file())
    }

    /// How many requests it has.
    pub(super) fn requests(&self) -> usize {
        self.steps.len()
    }

    /// A note to the user on what is left out.
    pub(super) fn note(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("left out: the last {} requests (--most)", self.left_out))
    }

    /// Its class in a suite.
    pub(super) fn write(&self, text: &mut String) {
        text.push_str("\n[[workload.class]]\nname = \"SESSION\"\nweight = 1\nsession = [\n");
        for step in &self.steps {
            if let Some(title) = &step.request.page_title {
                // A comment ends with its line, and holds no control characters (TOML 1.0).
                let title = title.chars().map(|c| if c.is_control() { ' ' } else { c });
                let title: String = title.take(TITLE_CHARACTERS_MAX).collect();
                let _ = writeln!(text, "  # {}", title.trim());
            }
            let think =
                (!step.think.is_zero()).then(|| format!("think_time_s = {:.3}", step.think.as_secs_f64()));
            text.push_str(&line(step.request, think));
        }
        text.push_str("]\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(path: &str, after_ms: Option<u64>, took_ms: u64) -> RecordedRequest {
        RecordedRequest {
            after: after_ms.map(Duration::from_millis),
            took: Some(Duration::from_millis(took_ms)),
            ..RecordedRequest::get(path)
        }
    }

    fn thoughts(requests: Vec<RecordedRequest>) -> Vec<(String, u64)> {
        let recording = Recording { requests, ..Recording::default() };
        let steps = Session::of(&recording, 100).steps;
        steps.iter().map(|step| (step.request.path.clone(), step.think.as_millis() as u64)).collect()
    }

    #[test]
    fn what_was_quiet_was_thought() {
        let found = thoughts(vec![
            request("/", Some(0), 200),
            // Active at the same time, not in order in the file.
            request("/b", Some(230), 900),
            request("/a", Some(220), 40),
            // Ends before /b does; 170 ms after /b is what counts.
            request("/c", Some(250), 10),
            request("/next", Some(1300), 50),
            request("/no-time", None, 0),
            request("/last", Some(11_350), 5),
        ]);
        let expected =
            [("/", 0), ("/a", 0), ("/b", 0), ("/c", 0), ("/next", 170), ("/no-time", 0), ("/last", 10_000)];
        assert_eq!(found, expected.map(|(path, think)| (path.to_string(), think)));
    }

    #[test]
    fn what_is_too_much_is_left_out_at_the_end() {
        let requests = (0..5).map(|number| request(&format!("/{number}"), Some(number), 0)).collect();
        let recording = Recording { requests, ..Recording::default() };
        let session = Session::of(&recording, 3);
        assert_eq!(
            (session.requests(), session.note().as_deref()),
            (3, Some("left out: the last 2 requests (--most)"))
        );
        assert_eq!(Session::of(&recording, 5).note(), None);
    }

    proptest! {
        #[test]
        fn a_session_takes_no_longer_than_it_took(
            times in prop::collection::vec((prop::option::of(0u64..100_000), 0u64..5_000), 1..40),
        ) {
            let requests: Vec<RecordedRequest> =
                times.iter().map(|(after, took)| request("/", *after, *took)).collect();
            let last = times.iter().filter_map(|(after, _)| *after).max().unwrap_or(0);
            let recording = Recording { requests, ..Recording::default() };
            let session = Session::of(&recording, 1000);
            prop_assert_eq!(session.requests(), times.len());
            prop_assert!(session.thought() <= Duration::from_millis(last));
            prop_assert!(session.steps[0].think.is_zero());
        }
    }
}
