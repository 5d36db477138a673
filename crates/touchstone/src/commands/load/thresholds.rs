//! Thresholds of a load: bound to its plan, looked at while it runs, judged when it is over.

use super::{Arguments, Finished};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use touchstone_load::{Outcome, Plan, Progress, Threshold, Verdict};

/// How often a run that goes on is held against its thresholds; the threads hand over as often.
const LOOK_EACH: Duration = Duration::from_millis(250);
/// The counted time that there must be before a run is ended: the first few answers say little.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The thresholds of a run.
pub(super) struct Thresholds {
    fail_if: Vec<Threshold>,
    abort_if: Vec<Threshold>,
}

impl Thresholds {
    /// Finds what the thresholds speak of in the plan.
    pub(super) fn of(arguments: &Arguments, plan: &Plan) -> Result<Thresholds, String> {
        let bind = |option: &str, list: &[Threshold]| {
            let bound = list.iter().map(|threshold| threshold.clone().bind(plan));
            bound.collect::<Result<Vec<_>, _>>().map_err(|error| format!("{option} {error}"))
        };
        let fail_if = bind("--fail-if", &arguments.fail_if)?;
        let abort_if = bind("--abort-if", &arguments.abort_if)?;
        match abort_if.iter().find_map(Threshold::only_at_the_end) {
            Some(reason) => Err(format!("--abort-if {reason}")),
            None => Ok(Thresholds { fail_if, abort_if }),
        }
    }

    /// How a run came out.
    pub(super) fn judge(&self, outcome: &Outcome) -> Vec<Verdict> {
        self.fail_if.iter().chain(&self.abort_if).map(|threshold| threshold.judge(outcome)).collect()
    }

    /// Watches a run that is about to start.
    pub(super) fn watch(&self, progress: &Progress) -> Watch<'_> {
        progress.standings.wanted.store(!self.abort_if.is_empty(), Ordering::Relaxed);
        Watch { abort_if: &self.abort_if, looked: Mutex::new((Instant::now(), None)) }
    }
}

/// Holds a run against its thresholds while it goes on.
pub(super) struct Watch<'a> {
    abort_if: &'a [Threshold],
    /// When it was done last, and what ended the run.
    looked: Mutex<(Instant, Option<Verdict>)>,
}

impl Watch<'_> {
    /// Ends the run where a threshold is missed.
    pub(super) fn look(&self, progress: &Progress) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, missed) = &mut *looked;
        if self.abort_if.is_empty() || missed.is_some() || last.elapsed() < LOOK_EACH {
            return;
        }
        *last = Instant::now();
        let Some(standing) = progress.standings.sum() else { return };
        if standing.window < FIRST_LOOK {
            return;
        }
        *missed = self.abort_if.iter().find_map(|threshold| threshold.missed_so_far(&standing));
        if missed.is_some() {
            progress.stop.store(true, Ordering::Relaxed);
        }
    }

    /// The threshold that ended the run.
    pub(super) fn into_verdict(self) -> Option<Verdict> {
        self.looked.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Says on standard error what was missed, so that a log that keeps only that tells why the command failed.
pub(super) fn tell_missed(finished: &Finished) {
    for verdict in finished.verdicts.iter().filter(|verdict| !verdict.is_kept) {
        eprintln!("touchstone load: threshold missed: {verdict}");
    }
    if let Some(verdict) = &finished.aborted_by {
        eprintln!("touchstone load: the run was ended by --abort-if {verdict}");
    }
}
