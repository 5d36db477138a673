//! Compares the figures of a running load with thresholds, and ends the run when a threshold is exceeded.

use crate::progress::Progress;
use crate::threshold::{Threshold, Verdict};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval between two checks of the thresholds. The threads publish their figures at the same interval.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The counted time before a run may be ended: the first few answers are not significant.
const FIRST_CHECK: Duration = Duration::from_secs(1);

/// The thresholds that end a run, and the verdict on the one that ended it.
#[derive(Debug)]
pub struct AbortWatch {
    thresholds: Vec<Threshold>,
    /// The time of the last check, and the threshold that ended the run.
    last_check: Mutex<(Instant, Option<Verdict>)>,
}

impl AbortWatch {
    /// Creates a watch with thresholds that are bound to the plan.
    pub fn new(thresholds: Vec<Threshold>) -> AbortWatch {
        AbortWatch { thresholds, last_check: Mutex::new((Instant::now(), None)) }
    }

    /// The classes of the plan whose figures are checked during the run, in addition to those of the whole
    /// run; `None`: no thresholds are checked.
    pub fn checked_classes(&self) -> Option<Vec<usize>> {
        let classes = self.thresholds.iter().flat_map(Threshold::classes).copied();
        (!self.thresholds.is_empty()).then(|| classes.collect())
    }

    /// Requests the threads of the next run to publish their figures.
    pub fn begin(&self, progress: &Progress) {
        progress.live_figures.is_requested.store(!self.thresholds.is_empty(), Ordering::Relaxed);
    }

    /// Ends the run if a threshold is exceeded.
    pub fn check(&self, progress: &Progress) {
        let mut last_check = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, missed) = &mut *last_check;
        if self.thresholds.is_empty() || missed.is_some() || last.elapsed() < CHECK_INTERVAL {
            return;
        }
        *last = Instant::now();
        let Some(figures) = progress.live_figures.sum() else { return };
        if figures.window < FIRST_CHECK {
            return;
        }
        *missed = self.thresholds.iter().find_map(|threshold| threshold.missed_so_far(&figures));
        if missed.is_some() {
            progress.stop.store(true, Ordering::Relaxed);
        }
    }

    /// The threshold that ended the run.
    pub fn verdict(&self) -> Option<Verdict> {
        self.last_check.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}
