//! Limits the lines a second, so that a program that fails in a loop does not fill the disk with messages.

use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(1);

/// The lines that may still be written within this second.
#[derive(Debug)]
pub struct LineBudget {
    most: usize,
    since: Option<Instant>,
    lines_this_second: usize,
}

impl LineBudget {
    /// A budget of this many lines a second.
    pub fn new(most: usize) -> LineBudget {
        LineBudget { most, since: None, lines_this_second: 0 }
    }

    /// Takes lines of one message. Returns false, and takes none, if they are too many for this second.
    pub fn takes(&mut self, lines: usize, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (self.since, self.lines_this_second) = (Some(now), 0);
        }
        // A message that is longer than the whole budget is written at the beginning of a second.
        let is_within =
            self.lines_this_second == 0 || self.lines_this_second.saturating_add(lines) <= self.most;
        if is_within {
            self.lines_this_second = self.lines_this_second.saturating_add(lines);
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_lines() {
        let start = Instant::now();
        let mut budget = LineBudget::new(300);
        assert!(budget.takes(201, start) && !budget.takes(100, start) && budget.takes(99, start));
        assert!(!budget.takes(1, start + WINDOW / 2));
        assert!(budget.takes(500, start + WINDOW), "one message is written, however long it is");
        assert!(!budget.takes(1, start + WINDOW));
        assert!(budget.takes(1, start + WINDOW * 2));
    }
}
