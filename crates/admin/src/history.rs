//! The last minutes: one sample a second, from which rates are computed.

use std::collections::VecDeque;
use std::time::Instant;

use touchstone_observe::metrics::{Metrics, Sample};

/// The number of samples that are kept: five minutes.
const MOST_SAMPLES: usize = 301;

/// The seconds over which "now" is averaged.
const NOW_SECONDS: usize = 5;

/// The samples of the last minutes.
#[derive(Default)]
pub struct History {
    samples: VecDeque<(Instant, Sample)>,
}

/// The rates between two samples, per second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Requests answered.
    pub requests: f64,
    /// Answers with a status of 500 or more.
    pub server_errors: f64,
    /// Bytes received.
    pub received_bytes: f64,
    /// Bytes sent.
    pub sent_bytes: f64,
    /// Connections accepted.
    pub accepted: f64,
    /// Processors in use.
    pub processors: f64,
    /// Connections open, at the end.
    pub connections: f64,
    /// The share of file requests that the cache answered, if there were any.
    pub hit_ratio: Option<f64>,
}

impl History {
    /// Adds a sample.
    pub fn add(&mut self, metrics: &Metrics, now: Instant) {
        if self.samples.len() == MOST_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, metrics.sample()));
    }

    /// The rates of the last seconds; zero before there are two samples.
    pub fn now(&self) -> Rates {
        let last = self.samples.back();
        let first = self.samples.iter().rev().nth(NOW_SECONDS).or_else(|| self.samples.front());
        match (first, last) {
            (Some(first), Some(last)) => rates(first, last),
            _ => Rates::default(),
        }
    }

    /// The rates from each sample to the next, the oldest first.
    pub fn each(&self) -> Vec<Rates> {
        self.samples.iter().zip(self.samples.iter().skip(1)).map(|(first, last)| rates(first, last)).collect()
    }
}

fn rates((begin, first): &(Instant, Sample), (end, last): &(Instant, Sample)) -> Rates {
    let seconds = end.saturating_duration_since(*begin).as_secs_f64();
    if seconds <= 0.0 {
        return Rates::default();
    }
    let rate = |first: u64, last: u64| last.saturating_sub(first) as f64 / seconds;
    let hits = last.cache_hits.saturating_sub(first.cache_hits) as f64;
    let lookups = hits + last.cache_misses.saturating_sub(first.cache_misses) as f64;
    Rates {
        requests: rate(first.requests, last.requests),
        server_errors: rate(first.server_errors, last.server_errors),
        received_bytes: rate(first.received_bytes, last.received_bytes),
        sent_bytes: rate(first.sent_bytes, last.sent_bytes),
        accepted: rate(first.accepted, last.accepted),
        processors: (last.cpu_seconds - first.cpu_seconds).max(0.0) / seconds,
        connections: last.connections as f64,
        hit_ratio: (lookups > 0.0).then_some(hits / lookups),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_differences_by_time() {
        let begin = Instant::now();
        let mut history = History::default();
        assert_eq!(history.now().requests, 0.0);
        for second in 0..400u64 {
            let sample = Sample {
                requests: second * 10,
                cache_hits: second * 3,
                cache_misses: second,
                cpu_seconds: second as f64 * 0.5,
                connections: second,
                ..Sample::default()
            };
            if history.samples.len() == MOST_SAMPLES {
                history.samples.pop_front();
            }
            history.samples.push_back((begin + Duration::from_secs(second), sample));
        }
        let now = history.now();
        assert_eq!((now.requests, now.hit_ratio, now.processors), (10.0, Some(0.75), 0.5));
        assert_eq!(now.connections, 399.0);
        assert_eq!(history.each().len(), MOST_SAMPLES - 1);
    }
}
