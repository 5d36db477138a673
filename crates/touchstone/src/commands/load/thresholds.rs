//! Thresholds of a load: bound to its plan, looked at while it runs, judged when it is over.

use super::{Arguments, FinishedLoad};
use touchstone_load::{AbortWatch, Outcome, Plan, Threshold, Verdict};

/// The thresholds of a run.
pub(super) struct Thresholds {
    fail_if: Vec<Threshold>,
    abort_if: Vec<Threshold>,
}

impl Thresholds {
    /// Finds the parts of the plan that the thresholds name.
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

    /// The outcome of a run.
    pub(super) fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        self.fail_if.iter().chain(&self.abort_if).map(|threshold| threshold.verdict(outcome)).collect()
    }

    /// Watches the thresholds of a run.
    pub(super) fn watch(&self) -> AbortWatch {
        AbortWatch::new(self.abort_if.clone())
    }
}

/// Prints the missed thresholds to standard error, so that a log of standard error alone shows why the
/// command failed.
pub(super) fn report_missed(finished: &FinishedLoad) {
    for verdict in finished.verdicts.iter().filter(|verdict| !verdict.is_kept) {
        eprintln!("touchstone load: threshold missed: {verdict}");
    }
    if let Some(verdict) = &finished.aborted_by {
        eprintln!("touchstone load: the run was ended by --abort-if {verdict}");
    }
}
