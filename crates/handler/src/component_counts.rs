//! Counts of WebAssembly components, for metrics and status.

use crate::count::Count;

/// Why a component has returned no answer, or only a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A trap, or an invalid answer.
    Fault = 0,
    /// The same, after the component was refused memory.
    Memory = 1,
    /// A time limit.
    Time = 2,
    /// There was no room for the request.
    Full = 3,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 4] = [Cause::Fault, Cause::Memory, Cause::Time, Cause::Full];

    /// Its name in metrics.
    pub fn label(self) -> &'static str {
        ["fault", "memory", "timeout", "full"][self as usize]
    }
}

/// The counts of one component of a route.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counts {
    /// Requests that were passed to it.
    pub requests: Count,
    /// Requests in progress.
    pub busy: Count,
    /// Instances made so far.
    pub made: Count,
    /// Instances that exist now.
    pub instances: Count,
    /// Bytes of their memories.
    pub memory_bytes: Count,
    /// Computations that moved from their core to a thread.
    pub moved: Count,
    failures: [Count; Cause::ALL.len()],
}

impl Counts {
    /// Counts a request that has failed.
    pub fn add_failure(&self, cause: Cause) {
        self.failures[cause as usize].add(1);
    }

    /// Requests that have failed for this cause.
    pub fn failures(&self, cause: Cause) -> u64 {
        self.failures[cause as usize].get()
    }
}

/// A component, and where it is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The name of the site.
    pub site: String,
    /// The name of the route.
    pub route: String,
    /// The file.
    pub component: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_cause() {
        let counts = Counts::default();
        counts.add_failure(Cause::Time);
        assert_eq!(Cause::ALL.map(|cause| counts.failures(cause)), [0, 0, 1, 0]);
        assert_eq!(Cause::ALL.map(Cause::label)[Cause::Time as usize], "timeout");
    }
}
