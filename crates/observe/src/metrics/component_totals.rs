//! The counts of WebAssembly components.

use std::sync::Arc;

use touchstone_handler::component_counts::{self, Cause};
use touchstone_handler::service_counts::ServiceCounts;

/// The current state of a component of a route.
#[derive(Debug, Clone)]
pub struct ComponentTotals {
    /// The name of its site.
    pub site: String,
    /// The name of its route.
    pub route: String,
    /// The file.
    pub component: String,
    /// Requests that were passed to it.
    pub requests: u64,
    /// Active requests.
    pub busy: u64,
    /// Instances that were made.
    pub made: u64,
    /// Instances that exist now.
    pub instances: u64,
    /// Bytes of their memories.
    pub memory_bytes: u64,
    /// Computations that were moved from their core to a thread.
    pub moved: u64,
    /// Requests that have failed, by [`Cause`].
    pub failures: [u64; Cause::ALL.len()],
}

impl ComponentTotals {
    /// The labels of its metrics.
    pub fn labels(&self) -> [&str; 3] {
        [&self.site, &self.route, &self.component]
    }

    /// Requests that have failed, with the names of the causes.
    pub fn failures_by_cause(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Cause::ALL.map(Cause::label).into_iter().zip(self.failures)
    }
}

/// All components that are in use.
pub fn component_totals(counts: &ServiceCounts) -> Vec<ComponentTotals> {
    let totals = |(name, counts): (component_counts::Name, Arc<component_counts::Counts>)| ComponentTotals {
        site: name.site,
        route: name.route,
        component: name.component,
        requests: counts.requests.get(),
        busy: counts.busy.get(),
        made: counts.made.get(),
        instances: counts.instances.get(),
        // After the number: an instance returns its memory before it is uncounted, so the memory of an
        // instance that has ended is not shown.
        memory_bytes: counts.memory_bytes.get(),
        moved: counts.moved.get(),
        failures: Cause::ALL.map(|cause| counts.failures(cause)),
    };
    counts.components.all().into_iter().map(totals).collect()
}
