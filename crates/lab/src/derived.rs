//! What is made of a result's mixes when the run has come to its end: the SPICE measures, the runs of each
//! load taken together, peaks, comparisons and speedups. Whoever has the mixes can make all of it again, and
//! `touchstone verify` does.

use crate::result::ResultFile;
use crate::{compare, loads, speedup, spice};

/// Comparisons of more systems than this, each with each, would be more than anybody reads; then each is
/// compared with the first.
const COMPARED_EACH_MAX: usize = 6;

/// Makes it, in the place of what is there.
pub fn make(result: &mut ResultFile) {
    let mut criteria = result.method.useful;
    criteria.runs_min = criteria.runs_min.min(result.method.runs as usize);
    for system in &mut result.systems {
        (system.loads, system.peaks) = loads::of(&system.mixes, &system.cpus, &criteria);
    }
    result.spice = spice::rows(result);
    result.comparisons = compare::of_result(result, result.suite.seed, COMPARED_EACH_MAX);
    result.speedups = speedup::rows(result);
}
