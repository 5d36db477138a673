//! Compares a running load with thresholds, and ends it when one is missed.

use crate::progress::Progress;
use crate::threshold::{Threshold, Verdict};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval of the checks of the thresholds; the threads hand their figures over at the same interval.
const LOOK_EACH: Duration = Duration::from_millis(250);
/// The counted time before a run may be ended: the first few answers are not significant.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The thresholds that end a run, and the one that did.
#[derive(Debug)]
pub struct AbortWatch {
    thresholds: Vec<Threshold>,
    /// The time of the last check, and the threshold that ended the run.
    looked: Mutex<(Instant, Option<Verdict>)>,
}

impl AbortWatch {
    /// With thresholds that are bound to the plan.
    pub fn new(thresholds: Vec<Threshold>) -> AbortWatch {
        AbortWatch { thresholds, looked: Mutex::new((Instant::now(), None)) }
    }

    /// The classes of the plan whose figures are checked during the run, in addition to those of the whole
    /// run; `None`: no thresholds are checked.
    pub fn wanted(&self) -> Option<Vec<usize>> {
        let classes = self.thresholds.iter().flat_map(Threshold::classes).copied();
        (!self.thresholds.is_empty()).then(|| classes.collect())
    }

    /// Makes the threads of the run that is about to start hand their figures over.
    pub fn begin(&self, progress: &Progress) {
        progress.standings.wanted.store(!self.thresholds.is_empty(), Ordering::Relaxed);
    }

    /// Ends the run if a threshold is missed.
    pub fn look(&self, progress: &Progress) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, missed) = &mut *looked;
        if self.thresholds.is_empty() || missed.is_some() || last.elapsed() < LOOK_EACH {
            return;
        }
        *last = Instant::now();
        let Some(standing) = progress.standings.sum() else { return };
        if standing.window < FIRST_LOOK {
            return;
        }
        *missed = self.thresholds.iter().find_map(|threshold| threshold.missed_so_far(&standing));
        if missed.is_some() {
            progress.stop.store(true, Ordering::Relaxed);
        }
    }

    /// The threshold that ended the run.
    pub fn verdict(&self) -> Option<Verdict> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}
