//! The source of all random numbers of a simulation, and its trace. Both belong to the thread, so a simulated
//! disk or network below the product's code uses the same source as the part that runs it.
//!
//! The order of the random choices determines the simulation. Therefore the final state is the fingerprint of
//! a run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The maximum number of lines of the trace, the last before the fault.
const MOST_LINES: usize = 120;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
    static TRACE: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

/// Begins a simulation with a seed.
pub fn begin(seed: u64, is_traced: bool) {
    // Adjacent seeds begin with very different states.
    STATE.set(mixed(seed ^ 0x5851_f42d_4c95_7f2d));
    IS_TRACED.set(is_traced);
    TRACE.with_borrow_mut(VecDeque::clear);
}

/// The next random number (SplitMix64).
pub fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    mixed(state)
}

/// Includes a number of the run in the fingerprint.
pub fn mix(number: u64) {
    STATE.set(mixed(STATE.get() ^ number));
}

/// The fingerprint of this run so far.
pub fn fingerprint() -> u64 {
    STATE.get()
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A random number below `end`.
pub fn below(end: u64) -> u64 {
    if end == 0 { 0 } else { next() % end }
}

/// A random size below `end`.
pub fn size(end: usize) -> usize {
    below(end as u64) as usize
}

/// A random number from `first` to `last`.
pub fn between(first: u64, last: u64) -> u64 {
    first + below(last - first + 1)
}

/// True with this probability in percent.
pub fn percent(share: u64) -> bool {
    below(100) < share
}

/// True with the probability `1 / cases`.
pub fn one_in(cases: u64) -> bool {
    below(cases) == 0
}

/// A random element.
pub fn pick<T: Copy>(from: &[T]) -> T {
    from[size(from.len())]
}

/// A random length: often zero or small, rarely large.
pub fn length(most: usize) -> usize {
    match below(8) {
        0 => 0,
        1 => 1,
        2..=4 => size(most.min(100) + 1),
        5 | 6 => size(most.min(5000) + 1),
        _ => size(most + 1),
    }
}

/// Adds a line to the trace. The text is created only if a run is repeated with its trace.
pub fn note(text: impl FnOnce() -> String) {
    if IS_TRACED.get() {
        let line = text();
        TRACE.with_borrow_mut(|trace| {
            if trace.len() == MOST_LINES {
                trace.pop_front();
            }
            trace.push_back(line);
        });
    }
}

/// The trace so far.
pub fn trace() -> Vec<String> {
    TRACE.with_borrow(|trace| trace.iter().cloned().collect())
}
