//! The thresholds of a mix, and the reasons of its errors, as in the result file.

use serde::{Deserialize, Serialize};
use touchstone_load::{ErrorReason, Verdict};

/// A threshold of a mix and its outcome.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ThresholdRecord {
    /// As the suite or the command line states it: the mix fails where it is true.
    pub threshold: String,
    /// Whether the mix kept to it.
    pub kept: bool,
    /// The figure; absent: nothing was measured, and the threshold counts as missed.
    pub measured: Option<f64>,
    /// The limit, in the same unit.
    pub limit: f64,
    /// `us`, `share`, `per_second` or `count`.
    pub unit: String,
    /// Figure, limit and distance as text.
    pub words: String,
}

impl From<Verdict> for ThresholdRecord {
    fn from(verdict: Verdict) -> ThresholdRecord {
        let Verdict { threshold, is_kept, measured, limit, unit, words } = verdict;
        ThresholdRecord { threshold, kept: is_kept, measured, limit, unit: unit.name().to_string(), words }
    }
}

/// Why requests of a mix failed, ramps included.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct ReasonRecord {
    /// The kind, by its name among the errors.
    pub kind: String,
    /// The reason as text.
    pub reason: String,
    /// Requests.
    pub count: u64,
    /// When the first one was seen, seconds from the start of the mix.
    pub first_at_s: f64,
    /// The first request: method and path.
    pub first_request: String,
    /// The beginning of its answer, if that contains the reason.
    #[serde(default)]
    pub first_answer: Option<String>,
}

impl From<&ErrorReason> for ReasonRecord {
    fn from(reason: &ErrorReason) -> ReasonRecord {
        let ErrorReason { kind, reason, count, first_at_s, first_request, first_answer } = reason.clone();
        ReasonRecord { kind, reason, count, first_at_s, first_request, first_answer }
    }
}
