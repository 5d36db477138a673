//! The counts of one route on one core.

use std::sync::OnceLock;

use touchstone_handler::answer::CacheResult;

use super::count::{Count, zeroed};
use super::histogram::Histogram;

/// Status classes, as labels; any other status is counted as `5xx`.
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The labels of counted requests: a site and one of its routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteLabels {
    /// The site's first host, or its first address; `-`: no site was found.
    pub site: String,
    /// What the route matches; `-`: no route matched.
    pub route: String,
}

/// The counts of one route on one core, made when its first request arrives.
#[repr(align(128))]
#[derive(Debug)]
pub struct RouteCounts {
    /// Plain hits, all of them answered with 200, by `Protocol`.
    pub hits: [Count; 4],
    /// Bytes of bodies sent, of hits and others.
    pub body_bytes: Count,
    /// Other answers, by class of their status.
    pub classes: [Count; 5],
    /// Plain hits that were answers of programs or origins.
    pub accelerated_hits: Count,
    /// Other answers, by the result of the cache before their program.
    pub cache_results: [Count; 5],
    /// How long other answers took.
    pub durations: Histogram,
    /// How long plain hits took, as far as they are timed.
    hit_durations: OnceLock<Box<Histogram>>,
}

impl Default for RouteCounts {
    fn default() -> RouteCounts {
        RouteCounts {
            hits: zeroed(),
            body_bytes: Count::default(),
            classes: zeroed(),
            accelerated_hits: Count::default(),
            cache_results: zeroed(),
            durations: Histogram::default(),
            hit_durations: OnceLock::new(),
        }
    }
}

impl RouteCounts {
    /// Counts an answer that was not a plain hit.
    pub fn answered(&self, status: u16, body_bytes: u64, took_ns: u64, cache: CacheResult) {
        if let Some(index) = CacheResult::ALL.iter().position(|result| *result == cache) {
            self.cache_results[index].add(1);
        }
        let class = usize::from(status / 100).wrapping_sub(1).min(CLASSES.len() - 1);
        self.classes[class].add(1);
        self.body_bytes.add(body_bytes);
        self.durations.record(took_ns, 1);
    }

    /// Counts how long a hit took, for `weight` of them.
    #[cold]
    pub fn hit_took(&self, took_ns: u64, weight: u64) {
        self.hit_durations.get_or_init(Box::default).record(took_ns, weight);
    }

    /// How long plain hits took, if any was timed.
    pub fn hit_durations(&self) -> Option<&Histogram> {
        self.hit_durations.get().map(|histogram| &**histogram)
    }
}
