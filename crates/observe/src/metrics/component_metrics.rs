//! The table of the metrics of WebAssembly components.

use super::component_totals::ComponentTotals;
use super::definition::{ROUTE, SITE};
use super::metric::{Definition, Kind};

const COMPONENT: (&str, &str) = ("component", "its file");

/// Every metric of components, in the order of the exposition.
pub static COMPONENT_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_wasm_requests",
        kind: Kind::Counter,
        help: "Requests that were passed to a WebAssembly component.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| {
            samples.each(&totals.components, ComponentTotals::labels, |component| component.requests)
        },
    },
    Definition {
        name: "touchstone_wasm_failures",
        kind: Kind::Counter,
        help: "Requests to a component without a complete answer.",
        labels: &[
            SITE,
            ROUTE,
            COMPONENT,
            (
                "cause",
                "`fault`: a trap, or an answer that is not valid; `memory`: the same, after more memory \
                 was refused; `timeout`: `computing_timeout` or `answer_timeout`; `full`: too many \
                 requests were in progress or waiting",
            ),
        ],
        collect: |totals, samples| {
            for component in &totals.components {
                let [site, route, name] = component.labels();
                for (cause, count) in component.failures_by_cause() {
                    samples.add(&[site, route, name, cause], count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_wasm_requests_under_way",
        kind: Kind::Gauge,
        help: "Requests in progress in a component.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| {
            samples.each(&totals.components, ComponentTotals::labels, |component| component.busy)
        },
    },
    Definition {
        name: "touchstone_wasm_instances_made",
        kind: Kind::Counter,
        help: "Instances of a component that were created.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| {
            samples.each(&totals.components, ComponentTotals::labels, |component| component.made)
        },
    },
    Definition {
        name: "touchstone_wasm_instances",
        kind: Kind::Gauge,
        help: "Present instances of a component: with a request, and kept for later requests.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| {
            samples.each(&totals.components, ComponentTotals::labels, |component| component.instances)
        },
    },
    Definition {
        name: "touchstone_wasm_memory_bytes",
        kind: Kind::Gauge,
        help: "The linear memory of these instances.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| {
            samples.each(&totals.components, ComponentTotals::labels, |component| component.memory_bytes)
        },
    },
    Definition {
        name: "touchstone_wasm_computations_moved",
        kind: Kind::Counter,
        help: "Computations that were moved from their core to a thread.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| {
            samples.each(&totals.components, ComponentTotals::labels, |component| component.moved)
        },
    },
];
