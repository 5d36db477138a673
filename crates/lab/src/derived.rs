//! The figures that are derived from a result's mixes at the end of a run: the SPICE measures, the runs of
//! each load taken together, peaks, comparisons and speedups. All of them can be computed again from the
//! mixes, and `touchstone verify` does that.

use crate::arrivals::is_open;
use crate::result::ResultFile;
use crate::{compare, loads, speedup, spice};

/// With more systems than this there would be too many pairs to read; then each is compared with the first.
const COMPARED_EACH_MAX: usize = 6;

/// Computes them and replaces the present ones.
pub fn make(result: &mut ResultFile) {
    let mut criteria = result.method.useful;
    criteria.runs_min = criteria.runs_min.min(result.method.runs as usize);
    for system in &mut result.systems {
        (system.loads, system.peaks) = loads::from_mixes(&system.mixes, &system.cpus, &criteria);
    }
    result.spice = spice::rows(result);
    result.comparisons = compare::of_result(result, result.suite.seed, COMPARED_EACH_MAX);
    // Rates that are commanded show no speedup.
    result.speedups = if is_open(result) { Vec::new() } else { speedup::rows(result) };
}
