//! Counts of WebAssembly components in this process, for metrics and status. They are in this crate because
//! builds without components have the metrics too.

use std::sync::Arc;

use crate::named_counts::{Count, NamedCounts};

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

static KNOWN: NamedCounts<Name, Counts> = NamedCounts::new();

/// The counts of a component. They are kept over reloads.
pub fn of_component(name: Name) -> Arc<Counts> {
    KNOWN.of(name)
}

/// All components that are in use, by their names.
pub fn all() -> Vec<(Name, Arc<Counts>)> {
    KNOWN.all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_continue_while_a_component_is_in_use() {
        let name = |component: &str| Name {
            site: "example.org".to_string(),
            route: "/app/".to_string(),
            component: component.to_string(),
        };
        let counts = of_component(name("a.wasm"));
        counts.requests.add(2);
        counts.add_failure(Cause::Time);
        let again = of_component(name("a.wasm"));
        assert_eq!(
            (again.requests.get(), again.failures(Cause::Time), again.failures(Cause::Full)),
            (2, 1, 0)
        );
        assert_eq!(of_component(name("b.wasm")).requests.get(), 0);
        let is_known = || all().iter().any(|(known, _)| *known == name("a.wasm"));
        assert!(is_known());
        drop((counts, again));
        assert!(!is_known());
        assert_eq!(of_component(name("a.wasm")).requests.get(), 0);
    }
}
